"""Missing duplicate: a word twice, with a hole to be filled from the other copy. Context-sensitive.

Source: Neural Networks and the Chomsky Hierarchy (arXiv 2207.02098).
"""

from __future__ import annotations

import numpy as np

from statetrack.tasks.base import register
from statetrack.tasks.layout import IntArray
from statetrack.tasks.transduction import Answers, Transduction
from statetrack.tasks.word_task import uniform_words

HOLE, FILLER = 2, 3


@register("missing-duplicate")
class MissingDuplicate(Transduction):
    """Which letter is missing in ``w w``, a uniform word over two letters written twice?

    The hole (symbol 2) is uniform over both copies. Symbol 3 ends words of odd length; the word of length 1 is the letter 1,
    whose answer is 1.

    >>> batch = MissingDuplicate().sample(1, 6, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets[batch.mask].tolist()
    ([[0, 1, 1, 0, 1, 2, 4]], [1])
    """

    summary = "the letter that is missing in a word written twice"
    source = "arXiv 2207.02098"

    def __init__(self) -> None:
        super().__init__(4, 2, 1 / 2)

    def draw(self, lengths: IntArray, generator: np.random.Generator) -> Answers:
        half = np.maximum(lengths // 2, 1)
        letters = uniform_words(2, half, generator)
        rows, places = np.arange(len(lengths)), np.arange(int(lengths.max()))
        words = np.take_along_axis(letters, places % half[:, None], axis=1)
        hole = generator.integers(0, 2 * half)
        single = lengths == 1
        answers = np.where(single, 1, letters[rows, hole % half])
        hole = np.where(single, 0, hole)
        words[rows, hole] = np.where(single, 1, HOLE)
        odd = (lengths % 2 == 1) & ~single
        words[rows[odd], lengths[odd] - 1] = FILLER
        one = np.ones_like(lengths)
        return Answers(words, answers[:, None], one, one)
