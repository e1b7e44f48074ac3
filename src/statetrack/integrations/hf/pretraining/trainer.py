"""The loop of pre-training: the same on one CPU and, under ``torchrun``, on many machines.

Every process draws the same rows and works on its share. Where the next row begins in the text belongs to the checkpoint, so a
run that was killed goes on with the very tokens it would have seen.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from statetrack.errors import NumericalError
from statetrack.integrations.hf.pretraining.config import PretrainConfig
from statetrack.integrations.hf.pretraining.packing import Packed, Packer, packed, packed_pieces, pieces
from statetrack.integrations.hf.pretraining.run import PretrainRun
from statetrack.integrations.hf.pretraining.sharding import shard
from statetrack.training.checkpoint import load_tensors, write_checkpoint
from statetrack.training.distributed import Workers
from statetrack.training.files import new_folder, read_json
from statetrack.training.interrupt import StopRequest
from statetrack.training.lock import locked
from statetrack.training.optim import learning_rate, make_optimizer, progress
from statetrack.training.reading import from_plain

Observer = Callable[[dict[str, Any]], None]
"""Called after every step with its record: step, steps, loss, lr, tokens, tokens_per_second, and validation when there is one."""

_LOG_EVERY = 10


@dataclass
class Position:
    """Where a run stands, besides its weights.

    Attributes:
        step: steps taken.
        document: document in which the next row begins.
        offset: token of it.
        cpu_seconds: processor time spent on training by this process.
        validation: last validation loss, nats per token.
        bits_per_byte: the same as bits per byte of text.
    """

    step: int = 0
    document: int = 0
    offset: int = 0
    cpu_seconds: float = 0.0
    validation: float | None = None
    bits_per_byte: float | None = None


def pretrain(config: PretrainConfig, out: str | Path, *, observer: Observer | None = None) -> PretrainRun:
    """Pre-train from scratch into a new run folder.

    Raises:
        RunError: the folder is in use.
        NumericalError: the loss is not a number.
        InvalidInputError: a configuration that cannot run, or a text that cannot be read.
    """
    workers = Workers.join()
    run = PretrainRun.create(out, config) if workers.leads else PretrainRun(Path(out), config)
    workers.wait()
    return Pretrainer(run, workers, observer).train()


def resume_pretraining(path: str | Path, *, observer: Observer | None = None) -> PretrainRun:
    """Continue a run from its newest checkpoint (from the start if it has none). Raises ``RunError`` if there is no run."""
    return Pretrainer(PretrainRun.open(path), Workers.join(), observer).train(resumed=True)


class Pretrainer:
    """One run in progress."""

    def __init__(self, run: PretrainRun, workers: Workers, observer: Observer | None) -> None:
        self.run, self.config, self.workers, self.observer = run, run.config, workers, observer
        torch.set_num_threads(self.config.threads)
        self.device = torch.device("cuda", workers.rank % torch.cuda.device_count()) if torch.cuda.is_available() else None
        self.model = run.build_model().to(self.device or "cpu")
        self.position = Position()
        self.tokens_per_step = self.config.batch_size * self.config.context

    def train(self, *, resumed: bool = False) -> PretrainRun:
        """Take all steps that are left, and export the model."""
        with locked(self.run.path) if self.workers.leads else nullcontext():
            self._begin(self.run.latest_checkpoint() if resumed else None)
            if resumed and self.workers.leads:
                self.run.forget_after(self.position.step)
            try:
                with StopRequest() as stop:
                    while self.position.step < self.config.steps:
                        self._timed_step()
                        if self.position.step % self.config.checkpoint_every == 0 or self.position.step == self.config.steps:
                            self._save()
                        stop.check()
                self._export()
            except KeyboardInterrupt:
                self._save()
                raise
            finally:
                self.workers.leave()
        return self.run

    def _begin(self, checkpoint: Path | None) -> None:
        """Weights, shards, optimiser and place in the text."""
        if checkpoint is not None:
            weights, moments = load_tensors(checkpoint)
            self.model.load_state_dict(weights, strict=False)
            self.position = from_plain(Position, read_json(checkpoint / "progress.json"))
        self.shards = shard(self.model, self.config.sharding, self.workers)
        self.optimizer = make_optimizer(self.model, self.config.optim)
        if checkpoint is not None:
            self.shards.load_moments(self.optimizer, moments)
        self.packer = Packer(self.run.documents(), self.config.context, self.position.document, self.position.offset)

    def _timed_step(self) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        record = self._step()
        self.position.cpu_seconds += time.process_time() - cpu
        record["tokens_per_second"] = round(self.tokens_per_step / (time.perf_counter() - wall), 1)
        now, last = self.position, self.position.step == self.config.steps
        if last or now.step % self.config.evaluate_every == 0:
            now.validation, now.bits_per_byte = self._validate()
            record |= {"validation": now.validation, "bits_per_byte": now.bits_per_byte}
        if self.workers.leads and (last or now.step % _LOG_EVERY == 0 or "validation" in record):
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.run.log({**record, "cpu_seconds": round(now.cpu_seconds, 3), "peak_kib": memory})
        if self.observer is not None:
            self.observer({**record, "steps": self.config.steps, "finished": last})

    def _step(self) -> dict[str, Any]:
        now, config = self.position, self.config
        where = (now.step, config.steps, None, config.optim)
        lr = learning_rate(*where)
        self.model.set_progress(progress(*where))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        ids, starts = self.packer.rows(config.batch_size)
        share = slice(self.workers.rank, None, self.workers.count)
        batch = packed(ids[share], starts[share])
        total = float(self.workers.total(torch.tensor(float(batch.n_labels))))
        self.model.train()
        loss = self._loss_sum(batch)
        loss_sum = float(self.workers.total(loss.detach().double().cpu()))
        if not math.isfinite(loss_sum):
            raise NumericalError(f"The loss is not finite at step {now.step}; begin a new run with a lower --optim.lr.")
        self.optimizer.zero_grad(set_to_none=True)
        (loss * self.shards.gradient_scale / total).backward()
        self.shards.sum_gradients()
        if config.optim.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.optim.clip)
        self.optimizer.step()
        now.step, now.document, now.offset = now.step + 1, self.packer.number, self.packer.offset
        return {"step": now.step, "loss": loss_sum / total, "lr": lr, "tokens": now.step * self.tokens_per_step}

    def _loss_sum(self, batch: Packed) -> Tensor:
        """Sum of the losses of all labels."""
        device = self.device or torch.device("cpu")
        ids, labels, offsets = (tensor.to(device) for tensor in batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.bf16):
            logits = self.model(input_ids=ids, cu_seqlens=offsets, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits[0, :-1].float(), labels[0, 1:], ignore_index=-100, reduction="sum")

    @torch.no_grad()
    def _validate(self) -> tuple[float, float]:
        """Nats per token and bits per byte of the validation documents."""
        documents, n_bytes = self.run.validation()
        parts = [piece for document in documents for piece in pieces(document, self.config.context) if len(piece) > 1]
        self.model.eval()
        nats, labels = 0.0, 0
        # With shards, all processes have to take part in every pass, so all do all of them.
        for first in range(0, len(parts), self.config.batch_size):
            batch = packed_pieces(parts[first : first + self.config.batch_size])
            nats, labels = nats + float(self._loss_sum(batch)), labels + batch.n_labels
        return nats / labels, nats / (math.log(2) * n_bytes)

    def _save(self) -> None:
        weights, moments = self.shards.gather(self.optimizer)
        if self.workers.leads:
            write_checkpoint(self.run.checkpoint_folder, weights, moments, self.position)
        self.workers.wait()

    def _export(self) -> None:
        weights, _ = self.shards.gather(self.optimizer)
        if self.workers.leads:
            model = self.run.build_model()
            model.load_state_dict(weights, strict=False)
            with new_folder(self.run.exported) as folder:
                model.save_pretrained(folder)
                self.run.tokenizer().save_pretrained(folder)
