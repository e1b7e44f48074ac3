"""The configuration of a language model made of registered layers."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from statetrack.errors import InvalidInputError
from statetrack.layers import Layer, make_layer, make_stack, names_of


@strict
class StateTrackConfig(PreTrainedConfig):
    """A stack of pre-norm blocks, each a layer of ours and a SwiGLU feed-forward.

    Attributes:
        vocab_size: number of token ids.
        hidden_size: width.
        num_hidden_layers: number of blocks.
        pattern: registered layers from the input up, joined by commas and repeated as needed, as in
            ``"deltanet,deltanet,pd-ssm"``; attention is ``"transformer"``.
        layer_options: options of the layers, see ``statetrack.layers.pattern_options``: plain names with one layer, with several
            such as ``"pd-ssm.d_state"``.
        intermediate_size: hidden width of the feed-forward; None means ``8/3`` of the width, rounded up to a multiple of 32; 0
            leaves it out.
        rms_norm_eps: of the norms.
        initializer_range: deviation of initial embeddings and feed-forwards; the layers initialise themselves.
        tie_word_embeddings: whether the output head is the embedding.
        use_cache: whether states are returned.

    Raises:
        InvalidInputError: a pattern longer than the stack, or an option that does not fit.
        UnknownNameError: no such layer or option.
    """

    model_type = "statetrack"
    keys_to_ignore_at_inference = ("cache",)

    vocab_size: int = 32_000
    hidden_size: int = 256
    num_hidden_layers: int = 6
    pattern: str = "flash-pd-ssm"
    layer_options: dict[str, Any] | None = None
    intermediate_size: int | None = None
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        self.layer_options = dict(self.layer_options or {})
        if self.intermediate_size is None:
            self.intermediate_size = -(-8 * self.hidden_size // (3 * 32)) * 32
        if min(self.vocab_size, self.hidden_size, self.num_hidden_layers) < 1 or self.intermediate_size < 0:
            raise InvalidInputError(
                "vocab_size, hidden_size and num_hidden_layers must be at least 1 and intermediate_size at least 0; got "
                f"{self.vocab_size}, {self.hidden_size}, {self.num_hidden_layers}, {self.intermediate_size}."
            )
        self.layer_names()
        super().__post_init__(**kwargs)

    def layer_names(self) -> list[str]:
        """The layer of each block."""
        names = names_of(self.pattern.replace(",", "|"))
        if len(names) > self.num_hidden_layers:
            raise InvalidInputError(
                f"{self.pattern} names {len(names)} layers, but num_hidden_layers is {self.num_hidden_layers}."
            )
        return [names[i % len(names)] for i in range(self.num_hidden_layers)]

    def make_layers(self) -> list[Layer]:
        """New layers for all blocks."""
        return make_stack(self.pattern.replace(",", "|"), self.num_hidden_layers, self.hidden_size, **(self.layer_options or {}))

    def make_layer(self, index: int) -> Layer:
        """A new layer for one block."""
        names, options = self.layer_names(), self.layer_options or {}
        if len(set(names)) > 1:
            begin = f"{names[index]}."
            options = {key.removeprefix(begin): value for key, value in options.items() if key.startswith(begin)}
        return make_layer(names[index], self.hidden_size, **options)
