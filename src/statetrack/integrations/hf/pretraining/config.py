"""Everything that determines a pre-training run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.training.config import OptimConfig
from statetrack.training.reading import from_plain

Sharding = Literal["ddp", "fsdp"]


@dataclass(frozen=True)
class PretrainConfig:
    """A pre-training run.

    Attributes:
        text: path of a text file, or ``datasets:NAME`` for a data set that is streamed by name, as in
            ``datasets:HuggingFaceFW/fineweb``.
        separator: what lies between the documents of a text file.
        pattern: layers from the input up, as in ``StateTrackConfig``.
        layer_options: their options.
        hidden_size: width.
        num_hidden_layers: number of blocks.
        intermediate_size: hidden width of the feed-forward; None means about ``8/3`` of the width, 0 leaves it out.
        vocab_size: ids of the byte-level tokenizer that is trained on the text.
        tokenizer: folder of a tokenizer to take instead.
        context: tokens of a row; longer documents are cut.
        batch_size: rows of a step, over all processes.
        steps: number of steps.
        optim: optimiser; the schedule is a cosine after the warm-up.
        bf16: multiply matrices in bfloat16 (autocast); parameters and what decides a transition stay float32.
        sharding: how several processes share the work: ``"ddp"`` sums gradients, ``"fsdp"`` also shards parameters (FSDP2).
        held_out: share of the documents that validate; of a stream, the first ``held_out_documents``.
        held_out_documents: see ``held_out``; also the most documents of a file that validate.
        evaluate_every: steps between validations.
        checkpoint_every: steps between checkpoints.
        seed: of weights and of the order of documents.
        threads: CPU threads of each process.
    """

    text: str
    separator: str = "\n\n\n"
    pattern: str = "deltanet,deltanet,pd-ssm"
    layer_options: dict[str, Any] = field(default_factory=dict)
    hidden_size: int = 256
    num_hidden_layers: int = 6
    intermediate_size: int | None = None
    vocab_size: int = 4096
    tokenizer: str | None = None
    context: int = 256
    batch_size: int = 8
    steps: int = 1000
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(schedule="cosine", weight_decay=0.1, beta2=0.95))
    bf16: bool = False
    sharding: Sharding = "ddp"
    held_out: float = 0.02
    held_out_documents: int = 200
    evaluate_every: int = 250
    checkpoint_every: int = 250
    seed: int = 0
    threads: int = 1

    def validate(self) -> None:
        """Raise ``InvalidInputError`` for values no run can have."""
        checked("sharding", self.sharding, Sharding)
        names = ("context", "batch_size", "steps", "evaluate_every", "checkpoint_every", "threads", "held_out_documents")
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.context < 2:
            raise InvalidInputError("context must be at least 2: a token is predicted from those before it.")
        if not 0 < self.held_out < 1:
            raise InvalidInputError(f"held_out is a share of the documents between 0 and 1, got {self.held_out}.")
        if self.optim.schedule != "cosine":
            raise InvalidInputError(f"pre-training has the schedule 'cosine', got {self.optim.schedule!r}.")
        if self.vocab_size < 258:
            raise InvalidInputError(
                f"vocab_size must be at least 258 (all bytes, end of text and padding), got {self.vocab_size}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> PretrainConfig:
        """The inverse of ``to_dict``. Raises ``InvalidInputError`` for names or types this version does not know."""
        return from_plain(cls, data)
