"""The automaton of a PD network, read off its selections.

    state = phase of the word, places of the heads that carry the answer, last token ;   output = the model's class there

The last token is part of the state because the skip path shows it to the readout; minimisation drops it where it does not
matter. With ``D = 1`` and no additive input this is what the network computes; else it is exact as far as values do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from statetrack.analysis.extraction import skeleton
from statetrack.analysis.extraction.heads import Heads, carrying_heads, trace
from statetrack.analysis.language import Grammar, moore
from statetrack.automata import Automaton
from statetrack.errors import InvalidInputError
from statetrack.models import Tagger

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WhiteBox:
    """Attributes:
    automaton: minimal, over ``grammar.tokens``; class ``n_classes`` stands for no question.
    heads: those that carry the answer, as layer and head.
    n_places: number of different places that they take together.
    unexplained: share of sampled answers and moves that their places do not tell.
    """

    automaton: Automaton
    heads: Heads
    n_places: int
    unexplained: float


def read_off(
    model: Tagger, grammar: Grammar, generator: np.random.Generator, *, max_states: int = 20_000, n: int = 256, length: int = 64
) -> WhiteBox:
    """Read the automaton off a model made of PD layers.

    Args:
        model: in evaluation mode.
        grammar: the words.
        generator: of the words from which it is seen which heads matter.
        max_states: most states to follow.
        n: number of these words.
        length: their length.

    Raises:
        InvalidInputError: layers without selections, or more than ``max_states`` states.
    """
    found = trace(model, grammar, n, length, generator)
    heads, missed = carrying_heads(model, found)
    level = skeleton.start(model)
    sources, phases = np.array([0]), np.array([grammar.start])
    ids: dict[tuple[int, int, bytes], int] = {}
    answers, moves = [-1], [[-1] * grammar.moves.shape[1]]
    places = set(_places(level, heads))
    while len(sources):
        source, tokens, after = grammar.edges(phases)
        classes, following = skeleton.advance(model, level.rows(source), tokens)
        fresh = []
        for row, place in enumerate(_places(following, heads)):
            key = (int(after[row]), int(tokens[row]), place)
            if key not in ids:
                ids[key] = len(answers)
                fresh.append(row)
                places.add(place)
                answers.append(int(classes[row]) if grammar.asked[after[row]] else -1)
                moves.append([-1] * grammar.moves.shape[1])
            moves[sources[source[row]]][tokens[row]] = ids[key]
        if len(answers) > max_states:
            raise InvalidInputError(
                f"The heads {heads} take more than {max_states} places; learn the automaton from answers (--method kv)."
            )
        new = np.array(fresh, dtype=np.int64)
        sources = len(answers) - len(new) + np.arange(len(new))
        level, phases = following.rows(new), after[new]
    asked = np.array(answers) >= 0
    n_classes = model.n_classes
    explored = Grammar(np.array(moves), asked, 0)
    return WhiteBox(moore(explored, answers, n_classes, grammar.tokens), heads, len(places), missed / len(found.answers))


def _places(position: skeleton.Position, heads: Heads) -> list[bytes]:
    return position.places(heads) if heads else [b""] * len(position.masks[0])
