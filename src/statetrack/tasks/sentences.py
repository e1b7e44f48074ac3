"""An automaton in natural language: each letter is one of many sentences, and the state is asked for at the end.

    The lamp is off. Tom pressed the switch. A cat walked by. Now the lamp is  ->  on

The paraphrases of held-out data never occur in training. The label does not depend on the paraphrase chosen, and neither does the
length in sentences. Source: natural-language automata of PD-SSM (arXiv 2509.22284), whose sentences are not published; ours are
our own.
"""

from __future__ import annotations

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.automata.group_names import group
from statetrack.automata.words import word_automaton
from statetrack.errors import UnknownNameError
from statetrack.tasks.automaton_task import majority_share
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import one_of, row_lengths
from statetrack.tasks.sentences_words import THEMES, Theme, machine
from statetrack.tasks.text import TextExample, Words

PARAPHRASES = ("train", "new", "all")


@register("sentences")
class Sentences(Task):
    """The output of an automaton after a story of uniform letters.

    A length counts sentences, without the opening and the question. With held-out data half of the paraphrases are new, so that
    both kinds are told; ``paraphrases`` chooses otherwise.

    Args:
        automaton: one itself, told as a machine with coloured buttons; in its place ``theme``.
        theme: ``"parity"`` (a lamp), ``"cycle"`` (five rooms in a ring), ``"A5"`` (rides and paths; 60 elements) or the
            name of a group such as ``"S3"`` (a machine with a button for each element).
        paraphrases: ``"train"``, ``"new"`` (only those that training never sees) or ``"all"``.

    Raises:
        UnknownNameError: no such theme or choice of paraphrases.

    >>> task = Sentences(theme="parity")
    >>> print(task.example(2, np.random.default_rng(0)).text)
    The lamp is off. Dad used the switch. Someone saw Tom as the button was pressed. Now the lamp is off
    """

    summary = "the state of an automaton whose letters are told in sentences"
    source = "arXiv 2509.22284"
    min_length = 0

    def __init__(self, automaton: Automaton | None = None, *, theme: str = "parity", paraphrases: str = "train") -> None:
        one_of("paraphrases", paraphrases, PARAPHRASES)
        self.theme, self.paraphrases, self.given = theme, paraphrases, automaton
        self.told = machine(automaton) if automaton is not None else _theme(theme)
        choices = {"train": self.told.train, "new": self.told.test}
        both = tuple(a + b for a, b in zip(self.told.train, self.told.test, strict=True))
        self.sentences = choices.get(paraphrases, both)
        every = [sentence for letter in both for sentence in letter]
        self.words = Words([self.told.opening, self.told.question, *self.told.answers, *every])
        self.vocab_size = self.n_classes = len(self.words)
        self.chance = majority_share(self.told.automaton)

    def held_out(self) -> Sentences:
        return Sentences(self.given, theme=self.theme, paraphrases="all") if self.paraphrases == "train" else self

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        return self.words.batch([[self.example(int(n), generator)] for n in lengths])

    def example(self, n_sentences: int, generator: np.random.Generator) -> TextExample:
        """A story of that many sentences."""
        automaton = self.told.automaton
        letters = generator.integers(0, automaton.n_symbols, size=n_sentences)
        told = [self.told.opening]
        for letter in letters.tolist():
            paraphrases = self.sentences[letter]
            told.append(paraphrases[int(generator.integers(len(paraphrases)))])
        state, changes = automaton.start, 0
        for letter in letters.tolist():
            after = int(automaton.transitions[state][letter])
            state, changes = after, changes + (after != state)
        answer = self.told.answers[int(automaton.outputs[state])]
        return TextExample(" ".join([*told, self.told.question]), answer, changes)


def _theme(name: str) -> Theme:
    if name in THEMES:
        return THEMES[name]()
    try:
        found = group(name)
    except UnknownNameError as error:
        raise UnknownNameError("theme or group", name, [*THEMES, *error.suggestions]) from error
    return machine(word_automaton(found, range(found.order)))
