"""Larger states: unchanged outputs, gradients for what is new, growth in training, and plans from measured numbers."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from statetrack.analysis.state_size import (
    Budget,
    ExpandableState,
    copy_bound,
    expand,
    expand_model,
    growing,
    plan_state_size,
    train_expandable,
)
from statetrack.analysis.state_use import state_use
from statetrack.errors import InvalidInputError, RunError
from statetrack.layers import make_layer
from statetrack.layers.base import rebuilt
from statetrack.layers.polarization import polarize
from statetrack.models import ModelConfig, Tagger
from statetrack.training import EvalConfig, LengthConfig, Run, TrainConfig, checkpoint, resume


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


VARIANTS = [
    ("mamba", {"d_state": 3}),
    ("polarized-mamba", {"d_state": 3, "n_ones": 2}),
    ("mamba2", {"d_state": 3, "d_head": 2}),
    ("complex-diagonal", {"d_state": 3, "n_heads": 2, "readout": "mlp"}),
    ("complex-diagonal", {"d_state": 3, "d_generator": "affine", "phase_levels": 3}),
    ("complex-diagonal", {"d_state": 3, "d_generator": "decay_phase", "d_field": "real", "initial_state": "learned"}),
    ("flash-pd-ssm", {"d_state": 3, "dictionary_size": 2, "n_heads": 2, "additive_input": False}),
    ("flash-pd-ssm", {"d_state": 3, "dictionary_size": 2, "modulus": "unit", "d_field": "real", "readout": "real"}),
    ("pd-ssm", {"d_state": 3, "dictionary_size": 2, "additive_input": False}),
    ("simple-aussm", {"d_state": 3, "additive_input": False}),
    ("s5", {"d_state": 4, "n_blocks": 2}),
    ("slice", {"d_state": 4, "kind": "diagonal"}),
    ("slice", {"d_state": 4, "block_size": 2}),
    ("lstm", {"d_state": 3}),
    ("shift", {"d_state": 3}),
]


def moved(name, options):
    torch.manual_seed(0)
    layer = make_layer(name, 4, **options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_outputs_stay_and_what_is_new_trains(name, options):
    layer, x, y = moved(name, options), normal(3, 8, 4), normal(3, 8, 4, seed=2)
    larger = expand(layer, 2)
    torch.testing.assert_close(larger(x)[0], layer(x)[0], rtol=1e-12, atol=1e-13)
    assert larger.d_state == layer.d_state + 2
    optimizer = torch.optim.SGD(larger.parameters(), lr=0.05)
    before = {key: p.detach().clone() for key, p in larger.named_parameters()}
    for _ in range(3):
        optimizer.zero_grad()
        (larger(x)[0] - y).square().mean().backward()
        optimizer.step()
    sizes = {key: p.shape for key, p in layer.named_parameters()}
    for key, parameter in larger.named_parameters():
        changed = parameter != before[key]
        assert changed.any(), key
        if parameter.shape != sizes[key] and not key.startswith("diagonal.") and "pd-ssm" not in name:
            dim = next(d for d, (a, b) in enumerate(zip(parameter.shape, sizes[key], strict=True)) if a != b)
            others = [d for d in range(changed.ndim) if d != dim]
            assert (changed.amax(others) if others else changed).all(), key  # every slice, and so the new ones too


@pytest.mark.parametrize("additive", [True, False])
def test_new_pd_states_are_reached_through_inputs_or_choices(additive):
    layer = moved("flash-pd-ssm", {"d_state": 3, "dictionary_size": 2, "additive_input": additive})
    larger = expand(layer, 2)
    (larger(normal(3, 8, 4))[0] - normal(3, 8, 4, seed=2)).square().mean().backward()
    assert larger.scores.grad[..., 3:, :3].any()  # old states may choose new ones
    if additive:
        rows = larger.input.weight.grad.unflatten(0, (2, 1, 5))
        assert rows[:, :, 3:].flatten(0, 2).any(-1).all()


def test_old_states_are_the_same_and_pins_stay_at_the_ends():
    layer, x = moved("mamba", {"d_state": 4, "d_conv": 1}), normal(1, 5, 4)
    larger = expand(layer, 3)
    torch.testing.assert_close(larger(x)[1].h[..., :4], layer(x)[1].h, rtol=1e-12, atol=1e-14)
    assert larger(x)[1].h[..., 4:].abs().min() > 0
    pinned = polarize(layer)
    grown = expand(pinned, 2)
    value = grown.transitions(x).value
    assert (value[..., 0] == 1).all()
    assert (value[..., -1] == 0).all()
    torch.testing.assert_close(grown(x)[0], pinned(x)[0], rtol=1e-12, atol=1e-13)


def test_pd_columns_keep_their_targets():
    layer, x = moved("flash-pd-ssm", {"d_state": 3, "dictionary_size": 4}), normal(2, 6, 4)
    larger = expand(layer, 5)
    assert torch.equal(larger.transitions(x).index[..., :3], layer.transitions(x).index)
    torch.testing.assert_close(larger(x)[1].h[..., :3], layer(x)[1].h, rtol=1e-12, atol=1e-14)
    assert not larger(x)[1].h[..., 3:].any()


def test_zero_inputs_alone_do_not_keep_outputs():
    """Why readouts are what starts at 0: new states that old ones read change outputs, even if nothing is written to them."""
    layer, x = moved("rnn", {"d_state": 3}), normal(2, 6, 4)
    larger = expand(layer, 2)
    with torch.no_grad():
        larger.cell.weight_ih_l0[3:] = 0
        larger.cell.weight_hh_l0[:3, 3:] = 1.0
    assert (larger(x)[0] - layer(x)[0]).abs().max() > 0.05


def test_reasons():
    for name, options, reason in (
        ("deltanet", {"n_heads": 2}, "normalised over the state"),
        ("sd-ssm", {}, "readout normalises"),
        ("aussm", {}, "positive modulus"),
        ("transformer", {"n_heads": 2}, "cache grows"),
        ("complex-diagonal", {"readout": "gated"}, "gated"),
        ("flash-pd-ssm", {"orientation": "row"}, "orientation='row'"),
        ("slice", {"kind": "dplr"}, "'dplr'"),
        ("shift", {"wrap": "cyclic"}, "wrap='drop'"),
        ("fp-rnn", {}, "not known"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            expand(make_layer(name, 4, **options), 1)
    with pytest.raises(InvalidInputError, match="at least 1"):
        expand(make_layer("mamba", 4), 0)


def test_rebuilt_layers_have_the_options_of_the_first():
    layer = make_layer("mamba", 4, d_state=3, expand=3)
    state = torch.get_rng_state()
    other = rebuilt(copy.deepcopy(layer), d_state=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert other.A_log.shape == (12, 5)
    assert layer.options == {"d_state": 3, "expand": 3}


def test_the_optimiser_goes_on_with_what_it_knows():
    torch.manual_seed(0)
    config = ModelConfig(d_model=4, n_layers=2, norm="pre", residual=True, layer={"d_state": 2})
    model = Tagger("mamba", 5, 3, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens, targets = torch.randint(5, (4, 7)), torch.randint(3, (4, 7))

    def step(m, o):
        o.zero_grad()
        torch.nn.functional.cross_entropy(m(tokens)[0].flatten(0, 1), targets.flatten()).backward()
        o.step()

    for _ in range(3):
        step(model, optimizer)
    old = {name: optimizer.state[p]["exp_avg"].clone() for name, p in model.named_parameters()}
    scores = model(tokens)[0].detach()
    expand_model(model, 2, optimizer)
    torch.testing.assert_close(model(tokens)[0].detach(), scores)
    parameters = dict(model.named_parameters())
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == {id(p) for p in parameters.values()}
    for name, parameter in parameters.items():
        moment = optimizer.state[parameter]["exp_avg"]
        assert moment.shape == parameter.shape
        assert moment.abs().sum() == pytest.approx(float(old[name].abs().sum()), rel=1e-5)
        assert optimizer.state[parameter]["step"] == 3
    moment = optimizer.state[parameters["blocks.0.layer.A_log"]]["exp_avg"]
    assert torch.equal(moment[:, :2], old["blocks.0.layer.A_log"])
    assert not moment[:, 2:].any()
    step(model, optimizer)


# -- growing -------------------------------------------------------------------------------------------------------------------


def config(name="mamba", **model) -> TrainConfig:
    return TrainConfig(
        name,
        "parity",
        model=ModelConfig(**{"d_model": 4, "layer": {"d_state": 2}, **model}),
        lengths=LengthConfig(low=3, high=10, start=None),
        evaluation=EvalConfig(every=10, low=8, high=10, n=8),
        steps=12,
        batch_size=4,
    )


def test_a_state_grows_while_it_trains_and_the_run_can_be_opened(tmp_path):
    seen = []
    state = ExpandableState(4, saturated=0.01, largest=6, solved=None, words=2, observer=lambda r: seen.append(r["step"]))
    run = train_expandable(config(), tmp_path / "grown", state)
    assert [(r["step"], r["d_state"], r["grown"]) for r in state.records] == [(4, 4, True), (8, 6, True)]
    assert seen == list(range(1, 13))
    again = Run.open(run.path)
    assert again.config.model.layer["d_state"] == 6
    assert again.load_model().layers[0].d_state == 6
    assert len((run.path / "state_size.jsonl").read_text().splitlines()) == 2


def test_a_grown_run_can_be_resumed(tmp_path):
    def stop(record):
        if record["step"] == 5:
            raise Killed

    state = ExpandableState(4, saturated=0.01, largest=4, solved=None, words=2, observer=stop)
    with pytest.raises(Killed):
        train_expandable(config(), tmp_path / "run", state)
    run = resume(tmp_path / "run")
    assert run.finished
    assert run.load_model().layers[0].d_state == 4
    steps = [json.loads(line)["step"] for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert steps[-1] == 12


class Killed(Exception):
    """The process ends here."""


def kill(*_, **__):
    raise Killed


WRITES = {"nothing": (checkpoint, "new_folder"), "the checkpoint": (Run, "settle"), "the configuration": (Path, "unlink")}


@pytest.mark.parametrize("written", WRITES)
def test_a_crash_while_it_grows_leaves_what_fits(tmp_path, monkeypatch, written):
    def grow(*given):
        monkeypatch.setattr(*WRITES[written], kill)
        real(*given)

    real = growing._grow
    monkeypatch.setattr(growing, "_grow", grow)
    state = ExpandableState(8, saturated=0.01, largest=4, solved=None, words=2)
    with pytest.raises((Killed, RunError)):
        train_expandable(replace(config(), checkpoint_every=5), tmp_path / "run", state)
    monkeypatch.undo()
    step, size = (5, 2) if written == "nothing" else (8, 4)
    stopped = Run.open(tmp_path / "run")
    assert stopped.progress().step == step
    assert stopped.config.model.layer["d_state"] == stopped.load_model().layers[0].d_state == size
    done = resume(tmp_path / "run")
    assert done.finished
    assert done.load_model().layers[0].d_state == size
    assert json.loads((done.path / "config.json").read_text())["config"]["model"]["layer"]["d_state"] == size
    assert not list(done.checkpoint_folder.glob("*/config.json"))


def test_the_best_weights_grow_too(tmp_path):
    """A run may end with the weights of a validation before the growth: they give what they gave then."""
    tokens, given = torch.tensor([[0, 1, 2, 1, 1, 0]]), []

    def observe(record):
        trainer = state._trainer
        if record["step"] == 2:
            trainer.progress.best = 2.0  # nothing that follows is as good
            with torch.no_grad():
                given.append(trainer.model(tokens)[0])

    state = ExpandableState(4, saturated=0.01, largest=4, solved=None, words=2, observer=observe)
    run = train_expandable(replace(config(), evaluation=EvalConfig(every=2, low=8, high=10, n=8)), tmp_path / "run", state)
    model = run.load_model()
    assert model.layers[0].d_state == 4
    torch.testing.assert_close(model(tokens)[0].detach(), given[0])


def test_what_is_not_full_or_solved_does_not_grow(tmp_path):
    for name, change in (("empty", {"saturated": 1.0}), ("solved", {"saturated": 0.01, "solved": 1e-9})):
        state = ExpandableState(4, largest=8, words=2, **change)
        run = train_expandable(config(), tmp_path / name, state)
        assert not any(r["grown"] for r in state.records)
        assert run.load_model().layers[0].d_state == 2
    with pytest.raises(InvalidInputError, match="normalised over the state"):
        train_expandable(config("deltanet", layer={"n_heads": 1}), tmp_path / "delta", ExpandableState())
    with pytest.raises(InvalidInputError, match="watches no training"):
        ExpandableState(1)({"step": 1, "finished": False})
    for wrong in (0, 1.5):
        with pytest.raises(InvalidInputError, match=f"n must be a whole number of at least 1, got {wrong}"):
            expand(make_layer("mamba", 4), wrong)
        with pytest.raises(InvalidInputError, match=f"a size must be a whole number of at least 1, got {wrong}"):
            plan_state_size(make_layer("mamba", 4), 8, 1.0, sizes=[2, wrong])
    with pytest.raises(InvalidInputError, match="growth above 1"):
        ExpandableState(growth=1.0)


# -- plans ---------------------------------------------------------------------------------------------------------------------


def gates(n, used):
    """Mamba of n states of which each channel is only ever driven in ``used``."""
    torch.manual_seed(0)
    layer = make_layer("mamba", 4, d_state=n).double()
    with torch.no_grad():
        layer.x_proj.weight[layer.dt_rank + used : layer.dt_rank + n] = 0
    return layer


def test_plans_follow_measured_use():
    x = normal(4, 40, 4)
    idle = plan_state_size(gates(16, 2), 8, Budget(), x=x, timing=0.001)
    assert idle.verdict == "mostly unused"
    assert idle.measured_on == "given inputs"
    use = state_use(gates(16, 2), x)
    assert idle.used == pytest.approx(float(use.entropy_rank.mean()))
    assert idle.used <= 2
    assert [cost.d_state for cost in idle.costs] == [4, 8, 16, 32, 64]
    assert idle.d_state == 4
    full = plan_state_size(gates(4, 4), 8, Budget(), x=x, saturated=0.05, unused=0.01, timing=0.001)
    assert (full.verdict, full.d_state) == ("saturated", 8)
    kept = plan_state_size(gates(4, 4), 8, Budget(), saturated=1.0, unused=0.001, timing=0.001)
    assert (kept.verdict, kept.d_state, kept.measured_on) == ("in use", 4, "noise")


def test_plans_keep_to_the_budget():
    x = normal(4, 40, 4)
    numbers = {n: 8 * n + 3 * 8 for n in (2, 4, 8, 16)}  # channels times states, and the window of the convolution
    found = plan_state_size(gates(4, 4), 8, Budget(state_numbers=numbers[4]), x=x, saturated=0.05, unused=0.01, timing=0.001)
    assert {cost.d_state: cost.state_numbers for cost in found.costs if cost.d_state in numbers} == {
        n: numbers[n] for n in numbers if n in [cost.d_state for cost in found.costs]
    }
    assert found.d_state == 4
    assert "allows no more" in found.reason
    with pytest.raises(InvalidInputError, match="No size fits"):
        plan_state_size(gates(4, 4), 8, Budget(parameters=1), timing=0.001)
    with pytest.raises(InvalidInputError, match="No size fits"):
        plan_state_size(gates(4, 4), 8, 1e-12, timing=0.001)
    with pytest.raises(InvalidInputError, match="cache that grows"):
        plan_state_size(make_layer("transformer", 4, n_heads=1), 8, 1.0)
    with pytest.raises(InvalidInputError, match="d_state"):
        plan_state_size(make_layer("deltanet", 4, n_heads=1), 8, 1.0, timing=0.001)


def test_counting_bound():
    assert copy_bound(65_536, 26) == 13_942
    assert copy_bound(10, 2) == 10
