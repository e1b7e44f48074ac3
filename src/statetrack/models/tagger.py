"""Sequence tagger: token embedding, a stack of blocks, class scores at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from torch import Tensor, nn

from statetrack._typing import Bool, Float, Int
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer, make_stack
from statetrack.layers.diagonal_generators import checked
from statetrack.models.blocks import Block, Norm
from statetrack.models.decoder import LastDecoder

ReadAt = Literal["each", "last"]


@dataclass(frozen=True)
class ModelConfig:
    """A stack of equal blocks.

    Attributes:
        d_model: width.
        n_layers: number of blocks.
        norm: ``"pre"``, ``"post"`` or ``"none"``.
        residual: add each block's input to its output.
        feedforward: hidden width of a feed-forward after each layer as a multiple of ``d_model``; 0 for none.
        dropout: rate in [0, 1).
        read_at: ``"each"`` position gives its own scores; with ``"last"`` all scores are decoded from what the last position
            holds, as in an auto-encoder, and the rows of a batch need one length.
        layer: options of the layer, see ``statetrack list layers``.
    """

    d_model: int = 64
    n_layers: int = 1
    norm: Norm = "post"
    residual: bool = False
    feedforward: int = 0
    dropout: float = 0.0
    read_at: ReadAt = "each"
    layer: dict[str, Any] = field(default_factory=dict)


class Tagger(nn.Module):
    """Class scores ``(B, L, n_classes)`` from tokens ``(B, L)``; a classifier is a tagger read at the last position.

    Args:
        layer: registered name of the layer, or several joined by ``|``, which alternate.
        vocab_size: number of token ids.
        n_classes: number of classes.
        config: the stack.

    Raises:
        UnknownNameError: no such layer or option.
        InvalidInputError: a size or option that does not fit.
    """

    def __init__(self, layer: str, vocab_size: int, n_classes: int, config: ModelConfig) -> None:
        super().__init__()
        checked("norm", config.norm, Norm)
        checked("read_at", config.read_at, ReadAt)
        if config.n_layers < 1 or config.d_model < 1 or vocab_size < 1 or n_classes < 1:
            raise InvalidInputError(
                "n_layers, d_model, vocab_size and n_classes must be at least 1; got "
                f"{config.n_layers}, {config.d_model}, {vocab_size}, {n_classes}."
            )
        if not 0 <= config.dropout < 1 or config.feedforward < 0:
            raise InvalidInputError(
                f"dropout must lie in [0, 1) and feedforward be at least 0; got {config.dropout}, {config.feedforward}."
            )
        self.vocab_size, self.n_classes = vocab_size, n_classes
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.blocks = nn.ModuleList(
            Block(
                built,
                norm=config.norm,
                residual=config.residual,
                feedforward=config.feedforward,
                dropout=config.dropout,
            )
            for built in make_stack(layer, config.n_layers, config.d_model, **config.layer)
        )
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.decoder = LastDecoder(config.d_model) if config.read_at == "last" else None
        self.head = nn.Linear(config.d_model, n_classes)

    @property
    def layers(self) -> list[Layer]:
        """The sequence layers, from the input up."""
        return [cast(Block, block).layer for block in self.blocks]

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        states: list[Any] | None = None,
        *,
        mask: Bool[Tensor, "B L"] | None = None,
        cu_seqlens: Int[Tensor, " offsets"] | None = None,
    ) -> tuple[Float[Tensor, "B L n_classes"], list[Any]]:
        """Scores and the states of all layers after the last token; ``mask`` and ``cu_seqlens`` as in ``Layer.forward``."""
        x, out = self.features(tokens, states, mask=mask, cu_seqlens=cu_seqlens)
        return self.head(x), out

    def features(self, tokens: Tensor, states: list[Any] | None = None, **where: Any) -> tuple[Tensor, list[Any]]:
        """What the head reads, ``(B, L, d_model)``, and the states."""
        if tokens.ndim != 2:
            raise InvalidInputError(f"tokens need shape (B, L), got {tuple(tokens.shape)}.")
        if self.decoder is not None and any(value is not None for value in where.values()):
            raise InvalidInputError(
                "A model that reads at the last position takes rows of one length, without mask or cu_seqlens."
            )
        x = self.embedding(tokens)
        out = []
        for i, block in enumerate(self.blocks):
            x, state = block(x, None if states is None else states[i], **where)
            out.append(state)
        if self.decoder is not None:
            x = self.decoder(x)
        return self.norm(x), out

    def initial_state(self, batch_size: int) -> list[Any]:
        """The states before the first token."""
        return [layer.initial_state(batch_size) for layer in self.layers]

    def step(self, tokens: Tensor, states: list[Any]) -> tuple[Tensor, list[Any]]:
        """Scores ``(B, n_classes)`` and new states after one token ``(B,)``."""
        scores, states = self.forward(tokens.unsqueeze(1), states)
        return scores.squeeze(1), states

    def set_progress(self, shares: Sequence[float]) -> None:
        """Tell each layer its share of annealing that is done, the lowest layer first."""
        for layer, share in zip(self.layers, shares, strict=True):
            layer.set_progress(share)

    @property
    def anneals(self) -> bool:
        """Whether outputs depend on what ``set_progress`` told."""
        return any(layer.anneals for layer in self.layers)
