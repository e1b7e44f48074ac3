"""Automata, proofs and exact weights from the command line."""

import json

import pytest
import torch

from statetrack.models import ModelConfig
from statetrack.tasks import make_task
from statetrack.training import Run, TrainConfig, build_model
from statetrack.training.checkpoint import Progress, save_checkpoint
from statetrack.training.curriculum import Curriculum
from statetrack.training.optim import make_optimizer


def handmade(folder, *, modulus="unit"):
    """A run whose weights are written by hand: parity, right on every word as long as nothing decays."""
    options = {"d_state": 2, "dictionary_size": 2, "d_field": "real", "modulus": modulus, "additive_input": False, "skip": False}
    config = TrainConfig("flash-pd-ssm", "parity", model=ModelConfig(d_model=3, norm="none", layer=options))
    model = build_model(config, make_task("parity"))
    cell = model.layers[0]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "magnitude" not in name:
                parameter.zero_()
        model.embedding.weight[[1, 2], [1, 2]] = 1.0
        cell.router.weight[[0, 1], [1, 2]] = 5.0
        cell.scores[0] = torch.stack([torch.eye(2), torch.eye(2).flip(0)])
        cell.readout.out.weight[[0, 1], [0, 1]] = 1.0
        model.head.weight[[1, 2], [0, 1]] = 1.0
        model.head.bias[1] = 1e-3  # what is left when everything has decayed
    run = Run.create(folder, config)
    progress = Progress(step=7, curriculum=Curriculum(longest=40), finished=True)
    save_checkpoint(run.checkpoint_folder, model, make_optimizer(model, config.optim), progress)
    return run.path


@pytest.fixture
def parity(tmp_path):
    return handmade(tmp_path / "parity")


def test_certify_writes_a_certificate_that_holds(call, parity):
    result = call("certify", parity)
    assert result.code == 0
    assert result.out.startswith("certified: On every word of parity")
    assert str(parity / "certificate.json") in result.err
    checked = call("certify --check", parity / "certificate.json")
    assert (checked.code, checked.out.startswith("The certificate holds.")) == (0, True)
    assert json.loads((parity / "certificate.json").read_text())["verdict"] == "certified"


def test_certify_json_and_out(call, parity, tmp_path):
    found = call("certify", parity, "--json --shortest 3 --out", tmp_path / "c.json").json
    assert (found["verdict"], found["shortest"], found["certificate"]) == ("certified", 3, str(tmp_path / "c.json"))
    assert found["margin"] > 0.9
    assert "pieces" not in found
    held = call("certify --json --check", tmp_path / "c.json", parity).json
    assert (held["valid"], held["verdict"]) == (True, "certified")


def test_a_certificate_of_other_weights_is_refused(call, parity, tmp_path):
    assert call("certify", parity).code == 0
    other = handmade(tmp_path / "other", modulus="sigmoid")
    refused = call("certify --check", parity / "certificate.json", other)
    assert refused.code == 1
    assert "refused: the weights are not those" in refused.err
    path = parity / "certificate.json"
    path.write_text(path.read_text().replace('"history": 0', '"history": 1'))
    assert "changed after" in call("certify --check", path).err


def test_a_run_that_is_wrong_is_refuted(call, trained, tmp_path):
    result = call("certify", trained, "--out", tmp_path / "c.json")
    assert result.code == 0
    assert result.out.startswith("refuted: The largest score is that of class")
    assert "Word: " in result.out
    found = json.loads((tmp_path / "c.json").read_text())["counterexample"]
    given = Run.open(trained).load_model()(torch.tensor([found["word"]]))[0][0, -1].argmax()
    assert given == found["given"] != found["expected"]
    assert call("certify --check", tmp_path / "c.json", trained).code == 0
    if len(found["word"]) < 3:
        assert "--shortest 3" in result.err


def test_snap_takes_decay_out(call, tmp_path):
    decaying = handmade(tmp_path / "decaying", modulus="sigmoid")
    assert call("certify", decaying).out.startswith("refuted")
    result = call("snap", decaying, "--out", tmp_path / "exact")
    assert result.code == 0
    assert "head 0 of layer 1 carry the automaton" in result.out
    assert "certified: " in result.out
    assert call("certify --check", tmp_path / "exact" / "certificate.json").code == 0
    assert call("eval", tmp_path / "exact", "--lengths 300 --n 20 --json").json["accuracy"] == {"300": 1.0}
    assert call("report", tmp_path / "exact", "--lengths 20 --n 8").code == 0
    again = call("snap", decaying, "--json --out", tmp_path / "again").json
    assert (again["way"], again["heads"], again["verdict"]) == ("places", [{"layer": 1, "head": 0}], "certified")


def test_snap_says_what_it_cannot_do(call, parity, trained, tmp_path):
    assert "--out FOLDER" in call("snap", parity).err
    assert "already exists" in call("snap", parity, "--out", parity).err
    assert "not off RNN" in call("snap", trained, "--out", tmp_path / "x").err
    assert not (tmp_path / "x").exists()


def test_extract(call, parity, tmp_path):
    result = call("extract", parity, "--out", tmp_path / "parity.svg")
    assert result.out.splitlines()[0] == "2 states, read off the selections."
    assert "It is the automaton of the task (2 states)." in result.out
    assert "Transition monoid: 2 elements, a group, solvable." in result.out
    assert (tmp_path / "parity.svg").read_text().startswith("<?xml")
    found = call("extract", parity, "--method lstar --json").json
    assert (found["method"], found["states"], found["equivalent"], found["complete"]) == ("lstar", 2, True, True)


def test_extract_names_the_word_that_tells_the_difference(call, trained):
    result = call("extract", trained)
    assert "learnt by KV" in result.out
    assert "they differ after" in result.out or "It is the automaton of the task" in result.out


@pytest.mark.parametrize(
    "words", ["certify", "certify --check nowhere.json", "extract nowhere", "certify nowhere", "extract x --method y"]
)
def test_bad_input(call, words):
    result = call(words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("statetrack: error: ")


@pytest.mark.parametrize("name", ["certify", "extract", "snap"])
def test_help(call, name):
    result = call(f"{name} --help")
    assert (result.code, result.err) == (0, "")
    assert f"statetrack {name}" in result.out
