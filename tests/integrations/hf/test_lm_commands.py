"""``statetrack pretrain`` and ``statetrack lm-eval`` in this process, on a text of a few sentences."""

import json

import pytest
from transformers import AutoModelForCausalLM

from statetrack.cli import main
from statetrack.errors import UnknownNameError
from statetrack.integrations.lm_eval import write_task
from statetrack.tasks.sentences import Sentences

TINY = [
    *("--hidden-size", "8", "--num-hidden-layers", "2", "--pattern", "deltanet,flash-pd-ssm", "--vocab-size", "300"),
    *("--context", "16", "--batch-size", "2", "--steps", "4", "--evaluate-every", "2", "--checkpoint-every", "2"),
    *("--held-out", "0.2"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    text = "\n\n".join(f"Tom pressed the switch {n} times. Now the lamp is off." for n in range(30))
    (folder / "text.txt").write_text(text, encoding="utf8")
    options = ["--out", str(folder / "run"), "--separator", "\\n\\n", "--layer-options", '{"flash-pd-ssm.d_state": 4}']
    assert main(["pretrain", str(folder / "text.txt"), *options, *TINY]) == 0
    return folder


def test_pretraining_leaves_a_model(run_folder, capsys):
    model = AutoModelForCausalLM.from_pretrained(run_folder / "run" / "model")
    assert model.config.pattern == "deltanet,flash-pd-ssm"
    assert main(["pretrain", "--resume", str(run_folder / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["step"] == 4 and told["tokens"] == 4 * 2 * 16


def test_the_harness_scores_our_tasks(run_folder, capsys, monkeypatch):
    pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(run_folder / "cache"))
    words = ["lm-eval", str(run_folder / "run"), "--tasks", "sentences-parity", "boxes", "--n", "4", "--length", "2", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["statetrack-sentences-parity-2"]["acc,none"] <= 1
    assert found["statetrack-boxes-2"]["exact_match,none"] == 0


def test_written_tasks_hold_held_out_stories(tmp_path):
    name = write_task("sentences-cycle", tmp_path, length=3, n=5)
    rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text(encoding="utf8").splitlines()]
    told = Sentences(theme="cycle").told
    assert len(rows) == 5 and all(row["answer"] in told.answers for row in rows)
    assert not any(sentence in row["prompt"] for row in rows for letter in told.train for sentence in letter)
    with pytest.raises(UnknownNameError, match="Did you mean 'boxes'"):
        write_task("boxs", tmp_path, length=3, n=5)


@pytest.mark.parametrize(
    "words, message",
    [
        (["pretrain"], "TEXT comes first"),
        (["pretrain", "x.txt", "--layer-options", "[1]"], "must be a JSON object"),
        (["pretrain", "x.txt", "--out", "{}/x"], "cannot be read as text"),
        (["pretrain", "--resume", "{}"], "holds no pre-training run"),
        (["lm-eval", "{}"], "holds no model"),
    ],
)
def test_what_is_refused(words, message, tmp_path, capsys):
    assert main([word.format(tmp_path) for word in words]) == 2
    assert message in capsys.readouterr().err
