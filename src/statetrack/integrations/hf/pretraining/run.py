"""A pre-training run: one folder with its configuration, tokenizer, tokens, metrics, checkpoints and exported model."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

import statetrack
from statetrack.errors import InvalidInputError, RunError
from statetrack.integrations.hf.configuration import StateTrackConfig
from statetrack.integrations.hf.modeling import StateTrackForCausalLM
from statetrack.integrations.hf.pretraining.config import PretrainConfig
from statetrack.integrations.hf.pretraining.corpus import (
    STREAMED,
    Documents,
    Ids,
    StoredDocuments,
    StreamedDocuments,
    encode,
    first_texts,
    load_tokenizer,
    read_documents,
    stream_documents,
    train_tokenizer,
)
from statetrack.tasks import stream
from statetrack.training.checkpoint import checkpoints
from statetrack.training.files import new_folder, read_json, write_json, write_text
from statetrack.training.revision import revision

_FORMAT = 1


class PretrainRun:
    """A pre-training run folder.

    Attributes:
        path: the folder.
        config: what is trained.
    """

    def __init__(self, path: Path, config: PretrainConfig) -> None:
        self.path, self.config = path, config

    @classmethod
    def create(cls, path: str | Path, config: PretrainConfig) -> PretrainRun:
        """A new folder with tokenizer and tokens. Raises ``RunError`` if there is something in it already."""
        path = Path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} already exists. Continue it with --resume {path}, or choose another folder with --out.")
        config.validate()
        run = cls(path, config)
        run._prepare()
        header = {"format": _FORMAT, "kind": "pretrain", "statetrack": statetrack.__version__, "revision": revision()}
        write_json(path / "config.json", {**header, "config": config.to_dict()})
        return run

    @classmethod
    def open(cls, path: str | Path) -> PretrainRun:
        """An existing run. Raises ``RunError`` if the folder holds none of this version."""
        path = Path(path)
        stored = read_json(path / "config.json") if (path / "config.json").exists() else None
        if not isinstance(stored, dict) or (stored.get("kind"), stored.get("format")) != ("pretrain", _FORMAT):
            raise RunError(f"{path} holds no pre-training run that this version ({statetrack.__version__}) can read.")
        try:
            return cls(path, PretrainConfig.from_dict(stored["config"]))
        except InvalidInputError as error:
            raise RunError(f"{path / 'config.json'} cannot be read: {error}") from error

    def _prepare(self) -> None:
        """Tokenizer, validation documents and, for a file, the training documents."""
        config = self.config
        streamed = config.text.startswith(STREAMED)
        if streamed:
            texts = first_texts(stream_documents(config.text))
            held, rest = texts[: config.held_out_documents], texts[config.held_out_documents :]
        else:
            texts = read_documents(config.text, config.separator)
            n = max(1, min(config.held_out_documents, round(config.held_out * len(texts))))
            order = stream(config.seed, "validation").permutation(len(texts))
            held, rest = [texts[i] for i in sorted(order[:n])], [texts[i] for i in sorted(order[n:])]
        tokenizer = train_tokenizer(rest, config.vocab_size) if config.tokenizer is None else load_tokenizer(config.tokenizer)
        arrays = _stored("validation", encode(tokenizer, held))
        if not streamed:
            arrays |= _stored("train", encode(tokenizer, rest))
        arrays["validation_bytes"] = np.array([sum(len(text.encode("utf8")) for text in held)], dtype=np.int64)
        with new_folder(self.path / "data") as folder:
            tokenizer.save_pretrained(folder)
            save_file(arrays, folder / "tokens.safetensors")

    def tokenizer(self) -> Any:
        """The tokenizer."""
        return load_tokenizer(self.path / "data")

    def documents(self) -> Documents:
        """Training documents."""
        if self.config.text.startswith(STREAMED):
            return StreamedDocuments(stream_documents(self.config.text), self.tokenizer(), self.config.held_out_documents)
        arrays = load_file(self.path / "data" / "tokens.safetensors")
        return StoredDocuments(arrays["train_ids"], arrays["train_offsets"], self.config.seed)

    def validation(self) -> tuple[list[Ids], int]:
        """Validation documents, and the bytes of their texts."""
        arrays = load_file(self.path / "data" / "tokens.safetensors")
        ids, offsets = arrays["validation_ids"], arrays["validation_offsets"]
        parts = [ids[first:last] for first, last in pairwise(offsets)]
        return parts, int(arrays["validation_bytes"][0])

    def build_model(self) -> StateTrackForCausalLM:
        """The model with its initial weights; the global random state is left as it was."""
        config, tokenizer = self.config, self.tokenizer()
        settings = StateTrackConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_hidden_layers,
            pattern=config.pattern,
            layer_options=config.layer_options,
            intermediate_size=config.intermediate_size,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence(config.seed).generate_state(1)[0]))
            return StateTrackForCausalLM(settings)

    @property
    def checkpoint_folder(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def exported(self) -> Path:
        """Folder of the finished model and its tokenizer, for ``AutoModelForCausalLM.from_pretrained``."""
        return self.path / "model"

    def latest_checkpoint(self) -> Path | None:
        """The newest checkpoint, if there is one."""
        found = checkpoints(self.checkpoint_folder)
        return found[-1] if found else None

    def log(self, record: dict[str, Any]) -> None:
        """Append one record to ``metrics.jsonl``."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf8") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All records."""
        path = self.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []

    def forget_after(self, step: int) -> None:
        """Drop records past a step, which a resumed run takes again."""
        kept = [json.dumps(record) + "\n" for record in self.metrics() if record["step"] <= step]
        write_text(self.path / "metrics.jsonl", "".join(kept))


def _stored(name: str, documents: list[Ids]) -> dict[str, Any]:
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    return {f"{name}_ids": np.concatenate(documents), f"{name}_offsets": offsets}
