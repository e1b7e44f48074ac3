"""The automaton of a run, held against the task's and against the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from statetrack.analysis import runs
from statetrack.analysis.extraction.black_box import learn
from statetrack.analysis.extraction.white_box import read_off
from statetrack.analysis.language import Grammar, difference, grammar_of, specification
from statetrack.analysis.words import random_words
from statetrack.automata import Automaton, TooLargeError, is_solvable_monoid, transition_monoid
from statetrack.errors import InvalidInputError
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.models import Tagger
from statetrack.training import Run

Method = Literal["auto", "selections", "kv", "lstar"]


@dataclass(frozen=True)
class Extraction:
    """What a network computes, as an automaton.

    Attributes:
        method: ``"selections"``, ``"kv"`` or ``"lstar"``.
        automaton: minimal, over the tokens that its ``symbols`` name; class ``no_question`` stands for no question.
        no_question: the number of classes of the task.
        target: that of the task, or None.
        differs: a shortest word of tokens on which the two differ, None if they do not.
        agreement: by length of words, the share of questions that the automaton answers as the network does.
        monoid: size of the transition monoid, whether it is aperiodic, a group, solvable; None if it is too large.
        details: what else the method found.
    """

    method: str
    automaton: Automaton
    no_question: int
    target: Automaton | None
    differs: tuple[int, ...] | None
    agreement: dict[int, float]
    monoid: dict[str, Any] | None
    details: dict[str, Any]

    @property
    def equivalent(self) -> bool | None:
        """Whether network and task have the same automaton; None without a task's."""
        return None if self.target is None else self.differs is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "method": self.method,
            "states": self.automaton.n_states,
            "target_states": None if self.target is None else self.target.n_states,
            "equivalent": self.equivalent,
            "differs": None if self.differs is None else list(self.differs),
            "agreement": {str(length): share for length, share in self.agreement.items()},
            "monoid": self.monoid,
            **self.details,
            "tokens": [int(name) for name in self.automaton.symbols or ()],
            "transitions": self.automaton.transitions.tolist(),
            "outputs": [None if c == self.no_question else c for c in self.automaton.outputs.tolist()],
            "start": self.automaton.start,
        }


def extract(run: Run, *, method: Method = "auto", shortest: int | None = None, max_states: int = 500) -> Extraction:
    """Extract the automaton of a run's newest weights.

    Args:
        run: a run with a checkpoint.
        method: ``"selections"`` reads it off PD layers, ``"kv"`` and ``"lstar"`` learn it from answers; ``"auto"`` reads it off
            where that explains every answer seen, and otherwise learns it by KV.
        shortest: number of tokens from which on answers count; None for all that the task asks for.
        max_states: of an automaton that is learnt.

    Raises:
        InvalidInputError: an unknown method, layers that do not fit it, or a task whose words are not known.
        MissingExtraError: a learner without AALpy.
        RunError: a run without a checkpoint.
    """
    if max_states < 1:
        raise InvalidInputError(f"The automaton needs at least 1 state, got max_states={max_states}.")
    if method not in get_args(Method):
        raise InvalidInputError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    model, task = run.load_model(), run.task
    grammar = grammar_of(task).from_length(shortest or 1)
    target = None if task.automaton is None else specification(task).from_length(shortest or 1).automaton()
    automaton, used, details = _found(model, grammar, target, method, run, max_states)
    differs = None if target is None else difference(automaton, target)
    tokens = [int(name) for name in automaton.symbols or ()]
    return Extraction(
        method=used,
        automaton=automaton,
        no_question=task.n_classes,
        target=target,
        differs=None if differs is None else tuple(tokens[symbol] for symbol in differs),
        agreement={n: agreement(model, grammar, automaton, n, run.config.seed) for n in (run.config.lengths.high, 256, 1000)},
        monoid=_monoid(automaton),
        details=details,
    )


def _found(
    model: Tagger, grammar: Grammar, target: Automaton | None, method: Method, run: Run, max_states: int
) -> tuple[Automaton, str, dict[str, Any]]:
    generator = np.random.default_rng(run.config.seed)
    if method == "selections" or (method == "auto" and all(isinstance(layer, DictionaryLayer) for layer in model.layers)):
        try:
            read = read_off(model, grammar, generator)
        except InvalidInputError:
            if method == "selections":
                raise
        else:
            if method == "selections" or not read.unexplained:
                heads = [{"layer": layer + 1, "head": head} for layer, head in read.heads]
                return read.automaton, "selections", {"heads": heads, "places": read.n_places, "unexplained": read.unexplained}
    learner: Literal["kv", "lstar"] = "lstar" if method == "lstar" else "kv"
    lengths = (8, run.config.lengths.high, 4 * run.config.lengths.high)
    learnt = learn(model, grammar, generator, learner=learner, target=target, lengths=lengths, max_states=max_states)
    return learnt.automaton, learner, {"queries": learnt.queries, "compared": learnt.words, "complete": learnt.complete}


def agreement(model: Tagger, grammar: Grammar, automaton: Automaton, length: int, seed: int, n: int = 64) -> float:
    """The share of questions in ``n`` random words that an automaton over ``grammar.tokens`` answers as a model does."""
    words = random_words(grammar, n, length, np.random.default_rng([seed, length]))
    phases = grammar.walk(words)
    asked = (phases >= 0) & grammar.asked[phases]
    symbols = np.minimum(np.searchsorted(grammar.tokens, words), automaton.n_symbols - 1)
    return float((automaton.output(symbols) == runs.classes(model, words))[asked].mean())


def _monoid(automaton: Automaton) -> dict[str, Any] | None:
    try:
        monoid = transition_monoid(automaton, 20_000)
        facts = {"size": monoid.size, "aperiodic": monoid.is_aperiodic, "group": monoid.is_group}
        return {**facts, "solvable": is_solvable_monoid(monoid)}
    except TooLargeError:
        return None
