"""``statetrack theory``."""

import json

import pytest

from statetrack.automata import group, word_automaton
from statetrack.layers import layers
from statetrack.theory import depth


def test_a_group_as_json(call):
    found = call("theory S4 --json").json
    assert (found["order"], found["solvable"], found["derived_length"]) == (24, True, 3)
    assert sorted(found["depth"]) == layers.names()
    assert found["depth"]["aussm"]["layers"] == 3
    assert found["depth"]["aussm"]["kind"] == "exact"
    assert found["depth"]["mamba"] == depth("mamba", word_automaton(group("S4"), range(24))).to_dict() | {
        "witness": {"kind": "PeriodicWord", "word": ["1"], "period": 2, "n_states": 24}
    }
    assert (found["depth"]["mamba"]["layers"], found["depth"]["deltanet"]["layers"]) == (None, [2, 4])
    assert found["depth"]["aussm"]["witness"]["factors"] == ["C2", "C3", "C2xC2"]


def test_a_group_for_people(call):
    out = call("theory A5").out
    assert "word problem of A5" in out
    for layer in layers.names():
        assert layer in out
    for text in ("never", "words permute 60 states by A5", "arXiv 2603.01959", "n_householder >= 2"):
        assert text in " ".join(out.split())


def test_alphabets(call):
    assert call("theory S5 --alphabet swaps --json").json["depth"]["deltanet"]["layers"] == 1
    assert call("theory S5 --json").json["depth"]["deltanet"]["layers"] == [2, 4]


def test_what_takes_long_is_announced(call, monkeypatch):
    quiet = call("theory S4 --json")
    assert quiet.err == ""
    monkeypatch.setattr("statetrack.cli.theory._LARGE", 24 * 24 - 1)
    told = call("theory S4 --json")
    assert told.out == quiet.out
    assert "word problem of S4: 24 states and 24 symbols, which can take minutes" in told.err
    assert "Depths of" in told.err.splitlines()[-1]


@pytest.mark.parametrize("task", ["parity", "cycle-navigation", "modular-arithmetic", "even-pairs"])
def test_a_task(call, task):
    found = call(f"theory {task} --json").json
    assert found["name"] == task
    assert found["states"] == {"parity": 2, "cycle-navigation": 5, "modular-arithmetic": 25, "even-pairs": 5}[task]
    assert found["depth"]["flash-pd-ssm"]["layers"] == 1


def test_a_regular_expression(call):
    found = call("theory --regex (ab)* --json").json
    assert (found["order"], found["aperiodic"], found["is_group"]) == (6, True, False)
    assert (found["depth"]["mamba"]["layers"], found["depth"]["aussm"]["layers"]) == ([1, 2], None)
    assert call("theory --regex (01)* --letters 01 --json").json["order"] == 6
    assert "holonomy levels: resets, resets" in " ".join(call("theory --regex (ab)*").out.split())


def test_a_file(call, tmp_path):
    path = tmp_path / "automaton.json"
    path.write_text(json.dumps({"transitions": [[0, 1], [1, 0]], "outputs": [0, 1], "symbols": ["keep", "flip"]}))
    for words in (("theory", path), ("theory --file", path)):
        found = call(*words, "--json").json
        assert (found["order"], found["group"]["name"], found["letters"]) == (2, "C2", 2)
    assert "the word flip permutes 2 states" in " ".join(call("theory", path).out.split())


BAD = {
    "": "asks about one automaton",
    "S4 --regex a": "got a target and --regex",
    "paritty": "Did you mean 'parity'",
    "A5xx": "Unknown group or task 'A5xx'",
    "S9": "more than 10,000 elements",
    "D2": "C2xC2",
    "modular-arithmetic-brackets": "no finite automaton",
    "S5 --alphabet swap": "Did you mean 'swaps'",
    "--regex (a": "Cannot read the regular expression",
    "--file nowhere.json": "Cannot read the automaton file",
    "S4 --jso": "Did you mean '--json'",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line(call, line):
    result = call(f"theory {line}")
    assert (result.code, result.out) == (2, "")
    assert BAD[line] in result.err
    assert len(result.err.rstrip("\n").splitlines()) <= 2
