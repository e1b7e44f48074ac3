"""Language models of equal size on equal text: DeltaNet, Flash PD-SSM, Delta-PD (Flash PD-SSM every third layer), transformer.

Published, on 100 billion tokens of FineWeb at 100M parameters (Flash PD-SSM, arXiv 2605.19150; losses in nats per token):
Delta-PD 2.81, DeltaNet 2.85, Flash PD-SSM 3.08. Ours see five orders of magnitude less text: what can be compared is the order.

The text is not part of the library: ``STATETRACK_TEXT`` names a file with one document after another, three line breaks between
them. Results name it by its size and checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statetrack.errors import InvalidInputError, RunError
from statetrack.layers import make_layer, make_stack
from statetrack.recipes.base import Recipe, register
from statetrack.recipes.environment import TEXT
from statetrack.training.config import OptimConfig
from statetrack.training.files import read_json, write_json, write_text

if TYPE_CHECKING:
    from statetrack.integrations.hf.pretraining import PretrainConfig

PUBLISHED = {"delta-pd": 2.81, "deltanet": 2.85, "flash-pd-ssm": 3.08}
"""Loss in nats per token at 100M parameters after 100 billion tokens."""

_DELTA_PD = "deltanet,deltanet,flash-pd-ssm"
MODELS = {"delta-pd": _DELTA_PD, "deltanet": "deltanet", "flash-pd-ssm": "flash-pd-ssm", "transformer": "transformer"}
"""Name of a model to its pattern."""


@dataclass(frozen=True)
class Size:
    """Attributes:
    width: of the models.
    vocabulary: of the tokenizer.
    heads: of Flash PD-SSM, with 16 places each.
    steps: of 2,048 tokens.
    """

    width: int
    vocabulary: int
    heads: int
    steps: int


SIZES = {"cpu": Size(256, 2048, 16, 600), "large": Size(256, 4096, 16, 20_000)}
_BLOCKS = 6


def lm_config(model: str, text: str, preset: str) -> PretrainConfig:
    """Settings of one model; all share the tokenizer, the order of the text and the schedule."""
    from statetrack.integrations.hf.pretraining import PretrainConfig

    pattern, size = MODELS[model], SIZES[preset]
    flash = {"d_state": 16, "n_heads": size.heads, "dictionary_size": 16, "d_generator": "affine"}
    options = {key if pattern == "flash-pd-ssm" else f"flash-pd-ssm.{key}": value for key, value in flash.items()}
    options = options if "flash-pd-ssm" in pattern else {}
    return PretrainConfig(
        text,
        pattern=pattern,
        layer_options=options,
        hidden_size=size.width,
        num_hidden_layers=_BLOCKS,
        intermediate_size=_feedforward(pattern, options, size.width),
        vocab_size=size.vocabulary,
        context=256,
        batch_size=8,
        steps=size.steps,
        optim=OptimConfig(lr=3e-3, min_lr=1e-4, schedule="cosine", weight_decay=0.1, beta2=0.95),
        evaluate_every=size.steps // 5,
    )


def _feedforward(pattern: str, options: dict[str, Any], width: int) -> int:
    """Hidden width at which a model has as many parameters as DeltaNet with a hidden width of 11/4 of its own."""
    layers = make_stack(pattern.replace(",", "|"), _BLOCKS, width, **options)
    mine = sum(parameter.numel() for layer in layers for parameter in layer.parameters())
    theirs = _BLOCKS * sum(parameter.numel() for parameter in make_layer("deltanet", width).parameters())
    return round(2.75 * width - (mine - theirs) / (3 * width * _BLOCKS))


def train_model(model: str, text: str, preset: str, folder: Path) -> dict[str, Any]:
    """Train a model, or go on with it; the last record of its run."""
    from statetrack.integrations.hf.pretraining import PretrainRun, pretrain, resume_pretraining

    if (folder / "config.json").exists():
        run = PretrainRun.open(folder)
        run = run if run.exported.exists() else resume_pretraining(folder)
    else:
        run = pretrain(lm_config(model, text, preset), folder)
    return run.metrics()[-1]


@register("lm-small")
class LmSmall(Recipe):
    """Four small language models on one text."""

    name = "lm-small"
    summary = "Language models of equal size on equal text: DeltaNet, Flash PD-SSM, Delta-PD, transformer"
    presets = ("cpu", "large")

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Train what is not trained yet; see ``Recipe.run``.

        Raises:
            InvalidInputError: ``STATETRACK_TEXT`` names no file, or no model matches ``only``.
        """
        text = str(TEXT.path(self.name))
        only = tuple(only)
        wanted = [model for model in MODELS if any(fnmatch(model, pattern) for pattern in only)]
        if not wanted:
            raise InvalidInputError(f"No model of {self.name} matches {', '.join(only)}; they are {', '.join(MODELS)}.")
        # A process for each model, so that the memory that is measured is its own.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            jobs = {model: pool.submit(train_model, model, text, self.preset, out / model) for model in wanted}
            for model, job in jobs.items():
                observer(self._line(model, job.result()))
        content = Path(text).read_bytes()
        result = {
            "recipe": self.name,
            "preset": self.preset,
            "text": {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
            "runs": [entry for model in MODELS if (entry := self._entry(model, out / model)) is not None],
        }
        write_json(out / f"{self.name}_{self.preset}.json", result)
        write_text(out / f"{self.name}_{self.preset}.md", self.table(result) + "\n")
        return result

    def _entry(self, model: str, folder: Path) -> dict[str, Any] | None:
        from statetrack.integrations.hf.pretraining import PretrainRun

        try:
            run = PretrainRun.open(folder)
        except RunError:
            return None
        if not run.exported.exists():
            return None
        records, settings = run.metrics(), run.config.to_dict()
        settings.pop("text")
        last = records[-1]
        return {
            "run": model,
            "parameters": run.build_model().num_parameters(),
            "tokens": last["tokens"],
            "loss": round(last["validation"], 4),
            "bits_per_byte": round(last["bits_per_byte"], 4),
            "curve": [[record["tokens"], round(record["validation"], 4)] for record in records if "validation" in record],
            "tokens_per_cpu_second": round(last["tokens"] / last["cpu_seconds"]),
            "cpu_minutes": round(last["cpu_seconds"] / 60, 2),
            "peak_mib": round(max(record["peak_kib"] for record in records) / 1024),
            "settings": settings,
            "revision": read_json(folder / "config.json")["revision"],
        }

    def _line(self, model: str, last: dict[str, Any]) -> str:
        return f"{model}: {last['validation']:.3f} nats per token, {last['cpu_seconds'] / 60:.1f} CPU-minutes"

    def table(self, result: dict[str, Any]) -> str:
        """Validation loss, speed and memory; the published losses beside them."""
        lines = [
            "| model | parameters | tokens | loss (nats per token) | bits per byte | tokens per CPU-second | peak MiB | CPU min "
            "| published loss, 100M parameters |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for run in sorted(result["runs"], key=lambda run: float(run["loss"])):
            told = PUBLISHED.get(run["run"])
            lines.append(
                f"| {run['run']} | {run['parameters']:,} | {run['tokens']:,} | {run['loss']:.3f} | {run['bits_per_byte']:.3f} "
                f"| {run['tokens_per_cpu_second']:,} | {run['peak_mib']:,} | {run['cpu_minutes']:.1f} "
                f"| {'' if told is None else told} |"
            )
        return "\n".join(lines)
