"""The synchronous product: two automata that read the same word side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from statetrack.automata.arrays import IntArray, as_ids
from statetrack.automata.automaton import Automaton
from statetrack.errors import InvalidInputError


def product(left: Automaton, right: Automaton, combine: Callable[[IntArray, IntArray], npt.ArrayLike] | None = None) -> Automaton:
    """The automaton on all pairs of states; the pair ``(p, q)`` has id ``p * right.n_states + q``.

    Args:
        left: first automaton.
        right: second automaton, over the same alphabet.
        combine: maps the output classes of both (arrays of equal shape) to the output class of the pair. By default the pair
            ``(a, b)`` of classes becomes ``a * right.n_outputs + b``.

    Raises:
        InvalidInputError: the alphabets differ, or ``combine`` does not return one class for each pair.

    >>> even_a = Automaton([[1, 0], [0, 1]], [1, 0])
    >>> ends_in_b = Automaton([[0, 1], [0, 1]], [0, 1])
    >>> product(even_a, ends_in_b, np.logical_and).output([0, 0, 1, 1, 0]).tolist()
    [0, 0, 1, 1, 0]
    """
    check_same_alphabet(left, right)
    transitions = left.transitions[:, None, :] * right.n_states + right.transitions[None, :, :]
    n_pairs = left.n_states * right.n_states
    left_classes, right_classes = np.repeat(left.outputs, right.n_states), np.tile(right.outputs, left.n_states)
    if combine is None:
        outputs = left_classes * right.n_outputs + right_classes
    else:
        outputs = as_ids(combine(left_classes, right_classes), "combine's result", ndim=1)
        if outputs.size != n_pairs:
            message = f"combine must return one class for each of the {n_pairs} pairs of states, but returned {outputs.size}."
            raise InvalidInputError(message)
    return Automaton(
        transitions=transitions.reshape(n_pairs, left.n_symbols),
        outputs=outputs,
        start=left.start * right.n_states + right.start,
        symbols=left.symbols or right.symbols,
    )


def check_same_alphabet(left: Automaton, right: Automaton) -> None:
    """Raise ``InvalidInputError`` unless both read equally many symbols, with the same names where both name them."""
    if left.n_symbols != right.n_symbols:
        sizes = f"one has {left.n_symbols} symbols and the other {right.n_symbols}"
        raise InvalidInputError(f"Both automata must read the same alphabet, but {sizes}.")
    if left.symbols and right.symbols and left.symbols != right.symbols:
        names = f"one reads {left.symbols} and the other {right.symbols}"
        raise InvalidInputError(f"Both automata must read the same alphabet, but {names}.")
