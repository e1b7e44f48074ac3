"""State tracking in words: a frozen pre-trained language model, and what has to be trained in it to follow an automaton.

Four ways, read by the same linear head at the end of each sentence: nothing but the head; LoRA on all matrices; Mamba-2 or Flash
PD-SSM inserted before the last decoder layer. Trained on short stories; tested on longer ones, and with paraphrases that training
never tells. Source: natural-language automata of PD-SSM (arXiv 2509.22284, a figure: diagonal layers fail even on parity, PD
generalises), whose sentences are not published.

The backbones are not part of the library: ``STATETRACK_BACKBONE`` names the folder of stories260K (preset ``stories``) or the
GGUF file of SmolLM2-135M (preset ``smollm2``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from statetrack.errors import InvalidInputError
from statetrack.recipes.base import Recipe, register
from statetrack.tasks import stream
from statetrack.tasks.sentences import Sentences
from statetrack.training.config import LengthConfig, OptimConfig
from statetrack.training.curriculum import Curriculum
from statetrack.training.files import read_json, write_json, write_text
from statetrack.training.optim import cosine, parameter_groups
from statetrack.training.revision import revision

if TYPE_CHECKING:
    from statetrack.integrations.hf.reader import SentenceReader

BACKBONE = "STATETRACK_BACKBONE"
THEMES = ("parity", "cycle")
WAYS = ("flash-pd-ssm", "mamba2", "lora", "head")
_FLASH = {
    "d_state": 4,
    "n_heads": 16,
    "dictionary_size": 4,
    "dictionary_init": "permutation",
    "modulus": "unit",
    "additive_input": False,
}
LAYERS: dict[str, dict[str, Any]] = {"flash-pd-ssm": _FLASH, "mamba2": {"d_state": 16, "d_head": 16}}


@dataclass(frozen=True)
class Budget:
    """Attributes:
    steps: of training.
    batch_size: stories of a step.
    lengths: sentences of training stories, with their curriculum.
    test: sentences of test stories.
    n_test: test stories of each length.
    lr: peak learning rate.
    """

    steps: int
    batch_size: int
    lengths: LengthConfig
    test: tuple[int, ...]
    n_test: int
    lr: float = 3e-3


BUDGETS = {
    "stories": Budget(500, 32, LengthConfig(low=1, high=8, start=2, growth=2.0, threshold=0.9), (4, 8, 16, 32), 64, lr=1e-2),
    "smollm2": Budget(4000, 16, LengthConfig(low=1, high=25, start=2, growth=2.0, threshold=0.9), (12, 25, 40, 80), 128, lr=3e-3),
}
_LORA_LR = 0.3
"""Learning rate of adapters, relative to that of the others: they change every layer at once."""


def load_backbone(preset: str) -> tuple[Any, Any]:
    """Model and tokenizer. Raises ``InvalidInputError`` unless ``STATETRACK_BACKBONE`` names them."""
    from statetrack.integrations.hf.backbones import load_gguf_llama, load_llama2c

    given = os.environ.get(BACKBONE, "")
    if not given or not Path(given).exists():
        raise InvalidInputError(f"Set {BACKBONE} to the backbone of preset {preset}; {given!r} is none.")
    if preset == "stories":
        return load_llama2c(Path(given) / "stories260K.bin", Path(given) / "tok512.bin")
    return load_gguf_llama(given)


def prepared(way: str, model: Any, n_classes: int) -> SentenceReader:
    """A reader of which only the head, and what the way adds to the frozen model, is trained."""
    from statetrack.integrations.hf import insert_layers
    from statetrack.integrations.hf.reader import SentenceReader

    model.requires_grad_(False)
    if way == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    elif way != "head":
        insert_layers(model, way, [-1], **LAYERS[way])
    return SentenceReader(model, n_classes)


@register("words")
class Words(Recipe):
    """Four ways to teach a frozen language model parity and cycle navigation in words."""

    name = "words"
    summary = (
        "Parity and a walk on a ring told in words: Flash PD-SSM and Mamba-2 in a frozen language model, LoRA, a linear head"
    )
    presets = ("stories", "smollm2")

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Do what is not done yet, one after another in this process; ``only`` matches names such as ``parity-lora``.

        Raises:
            InvalidInputError: ``STATETRACK_BACKBONE`` names no backbone, or nothing matches ``only``.
        """
        only = tuple(only)
        names = [(f"{theme}-{way}", theme, way) for theme in THEMES for way in WAYS]
        wanted = [name for name, *_ in names if any(fnmatch(name, pattern) for pattern in only)]
        if not wanted:
            raise InvalidInputError(f"No run of {self.name} matches {', '.join(only)}; they are called like parity-lora.")
        runs = []
        for name, theme, way in names:
            path = out / "runs" / f"{name}.json"
            if name in wanted and not path.exists():
                write_json(path, self._run(name, theme, way))
            if path.exists():
                runs.append(read_json(path))
                shown = ", ".join(f"{100 * v:.1f} % at {k}" for k, v in runs[-1]["accuracy"]["new"].items())
                observer(f"{name}: new paraphrases {shown}; {runs[-1]['cpu_minutes']:.1f} CPU-minutes")
        result = {"recipe": self.name, "preset": self.preset, "protocol": self.protocol(), "runs": runs}
        write_json(out / f"{self.name}_{self.preset}.json", result)
        write_text(out / f"{self.name}_{self.preset}.md", self.table(result) + "\n")
        return result

    def protocol(self) -> dict[str, Any]:
        """What all runs share."""
        budget = BUDGETS[self.preset]
        return {
            "train_sentences": [budget.lengths.low, budget.lengths.high],
            "labels": "end of every sentence in training; the last one in tests",
            "test_sentences": list(budget.test),
            "n_per_length": budget.n_test,
            "split": "test, used once after training",
            "inserted_before": "the last decoder layer",
            "layers": LAYERS,
            "lora": {"r": 8, "alpha": 16, "target_modules": "all-linear", "lr": budget.lr * _LORA_LR},
            "optimiser": {"lr": budget.lr, "steps": budget.steps, "batch_size": budget.batch_size},
        }

    def _run(self, name: str, theme: str, way: str) -> dict[str, Any]:
        from statetrack.integrations.hf.reader import tell

        budget, task = BUDGETS[self.preset], Sentences(theme=theme)
        model, tokenizer = load_backbone(self.preset)
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            reader = prepared(way, model, task.told.automaton.n_outputs)
        began = time.process_time()
        longest = train_reader(reader, task, tokenizer, replace(budget, lr=budget.lr * (_LORA_LR if way == "lora" else 1.0)))
        minutes = (time.process_time() - began) / 60
        reader.eval()
        accuracy: dict[str, dict[str, float]] = {}
        for kind in ("train", "new"):
            told = Sentences(theme=theme, paraphrases=kind)
            shares = {}
            for n in budget.test:
                found = [
                    reader.accuracy(tell(told, tokenizer, [n] * 32, stream(0, "test", 1000 * n + part)))
                    for part in range(budget.n_test // 32)
                ]
                shares[str(n)] = sum(found) / len(found)
            accuracy[kind] = shares
        trained = sum(parameter.numel() for parameter in reader.parameters() if parameter.requires_grad)
        return {
            "run": name,
            "theme": theme,
            "way": way,
            "trained_parameters": trained,
            "longest_trained": longest,
            "accuracy": accuracy,
            "chance": task.chance,
            "cpu_minutes": round(minutes, 2),
            "revision": revision(),
        }

    def table(self, result: dict[str, Any]) -> str:
        """Accuracy (%) by number of sentences: paraphrases of training, then new ones."""
        lengths = [str(n) for n in result["protocol"]["test_sentences"]]
        heads = [f"{n} sentences" for n in lengths] + [f"{n}, new words" for n in lengths]
        lines = [
            "| story | trained | parameters | " + " | ".join(heads) + " | CPU min |",
            "|---|---|---|" + "---|" * (len(heads) + 1),
        ]
        for run in result["runs"]:
            shares = [run["accuracy"][kind][n] for kind in ("train", "new") for n in lengths]
            cells = " | ".join(f"{100 * share:.1f}" for share in shares)
            lines.append(
                f"| {run['theme']} | {run['way']} | {run['trained_parameters']:,} | {cells} | {run['cpu_minutes']:.1f} |"
            )
        chances = {run["theme"]: run["chance"] for run in result["runs"]}
        lines.append("\nChance: " + ", ".join(f"{theme} {100 * share:.0f} %" for theme, share in chances.items()) + ".")
        return "\n".join(lines)


def train_reader(reader: SentenceReader, task: Sentences, tokenizer: Any, budget: Budget) -> int:
    """Train what requires gradients; returns the longest stories that the curriculum has reached, in sentences."""
    from statetrack.integrations.hf.reader import tell

    settings = OptimConfig(lr=budget.lr, schedule="cosine")
    groups = parameter_groups(reader, settings.weight_decay)
    groups = [{**group, "params": [p for p in group["params"] if p.requires_grad]} for group in groups]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=budget.lr)
    parameters = [parameter for group in groups for parameter in group["params"]]
    curriculum = Curriculum.begin(budget.lengths)
    reader.train()
    for step in range(budget.steps):
        generator = stream(0, "train", step)
        lengths = curriculum.draw(budget.batch_size, budget.lengths, generator)
        loss, accuracy = reader.loss(tell(task, tokenizer, lengths.tolist(), generator))
        warm = min(1.0, (step + 1) / (0.05 * budget.steps))
        for group in optimizer.param_groups:
            group["lr"] = warm * cosine(step / budget.steps, budget.lr, settings.min_lr)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
        optimizer.step()
        curriculum.update(accuracy, budget.lengths)
    return int(curriculum.longest)
