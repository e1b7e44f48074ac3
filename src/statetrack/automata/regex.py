"""Regular expressions as automata."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.automata.minimisation import minimise
from statetrack.errors import InvalidInputError, MissingExtraError

_TOKENS = re.compile(r"\\(?P<escaped>.)|\[\^?(?P<set>[^\]]*)\]|\{(?P<least>\d*)(?P<most>,\d*)?\}", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)


def from_regex(pattern: str, alphabet: Sequence[str]) -> Automaton:
    """The minimal automaton that emits 1 after a word which matches ``pattern`` as a whole, and 0 otherwise.

    Args:
        pattern: operators ``( ) | * + ?``, ``{m,n}``, ``.`` (any letter of the alphabet), ``[abc]``, ``[^abc]``, ``()`` (the
            empty word), ``\\d \\s \\w``, ``&`` (intersection) and ``^`` (interleaving). A backslash turns an operator into a
            letter, and blanks are letters. There are no anchors, back references or lazy operators: ``a+?`` is ``(a+)?``.
            Letters outside the alphabet may appear in brackets, where they match nothing.
        alphabet: distinct single characters; symbol ``i`` is ``alphabet[i]``.

    Raises:
        InvalidInputError: the pattern cannot be read, or the alphabet is not made of distinct single characters.
        MissingExtraError: automata-lib is not installed.

    >>> from_regex("(ab)*", "ab").transitions.tolist()
    [[1, 2], [2, 0], [2, 2]]
    """
    letters = _letters(alphabet)
    try:
        from automata.base.exceptions import AutomatonException, InvalidSymbolError, RegexException
        from automata.fa.dfa import DFA
        from automata.fa.nfa import NFA
    except ImportError:
        raise MissingExtraError("automata-lib", None, "Reading a regular expression") from None
    described = f"Cannot read the regular expression {pattern!r} over the letters {' '.join(letters)}"
    if trouble := _misread(pattern):
        raise InvalidInputError(f"{described}: {trouble}.")
    try:
        dfa = DFA.from_nfa(NFA.from_regex(pattern, input_symbols=set(letters)), minify=False)
    except InvalidSymbolError:
        raise InvalidInputError(f"{described}: it uses another letter outside brackets, or leaves a bracket open.") from None
    except (RegexException, AutomatonException) as error:
        raise InvalidInputError(f"{described}: {str(error).rstrip('.')}.") from None
    ids = {state: i for i, state in enumerate(dfa.states)}
    sink = len(ids)
    transitions = np.full((sink + 1, len(letters)), sink, dtype=np.int64)
    for source, target, letter in dfa.iter_transitions():
        if letter in letters:
            transitions[ids[source], letters.index(letter)] = ids[target]
    outputs = np.zeros(sink + 1, dtype=np.int64)
    outputs[[ids[state] for state in dfa.final_states]] = 1
    return minimise(Automaton(transitions, outputs, start=ids[dfa.initial_state], symbols=letters))


def _misread(pattern: str) -> str | None:
    """What is wrong with the parts of a pattern that automata-lib would take for something else, or explain badly."""
    for token in _TOKENS.finditer(pattern):
        escaped, members, least, most = token.group("escaped", "set", "least", "most")
        if escaped and escaped.isalnum() and escaped not in "dDsSwW":
            return f"'\\{escaped}' has no meaning here"
        if members is not None and (not members or "\\" in members or any(a > b for a, b in _RANGE.findall(members))):
            return f"the set {token[0]!r} must hold letters (no backslash) and ranges that do not run backwards"
        if least is not None:
            bound = (most or "").lstrip(",")
            if not (least or bound) or (least and bound and int(least) > int(bound)):
                return f"{token[0]!r} needs bounds that do not decrease, as in {{2,3}}"
    return None


def _letters(alphabet: Sequence[str]) -> tuple[str, ...]:
    letters = tuple(alphabet)
    if not letters or len(set(letters)) != len(letters) or any(not isinstance(s, str) or len(s) != 1 for s in letters):
        raise InvalidInputError(f"alphabet must be distinct single characters such as 'ab', but is {alphabet!r}.")
    return letters
