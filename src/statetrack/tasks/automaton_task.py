"""Any finite automaton as a task: uniform words, labelled with what the automaton emits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch

from statetrack.automata.automaton import Automaton
from statetrack.automata.random import random_automaton, random_permutation_automaton
from statetrack.automata.regex import from_regex
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import one_of, row_lengths, truth_value, whole_number
from statetrack.tasks.layout import Layout

Label: TypeAlias = Literal["every", "last"]
LABELS: tuple[str, ...] = get_args(Label)


class LabelledWords(Task):
    """Uniform words over the symbols of an automaton, labelled with the class it emits.

    Symbol ``s`` of the automaton is token ``s``; then come the padding and, where they are used, the token at the beginning and
    the filler. A length counts symbols only.

    Args:
        words: the automaton over symbols.
        label: ``"every"`` labels each symbol, ``"last"`` only the last of a word.
        bos: put a beginning-of-sequence token, which has no label, before each word.
        fillers: number of filler tokens after each symbol; its label moves to the last of them.
    """

    def __init__(self, words: Automaton, *, label: Label, bos: bool = False, fillers: int = 0) -> None:
        one_of("label", label, LABELS)
        self.words, self.label, self.bos = words, label, truth_value("bos", bos)
        self.fillers = whole_number("fillers", fillers, low=0)
        n_symbols = words.n_symbols
        self.vocab_size = n_symbols + 1 + self.bos + bool(self.fillers)
        self.n_classes = words.n_outputs
        self.padding, self._bos_token, self._filler = n_symbols, n_symbols + 1, n_symbols + 1 + self.bos
        self.chance = majority_share(words)
        layout = Layout(tuple(range(n_symbols)), self.vocab_size, self.n_classes, first_class=0, padding=self.padding)
        self.automaton = layout.automaton(words.transitions, words.outputs, words.start)

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        word_lengths = row_lengths(self, batch_size, length)
        width, stride = int(word_lengths.max()), 1 + self.fillers
        words = generator.integers(0, self.words.n_symbols, size=(batch_size, width), dtype=np.int64)
        places = np.arange(width)
        inside = places < word_lengths[:, None]
        labelled = inside if self.label == "every" else places == word_lengths[:, None] - 1

        shape = (batch_size, self.bos + width * stride)
        inputs = np.full(shape, self._bos_token, dtype=np.int64)
        targets, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
        body = inputs[:, self.bos :]
        body[...] = self._filler
        body[:, ::stride] = words
        body[np.repeat(~inside, stride, axis=1)] = self.padding
        targets[:, self.bos + self.fillers :: stride] = np.where(labelled, self.words.output(words), 0)
        mask[:, self.bos + self.fillers :: stride] = labelled
        lengths = self.bos + word_lengths * stride
        return Batch(*(torch.from_numpy(array) for array in (inputs, targets, mask, lengths)))


@register("automaton")
class AutomatonTask(LabelledWords):
    """Words labelled by an automaton: one that is given, of a regular expression, of a file, or a random one.

    Words are uniform, so a sparse language such as ``(ab)*`` nearly always gives label 0; ``chance`` is then what the constant
    answer scores.

    Args:
        automaton: the automaton; in its place one of ``regex``, ``file`` or the options of a random one.
        label: ``"every"`` labels each symbol, ``"last"`` only the last of a word.
        regex: a regular expression; the label is 1 if the word so far matches as a whole.
        letters: the alphabet of the regular expression, one character a symbol.
        file: path of a JSON file with ``transitions`` (a row of next states for each state), ``outputs`` (a class for each
            state) and, if they are wanted, ``start``, ``symbols`` and ``state_names``; or what would stand in it.
        n_states: number of states of a random automaton, 8 if None; every state is reachable and emits its own id.
        n_symbols: number of its symbols, 4 if None.
        permutations: let each symbol of the random automaton permute the states, so that it never forgets.
        automaton_seed: seed of the random automaton.

    Raises:
        InvalidInputError: more than one source of the automaton, or a file that holds none.
        MissingExtraError: a regular expression without the package that reads them.

    >>> task = AutomatonTask(regex="(a|ba*b)*", letters="ab")
    >>> batch = task.sample(1, 4, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[0, 1, 1, 1]], [[1, 0, 1, 0]])
    """

    summary = "what an automaton emits: a given one, of a regular expression, of a file, or random"
    source = "any"

    def __init__(
        self,
        automaton: Automaton | None = None,
        *,
        label: Label = "every",
        regex: str | None = None,
        letters: str = "ab",
        file: str | None = None,
        n_states: int | None = None,
        n_symbols: int | None = None,
        permutations: bool = False,
        automaton_seed: int = 0,
    ) -> None:
        random = True if truth_value("permutations", permutations) or n_states is not None or n_symbols is not None else None
        sources = {"an automaton": automaton, "regex": regex, "file": file, "a random automaton": random}
        given = [name for name, source in sources.items() if source is not None]
        if len(given) > 1:
            raise InvalidInputError(f"The task takes one automaton, but got {' and '.join(given)}; leave out all but one.")
        if regex is not None:
            automaton = from_regex(regex, letters)
        elif file is not None:
            automaton = _from_file(file)
        elif automaton is None:
            n_states = whole_number("n_states", 8 if n_states is None else n_states, low=1)
            n_symbols = whole_number("n_symbols", 4 if n_symbols is None else n_symbols, low=1)
            generator = np.random.Generator(np.random.PCG64(whole_number("automaton_seed", automaton_seed, low=0)))
            automaton = (random_permutation_automaton if permutations else random_automaton)(n_states, n_symbols, generator)
        super().__init__(automaton, label=label)

    @classmethod
    def self_contained(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        file = options.get("file")
        return {**options, "file": json.dumps(_content(file), separators=(",", ":"))} if isinstance(file, str) else dict(options)


_KEYS = ("transitions", "outputs", "start", "symbols", "state_names")


def _from_file(file: str) -> Automaton:
    content = _content(file)
    try:
        return Automaton(**content)
    except InvalidInputError as error:
        raise InvalidInputError(f"{_called(file)} does not fit: {error}") from None


def _content(file: str) -> dict[str, Any]:
    """What a file of that path holds or, if it begins with a brace, the text itself."""
    example = '{"transitions": [[0, 1], [1, 0]], "outputs": [0, 1], "start": 0}'
    try:
        content = json.loads(file if _is_text(file) else Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"Cannot read the automaton file {file!r}: {error.strerror or error}.") from None
    except ValueError as error:
        raise InvalidInputError(f"{_called(file)} is not JSON ({error}). It should look like {example}.") from None
    if not isinstance(content, dict) or not {"transitions", "outputs"} <= content.keys():
        raise InvalidInputError(f"{_called(file)} lacks 'transitions' or 'outputs'. It should look like {example}.")
    for key in content:
        if key not in _KEYS:
            raise InvalidInputError(f"{_called(file)} does not fit: {UnknownNameError('key', key, _KEYS)}")
    return content


def _is_text(file: str) -> bool:
    return file.lstrip().startswith("{")


def _called(file: str) -> str:
    return "The automaton" if _is_text(file) else f"The automaton file {file!r}"


def majority_share(automaton: Automaton, tolerance: float = 1e-12, max_steps: int = 10_000) -> float:
    """The share of the commonest class in the long run of uniform words: what the best constant answer scores.

    It is the limit of the time average, found by iterating the chain that stays put with probability 1/2 (same limit, no
    oscillation) until it changes by less than ``tolerance``.

    >>> round(majority_share(Automaton([[0, 1], [1, 2], [2, 0]], [0, 0, 1])), 6)
    0.666667
    """
    table, n_symbols = automaton.transitions.ravel(), automaton.n_symbols
    share = np.zeros(automaton.n_states)
    share[automaton.start] = 1.0
    for _ in range(max_steps):
        moved = np.bincount(table, weights=np.repeat(share / n_symbols, n_symbols), minlength=share.size)
        change, share = np.abs(moved - share).max(), (share + moved) / 2
        if change < tolerance:
            break
    return float(np.bincount(automaton.outputs, weights=share).max())
