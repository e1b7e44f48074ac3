"""``statetrack pretrain``."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from statetrack.cli.console import console, note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.cli.outcome import RunFailed, Stopped
from statetrack.cli.train import leads
from statetrack.errors import InvalidInputError, NumericalError
from statetrack.training.config import OptimConfig

PROG = "statetrack pretrain"
_EVERY = 5.0


@dataclass(frozen=True)
class PretrainOptions:
    """Pre-train a language model on a text into a run folder, or continue one with --resume RUN.

    Under torchrun the same command trains on several processes. The finished model lies in RUN/model, for transformers'
    AutoModelForCausalLM.from_pretrained.

    Attributes:
        text: path of a text file, or datasets:NAME to stream a data set.
        resume: run folder to continue; TEXT and all other options of the run are then those it began with.
        out: run folder; by default runs/lm.
        pattern: layers from the input up, repeated as needed.
        layer_options: their options as a JSON object, as in '{"pd-ssm.d_state": 16}'.
        separator: what lies between documents of a text file; \\n is a line break.
        hidden_size: width.
        num_hidden_layers: number of blocks.
        intermediate_size: hidden width of the feed-forward; none means about 8/3 of the width, 0 leaves it out.
        vocab_size: ids of the tokenizer that is trained on the text.
        tokenizer: folder of a tokenizer to take instead.
        context: tokens of a row.
        batch_size: rows of a step, over all processes.
        steps: number of steps.
        bf16: multiply matrices in bfloat16.
        sharding: ddp sums gradients over processes, fsdp also shards parameters.
        held_out: share of the documents that validate.
        held_out_documents: most documents that validate.
        evaluate_every: steps between validations.
        checkpoint_every: steps between checkpoints.
        seed: of weights and of the order of documents.
        threads: CPU threads of each process.
        optim: optimiser.
        cluster: submit the run to a cluster through submitit; local tries that out on this machine.
        nodes: of the cluster.
        gpus: of each node.
        partition: of Slurm.
        minutes: time limit on a cluster.
        json: print one JSON object in the end.
    """

    text: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")] = ""
    resume: Path | None = None
    out: Path = Path("runs/lm")
    pattern: str = "deltanet,deltanet,pd-ssm"
    layer_options: str = "{}"
    separator: str = "\\n\\n\\n"
    hidden_size: int = 256
    num_hidden_layers: int = 6
    intermediate_size: int | None = None
    vocab_size: int = 4096
    tokenizer: str | None = None
    context: int = 256
    batch_size: int = 8
    steps: int = 1000
    bf16: Flag = False
    sharding: Literal["ddp", "fsdp"] = "ddp"
    held_out: float = 0.02
    held_out_documents: int = 200
    evaluate_every: int = 250
    checkpoint_every: int = 250
    seed: int = 0
    threads: int = 1
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(schedule="cosine", weight_decay=0.1, beta2=0.95))
    cluster: Literal["slurm", "local", "debug"] | None = None
    nodes: int = 1
    gpus: int = 0
    partition: str | None = None
    minutes: int = 60
    json: Flag = False


_NOT_OF_THE_RUN = ("resume", "out", "cluster", "nodes", "gpus", "partition", "minutes", "json")


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(PretrainOptions, argv, PROG)
    from statetrack.integrations.hf.pretraining import PretrainConfig, PretrainRun, pretrain, resume_pretraining

    if options.resume is not None:
        out, steps = options.resume, PretrainRun.open(options.resume).config.steps
        return _shown(lambda observer: resume_pretraining(out, observer=observer), out, steps, options)
    if not options.text:
        raise InvalidInputError(f"TEXT comes first, as in: {PROG} book.txt --out runs/book")
    settings = {name: value for name, value in vars(options).items() if name not in _NOT_OF_THE_RUN}
    settings |= {"layer_options": _object(options.layer_options), "separator": options.separator.replace("\\n", "\n")}
    config = PretrainConfig(**settings)
    config.validate()
    if options.cluster is not None:
        from statetrack.integrations.hf.pretraining.cluster import submit

        job = submit(
            config,
            options.out,
            cluster=options.cluster,
            nodes=options.nodes,
            gpus=options.gpus,
            partition=options.partition,
            minutes=options.minutes,
        )
        note(f"Submitted as job {job.job_id}; its script and logs lie in {options.out.parent / f'{options.out.name}-slurm'}.")
        if options.cluster != "slurm":
            note(f"Model: {job.result()}")
        return 0
    return _shown(lambda observer: pretrain(config, options.out, observer=observer), options.out, config.steps, options)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"--layer-options must be a JSON object, got {text!r}: {error}.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"--layer-options must be a JSON object, got {text!r}.")
    return found


def _shown(begin: Any, out: Path, steps: int, options: PretrainOptions) -> int:
    display = PretrainDisplay(steps)
    continued = f"Continue with: {PROG} --resume {shlex.quote(str(out))}"
    try:
        run = begin(display if leads() else None)
    except KeyboardInterrupt:
        raise Stopped(f"Stopped at step {display.step}. {continued}") from None
    except NumericalError as error:
        raise RunFailed(str(error)) from error
    finally:
        display.close()
    if leads():
        last = run.metrics()[-1]
        if options.json:
            print_json({"run": str(out), "model": str(run.exported), **last})
        else:
            print(
                f"validation {last['validation']:.3f} nats per token, {last['bits_per_byte']:.3f} bits per byte, "
                f"{last['tokens']:,} tokens in {last['cpu_seconds'] / 60:.1f} CPU-minutes"
            )
        note(f"Model: {run.exported}")
    return 0


class PretrainDisplay:
    """Shows how a run goes: a live bar in a terminal, otherwise a line every few seconds."""

    def __init__(self, steps: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        where = console(stderr=True)
        self.console, self.step, self.shown, self.validation = where, 0, time.monotonic() - _EVERY, ""
        columns = (BarColumn(bar_width=None), TextColumn("{task.fields[line]}"))
        self.bar = Progress(*columns, console=where, disable=not where.is_terminal, expand=True)
        self.entry = self.bar.add_task("", total=steps, line="preparing")
        self.bar.start()

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of one step."""
        self.step = record["step"]
        if "validation" in record:
            self.validation = f", validation {record['validation']:.3f} ({record['bits_per_byte']:.3f} bits per byte)"
        speed = f"{record['tokens_per_second']:,.0f} tokens/s"
        line = f"{self.step}/{record['steps']} loss {record['loss']:.3f}, {speed}{self.validation}"
        self.bar.update(self.entry, completed=self.step, line=line)
        now = time.monotonic()
        if not self.console.is_terminal and (now - self.shown >= _EVERY or record["finished"]):
            self.shown = now
            self.console.print(line, soft_wrap=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()
