"""The checker accepts what was proved and refuses what was changed, in the certificate or in the weights."""

import ast
import copy
import hashlib
import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import statetrack.analysis.checker as checker
from statetrack.analysis import Refused, certify, check
from statetrack.analysis.checker import digest
from statetrack.training.files import write_json

from .conftest import copy_run


@pytest.fixture(scope="module")
def proved(learnt):
    """A run and its certificate."""
    run = learnt("flash-pd-ssm", "cycle-navigation")
    return run, certify(run)


def refusal(stored, run, tmp_path, *, sign=True):
    """Why a certificate is refused."""
    if sign:
        stored["digest"] = digest(stored)
    write_json(tmp_path / "certificate.json", stored)
    with pytest.raises(Refused) as refused:
        check(tmp_path / "certificate.json", run)
    return str(refused.value)


def accepts(stored, run, tmp_path):
    write_json(tmp_path / "certificate.json", stored)
    assert check(tmp_path / "certificate.json", run)["verdict"] == stored["verdict"]


def paths(value, path=()):
    """The way to every number, string and truth value of nested data."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))
    elif path and path[-1] != "digest":
        yield path


def test_an_untouched_certificate_holds(proved, tmp_path):
    run, stored = proved
    accepts(stored, run, tmp_path)


def test_every_changed_entry_is_noticed(proved, tmp_path):
    run, stored = proved
    places = list(paths(stored))
    for path in [*places[:60], *places[60::97]]:
        changed = copy.deepcopy(stored)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        old = inner[path[-1]]
        inner[path[-1]] = (
            f"{old}x" if isinstance(old, str) else 1 if old is None else not old if isinstance(old, bool) else old + 1
        )
        assert "changed after" in refusal(changed, run, tmp_path, sign=False)


def test_a_false_proof_is_refused_though_its_digest_fits(proved, tmp_path):
    run, stored = proved
    carrying = min(range(len(stored["pieces"])), key=lambda i: len(stored["pieces"][i]["nodes"]))

    def changed(change):
        new = copy.deepcopy(stored)
        change(new["pieces"], new)
        return refusal(new, run, tmp_path)

    def nodes(pieces):
        return pieces[carrying]["nodes"]

    assert "leads out" in changed(lambda pieces, _: nodes(pieces).pop())
    assert "leads out" in changed(lambda pieces, _: nodes(pieces)[1].__setitem__(0, nodes(pieces)[2][0]))
    assert "leads out" in changed(lambda pieces, _: nodes(pieces)[1].__setitem__(1, [(nodes(pieces)[1][1][0] + 1) % 8]))
    assert "leads out" in changed(lambda pieces, _: nodes(pieces)[1].__setitem__(2, [1.5]))
    assert "leads out" in changed(lambda pieces, _: nodes(pieces)[1].__setitem__(3, [0.999]))
    assert "initial state" in changed(lambda pieces, _: nodes(pieces)[0].__setitem__(1, [3]))
    assert "heads are missing" in changed(lambda pieces, _: pieces.pop())
    assert "heads are missing" in changed(lambda pieces, _: pieces.append(copy.deepcopy(pieces[0])))
    assert "not those it was made for" in changed(lambda _, new: new.update(weights="0" * 64))
    assert "configuration" in changed(lambda _, new: new["config"].update(seed=99))
    assert "claims nothing" in changed(lambda _, new: new.update(verdict="undecided"))
    assert "not well formed" in changed(lambda pieces, _: pieces[0].pop("nodes"))
    assert "not well formed" in changed(lambda _, new: new.pop("history"))


def test_wide_boxes_settle_no_answer(proved, tmp_path):
    """A closed set of nodes is not enough: one that holds every place leads nowhere else, and tells nothing."""
    run, stored = proved
    changed = copy.deepcopy(stored)
    for piece in changed["pieces"]:
        for node in piece["nodes"]:
            node[1:] = [list(range(8)), [0.0] * 8, [8.0] * 8]
    assert "not settled" in refusal(changed, run, tmp_path) or "leads out" in refusal(changed, run, tmp_path)


def flip(run, change):
    """Change the weights of a run and give them back."""
    path = run.latest_checkpoint() / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_changed_weight_is_refused(proved, tmp_path):
    run, stored = proved
    mine = copy_run(run, tmp_path / "run")
    fresh = flip(mine, lambda weights: weights["head.bias"].add_(0.125))
    assert "not those it was made for" in refusal(copy.deepcopy(stored), mine, tmp_path)
    accepts_new = copy.deepcopy(stored) | {"weights": fresh}  # a shift of all scores: the proof still holds
    accepts_new["digest"] = digest(accepts_new)
    accepts(accepts_new, mine, tmp_path)


def swap_two_maps(weights):
    scores = weights["blocks.0.layer.scores"]
    scores[:] = scores[:, [1, 0, *range(2, scores.shape[1])]].clone()


WEIGHTS = {
    "maps": (swap_two_maps, "leads out"),
    "router": (lambda weights: weights["blocks.0.layer.router.weight"].neg_(), "leads out"),
    "readout": (lambda weights: weights["blocks.0.layer.readout.out.weight"].neg_(), "not settled"),
    "head": (lambda weights: weights["head.weight"].neg_(), "not settled"),
    "embedding": (lambda weights: weights["embedding.weight"].copy_(weights["embedding.weight"].roll(1, 0)), "leads out"),
    "no head at all": (lambda weights: weights["head.weight"].zero_(), "not settled"),
    "infinite": (lambda weights: weights["head.bias"].fill_(float("inf")), "not finite"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_proof_does_not_fit_other_weights(proved, name, tmp_path):
    run, stored = proved
    mine = copy_run(run, tmp_path / "run")
    change, reason = WEIGHTS[name]
    changed = copy.deepcopy(stored) | {"weights": flip(mine, change)}
    assert reason in refusal(changed, mine, tmp_path)


def test_a_refutation_is_checked_by_running_the_model(barely_trained, proved, tmp_path):
    stored = certify(barely_trained)
    accepts(stored, barely_trained, tmp_path)
    right = copy.deepcopy(stored)
    run, _ = proved
    right |= {"config": json.loads(json.dumps(run.config.to_dict()))}
    right["weights"] = hashlib.sha256((run.latest_checkpoint() / "model.safetensors").read_bytes()).hexdigest()
    assert "answers the word rightly" in refusal(right, run, tmp_path)


def test_a_word_that_cannot_come_refutes_nothing(barely_trained, tmp_path):
    stored = certify(barely_trained)
    stored["counterexample"]["word"] = [0, 1]
    assert "answers the word rightly" in refusal(stored, barely_trained, tmp_path)


def test_the_checker_knows_nothing_of_the_search():
    for path in Path(checker.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        assert len(path.read_text().splitlines()) <= 200
        for node in ast.walk(tree):
            names = (
                [node.module]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                parts = name.split(".")
                allowed = parts[:2] != ["statetrack", "analysis"] or parts[2] in ("checker", "language")
                assert allowed, f"{path.name} imports {name}"
