"""The lm-evaluation-harness: any of its tasks, and ours in words, which run offline.

Ours are multiple choice over all answers of an automaton, or, for boxes, text that has to match to the word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statetrack.errors import InvalidInputError, MissingExtraError, UnknownNameError
from statetrack.tasks import stream
from statetrack.tasks.boxes import Boxes
from statetrack.tasks.sentences import Sentences

OWN = ("boxes", "sentences-parity", "sentences-cycle", "sentences-A5")
"""Names of our tasks in words."""


def write_task(name: str, folder: Path, *, length: int, n: int, seed: int = 0) -> str:
    """Write one of our tasks for the harness: a YAML file and its examples.

    Args:
        name: one of ``OWN``.
        folder: where to.
        length: operations or sentences of a story.
        n: number of stories, of held-out data.
        seed: of the stories.

    Returns:
        The name under which the harness knows it.

    Raises:
        UnknownNameError: no such task.
    """
    if name not in OWN:
        raise UnknownNameError("task in words", name, OWN)
    if length < 0 or n < 1:
        raise InvalidInputError(f"length must be at least 0 and n at least 1; got {length} and {n}.")
    generator, known = stream(seed, "test"), f"statetrack-{name}-{length}"
    settings: dict[str, Any] = {
        "task": known,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / f"{known}.jsonl")}},
        "test_split": "test",
        "doc_to_text": "{{prompt}}",
        "metadata": {"version": 1.0},
    }
    rows = []
    if name == "boxes":
        boxes = Boxes().held_out()
        rows = [_row(boxes.example(length, generator)) for _ in range(n)]
        settings |= {
            "output_type": "generate_until",
            "doc_to_target": "{{answer}}",
            "target_delimiter": " ",
            "generation_kwargs": {"until": ["."], "max_gen_toks": 48, "do_sample": False},
            "metric_list": [{"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True}],
        }
    else:
        told = Sentences(theme=name.removeprefix("sentences-"), paraphrases="new")
        rows = [_row(told.example(length, generator)) for _ in range(n)]
        settings |= {
            "output_type": "multiple_choice",
            "doc_to_choice": list(told.told.answers),
            "doc_to_target": "{{answer}}",
            "target_delimiter": " ",
            "metric_list": [{"metric": "acc"}],
        }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{known}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")
    # JSON is YAML.
    (folder / f"{known}.yaml").write_text(json.dumps(settings, indent=1), encoding="utf8")
    return known


def evaluate(
    model: Any, tokenizer: Any, tasks: list[str], *, folder: Path | None = None, limit: int | None = None
) -> dict[str, Any]:
    """Scores of a model by task.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer.
        tasks: names that the harness knows: its own (for which it needs a network), or those that ``write_task`` returned.
        folder: of ``write_task``; None leaves our tasks out.
        limit: examples of each task; None means all.

    Raises:
        MissingExtraError: without the harness.
    """
    try:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise MissingExtraError("lm_eval", "lm-eval", "The evaluation harness") from error
    manager = TaskManager(include_path=None if folder is None else str(folder), include_defaults=folder is None)
    wrapped = HFLM(pretrained=model, tokenizer=tokenizer, device=str(model.device), batch_size=8)
    found = simple_evaluate(wrapped, tasks=tasks, task_manager=manager, bootstrap_iters=0, limit=limit, log_samples=False)
    scores: dict[str, Any] = found["results"]
    return {
        task: {key: value for key, value in entry.items() if isinstance(value, float | int)} for task, entry in scores.items()
    }


def _row(example: Any) -> dict[str, str]:
    return {"prompt": example.prompt, "answer": example.answer}
