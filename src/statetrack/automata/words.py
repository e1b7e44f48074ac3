"""Word problems: which group elements serve as symbols, and the automaton that multiplies them up."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray, as_ids
from statetrack.automata.automaton import Automaton
from statetrack.automata.groups import Group
from statetrack.errors import InvalidInputError, UnknownNameError

_SPECS = ("all", "generators", "swaps", "<k>-point", "random-<n>")


def alphabet(group: Group, spec: str, seed: int = 0) -> IntArray:
    """The ids ``(n_symbols,)`` of the group elements that serve as symbols; they generate the whole group.

    - ``all``: every element; symbol and element ids agree.
    - ``generators``: the generators named in ``group``. Where there is only one, the identity follows, so that words differ.
    - ``swaps``: the identity and all transpositions, by id (11 symbols for S5).
    - ``<k>-point`` such as ``3-point``: all elements that move at most ``k`` points, by id (31 symbols for S5 and ``k = 3``).
    - ``random-<n>`` such as ``random-6``: ``n`` distinct elements: those of ``generators``, then others drawn at random.

    Args:
        group: the group.
        spec: one of the above.
        seed: seeds the draw of ``random-<n>``; the same seed gives the same symbols on every machine.

    Raises:
        UnknownNameError: no such spec.
        InvalidInputError: the symbols would not generate the group, or ``n`` is too small or too large for it.

    >>> from statetrack.automata import group
    >>> alphabet(group("S3"), "swaps").tolist()
    [0, 1, 2, 5]
    """
    if spec == "all":
        return np.arange(group.order)
    if spec == "generators":
        return _generators(group)
    if match := re.fullmatch(r"random-([0-9]+)", spec):
        return _random(group, int(match[1]), seed)
    if spec == "swaps":
        n_points = 2
    elif match := re.fullmatch(r"([0-9]+)-point", spec):
        n_points = int(match[1])
    else:
        raise UnknownNameError("alphabet", spec, _SPECS)
    ids = np.flatnonzero(group.n_moved_points <= n_points)
    n_reached = group.closure(ids).size
    if n_reached < group.order:
        reach = f"reaches only {n_reached} of the {group.order} elements of {group.name}"
        raise InvalidInputError(f"The alphabet {spec!r} {reach}; choose another: {', '.join(_SPECS)}.")
    return ids


def word_automaton(group: Group, alphabet_ids: npt.ArrayLike) -> Automaton:
    """The automaton of the running product: symbol ``x`` leads from ``y`` to ``y g_x``, where ``g_x`` has id ``alphabet_ids[x]``.

    States are all elements of the group, the start is the identity, and each state emits its own id.

    Raises:
        InvalidInputError: no symbols, or ids outside the group.
    """
    ids = as_ids(alphabet_ids, "alphabet_ids", group.order, ndim=1)
    states = np.arange(group.order)
    return Automaton(group.multiply(states[:, None], ids), states)


def _generators(group: Group) -> IntArray:
    distinct = list(dict.fromkeys(group.generators))
    if len(distinct) == 1 and group.order > 1:
        distinct.append(0)
    return np.array(distinct, dtype=np.int64)


def _random(group: Group, n: int, seed: int) -> IntArray:
    first = _generators(group)
    if not first.size <= n <= group.order:
        message = f"random-<n> needs n in {first.size} .. {group.order} for {group.name} (generators .. order), but got {n}."
        raise InvalidInputError(message)
    others = np.random.Generator(np.random.PCG64(seed)).permutation(np.setdiff1d(np.arange(group.order), first))
    return np.concatenate([first, others[: n - first.size]])
