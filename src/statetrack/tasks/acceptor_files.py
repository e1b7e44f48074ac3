"""Acceptors from files, in the text form of AT&T's finite-state tools.

    from to symbol symbol      a transition; the first one begins at the start state
    state                      a state that accepts

What is missing rejects. MLRegTest (arXiv 2304.07687) publishes its automata like this.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.errors import InvalidInputError, UnknownNameError


def read_acceptor(file: str, language: str | None = None) -> Automaton:
    """The acceptor of ``read_text``.

    Raises:
        InvalidInputError: the file cannot be read or holds no acceptor.
        UnknownNameError: no acceptor has the name.
    """
    return acceptor_of(read_text(file, language))


def read_text(file: str, language: str | None = None) -> str:
    """The text of an acceptor.

    Args:
        file: path of the text, or of a JSON object of texts by name (xz files are unpacked); or the text itself, which has a
            line break.
        language: its name in the object.

    Raises:
        InvalidInputError: the file cannot be read.
        UnknownNameError: no acceptor has the name.
    """
    if "\n" in file:
        return file
    try:
        content = Path(file).read_bytes()
        text = (lzma.decompress(content) if file.endswith(".xz") else content).decode("utf-8")
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"Cannot read the file of acceptors {file!r}: {error}.") from None
    if not file.removesuffix(".xz").endswith(".json"):
        return text
    try:
        known = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{file!r} is not JSON: {error}.") from None
    if not isinstance(known, dict) or not known:
        raise InvalidInputError(f"{file!r} must hold a JSON object: texts of acceptors by name.")
    if language not in known:
        raise UnknownNameError("language", str(language), list(known)[:20] if language is None else known)
    if not isinstance(known[language], str):
        raise InvalidInputError(f"{file!r} must hold texts of acceptors, but {language!r} is a {type(known[language]).__name__}.")
    return known[language]


def acceptor_of(text: str) -> Automaton:
    """An acceptor from its AT&T text, completed with a state that rejects for ever. Symbols are numbered in sorted order.

    Raises:
        InvalidInputError: a line that is neither a transition nor an accepting state, or two transitions for one symbol.

    >>> acceptor_of("0 1 a a\\n1 0 a a\\n1").output([0, 0, 0]).tolist()
    [1, 0, 1]
    """
    edges: dict[tuple[int, str], int] = {}
    accepting: set[int] = set()
    start = None
    for line in text.splitlines():
        fields = line.split()
        try:
            if len(fields) >= 3:
                source, target, symbol = int(fields[0]), int(fields[1]), fields[2]
                if edges.setdefault((source, symbol), target) != target:
                    raise InvalidInputError(f"State {source} has two transitions for {symbol!r}; an acceptor needs one.")
                start = source if start is None else start
            elif fields:
                accepting.add(int(fields[0]))
        except ValueError as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(f"The line {line!r} is neither 'from to symbol symbol' nor a state that accepts.") from None
    if start is None:
        raise InvalidInputError("The text of the acceptor has no transition.")
    states = sorted({start, *accepting, *edges.values(), *(source for source, _ in edges)})
    symbols = sorted({symbol for _, symbol in edges})
    ids, letters = {state: i for i, state in enumerate(states)}, {symbol: i for i, symbol in enumerate(symbols)}
    transitions = np.full((len(states) + 1, len(symbols)), len(states), dtype=np.int64)
    for (source, symbol), target in edges.items():
        transitions[ids[source], letters[symbol]] = ids[target]
    outputs = np.array([int(state in accepting) for state in states] + [0])
    return Automaton(transitions, outputs, ids[start], tuple(symbols))
