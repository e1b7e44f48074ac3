"""Texts as documents of token ids: a file that is read once and stored, or a data set that streams by.

Documents begin with the end-of-text token, so that the first word of each is predicted too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from statetrack.errors import InvalidInputError, MissingExtraError
from statetrack.tasks import stream

Ids = npt.NDArray[np.int32]
END, PAD = "<|endoftext|>", "<|padding|>"
STREAMED = "datasets:"
_SAMPLE = 5000
"""Documents of a stream on which its tokenizer is trained."""


class Documents(Protocol):
    """An endless sequence of documents."""

    def start_at(self, number: int) -> Iterator[Ids]:
        """Documents from the given one on."""


def read_documents(path: str, separator: str) -> list[str]:
    """The documents of a text file that are not empty. Raises ``InvalidInputError`` if there are fewer than two."""
    try:
        text = Path(path).read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as text: {error}.") from error
    found = [part.strip() for part in text.split(separator) if part.strip()]
    if len(found) < 2:
        raise InvalidInputError(f"{path} holds {len(found)} document(s) separated by {separator!r}; give another separator.")
    return found


def stream_documents(name: str) -> Any:
    """The texts of a data set by name, streamed. Raises ``MissingExtraError`` without the package that reads it."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtraError("datasets", "hf", "Streaming a data set") from error
    return load_dataset(name.removeprefix(STREAMED), split="train", streaming=True)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, which can write any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END, PAD], initial_alphabet=sorted(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=PAD)


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """A stored tokenizer. Raises ``InvalidInputError`` unless it has an end-of-text token."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    if tokenizer.eos_token_id is None:
        raise InvalidInputError(f"The tokenizer in {folder} has no end-of-text token.")
    return tokenizer


def encode(tokenizer: Any, texts: list[str]) -> list[Ids]:
    """Ids of documents, each after an end-of-text token."""
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    return [np.array([tokenizer.eos_token_id, *row], dtype=np.int32) for row in rows]


class StoredDocuments:
    """Documents in memory, in another order in each epoch.

    Args:
        ids: all of them, one after another.
        offsets: ``(n + 1,)`` where each begins and the last ends.
        seed: of the orders.
    """

    def __init__(self, ids: Ids, offsets: npt.NDArray[np.int64], seed: int) -> None:
        self.ids, self.offsets, self.seed = ids, offsets, seed

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def start_at(self, number: int) -> Iterator[Ids]:
        while True:
            epoch, first = divmod(number, len(self))
            for i in stream(self.seed, "train", epoch).permutation(len(self))[first:]:
                yield self.ids[self.offsets[i] : self.offsets[i + 1]]
                number += 1


class StreamedDocuments:
    """Documents of a stream behind the first ``held_out``, in its own order, from the beginning again when it ends."""

    def __init__(self, texts: Any, tokenizer: Any, held_out: int) -> None:
        self.texts, self.tokenizer, self.held_out = texts, tokenizer, held_out

    def start_at(self, number: int) -> Iterator[Ids]:
        skipped = self.held_out + number
        while True:
            for row in self.texts.skip(skipped):
                yield encode(self.tokenizer, [row["text"]])[0]
            skipped = self.held_out


def first_texts(texts: Any, n: int = _SAMPLE) -> list[str]:
    """The first documents of a stream."""
    return [row["text"] for row in islice(texts, n)]
