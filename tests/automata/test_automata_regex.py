"""Regular expressions against Python's ``re.fullmatch`` on all short words."""

from __future__ import annotations

import re
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrack.automata import Automaton, from_regex
from statetrack.errors import InvalidInputError, MissingExtraError


def accepted(machine: Automaton, length: int) -> list[str]:
    words = np.array(list(product(range(machine.n_symbols), repeat=length)), dtype=np.int64)
    words = words.reshape(machine.n_symbols**length, length)
    hits = words[machine.outputs[machine.final(words)] == 1]
    return ["".join(machine.symbols[i] for i in word) for word in hits]


def matched(pattern: str, alphabet: str, length: int) -> list[str]:
    return ["".join(w) for w in product(alphabet, repeat=length) if re.fullmatch(pattern, "".join(w))]


ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^b]", "[a-c]", "()"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}|{parts[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}"])).map(lambda parts: f"({parts[0]}){parts[1]}"),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=50)
@given(PATTERNS)
def test_language_is_that_of_fullmatch(pattern: str) -> None:
    machine = from_regex(pattern, "abc")
    for length in range(5):
        assert accepted(machine, length) == matched(pattern, "abc", length)


@pytest.mark.parametrize(
    ("pattern", "n_states", "n_accepted"),
    [
        ("1*", 2, 1),
        ("(10)*", 3, 1),
        ("0*((11)+0+|1(11)*(00)+)*1*", 5, 312),
        ("(1|01|001)*0{0,2}", 4, 504),
        ("((00|11)|(01|10)(00|11)*(01|10))*", 4, 512),
        ("0*1*0*1*", 5, 176),
    ],
)
def test_tomita_grammars_have_their_known_sizes(pattern: str, n_states: int, n_accepted: int) -> None:
    machine = from_regex(pattern, "01")
    assert machine.n_states == n_states
    assert len(accepted(machine, 10)) == n_accepted
    assert accepted(machine, 6) == matched(pattern, "01", 6)


def test_symbols_follow_the_order_of_the_alphabet() -> None:
    machine = from_regex("ab", "ba")
    assert machine.symbols == ("b", "a")
    assert machine.output(machine.encode("ab")).tolist() == [0, 1]


def test_intersection_interleaving_escapes_and_foreign_letters() -> None:
    assert accepted(from_regex("(a|b)*a&b(a|b)*", "ab"), 3) == ["baa", "bba"]
    assert accepted(from_regex("aa^b", "ab"), 3) == ["aab", "aba", "baa"]
    assert accepted(from_regex(r"\(a\)", "a()"), 3) == ["(a)"]
    assert accepted(from_regex(r"\d+", "01a"), 1) == ["0", "1"]
    assert accepted(from_regex("[a-z]", "ab"), 1) == ["a", "b"]
    assert from_regex("[xyz]", "ab").n_states == 1
    assert from_regex("", "ab").n_states == 2


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "unclosed"),
        ("a|", "end of a statement"),
        ("*a", "start of a statement"),
        ("ac", "another letter"),
        ("a b", "another letter"),
        ("^a$", "start of a statement"),
        ("[", "bracket"),
        ("[b-a]", "backwards"),
        ("[]a]", "must hold letters"),
        (r"[\]a]", "no backslash"),
        ("a{}", "bounds"),
        ("a{,}", "bounds"),
        ("a{3,2}", "do not decrease"),
        (r"\ba", "no meaning"),
        (r"(a)\1", "no meaning"),
    ],
)
def test_patterns_that_cannot_be_read_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        from_regex(pattern, "ab")
    assert repr(pattern) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("alphabet", ["", "aa", ["ab", "c"], [1, 2]])
def test_bad_alphabets_are_refused(alphabet: object) -> None:
    with pytest.raises(InvalidInputError, match="distinct single characters"):
        from_regex("a", alphabet)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "automata.fa.nfa", None)
    with pytest.raises(MissingExtraError, match="automata-lib"):
        from_regex("a", "ab")
