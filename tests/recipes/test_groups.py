"""The running-product recipe."""

import json
from dataclasses import replace

import pytest

from statetrack.layers import layers
from statetrack.models import ModelConfig
from statetrack.recipes import groups, recipes
from statetrack.recipes.groups_published import PUBLISHED
from statetrack.training import EvalConfig, LengthConfig, OptimConfig
from statetrack.training.settings import check

FAR = {str(length): 1.0 for length in groups.LENGTHS}


@pytest.mark.parametrize(
    ("changed", "longest"),
    [({}, 1000), ({"60": 0.5}, None), ({"100": 0.9}, None), ({"400": 0.9}, 300), ({"400": 0.901}, 1000), ({"1000": 0.0}, 900)],
)
def test_reach_ends_at_the_first_length_that_falls_short(changed, longest):
    assert groups.longest_good({**FAR, **changed}) == longest


@pytest.mark.parametrize("layer", groups.LAYERS)
@pytest.mark.parametrize(("name", "order", "deep"), [("C2", 2, False), ("C2xC4", 8, True), ("S3", 6, True)])
def test_every_run_fits_the_protocol(layer, name, order, deep):
    config = groups.group_config(layer, name, 0)
    check(config)
    assert (config.lengths.high, config.lengths.growth, config.task_options) == (60, 2.0, {"group": name})
    assert (config.model.n_layers == 2) == (deep if layer in ("mamba", "negative-mamba", "simple-aussm", "aussm") else False) or (
        layer in ("complex-kda", "gated-deltaproduct")
    )


def test_layers_and_published_rows_are_known():
    assert set(groups.LAYERS) <= set(layers.names())
    assert set(PUBLISHED) <= set(groups.LAYERS)
    assert all(set(row) <= set(groups.GROUPS) for row in PUBLISHED.values())


def test_runs_and_table(tmp_path, monkeypatch):
    real = groups.group_config

    def tiny(layer, name, seed):
        config = real(layer, name, seed)
        return replace(
            config,
            model=ModelConfig(d_model=4, layer={"d_state": 2}),
            optim=OptimConfig(decay_steps=1),
            lengths=LengthConfig(low=1, high=4, start=2),
            evaluation=EvalConfig(every=2, low=4, high=5, n=4),
            steps=2,
            batch_size=4,
        )

    monkeypatch.setattr(groups, "group_config", tiny)
    monkeypatch.setattr(groups, "LENGTHS", (60, 100))
    recipe = recipes.get("groups")()
    result = recipe.run(tmp_path, workers=0, observer=lambda line: None, only=["rnn-S3-*"])
    assert json.loads((tmp_path / "groups_cpu.json").read_text()) == result
    (run,) = result["runs"]
    assert set(run["accuracy"]) == {"60", "100"}
    run["accuracy"] = {**FAR, "1000": 0.2}
    row = next(line for line in recipe.table(result).splitlines() if line.startswith("| rnn |"))
    assert row.split("|")[2:-1] == [f" {cell} " for cell in _row("not run", 1000, 1000, 1000, "x", None, "900 (1000)", 1000, "x")]


def _row(missing, c2, c6, c24, c60, c2xc4, s3, a4, a5):
    def told(known):
        return missing if known is None else f"{missing} ({known})"

    return [told(c2), told(c6), told(c24), told(c60), told(c2xc4), s3, told(a4), told(a5)]
