"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from statetrack.errors import NumericalError, RunError
from statetrack.models import Dropout
from statetrack.tasks import Batch, stream
from statetrack.training.annealing import advance, layer_shares
from statetrack.training.checkpoint import Progress, load_best, load_checkpoint, save_checkpoint
from statetrack.training.config import TrainConfig
from statetrack.training.curriculum import Curriculum
from statetrack.training.distributed import Workers
from statetrack.training.evaluate import evaluation_set, pooled_accuracy
from statetrack.training.interrupt import StopRequest
from statetrack.training.lock import locked
from statetrack.training.objective import Objective
from statetrack.training.optim import learning_rate, make_optimizer, progress
from statetrack.training.run import Run
from statetrack.training.start import initial_model

Observer = Callable[[dict[str, Any]], None]
"""Called after every step with its record: step, steps, loss, accuracy, longest, lr, and validation where there was one."""

_LOG_EVERY = 25


def train(config: TrainConfig, out: str | Path, *, observer: Observer | None = None, test_lengths: Sequence[int] = ()) -> Run:
    """Train from scratch into a new run folder.

    Args:
        config: the run.
        out: folder to create.
        observer: called with the record of every step.
        test_lengths: lengths to test at when it is done, which the run remembers.

    Raises:
        RunError: the folder is in use, or the disk refuses.
        NumericalError: the loss is not a number; the batch is saved in the run folder.
        InvalidInputError: a configuration that cannot run.
    """
    workers = Workers.join()
    run = Run.create(out, config, test_lengths) if workers.leads else Run(Path(out), config)
    return Trainer(run, workers, observer).train()


def resume(path: str | Path, *, observer: Observer | None = None) -> Run:
    """Continue a run from its newest checkpoint, bit for bit as if it had not stopped (from the start if it has none).

    Raises:
        RunError: no run of this version in that folder.
    """
    return Trainer(Run.open(path), Workers.join(), observer).train(resumed=True)


class Trainer:
    """One run in progress."""

    def __init__(self, run: Run, workers: Workers, observer: Observer | None) -> None:
        self.run, self.config, self.workers, self.observer = run, run.config, workers, observer
        torch.set_num_threads(self.config.threads)
        self.progress = Progress(0, Curriculum.begin(self.config.lengths))
        held_out = self.config.evaluation
        self.validation = evaluation_set(run.task, held_out.low, held_out.high, held_out.n, self.config.seed, "validation")
        self._build()

    def _build(self) -> None:
        """Model, optimiser and objective with the initial weights of the present attempt."""
        self.model = initial_model(self.config, self.run.task, self.progress.attempt)
        self.dropout = torch.Generator()
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.generator = self.dropout
        self.optimizer = make_optimizer(self.model, self.config.optim)
        self.objective = Objective(self.model)
        self.best: dict[str, Tensor] | None = None

    def train(self, *, resumed: bool = False) -> Run:
        """Take all steps that are left."""
        with locked(self.run.path) if self.workers.leads else nullcontext():
            return self._train(resumed)

    def _train(self, resumed: bool) -> Run:
        if resumed:
            self._restore()
        try:
            with StopRequest() as stop:
                while not self.progress.finished:
                    self._timed_step()
                    if self.progress.finished or self.progress.step % self.config.checkpoint_every == 0:
                        self.save()
                    stop.check()
        except KeyboardInterrupt:
            self.save()
            raise
        finally:
            self.workers.leave()
        return self.run

    def _restore(self) -> None:
        try:
            path = self.run.latest_checkpoint()
        except RunError:
            self.run.forget_after(-1)
            return
        self.progress = self.run.progress()
        self._build()
        load_checkpoint(path, self.model, self.optimizer)
        self.best = load_best(path)
        if self.workers.leads:
            self.run.settle()
            self.run.forget_after(self.progress.step)

    def save(self, *, reconfigured: bool = False) -> None:
        """Write a checkpoint of the present step, with the configuration where that has changed."""
        if self.workers.leads:
            best = None if self.progress.finished else self.best
            config = self.config.to_dict() if reconfigured else None
            save_checkpoint(self.run.checkpoint_folder, self.model, self.optimizer, self.progress, best, config)
            self.run.settle()
        self.workers.wait()

    def _timed_step(self) -> None:
        began = time.process_time()
        record = self._step()
        self.progress.cpu_seconds += time.process_time() - began
        last = self.progress.finished
        if self.workers.leads and (last or self.progress.step % _LOG_EVERY == 0 or "validation" in record):
            self.run.log({**record, "cpu_seconds": round(self.progress.cpu_seconds, 3)})
        if self.observer is not None:
            self.observer({**record, "steps": self.config.steps, "finished": last})

    def _step(self) -> dict[str, Any]:
        now, config = self.progress, self.config
        decay_start = None if now.decay_start is None else now.decay_start - now.attempt_start
        position = (now.step - now.attempt_start, config.steps - now.attempt_start, decay_start, config.optim)
        lr = learning_rate(*position) * (config.anneal.lr_factor if now.annealed else 1.0)
        self._anneal(progress(*position))
        loss, accuracy = self._update(lr)
        now.curriculum.update(accuracy, config.lengths)
        now.step += 1
        record: dict[str, Any] = {
            "step": now.step,
            "loss": loss,
            "accuracy": accuracy,
            "longest": int(now.curriculum.longest),
            "lr": lr,
            "attempt": now.attempt,
        }
        self._decide(record)
        return record

    def _anneal(self, by_clock: float) -> None:
        """Tell the layers how far they shall have annealed."""
        now, anneal, n_layers = self.progress, self.config.anneal, len(self.model.layers)
        if anneal.steps is None:
            self.annealing = by_clock
            self.model.set_progress([by_clock] * n_layers)
            return
        if now.decay_start is not None:
            now.annealed = 1.0
        elif now.annealed or now.curriculum.complete(self.config.lengths):
            now.annealed = advance(now.annealed, now.curriculum.accuracy, n_layers, anneal)
        self.annealing = now.annealed
        self.model.set_progress(layer_shares(now.annealed, n_layers, anneal))

    def _update(self, lr: float) -> tuple[float, float]:
        """One step of the optimiser: mean loss and accuracy over the whole batch."""
        now, config = self.progress, self.config
        generator = stream(config.seed, "train", now.step)
        lengths = now.curriculum.draw(config.batch_size, config.lengths, generator)
        batch = self.run.task.sample(config.batch_size, lengths, generator)
        self.dropout.manual_seed(int(stream(config.seed, "train", now.step).integers(1 << 62)) + self.workers.rank)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        outcome = self.objective(self.workers.share(batch))
        sums = torch.stack(
            [outcome.loss.detach().double(), outcome.correct.double(), torch.tensor(float(outcome.labels)).double()]
        )
        loss_sum, correct, labels = self.workers.total(sums).tolist()
        if not math.isfinite(loss_sum):
            self._fail(batch)
        self.optimizer.zero_grad(set_to_none=True)
        (outcome.loss / labels).backward()
        self.workers.sum_gradients(self.model.parameters())
        if config.optim.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.optim.clip)
        self.optimizer.step()
        return loss_sum / labels, correct / labels

    def _decide(self, record: dict[str, Any]) -> None:
        """Validate when due; begin the last phase, stop, or start over when the rules say so."""
        now, config = self.progress, self.config
        learnt = False
        if now.step % config.evaluation.every == 0 or now.step == config.steps:
            self._validate(record)
            # Validation on words at least as long as any of the curriculum proves more than finishing it would.
            proved = config.evaluation.low >= config.lengths.high or now.curriculum.complete(config.lengths)
            annealed = config.anneal.steps is None or now.annealed == 1
            learnt = proved and annealed and (now.validation or 0.0) >= config.evaluation.stop_at
        if config.optim.schedule == "cosine":
            now.finished = learnt or now.step >= config.steps
            self._end()
            return
        if now.decay_start is None and (learnt or now.step >= config.steps - config.optim.decay_steps):
            now.decay_start = now.step
        now.finished = now.decay_start is not None and now.step >= min(config.steps, now.decay_start + config.optim.decay_steps)
        if now.finished and "validation" not in record:
            self._validate(record)
        self._end()
        late = config.restart_after is not None and now.step - now.attempt_start >= config.restart_after
        if late and now.decay_start is None and now.curriculum.longest < config.lengths.high:
            now.attempt += 1
            now.attempt_start = now.step
            now.annealed, now.best = 0.0, None
            now.curriculum = Curriculum.begin(config.lengths)
            self._build()

    def _validate(self, record: dict[str, Any]) -> None:
        now = self.progress
        now.validation = record["validation"] = pooled_accuracy(self.model, self.validation)
        counts = self.annealing == 1 or not self.model.anneals
        if counts and (now.best is None or now.validation >= now.best):
            now.best = now.validation
            if self.config.evaluation.keep == "best":
                self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _end(self) -> None:
        """When training is over, go back to the best weights if the last ones are worse."""
        now = self.progress
        if now.finished and self.best is not None and now.best is not None and now.best > (now.validation or 0.0):
            self.model.load_state_dict(self.best)
            now.validation = now.best

    def _fail(self, batch: Batch) -> None:
        from safetensors.torch import save_file

        path = self.run.path / "failed_batch.safetensors"
        if self.workers.leads:
            save_file({name: tensor.contiguous() for name, tensor in batch._asdict().items()}, path)
        raise NumericalError(
            f"The loss is not finite at step {self.progress.step}. The batch is in {path}; "
            "begin a new run with a lower --optim.lr."
        )
