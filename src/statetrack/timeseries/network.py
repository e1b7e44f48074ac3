"""The network of the estimators: a stack of layers over the tokens of a series, and one readout for the whole series.

    e_l = W u_l + c ;   f = norm(blocks(e)) ;   scores = V pool(f_1 .. f_L) + a

Letters: B = rows, L = tokens, F = features of a token, E = ``d_model``, O = outputs. The pool is a running sum, so that a series
can be read in pieces of any length with a carry of constant size in between.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from statetrack._typing import Bool, Float
from statetrack.errors import InvalidInputError
from statetrack.layers import Layer, make_stack
from statetrack.layers.diagonal_generators import checked
from statetrack.models import Block, Dropout, ModelConfig
from statetrack.models.blocks import Norm

Pooling = Literal["mean", "last"]


class Carry(NamedTuple):
    """All that is known of the tokens read so far.

    Attributes:
        states: of every layer, from the input up.
        pooled: ``(B, E)`` float64, sum of the features (pooling ``"mean"``) or the last of them.
        count: ``(B,)`` tokens read.
    """

    states: list[Any]
    pooled: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a carry

    def tensors(self) -> list[Tensor]:
        """All tensors in a fixed order."""
        return [*(tensor for state in self.states for tensor in state), self.pooled, self.count]

    def filled(self, tensors: list[Tensor]) -> Carry:
        """A carry of the same form from ``tensors`` in the order of ``tensors()``."""
        states, start = [], 0
        for state in self.states:
            states.append(type(state)(*tensors[start : start + len(state)]))
            start += len(state)
        return Carry(states, *tensors[start:])


class SeriesNet(nn.Module):
    """Scores ``(B, O)`` of series ``(B, L, F)``.

    Args:
        layer: registered name of the layer, or several joined by ``|``, which alternate.
        n_features: F.
        n_outputs: O.
        config: the stack.
        pooling: ``"mean"`` or ``"last"``.

    Raises:
        UnknownNameError: no such layer or option.
        InvalidInputError: a size or option that does not fit.
    """

    def __init__(self, layer: str, n_features: int, n_outputs: int, config: ModelConfig, *, pooling: Pooling = "mean") -> None:
        super().__init__()
        checked("norm", config.norm, Norm)
        if min(config.n_layers, config.d_model, n_features, n_outputs) < 1:
            raise InvalidInputError(
                "n_layers, d_model, n_features and n_outputs must be at least 1; got "
                f"{config.n_layers}, {config.d_model}, {n_features}, {n_outputs}."
            )
        if not 0 <= config.dropout < 1 or config.feedforward < 0:
            raise InvalidInputError(
                f"dropout must lie in [0, 1) and feedforward be at least 0; got {config.dropout}, {config.feedforward}."
            )
        self.n_features, self.pooling = n_features, checked("pooling", pooling, Pooling)
        self.encoder = nn.Linear(n_features, config.d_model)
        rest = {name: getattr(config, name) for name in ("norm", "residual", "feedforward", "dropout")}
        stack = make_stack(layer, config.n_layers, config.d_model, **config.layer)
        self.blocks = nn.ModuleList(Block(built, **rest) for built in stack)
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.head = nn.Linear(config.d_model, n_outputs)

    @property
    def layers(self) -> list[Layer]:
        """The sequence layers, from the input up."""
        return [cast(Block, block).layer for block in self.blocks]

    def start(self, batch_size: int) -> Carry:
        """The carry before the first token."""
        weight = self.head.weight
        pooled = weight.new_zeros(batch_size, weight.shape[1], dtype=torch.float64)
        count = torch.zeros(batch_size, dtype=torch.long, device=weight.device)
        return Carry([layer.initial_state(batch_size) for layer in self.layers], pooled, count)

    def advance(self, x: Float[Tensor, "B L F"], carry: Carry, mask: Bool[Tensor, "B L"] | None = None) -> Carry:
        """Read more tokens of every row; ``mask`` is false behind the end of a row."""
        features, states = self.features(x, carry.states, mask)
        if mask is None:
            present, last = features.new_full((len(x),), x.shape[1], dtype=torch.long), features[:, -1]
        else:
            features = features * mask.unsqueeze(-1)
            present = mask.sum(1)
            last = features[torch.arange(len(x), device=x.device), (present - 1).clamp(min=0)]
        if self.pooling == "mean":
            pooled = carry.pooled + features.sum(1, dtype=torch.float64)
        else:
            pooled = torch.where((present > 0).unsqueeze(1), last.double(), carry.pooled)
        return Carry(states, pooled, carry.count + present)

    def features(self, x: Tensor, states: list[Any], mask: Tensor | None = None) -> tuple[Tensor, list[Any]]:
        """What is pooled, ``(B, L, E)``, and the states after the last token."""
        if x.ndim != 3 or x.shape[-1] != self.n_features:
            raise InvalidInputError(f"x needs shape (B, L, {self.n_features}), got {tuple(x.shape)}.")
        x = self.encoder(x)
        out = []
        for block, state in zip(self.blocks, states, strict=True):
            x, state = block(x, state) if mask is None else block(x, state, mask=mask)
            out.append(state)
        return self.norm(x), out

    def read(self, carry: Carry) -> Float[Tensor, "B O"]:
        """Scores of what was read so far; those of an empty series are the readout's bias."""
        pooled = carry.pooled
        if self.pooling == "mean":
            pooled = pooled / carry.count.clamp(min=1).unsqueeze(1)
        return self.head(pooled.to(self.head.weight.dtype))

    def forward(self, x: Float[Tensor, "B L F"], mask: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B O"]:
        """Scores of whole series."""
        return self.read(self.advance(x, self.start(len(x)), mask))

    def set_progress(self, fraction: float) -> None:
        """Pass the share of training done to every layer."""
        for layer in self.layers:
            layer.set_progress(fraction)

    def set_dropout(self, generator: torch.Generator | None) -> None:
        """Give every dropout its generator; None takes it away again."""
        for module in self.modules():
            if isinstance(module, Dropout):
                module.generator = generator
