"""Rounding trained networks to exact weights that are proved right."""

import json

import numpy as np
import pytest
import torch

from statetrack.analysis import NotSnapped, certify, check, snap, specification
from statetrack.analysis.runs import classes
from statetrack.errors import InvalidInputError, RunError
from statetrack.report import write_report
from statetrack.training import Run


def right_on_a_word(run, length):
    """Whether every answer along one random word is right."""
    found, model = specification(run.task), run.load_model()
    word = np.random.default_rng(7).choice(found.tokens, (1, length))
    expected = found.expected(word)
    return bool((expected >= 0).all() and (classes(model, word) == expected).all())


KINDS = {
    "as trained": ("flash-pd-ssm", "cycle-navigation", {}, "places"),
    "decaying": ("flash-pd-ssm", "parity", {"modulus": "sigmoid"}, "places"),
    "pd-ssm": ("pd-ssm", "parity", {"modulus": "sigmoid"}, "places"),
    "two layers": ("flash-pd-ssm", "parity", {"n_layers": 2}, "places"),
    "phases": (
        "flash-pd-ssm",
        "cycle-navigation",
        {"modulus": "sigmoid", "d_field": "complex", "n_heads": 1, "d_state": 4},
        None,
    ),
}


@pytest.fixture(scope="module")
def snapped(learnt, tmp_path_factory):
    """A trained run and its rounded one, by kind."""
    known = {}

    def get(kind):
        if kind not in known:
            layer, task, options, _ = KINDS[kind]
            run = learnt(layer, task, **options)
            known[kind] = run, snap(run, tmp_path_factory.mktemp("snapped") / "run")
        return known[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
def test_a_rounded_run_is_proved_right(snapped, kind):
    run, found = snapped(kind)
    assert found.certificate["verdict"] == "certified"
    assert found.way == KINDS[kind][3] or KINDS[kind][3] is None
    check(found.run.path / "certificate.json", found.run)
    assert right_on_a_word(found.run, 3000)
    layer = found.run.config.model.layer
    assert (layer["modulus"], layer["d_field"], layer["additive_input"]) == ("unit", "real", False)
    assert found.run.config.task == run.config.task


def test_a_rounded_network_does_not_decay(snapped):
    _, found = snapped("decaying")
    assert right_on_a_word(found.run, 20_000)


@pytest.mark.slow
def test_a_million_symbols(snapped):
    _, found = snapped("decaying")
    assert right_on_a_word(found.run, 1_000_000)


def test_what_is_not_rounded_is_as_trained(snapped):
    run, found = snapped("as trained")
    before, after = run.load_model().state_dict(), found.run.load_model().state_dict()
    for name in ("embedding.weight", "head.weight", "head.bias", "blocks.0.norms.0.weight", "blocks.0.layer.readout.skip"):
        assert torch.equal(before[name], after[name])
    kept = {head for _, head in found.heads}
    for head in range(2):
        chosen, now = (state["blocks.0.layer.scores"][head].argmax(-2) for state in (before, after))
        if head in kept:
            assert torch.equal(chosen, now)
        else:
            assert (now == torch.arange(8)).all()


def test_a_rounded_run_is_a_run(snapped, tmp_path):
    run, found = snapped("as trained")
    opened = Run.open(found.run.path)
    assert opened.finished
    assert opened.progress().step == run.progress().step
    assert opened.evaluate([20, 40], n=16)["accuracy"] == {20: 1.0, 40: 1.0}
    assert write_report(opened, tmp_path / "report.html", lengths=[20], n=16).exists()
    stored = json.loads((found.run.path / "certificate.json").read_text())
    assert certify(opened)["pieces"] == stored["pieces"]
    assert sorted(path.name for path in found.run.path.parent.iterdir()) == ["run"]


def test_what_is_not_right_is_not_written(barely_trained, tmp_path):
    with pytest.raises(NotSnapped):
        snap(barely_trained, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_exist_and_layers_that_cannot_be_rounded(learnt, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "note").write_text("mine")
    run = learnt("flash-pd-ssm", "parity")
    with pytest.raises(RunError, match="already exists"):
        snap(run, tmp_path / "x")
    from .test_extraction import _untrained

    with pytest.raises(InvalidInputError, match="not off RNN"):
        snap(_untrained("rnn", tmp_path), tmp_path / "y")
