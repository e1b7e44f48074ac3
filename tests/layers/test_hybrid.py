"""Patterns of several layers."""

import pytest

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers import make_stack, names_of, pattern_options
from statetrack.layers.lstm import LSTM
from statetrack.layers.rnn import RNN


def test_patterns_repeat_from_the_input_up():
    stack = make_stack("rnn | lstm|rnn", 5, 4, **{"rnn.d_state": 3, "lstm.d_state": 7})
    assert [type(layer) for layer in stack] == [RNN, LSTM, RNN, RNN, LSTM]
    assert [layer.d_state for layer in stack] == [3, 7, 3, 3, 7]
    assert all(a is not b for i, a in enumerate(stack) for b in stack[:i])


def test_a_single_name_keeps_its_own_options():
    assert [layer.d_state for layer in make_stack("rnn", 2, 4, d_state=3)] == [3, 3]
    assert pattern_options("rnn").keys() == {"d_state"}
    assert pattern_options("rnn|rnn").keys() == {"d_state"}
    assert names_of("rnn") == ("rnn",)


@pytest.mark.parametrize("pattern", ["rnn|", "rnn|lstn", ""])
def test_unknown_names(pattern):
    with pytest.raises(UnknownNameError):
        names_of(pattern)


def test_options_need_the_name_of_their_layer():
    with pytest.raises(UnknownNameError, match=r"option of rnn\|lstm"):
        make_stack("rnn|lstm", 2, 4, d_state=3)
    with pytest.raises(InvalidInputError, match="names 2 layers, but the stack has 1"):
        make_stack("rnn|lstm", 1, 4)
