"""``statetrack lm-eval``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from statetrack.cli.console import print_json
from statetrack.cli.options import Flag, parse
from statetrack.errors import InvalidInputError

PROG = "statetrack lm-eval"


@dataclass(frozen=True)
class LmEvalOptions:
    """Evaluate a language model with the lm-evaluation-harness.

    Attributes:
        model: folder of a model that transformers can load, or a run folder of statetrack pretrain.
        tasks: boxes, sentences-parity, sentences-cycle or sentences-A5, which run offline; or names of the harness's own.
        length: operations or sentences of the stories of our tasks.
        n: stories of each of our tasks.
        limit: examples of each of the harness's tasks; none means all.
        json: print one JSON object in place of lines.
    """

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    tasks: tuple[str, ...] = ("sentences-parity",)
    length: int = 6
    n: int = 100
    limit: int | None = None
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(LmEvalOptions, argv, PROG)
    import statetrack.integrations.hf  # noqa: F401 (registers our models)
    from statetrack.integrations.lm_eval import OWN, evaluate, write_task

    from transformers import AutoModelForCausalLM, AutoTokenizer  # isort: skip (after the extra is known to be there)

    folder = options.model / "model" if (options.model / "model").is_dir() else options.model
    if not (folder / "config.json").is_file():
        raise InvalidInputError(f"{options.model} holds no model: there is no config.json in {folder}.")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found: dict[str, Any] = {}
    own = [name for name in options.tasks if name in OWN]
    if own:
        with tempfile.TemporaryDirectory() as place:
            names = [write_task(name, Path(place), length=options.length, n=options.n) for name in own]
            found |= evaluate(model, tokenizer, names, folder=Path(place))
    theirs = [name for name in options.tasks if name not in OWN]
    if theirs:
        found |= evaluate(model, tokenizer, theirs, limit=options.limit)
    if options.json:
        print_json(found)
        return 0
    for task, scores in found.items():
        print(task + ": " + ", ".join(f"{name.split(',')[0]} {value:.3f}" for name, value in scores.items() if value == value))
    return 0
