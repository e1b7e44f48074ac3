"""Causal language models made of registered layers.

    x <- x + layer(norm(x)) ;   x <- x + W_3 (silu(W_1 norm(x)) * W_2 norm(x)) ;   logits = E norm(x)

Letters: E = embedding (tied head). Norms are root-mean-square norms. Sources: LLaMA (arXiv 2302.13971) for the block;
Flash PD-SSM (arXiv 2605.19150) for stacks that alternate PD layers with others.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf.cache import StateSlot, padding_mask, slot
from statetrack.integrations.hf.configuration import StateTrackConfig
from statetrack.layers import Layer

_INSIDE, _EMPTY = "statetrack_block", "statetrack_empty"
"""Marks of modules within a layer, which initialises itself: the number of its block; and of a layer built without memory."""


class GatedFeedForward(nn.Module):
    """SwiGLU: ``W_down (silu(W_gate x) * W_up x)``."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class StateTrackBlock(GradientCheckpointingLayer):
    """A layer and a feed-forward, each behind a norm and beside a residual path."""

    def __init__(self, config: StateTrackConfig, layer: Layer) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.mixer_norm = nn.RMSNorm(width, eps=config.rms_norm_eps)
        self.mixer = layer
        self.mlp_norm = nn.RMSNorm(width, eps=config.rms_norm_eps) if hidden else None
        self.mlp = GatedFeedForward(width, hidden) if hidden else None

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cache: StateSlot | None = None,
    ) -> Tensor:
        state = None if cache is None else cache.state
        x = self.mixer_norm(hidden_states)
        y, state = self.mixer(x, state, mask=mask, cu_seqlens=cu_seqlens)
        if cache is not None:
            cache.set(state, hidden_states.shape[1])
        hidden_states = hidden_states + y.to(hidden_states.dtype)
        if self.mlp is not None and self.mlp_norm is not None:
            hidden_states = hidden_states + self.mlp(self.mlp_norm(hidden_states))
        return hidden_states


class StateTrackPreTrainedModel(PreTrainedModel):
    """What both models share: how weights begin, and which of them stay float32."""

    config_class = StateTrackConfig
    config: StateTrackConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ("StateTrackBlock",)
    _can_compile_fullgraph = False

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Norms, feed-forwards and embeddings as usual. A layer keeps what its constructor drew: what decides a transition has an
        initial value of its own, which no common rule knows. Only one that was built without memory is drawn here."""
        if isinstance(module, Layer):
            _draw(module, self.config)
        elif isinstance(module, nn.RMSNorm) and not _is_inside(module):
            init.ones_(module.weight)
        elif not _is_inside(module):
            super()._init_weights(module)


class StateTrackModel(StateTrackPreTrainedModel):
    """The stack without its head."""

    def __init__(self, config: StateTrackConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(StateTrackBlock(config, layer) for layer in _layers(config))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.gradient_checkpointing = False
        self._keep_in_fp32_modules_strict = {
            f"{name}.{parameter}" if name else parameter
            for name, module in self.named_modules()
            for parameter in getattr(module, "float32_parameters", ())
        }
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """Hidden states of all positions.

        Args:
            input_ids: ``(B, L)``; in its place ``inputs_embeds (B, L, hidden_size)``.
            attention_mask: ``(B, L)`` or, with a cache, ``(B, L_seen + L)``: 0 at padding, on either side or within.
            cache: states to go on from.
            use_cache: whether to return states.
            cu_seqlens: ``(S + 1,)`` offsets of documents packed into a batch of one (also as ``cu_seq_lens_q``).
            output_hidden_states: also return what enters each block, and the result.

        Raises:
            InvalidInputError: both or neither of ``input_ids`` and ``inputs_embeds``, packed documents with a cache, or a mask
                of another shape.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InvalidInputError("Give either input_ids or inputs_embeds.")
        x: Tensor = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        replayed = self.gradient_checkpointing and self.training and torch.is_grad_enabled()
        wanted = self.config.use_cache and not self.training if use_cache is None else use_cache
        offsets = kwargs.get("cu_seq_lens_q") if cu_seqlens is None else cu_seqlens
        if offsets is not None:
            if cache is not None and cache.get_seq_length():
                raise InvalidInputError("Packed documents (cu_seqlens) start from no cache.")
            cache, wanted, attention_mask = None, False, None
        if replayed:
            cache, wanted = None, False
        if wanted and cache is None:
            cache = DynamicCache(config=self.config)
        _check_mask(attention_mask, x, cache)
        mask = padding_mask(attention_mask, x.shape[1])
        collect = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        seen: list[Tensor] = []
        for i, block in enumerate(self.layers):
            if collect:
                seen.append(x)
            x = block(x, mask=mask, cu_seqlens=offsets, cache=None if cache is None else slot(cache, i))
        x = self.norm(x)
        return BaseModelOutputWithPast(
            last_hidden_state=x, cache=cache if wanted else None, hidden_states=(*seen, x) if collect else None
        )


class StateTrackForCausalLM(StateTrackPreTrainedModel, GenerationMixin):
    """A language model.

    Example:
        >>> config = StateTrackConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=2, pattern="deltanet,flash-pd-ssm",
        ...     layer_options={"flash-pd-ssm.d_state": 4, "deltanet.n_heads": 2}, eos_token_id=0, pad_token_id=0,
        ... )
        >>> model = StateTrackForCausalLM(config).eval()
        >>> model(torch.zeros(2, 5, dtype=torch.long)).logits.shape
        torch.Size([2, 5, 50])
        >>> model.generate(torch.ones(1, 3, dtype=torch.long), max_new_tokens=4, min_new_tokens=4, do_sample=False).shape
        torch.Size([1, 7])
    """

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012 (read by transformers)

    def __init__(self, config: StateTrackConfig) -> None:
        super().__init__(config)
        self.model = StateTrackModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Logits ``(B, L, vocab_size)`` and, with ``labels (B, L)``, the loss of predicting each from the positions before.

        Args as in ``StateTrackModel.forward``; ``labels`` are ignored where they are -100; ``logits_to_keep`` asks for the last
        positions only (0 means all), or for those it lists.
        """
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) and logits_to_keep else logits_to_keep
        hidden = outputs.last_hidden_state
        hidden = hidden if isinstance(kept, int) else hidden[:, kept]
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            extra = {key: kwargs[key] for key in ("num_items_in_batch", "shift_labels") if key in kwargs}
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **extra)
        return CausalLMOutputWithPast(
            loss=loss, logits=logits, cache=outputs.cache, hidden_states=outputs.hidden_states, attentions=None
        )

    def set_progress(self, fraction: float) -> None:
        """Tell layers that anneal how much of the training is done, in [0, 1]."""
        for block in self.model.layers:
            cast(StateTrackBlock, block).mixer.set_progress(fraction)


def _check_mask(mask: Tensor | None, x: Tensor, cache: Cache | None) -> None:
    """Raises ``InvalidInputError`` if a mask is not of the new positions, nor of those and all before them."""
    rows, new = x.shape[:2]
    seen = 0 if cache is None else int(cache.get_seq_length())
    if mask is not None and tuple(mask.shape) not in {(rows, new), (rows, seen + new)}:
        wanted = f"({rows}, {new})" + (f" or ({rows}, {seen + new})" if seen else "")
        raise InvalidInputError(f"attention_mask must have the shape {wanted}; got {tuple(mask.shape)}.")


def _layers(config: StateTrackConfig) -> list[Layer]:
    """The layers, made in float32 whatever the default is, so that what has to stay float32 begins there."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        layers = config.make_layers()
    finally:
        torch.set_default_dtype(dtype)
    for index, layer in enumerate(layers):
        layer.__dict__[_EMPTY] = any(parameter.is_meta for parameter in layer.parameters())
        for module in layer.modules():
            module.__dict__[_INSIDE] = index
    return [layer if dtype == torch.float32 else layer.to(dtype) for layer in layers]


def _draw(layer: Layer, config: StateTrackConfig) -> None:
    """Fill what no file has filled in a layer that was built without memory; buffers that are never stored among it."""
    tensors = [*layer.parameters(), *layer.buffers()]
    if not layer.__dict__[_EMPTY] or all(getattr(tensor, "_is_hf_initialized", False) for tensor in tensors):
        return
    fresh = config.make_layer(layer.__dict__[_INSIDE])
    for mine, drawn in zip(tensors, [*fresh.parameters(), *fresh.buffers()], strict=True):
        init.copy_(mine, drawn)


def _is_inside(module: nn.Module) -> bool:
    return _INSIDE in module.__dict__


AutoConfig.register("statetrack", StateTrackConfig)
AutoModel.register(StateTrackConfig, StateTrackModel)
AutoModelForCausalLM.register(StateTrackConfig, StateTrackForCausalLM)
