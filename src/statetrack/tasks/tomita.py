"""The seven Tomita languages over 0 and 1.

Source: M. Tomita, "Dynamic construction of finite automata from examples using hill-climbing", 1982.
"""

from __future__ import annotations

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.errors import InvalidInputError
from statetrack.tasks.base import register
from statetrack.tasks.checks import whole_number
from statetrack.tasks.language import Label, Membership, Words

# (transitions, accepting states) of the minimal acceptors; state 0 is the start.
_GRAMMARS: dict[int, tuple[tuple[tuple[int, int], ...], tuple[int, ...]]] = {
    1: (((1, 0), (1, 1)), (0,)),
    2: (((2, 1), (0, 2), (2, 2)), (0,)),
    3: (((0, 1), (2, 0), (3, 4), (2, 1), (4, 4)), (0, 1, 3)),
    4: (((1, 0), (2, 0), (3, 0), (3, 3)), (0, 1, 2)),
    5: (((1, 2), (0, 3), (3, 0), (2, 1)), (0,)),
    6: (((1, 2), (2, 0), (0, 1)), (0,)),
    7: (((0, 1), (2, 1), (2, 3), (4, 3), (4, 4)), (0, 1, 2, 3)),
}
LANGUAGES = {
    1: "only 1s",
    2: "10 repeated",
    3: "no odd run of 1s directly before an odd run of 0s",
    4: "no three 0s in a row",
    5: "even numbers of 0s and of 1s",
    6: "numbers of 0s and of 1s equal mod 3",
    7: "0s, then 1s, then 0s, then 1s",
}


@register("tomita")
class Tomita(Membership):
    """Does a word over 0 and 1 belong to a Tomita language?

    1: only 1s; 2: 10 repeated; 3: no odd run of 1s directly before an odd run of 0s; 4: no three 0s in a row; 5: even numbers of
    0s and of 1s; 6: numbers of 0s and of 1s equal mod 3; 7: 0s, then 1s, then 0s, then 1s.

    Args:
        grammar: 1 to 7.
        words: ``"balanced"``, ``"uniform"`` or ``"neighbours"`` (members, and words one letter away from one).
        label: ``"last"`` asks about the word, ``"every"`` about each of its prefixes.

    >>> batch = Tomita(grammar=5).sample(4, 6, np.random.default_rng(0))
    >>> batch.targets[:, -1].tolist()
    [1, 1, 1, 0]
    """

    summary = "membership in one of the seven Tomita languages"
    source = "Tomita 1982"

    def __init__(self, *, grammar: int = 5, words: Words = "balanced", label: Label = "last") -> None:
        self.grammar = whole_number("grammar", grammar, low=1)
        if grammar not in _GRAMMARS:
            raise InvalidInputError(f"grammar must be one of 1 .. {len(_GRAMMARS)}, got {grammar}.")
        transitions, accepting = _GRAMMARS[grammar]
        outputs = np.isin(np.arange(len(transitions)), accepting).astype(np.int64)
        super().__init__(Automaton(np.array(transitions), outputs, symbols=("0", "1")), words=words, label=label)
