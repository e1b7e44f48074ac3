"""Tasks that are told in words: a prompt, the answer that continues it, and ids for the words of a closed vocabulary.

A language model with its own tokenizer reads ``TextExample.text``; models trained from scratch here read word ids. An answer is
right if all of it is (exact match): the labels of a row are the words of the answer, each predicted from those before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch
from statetrack.tasks.layout import batch_of

_WORD = re.compile(r"\w+|[^\w\s]")


class TextExample(NamedTuple):
    """Attributes:
    prompt: what is told, up to the answer, without a space at its end.
    answer: what follows, without the space that joins it.
    changes: number of events that changed what is asked for.
    """

    prompt: str
    answer: str
    changes: int

    @property
    def text(self) -> str:
        """Prompt and answer."""
        return f"{self.prompt} {self.answer}"


def words_of(text: str) -> list[str]:
    """Words and signs, in lower case.

    >>> words_of("Box 3 contains the key.")
    ['box', '3', 'contains', 'the', 'key', '.']
    """
    return _WORD.findall(text.lower())


class Words:
    """Ids of the words of a closed vocabulary; id 0 is the padding.

    Args:
        texts: everything that can be said, in any number of pieces.

    >>> words = Words(["Up we go.", "Down we go."])
    >>> words.encode("Down we go."), words.decode([5, 3])
    ([2, 5, 3, 1], 'we go')
    """

    padding = 0

    def __init__(self, texts: Iterable[str]) -> None:
        self.words = ("", *sorted({word for text in texts for word in words_of(text)}))
        self._ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """Ids of a text. Raises ``InvalidInputError`` for a word that is not in the vocabulary."""
        try:
            return [self._ids[word] for word in words_of(text)]
        except KeyError as error:
            raise InvalidInputError(f"The word {error.args[0]!r} is not in the vocabulary of {len(self)} words.") from error

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids, joined by spaces; padding is left out."""
        return " ".join(self.words[i] for i in ids if i != self.padding)

    def batch(self, examples: Sequence[Sequence[TextExample]]) -> Batch:
        """Rows of one or more examples each, told one after another; the answer words are the labels, read one word before."""
        rows, labels = [], []
        for parts in examples:
            row: list[int] = []
            places: list[int] = []
            for part in parts:
                row += self.encode(part.prompt)
                answer = self.encode(part.answer)
                places += range(len(row) - 1, len(row) - 1 + len(answer))
                row += answer
            rows.append(row)
            labels.append(places)
        # The last word of a row is only ever a label.
        lengths = np.array([len(row) - 1 for row in rows], dtype=np.int64)
        inputs = np.full((len(rows), int(lengths.max())), self.padding, dtype=np.int64)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        for i, (row, places) in enumerate(zip(rows, labels, strict=True)):
            inputs[i, : len(row) - 1] = row[:-1]
            targets[i, places], mask[i, places] = np.array(row)[np.array(places) + 1], True
        return batch_of(inputs, targets, mask, lengths, self.padding)


def exact_match(answers: Sequence[str], expected: Sequence[str]) -> float:
    """Share of answers with the same words and signs as expected.

    >>> exact_match(["the key .", "nothing"], ["the key.", "the pen."])
    0.5
    """
    if len(answers) != len(expected) or not expected:
        raise InvalidInputError(
            f"As many answers as expected ones are needed, at least one; got {len(answers)}, {len(expected)}."
        )
    return sum(words_of(a) == words_of(b) for a, b in zip(answers, expected, strict=True)) / len(expected)
