"""Image sets of an automaton: where the whole set of states can be led, and the groups that act there.

    Q w = {states that the word w leads to} ;   P ~ R if words lead from P to R and back
    G_P = {permutations of P by the words with P w = P}, the same for all P of a class up to renaming of the points

Each group in the transition monoid is a quotient of a subgroup of some G_P and the other way round, so the automaton is aperiodic
exactly when every G_P is trivial, and solvable exactly when every G_P is. There are at most ``2^n_states`` image sets, while the
monoid may have ``n_states^n_states`` elements. Source: S. Eilenberg, "Automata, Languages, and Machines", volume B, 1976.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton
from statetrack.automata.components import strong_components
from statetrack.automata.green import maximal_subgroups
from statetrack.automata.groups import MAX_ORDER, Group
from statetrack.automata.monoid import TooLargeError, transition_monoid
from statetrack.automata.once import once
from statetrack.automata.permutations import cycle_lengths, image, permutation_power
from statetrack.automata.subgroups import is_solvable

MAX_SETS = 20_000


@dataclass(frozen=True, eq=False)
class ImageClass:
    """Image sets that words lead into one another.

    Attributes:
        sets: ids of the sets; the first is the root.
        points: states in the root, sorted.
        frames: for each set of the class, the images of ``points`` under one word that leads from the root to it.
        generators: ``(n, len(points))`` int64, permutations ``i -> j`` of positions in ``points`` that generate the group.
        lengths: ``(n,)`` int64, a number of symbols for each of them: that of closed walks, up to tree paths that cancel.
        loop: symbols of a word that leads the root to itself and moves its points, or None if there is none.
    """

    sets: tuple[int, ...]
    points: IntArray
    frames: dict[int, IntArray]
    generators: IntArray
    lengths: IntArray
    loop: tuple[int, ...] | None

    @property
    def is_trivial(self) -> bool:
        """Whether no word permutes the set."""
        return self.loop is None

    @once
    def group(self) -> Group:
        """The group of all permutations of ``points`` by words.

        Raises:
            TooLargeError: more than 10,000 elements.
        """
        return generated_quickly(self.generators)

    @once
    def is_solvable(self) -> bool:
        """Whether the group is solvable.

        Raises:
            TooLargeError: a group with more than 10,000 elements which is not seen to hold all even permutations.
        """
        if self.is_trivial:
            return True
        try:
            return is_solvable(self.group)
        except TooLargeError:
            if holds_even_permutations(self.generators):
                return False
            raise

    @cached_property
    def counts_length_only(self) -> bool:
        """Whether the permutation by a word depends on its length alone, as that of a clock does."""
        step, identity = 0, np.arange(self.points.size)
        ticks: IntArray = identity  # of words whose length is ``step``
        for permutation, length in zip(self.generators, self.lengths.tolist(), strict=True):
            divisor, a, b = _bezout(step, length)
            if divisor:
                ticks = permutation_power(ticks, a)[permutation_power(permutation, b)]
            step = divisor
        powers = ((p, length // step if step else 0) for p, length in zip(self.generators, self.lengths.tolist(), strict=True))
        return all(np.array_equal(permutation, permutation_power(ticks, power)) for permutation, power in powers)


@dataclass(frozen=True, eq=False)
class ImageSets:
    """All image sets of more than one state.

    Attributes:
        maps: ``(k, n_states)`` the distinct maps of the symbols.
        symbols: ``(k,)`` the first symbol that induces each.
        sets: the states of each set, sorted; set 0 holds all states. Empty if there is only one state.
        successors: ``(n_sets, k)`` the set that a symbol leads to, -1 for a single state.
    """

    maps: IntArray
    symbols: IntArray
    sets: tuple[IntArray, ...]
    successors: IntArray

    @cached_property
    def component(self) -> IntArray:
        """``(n_sets,)`` number of the class of each set; a class has a higher number than those it leads to."""
        own = np.arange(len(self.sets))[:, None]
        return strong_components(np.where(self.successors < 0, own, self.successors))

    @cached_property
    def classes(self) -> tuple[ImageClass, ...]:
        """The classes, by number."""
        if not self.sets:
            return ()
        return tuple(self._class(number) for number in range(int(self.component.max()) + 1))

    @cached_property
    def is_aperiodic(self) -> bool:
        """Whether no word permutes any image set."""
        return all(c.is_trivial for c in self.classes)

    @cached_property
    def is_clocked(self) -> bool:
        """Whether words of equal length that permute an image set do it in the same way (Barrington and others, 1992)."""
        return all(c.counts_length_only for c in self.classes)

    @cached_property
    def definite_order(self) -> int | None:
        """The least ``n`` such that the last ``n`` symbols tell the state, or None if no number of them does."""
        if not self.sets:
            return 0
        longest = np.zeros(len(self.sets), dtype=np.int64)
        for node in np.argsort(self.component).tolist():  # what it leads to comes first
            after = self.successors[node]
            if (self.component[after[after >= 0]] == self.component[node]).any():
                return None
            longest[node] = 1 + max((int(longest[target]) for target in after.tolist() if target >= 0), default=0)
        return int(longest[0])

    @once
    def is_solvable(self) -> bool:
        """Whether the group of every class is solvable.

        Raises:
            TooLargeError: as for a class, if none of the other groups decides.
        """
        undecided = None
        for c in self.classes:
            try:
                if not c.is_solvable:
                    return False
            except TooLargeError as error:
                undecided = error
        if undecided:
            raise undecided
        return True

    def _class(self, number: int) -> ImageClass:
        members = np.flatnonzero(self.component == number).tolist()
        root = members[0]
        points = self.sets[root]
        frames, depth = {root: points}, {root: 0}
        path: dict[int, tuple[int, ...]] = {root: ()}
        queue, rows, lengths = [root], [], []
        place = np.empty(self.maps.shape[1], dtype=np.int64)
        for node in queue:
            for letter, target in enumerate(self.successors[node].tolist()):
                if target < 0 or self.component[target] != number:
                    continue
                moved = self.maps[letter][frames[node]]
                if target not in frames:
                    frames[target], depth[target], path[target] = moved, depth[node] + 1, (*path[node], letter)
                    queue.append(target)
                place[frames[target]] = np.arange(points.size)
                rows.append(place[moved])
                lengths.append(depth[node] + 1 - depth[target])
        width = points.size
        table = np.array([(*row, n) for row, n in zip(rows, lengths, strict=True)], dtype=np.int64).reshape(-1, width + 1)
        table = np.unique(table, axis=0)
        found = ImageClass(tuple(members), points, frames, table[:, :-1], table[:, -1], None)
        if (found.generators == np.arange(width)).all():
            return found
        return replace(found, loop=self._loop(root, number, frames, path))

    def _loop(self, root: int, number: int, frames: dict[int, IntArray], path: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        """The symbols of a short closed walk at the root that moves its points; there must be one.

        Walks that go out by the tree, take one step and come home generate the group together with those that take none.
        """
        home: dict[int, tuple[int, ...]] = {root: ()}
        queue = [root]
        before: dict[int, list[tuple[int, int]]] = {}
        for node in frames:
            for letter, target in enumerate(self.successors[node].tolist()):
                if target in frames:
                    before.setdefault(target, []).append((node, letter))
        for node in queue:
            for source, letter in before.get(node, ()):
                if source not in home:
                    home[source] = (letter, *home[node])
                    queue.append(source)
        steps = [((*path[source], letter), target) for target, edges in before.items() for source, letter in edges]
        walks = [(*out, *home[target]) for out, target in [*((path[node], node) for node in frames), *steps]]
        for walk in sorted(walks, key=lambda word: (len(word), word)):
            state = self.sets[root]
            for letter in walk:
                state = self.maps[letter][state]
            if not np.array_equal(state, self.sets[root]):
                return tuple(int(self.symbols[letter]) for letter in walk)
        raise AssertionError(f"class {number} has a group but no walk that moves its points")


def image_sets(automaton: Automaton, max_sets: int = MAX_SETS) -> ImageSets:
    """The image sets of an automaton.

    Raises:
        TooLargeError: more than ``max_sets`` of them.

    >>> found = image_sets(Automaton([[0, 0, 1], [1, 0, 1]], [0, 1]))  # keep, set 0, set 1
    >>> len(found.sets), found.is_aperiodic, found.definite_order
    (1, True, None)
    """
    maps, symbols = np.unique(automaton.transitions.T, axis=0, return_index=True)
    order = np.argsort(symbols)
    maps, symbols = maps[order], symbols[order]
    everything = np.arange(automaton.n_states)
    sets, ids, rows = [everything], {everything.tobytes(): 0}, []
    if automaton.n_states == 1:
        sets = []
    for points in sets:
        row = []
        for step in maps:
            reached = image(step, points)
            target = -1 if reached.size == 1 else ids.setdefault(reached.tobytes(), len(sets))
            if target == len(sets):
                sets.append(reached)
                if len(sets) > max_sets:
                    raise TooLargeError(f"The automaton has more than {max_sets:,} image sets; nothing is decided about it.")
            row.append(target)
        rows.append(row)
    return ImageSets(maps, symbols, tuple(sets), np.array(rows, dtype=np.int64).reshape(len(sets), len(maps)))


def generated_quickly(permutations: IntArray) -> Group:
    """The group generated by permutations ``(n, degree)``, of which most may be redundant.

    Raises:
        TooLargeError: more than 10,000 elements.
    """
    rows = np.concatenate([np.arange(permutations.shape[1])[None], permutations])
    automaton = Automaton(rows.T, np.zeros(rows.shape[1], dtype=np.int64))
    found = maximal_subgroups(transition_monoid(automaton, MAX_ORDER))[0].group
    return replace(found, name=f"group of order {found.order}")


def holds_even_permutations(generators: IntArray, tries: int = 200) -> bool:
    """Whether the group generated by permutations ``(n, degree)`` is seen to hold all even permutations, which False leaves open.

    A transitive group with a cycle of prime length p, degree / 2 < p < degree - 2, that fixes all else does (Jordan, 1873). Such
    cycles are looked for among powers of random products.
    """
    degree = generators.shape[1]
    reached = {0}
    frontier = [0]
    for point in frontier:
        fresh = set(generators[:, point].tolist()) - reached
        reached |= fresh
        frontier += fresh
    if len(reached) < degree:
        return False
    draw, product = np.random.Generator(np.random.PCG64(0)), np.arange(degree)
    for _ in range(tries):
        product = generators[draw.integers(len(generators))][product]
        lengths = cycle_lengths(product)
        if any(degree / 2 < p < degree - 2 and all(p % d for d in range(2, p)) for p in lengths):
            return True  # all other cycles are shorter than p, so a power of the product is one cycle of length p
    return False


def _bezout(a: int, b: int) -> tuple[int, int, int]:
    """``d, x, y`` with ``d = gcd(a, b) = x a + y b``."""
    if b == 0:
        return (abs(a), 1 if a >= 0 else -1, 0)
    d, x, y = _bezout(b, a % b)
    return d, y, x - (a // b) * y
