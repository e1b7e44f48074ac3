"""State tracking in words: a frozen pre-trained language model, and what has to be trained in it to follow an automaton.

Four ways, read by the same linear head at the end of each sentence: nothing but the head; LoRA; Mamba-2 or Flash PD-SSM inserted
before the last decoder layer (stories260K) or in its place (SmolLM2). What lies below a trained layer reads every story once and
for all (``OUT/states``).
Trained on short stories; tested on longer ones, and with paraphrases that training never tells. Source: natural-language automata
of PD-SSM (arXiv 2509.22284, a figure: diagonal layers fail even on parity, PD generalises), whose sentences are not published.

The backbones are not part of the library: ``STATETRACK_BACKBONE`` names the folder of stories260K (preset ``stories``) or the
GGUF file of SmolLM2-135M (preset ``smollm2``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from statetrack.errors import InvalidInputError
from statetrack.recipes.base import Recipe, register
from statetrack.recipes.environment import BACKBONE
from statetrack.recipes.words_training import Training, train_reader
from statetrack.tasks import stream
from statetrack.tasks.sentences import Sentences
from statetrack.tasks.streams import Split
from statetrack.training.config import LengthConfig, OptimConfig
from statetrack.training.files import read_json, write_json, write_text
from statetrack.training.revision import revision

if TYPE_CHECKING:
    from statetrack.integrations.hf.reader import SentenceReader

THEMES = ("parity", "cycle")
WAYS = ("flash-pd-ssm", "mamba2", "lora", "head")
LAYERS: dict[str, dict[str, Any]] = {
    "flash-pd-ssm": {
        "d_state": 16,
        "n_heads": 4,
        "dictionary_size": 8,
        "dictionary_init": "permutation",
        "d_field": "real",
        "modulus": "unit",
        "additive_input": False,
    },
    "mamba2": {"d_state": 16, "d_head": 16},
}
LORA = {"r": 8, "lora_alpha": 16}


@dataclass(frozen=True)
class Budget:
    """Attributes:
    place: ``"insert"`` puts a layer before decoder layer ``first``, ``"replace"`` in its place.
    first: number of that decoder layer; what lies below is frozen.
    adapted: first decoder layer with an adapter (LoRA); below it nothing is trained either.
    n_train: training stories.
    training: how.
    test: sentences of test stories.
    n_test: test stories.
    lr: of each way, relative to that of the training.
    steps: of each way and of each theme, relative to those of the training.
    """

    place: Literal["insert", "replace"]
    first: int
    adapted: int
    n_train: int
    training: Training
    test: tuple[int, ...]
    n_test: int
    lr: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def of(self, theme: str, way: str) -> Training:
        """The training of a run."""
        optim = replace(self.training.optim, lr=self.training.optim.lr * self.lr.get(way, 1.0))
        share = self.steps.get(way, 1.0) * self.steps.get(theme, 1.0)
        return replace(self.training, optim=optim, steps=round(self.training.steps * share))


BUDGETS = {
    "stories": Budget(
        place="insert",
        first=-1,
        adapted=0,
        n_train=2048,
        training=Training(
            2500, 32, LengthConfig(low=1, high=8, start=4, growth=1.5, threshold=0.8), OptimConfig(lr=5e-3, schedule="cosine")
        ),
        test=(4, 8, 16, 32),
        n_test=256,
        lr={"lora": 0.6},
        steps={"lora": 0.2},
    ),
    "smollm2": Budget(
        place="replace",
        first=-1,
        adapted=15,
        n_train=640,
        training=Training(
            2500, 32, LengthConfig(low=1, high=16, start=6, growth=1.5, threshold=0.7), OptimConfig(lr=5e-3, schedule="cosine")
        ),
        test=(4, 8, 16, 32),
        n_test=64,
        lr={"lora": 0.3},
        steps={"lora": 0.1, "head": 0.1, "parity": 0.6},
    ),
}
_KEPT = 21
"""Decoder layers of SmolLM2 that are used, of 30. What a sentence has said is easiest to read behind the twentieth."""

_PART = 32
"""Stories of a part, which are read by the frozen layers together and kept in one file."""


def load_backbone(preset: str) -> tuple[Any, Any]:
    """Model and tokenizer. Raises ``InvalidInputError`` unless ``STATETRACK_BACKBONE`` names them."""
    from statetrack.integrations.hf.backbones import load_gguf_llama, load_llama2c, truncated

    given = BACKBONE.path("words")
    if preset == "stories":
        return load_llama2c(given / "stories260K.bin", given / "tok512.bin")
    model, tokenizer = load_gguf_llama(given)
    return truncated(model, _KEPT), tokenizer


def prepared(way: str, model: Any, n_classes: int, budget: Budget, ticks: list[int]) -> SentenceReader:
    """A reader of which only the head, and what the way adds to the model, is trained; a layer of ours reads only ``ticks``."""
    from statetrack.integrations.hf import insert_layers, replace_layers
    from statetrack.integrations.hf.frozen import FrozenPart
    from statetrack.integrations.hf.reader import SentenceReader

    first, n = budget.adapted if way == "lora" else budget.first, model.config.num_hidden_layers
    model.requires_grad_(False)
    if way == "lora":
        from peft import LoraConfig, get_peft_model

        adapted = "|".join(str(i) for i in range(first % n, n))
        model = get_peft_model(model, LoraConfig(**LORA, target_modules=rf".*\.layers\.({adapted})\..*_proj"))
    elif way != "head":
        (insert_layers if budget.place == "insert" else replace_layers)(model, way, [first], ticks=ticks, **LAYERS[way])
    return SentenceReader(model, n_classes, FrozenPart(model, first) if first % n else None)


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
                write_json(path, self._run(name, theme, way, out, observer))
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
            "n_train": budget.n_train,
            "train_sentences": [budget.training.lengths.low, budget.training.lengths.high],
            "labels": "end of every sentence in training; after the sentences named in tests",
            "test_sentences": list(budget.test),
            "n_test": budget.n_test,
            "split": "test, used once after training; shorter stories are beginnings of the longest",
            "decoder_layers": _KEPT if self.preset == "smollm2" else "all",
            "place": f"{budget.place} {budget.first}",
            "ticks": "ends of sentences: our layers read no other tokens",
            "layers": LAYERS,
            "lora": {**LORA, "target_modules": "all matrices", "from_decoder_layer": budget.adapted},
            "training": {f"{theme}-{way}": asdict(budget.of(theme, way)) for theme in THEMES for way in WAYS},
        }

    def _run(self, name: str, theme: str, way: str, out: Path, observer: Callable[[str], None]) -> dict[str, Any]:
        from statetrack.integrations.hf.insertion import inserted_layers
        from statetrack.integrations.hf.reader import Stories, end_tokens, join, tell
        from statetrack.integrations.hf.shelf import shelved

        budget, task = BUDGETS[self.preset], Sentences(theme=theme)
        model, tokenizer = load_backbone(self.preset)
        ticks = end_tokens(tell(task, tokenizer, [1] * _PART, stream(0, "train", 0)))
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            reader = prepared(way, model, task.told.automaton.n_outputs, budget, ticks)

        def shelf(kind: str, split: Split, length: int, n: int) -> Stories:
            told = Sentences(theme=theme, paraphrases=kind)

            def part(i: int) -> Stories:
                return tell(told, tokenizer, [length] * _PART, stream(0, split, i))

            folder, n_parts = out / "states" / f"{theme}-{split}-{kind}-{length}", -(-n // _PART)
            if reader.frozen is None:
                return join([part(i) for i in range(n_parts)])
            return shelved(folder, part, n_parts, reader.frozen, observer)

        train = shelf("train", "train", budget.training.lengths.high, budget.n_train)
        for inserted in inserted_layers(model):
            assert train.states is not None
            inserted.fit_norm(train.states[torch.isin(train.input_ids, torch.tensor(ticks)) & (train.attention_mask > 0)])
        reached = train_reader(
            reader, train, budget.of(theme, way), out / "runs" / name, lambda line: observer(f"{name}: {line}")
        )
        reader.eval()
        accuracy: dict[str, dict[str, float]] = {}
        for kind in ("train", "new"):
            test = shelf(kind, "test", max(budget.test), budget.n_test)
            right = torch.cat([reader.right(test.pick(rows)) for rows in torch.arange(len(test.ends)).split(_PART)])
            accuracy[kind] = {str(n): right[:, n].float().mean().item() for n in budget.test}
        trained = sum(parameter.numel() for parameter in reader.parameters() if parameter.requires_grad)
        return {
            "run": name,
            "theme": theme,
            "way": way,
            "trained_parameters": trained,
            "longest_trained": int(reached.curriculum.longest),
            "accuracy": accuracy,
            "chance": task.chance,
            "cpu_minutes": round(reached.cpu_seconds / 60, 2),
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
