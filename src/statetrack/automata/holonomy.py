"""Holonomy decomposition: any automaton as a cascade of levels that are each permuted by a group or reset.

    level i of the cascade:  x_i <- x_i g  or  x_i <- constant,   chosen by the symbol and the old x of the levels above
    state of the automaton = what all levels together point at

Levels descend through image sets: a set P splits into its tiles (the largest image sets and single states inside it), and the
level of P's height holds which tile the state lies in. Only when a symbol maps P onto a set of the same class does it permute
tiles, by an element of the holonomy group; otherwise the new tile does not depend on the old one. Groups of the levels divide
the transition monoid. Source: K. Krohn and J. Rhodes, "Algebraic theory of machines I", 1965; H. P. Zeiger, 1967; in the form of
S. Eilenberg, "Automata, Languages, and Machines", volume B, 1976.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray
from statetrack.automata.automaton import Automaton
from statetrack.automata.groups import Group
from statetrack.automata.images import ImageClass, ImageSets, generated_quickly, image_sets
from statetrack.automata.once import once
from statetrack.errors import InvalidInputError

Place: TypeAlias = tuple[int, int]
"""What a level holds: the number of one of its components, and of one of that component's tiles."""

Configuration: TypeAlias = tuple[Place, ...]
"""The places of all levels, the top level first."""


class Move(NamedTuple):
    """What a symbol does to one level.

    Attributes:
        component: the component whose tiles are permuted, -1 if none are.
        permutation: new tile of each of its tiles.
        reset: where the level is set to, wherever it was; None with ``component`` -1 means that it stays.
    """

    component: int = -1
    permutation: tuple[int, ...] = ()
    reset: Place | None = None

    def applied(self, place: Place) -> Place:
        """Where the level is afterwards."""
        if self.reset is not None:
            return self.reset
        return (place[0], self.permutation[place[1]]) if place[0] == self.component else place


@dataclass(frozen=True, eq=False)
class Component:
    """One class of image sets at its level; tiles are those of the root of the class.

    Attributes:
        image_class: the class.
        tiles: ``(n_tiles, n_points)`` bool, which positions in ``image_class.points`` each tile holds.
        permutations: ``(n, n_tiles)`` permutations of the tiles that generate the holonomy group.
    """

    image_class: ImageClass
    tiles: npt.NDArray[np.bool_]
    permutations: IntArray

    @property
    def is_trivial(self) -> bool:
        """Whether the tiles are never permuted."""
        return bool((self.permutations == np.arange(len(self.tiles))).all())

    @once
    def group(self) -> Group:
        """The holonomy group, acting on tiles.

        Raises:
            TooLargeError: more than 10,000 elements.
        """
        return generated_quickly(self.permutations)

    def tile_around(self, positions: IntArray) -> int:
        """The first tile that holds all of ``positions``; some tile must."""
        return int(self.tiles[:, positions].all(axis=1).argmax())


class _Located(NamedTuple):
    """Where an image set belongs: its level, its component there, and its states in the order of the root's points."""

    level: int
    component: int
    frame: IntArray

    def positions(self, states: IntArray) -> IntArray:
        """Where each of ``states`` stands in the frame."""
        order = np.argsort(self.frame)
        return np.asarray(order[np.searchsorted(self.frame, states, sorter=order)])


@dataclass(frozen=True, eq=False, repr=False)
class Holonomy:
    """The cascade of an automaton. ``holonomy`` makes one.

    Attributes:
        automaton: what is decomposed.
        levels: the components of each level, the top level first. A level is permuted by one of their groups at a time, or reset.
    """

    automaton: Automaton
    levels: tuple[tuple[Component, ...], ...]
    _where: dict[bytes, _Located]

    def lift(self, state: int) -> Configuration:
        """A configuration that stands for a state.

        Raises:
            InvalidInputError: no such state.
        """
        if not 0 <= state < self.automaton.n_states:
            raise InvalidInputError(f"state must lie in 0 .. {self.automaton.n_states - 1}, but is {state}.")
        places, here = [], np.arange(self.automaton.n_states)
        for level in range(len(self.levels)):
            at = self._at(here, level)
            place = (0, 0) if at is None else self._place_of(at, np.array([state]))
            places.append(place)
            here = here if at is None else self._states(at, place)
        return tuple(places)

    def project(self, configuration: Configuration) -> int:
        """The state that a configuration stands for."""
        return int(self._descent(configuration)[-1][0])

    def moves(self, configuration: Configuration, symbol: int) -> tuple[Move, ...]:
        """What a symbol does to each level; the move of a level depends on the places of the levels above it alone.

        Raises:
            InvalidInputError: no such symbol.
        """
        if not 0 <= symbol < self.automaton.n_symbols:
            raise InvalidInputError(f"symbol must lie in 0 .. {self.automaton.n_symbols - 1}, but is {symbol}.")
        step = self.automaton.transitions[:, symbol]
        moves, new = [], np.arange(self.automaton.n_states)
        for level, old in enumerate(self._descent(configuration)[:-1]):
            at, before, image = self._at(new, level), self._at(old, level), np.unique(step[old])
            if at is None:
                moves.append(Move())
                continue
            if before is not None and np.array_equal(image, new):
                turn = at.positions(step[before.frame])
                permutation = permuted(self.levels[level][at.component].tiles, turn[None])[0]
                moves.append(Move(at.component, tuple(permutation.tolist())))
            else:  # smaller than the new set, so the image lies within one of its tiles
                moves.append(Move(reset=self._place_of(at, image)))
            new = self._states(at, moves[-1].applied(configuration[level]))
        return tuple(moves)

    def step(self, configuration: Configuration, symbol: int) -> Configuration:
        """The configuration after one more symbol.

        Raises:
            InvalidInputError: no such symbol.
        """
        moves = self.moves(configuration, symbol)
        return tuple(move.applied(place) for place, move in zip(configuration, moves, strict=True))

    def emulates(self, words: Iterable[Sequence[int]]) -> bool:
        """Whether the cascade, started where the automaton starts, points at its state after every symbol of the words."""
        for word in words:
            state = self.automaton.start
            configuration = self.lift(state)
            for symbol in word:
                configuration, state = self.step(configuration, int(symbol)), int(self.automaton.transitions[state, symbol])
                if self.project(configuration) != state:
                    return False
        return True

    def _descent(self, configuration: Configuration) -> list[IntArray]:
        """The set that the levels above each level leave, and last the single state."""
        here = [np.arange(self.automaton.n_states)]
        for level, place in enumerate(configuration):
            at = self._at(here[-1], level)
            here.append(here[-1] if at is None else self._states(at, place))
        return here

    def _at(self, states: IntArray, level: int) -> _Located | None:
        """Where a set belongs, if that is at a level."""
        found = self._where.get(states.tobytes())
        return found if found is not None and found.level == level else None

    def _place_of(self, at: _Located, states: IntArray) -> Place:
        return at.component, self.levels[at.level][at.component].tile_around(at.positions(states))

    def _states(self, at: _Located, place: Place) -> IntArray:
        """The states of a tile of a set."""
        return np.sort(at.frame[self.levels[at.level][at.component].tiles[place[1]]])

    def __repr__(self) -> str:
        return f"Holonomy({self.automaton!r}, n_levels={len(self.levels)})"


def holonomy(automaton: Automaton, images: ImageSets | None = None) -> Holonomy:
    """The holonomy decomposition of an automaton.

    Args:
        automaton: any automaton.
        images: its image sets if they are known.

    Raises:
        TooLargeError: more than 20,000 image sets.

    >>> parity_with_reset = Automaton([[0, 1, 0], [1, 0, 0]], [0, 1])  # keep, flip, set 0
    >>> cascade = holonomy(parity_with_reset)
    >>> len(cascade.levels), cascade.levels[0][0].group.order, cascade.step(cascade.lift(1), 1)
    (1, 2, ((0, 0),))
    """
    images = image_sets(automaton) if images is None else images
    member = np.zeros((len(images.sets), automaton.n_states), dtype=bool)
    for row, points in zip(member, images.sets, strict=True):
        row[points] = True
    tiles = {number: _tiles(member, c.points) for number, c in enumerate(images.classes)}
    ids = {points.tobytes(): i for i, points in enumerate(images.sets)}
    height: dict[int, int] = {}
    for number in sorted(tiles, key=lambda number: (images.classes[number].points.size, number)):
        c = images.classes[number]
        below = {ids[states.tobytes()] for states in map(np.flatnonzero, tiles[number]) if states.size > 1}
        below |= set(images.successors[list(c.sets)].ravel().tolist()) - {-1, *c.sets}
        height[number] = 1 + max((height[int(images.component[s])] for s in below), default=0)
    top = max(height.values(), default=0)
    levels: list[list[Component]] = [[] for _ in range(top)]
    where: dict[bytes, _Located] = {}
    for number, c in enumerate(images.classes):
        level = top - height[number]
        for s in c.sets:
            where[images.sets[s].tobytes()] = _Located(level, len(levels[level]), c.frames[s])
        mine = tiles[number][:, c.points]
        levels[level].append(Component(c, mine, np.unique(permuted(mine, c.generators), axis=0)))
    return Holonomy(automaton, tuple(map(tuple, levels)), where)


def permuted(tiles: npt.NDArray[np.bool_], turns: IntArray) -> IntArray:
    """How permutations of points permute tiles: for each of ``turns (n, n_points)`` the new place of each tile, ``(n, n_tiles)``.

    Tiles ``(n_tiles, n_points)`` are told apart by the sum of random numbers given to the points.
    """
    if (tiles.sum(axis=1) == 1).all():  # as many tiles as points
        return np.asarray(np.argsort(tiles.argmax(axis=1))[turns[:, tiles.argmax(axis=1)]])
    generator = np.random.Generator(np.random.PCG64(0))
    weights = generator.integers(0, 1 << 64, size=(1, tiles.shape[1]), dtype=np.uint64)[0]
    codes = tiles.astype(np.uint64) @ weights
    order = np.argsort(codes)
    if (np.diff(codes[order]) == 0).any():
        raise RuntimeError("Two different tiles have the same 64-bit code.")  # a chance below 1e-9
    return order[np.searchsorted(codes, weights[turns] @ tiles.T.astype(np.uint64), sorter=order)]


def _tiles(member: npt.NDArray[np.bool_], points: IntArray) -> npt.NDArray[np.bool_]:
    """The largest image sets and single states inside a set, as rows like those of ``member`` (what each image set holds)."""
    outside = np.ones(member.shape[1], dtype=bool)
    outside[points] = False
    sizes = member.sum(axis=1)
    candidates = np.flatnonzero(~member[:, outside].any(axis=1) & (sizes < points.size))
    kept: list[int] = []
    for i in candidates[np.argsort(-sizes[candidates], kind="stable")].tolist():
        if not (member[i] <= member[kept]).all(axis=1).any():
            kept.append(i)
    covered = np.isin(points, np.flatnonzero(member[kept].any(axis=0)))
    return np.concatenate([member[kept], np.eye(member.shape[1], dtype=bool)[points[~covered]]])
