"""The recipe on words over A5 and S5."""

import json
from dataclasses import replace

import pytest

from statetrack.models import ModelConfig
from statetrack.recipes import group_words, recipes
from statetrack.tasks import make_task
from statetrack.training import EvalConfig, LengthConfig, OptimConfig
from statetrack.training.settings import check


@pytest.mark.parametrize("layer", group_words.LAYERS)
@pytest.mark.parametrize(("group", "alphabet"), group_words.WORDS)
def test_every_run_fits_the_protocol(layer, group, alphabet):
    config = group_words.word_config(layer, group, alphabet, 0)
    task = make_task(config.task, **config.task_options)
    letters = 11 if alphabet == "swaps" else int(alphabet.removeprefix("random-"))  # ten swaps and the identity
    assert len(task.alphabet) == letters
    assert task.automaton.n_states == {"A5": 60, "S5": 120}[group] <= config.model.layer["d_state"]
    assert config.model.n_layers == 1
    if letters in (2, 32):
        check(config)


def test_published_rows_have_a_number_or_none_for_every_column():
    assert all(len(row) == len(group_words.WORDS) for row in group_words.PUBLISHED.values())


def test_runs_and_table(tmp_path, monkeypatch):
    real = group_words.word_config

    def tiny(*where):
        return replace(
            real(*where),
            model=ModelConfig(d_model=4, layer={"d_state": 4, "dictionary_size": 2}),
            optim=OptimConfig(decay_steps=1),
            lengths=LengthConfig(low=1, high=4, start=2),
            evaluation=EvalConfig(every=2, low=4, high=5, n=4),
            steps=2,
            batch_size=4,
        )

    monkeypatch.setattr(group_words, "word_config", tiny)
    monkeypatch.setattr(group_words, "LENGTHS", (5, 8))
    monkeypatch.setattr(group_words, "POOLED", (4, 6))
    recipe = recipes.get("group-words")()
    result = recipe.run(tmp_path, workers=0, observer=lambda line: None, only=["pd-ssm-A5-random-2-0"])
    assert json.loads((tmp_path / "group-words_cpu.json").read_text()) == result
    (run,) = result["runs"]
    run["pooled"], run["accuracy"] = 0.875, {"5": 1.0, "8": 0.25}
    table = recipe.table(result)
    assert "| **pd-ssm**, 1 layer | 87.5 (25.0) | not run |" in table
    assert "| PD-SSM, 1 layer (published) | 100 | 100 | 100 | 100 | 100 | 100 | 1.07 |  |" in table
