"""The recipes on language: what they run, at sizes of a few steps, and how their results read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf import StateTrackConfig, StateTrackForCausalLM
from statetrack.recipes import boxes, lm_small, recipes, words
from statetrack.training.config import LengthConfig, OptimConfig


@pytest.mark.parametrize("preset", ["cpu", "large"])
def test_language_models_have_equal_parameters(preset):
    counts = []
    for name in lm_small.MODELS:
        c = lm_small.lm_config(name, "text", preset)
        config = StateTrackConfig(
            vocab_size=c.vocab_size,
            hidden_size=c.hidden_size,
            num_hidden_layers=c.num_hidden_layers,
            pattern=c.pattern,
            layer_options=c.layer_options,
            intermediate_size=c.intermediate_size,
        )
        counts.append(StateTrackForCausalLM(config).num_parameters())
    assert max(counts) / min(counts) < 1.005


def test_lm_small_needs_a_text(monkeypatch, tmp_path):
    monkeypatch.delenv(lm_small.TEXT.name, raising=False)
    with pytest.raises(InvalidInputError, match=r"STATETRACK_TEXT is not set; .*reads from it the path of a text file"):
        recipes.get("lm-small")().run(tmp_path)


@pytest.mark.slow
def test_lm_small_runs_and_keeps_what_is_done(monkeypatch, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n\n".join(f"It was day {n} and nobody had seen the cat." for n in range(90)), encoding="utf8")
    monkeypatch.setenv(lm_small.TEXT.name, str(text))
    small = lm_small.lm_config("deltanet", str(text), "cpu")
    folder = tmp_path / "out" / "deltanet"
    from statetrack.integrations.hf.pretraining import pretrain

    pretrain(replace(small, steps=2, evaluate_every=1, hidden_size=16, vocab_size=280, context=16), folder)
    told = []
    result = recipes.get("lm-small")().run(tmp_path / "out", only=["deltanet"], observer=told.append)
    assert [run["run"] for run in result["runs"]] == ["deltanet"] and result["runs"][0]["tokens"] == 2 * 8 * 16
    assert "| deltanet |" in (tmp_path / "out" / "lm-small_cpu.md").read_text() and told[0].startswith("deltanet:")


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("place", ["insert", "replace"])
def test_words_runs_every_way_on_a_tiny_backbone(monkeypatch, tmp_path, place):
    from transformers import LlamaConfig, LlamaForCausalLM

    from statetrack.integrations.hf.pretraining.corpus import train_tokenizer
    from statetrack.tasks.sentences import Sentences

    told = Sentences(theme="parity").told
    tokenizer = train_tokenizer([s for letter in told.train for s in letter], 300)

    def backbone(preset):
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return LlamaForCausalLM(config), tokenizer

    monkeypatch.setattr(words, "load_backbone", backbone)
    training = words.Training(2, 4, LengthConfig(low=1, high=3, start=2), OptimConfig(schedule="cosine"))
    monkeypatch.setitem(words.BUDGETS, "stories", words.Budget(place, -1, 0, 40, training, (2, 4), 32))
    lines = []
    result = recipes.get("words")().run(tmp_path, only=["parity-*"], observer=lines.append)
    assert [run["way"] for run in result["runs"]] == list(words.WAYS)
    assert all(0 <= share <= 1 for run in result["runs"] for kind in run["accuracy"].values() for share in kind.values())
    assert sum("new paraphrases" in line for line in lines) == 4
    assert sum("states of part" in line for line in lines) == 4, "three ways share what the frozen layers give"
    assert (tmp_path / "words_stories.md").read_text().count("| parity |") == 4
    head = next(run for run in result["runs"] if run["way"] == "head")
    assert head["trained_parameters"] == 2 * 8 + 2
    with pytest.raises(InvalidInputError, match="No run of words matches"):
        recipes.get("words")().run(tmp_path, only=["chess"])


def test_boxes_scores_whole_answers(monkeypatch, tmp_path):
    monkeypatch.setattr(boxes, "_N", 8)
    monkeypatch.setattr(boxes, "LENGTHS", (2, 8))
    full = boxes.boxes_config

    def small(layer):
        config = full(layer)
        return replace(
            config,
            steps=3,
            batch_size=4,
            evaluation=replace(config.evaluation, every=3, n=4),
            model=replace(config.model, d_model=8),
        )

    monkeypatch.setattr(boxes, "boxes_config", small)
    result = recipes.get("boxes")().run(tmp_path, workers=0, only=["mamba2"], observer=lambda line: None)
    (run,) = result["runs"]
    assert run["status"] == "done", run["error"]
    assert set(run["exact"]) == {"2", "8"}
    assert all(run["exact"][n] <= run["accuracy"][n] for n in run["exact"])
    assert "| mamba2 |" in (tmp_path / "boxes_cpu.md").read_text()
    assert json.loads((tmp_path / "boxes_cpu.json").read_text())["protocol"]["world"] == boxes.WORLD


@pytest.mark.parametrize("preset", ["stories", "smollm2"])
def test_the_stored_table_is_that_of_the_stored_runs(preset):
    folder = Path(__file__).parents[2] / "results"
    result = json.loads((folder / f"words_{preset}.json").read_text(encoding="utf8"))
    assert (folder / f"words_{preset}.md").read_text(encoding="utf8") == words.Words(preset).table(result) + "\n"
    assert result["runs"]
