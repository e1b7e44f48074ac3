"""Our layers inside a pre-trained model: before chosen decoder layers, or in their place.

    x <- x + W layer(norm(x))       W = 0 at the start, so that nothing changes until it is trained

An inserted layer hangs on a hook of the decoder layer behind it, so that the names of all weights, the order of layers and what
else the model knows of itself stay as they are. Its state lies in the model's own cache, behind the entries of its layers.
Source: layers inserted before attention, Flash PD-SSM (arXiv 2605.19150); a last layer replaced, PD-SSM (arXiv 2509.22284).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from transformers.cache_utils import CacheLayerMixin
from transformers.modeling_layers import GradientCheckpointingLayer

from statetrack.errors import InvalidInputError
from statetrack.integrations.hf.cache import StateSlot, cache_among, padding_mask, slot
from statetrack.layers import make_layer

Kind = Literal["insert", "replace"]

_CHILD, _CONTEXT = "statetrack_inserted", "statetrack_context"


@dataclass
class Context:
    """What a model with our layers remembers.

    Attributes:
        records: what was put where: kind, layer, where and options of each call, in plain data.
        trainable: names of the parameters that required gradients before.
        ids: tokens of the present call, ``(B, L)``, if it was given those.
        mask: padding of the present call, as the model was given it.
        offsets: documents of the present call, if it packs some.
        handles: of all hooks.
        forgot: a layer of ours was given no cache in the present call.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    trainable: list[str] = field(default_factory=list)
    ids: Tensor | None = None
    mask: Tensor | None = None
    offsets: Tensor | None = None
    handles: list[Any] = field(default_factory=list)
    forgot: bool = False


class InsertedLayer(GradientCheckpointingLayer):
    """``x + W layer(norm(x))``.

    Args:
        layer: registered name.
        width: of the model.
        entry: number of its entry in the cache.
        options: of the layer.
        ticks: ids of the tokens that the layer reads; None for all. At others its state and the hidden state stay as they are.
    """

    def __init__(self, layer: str, width: int, entry: int, options: dict[str, Any], ticks: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.entry, self.ticks = entry, ticks
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.mixer = make_layer(layer, width, **options)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(
        self, hidden_states: Tensor, mask: Tensor | None = None, cu_seqlens: Tensor | None = None, cache: StateSlot | None = None
    ) -> Tensor:
        x = self.norm(hidden_states.to(self.out.weight.dtype))
        y, state = self.mixer(x, None if cache is None else cache.state, mask=mask, cu_seqlens=cu_seqlens)
        if cache is not None:
            cache.set(state, hidden_states.shape[1])
        return hidden_states + self.out(y.to(x.dtype)).to(hidden_states.dtype)

    @torch.no_grad()
    def fit_norm(self, hidden_states: Tensor) -> None:
        """Weigh features by one over their size, so that the layer is given all of them equally large.

        In pre-trained models a few features are many times as large as all others and hardly ever change; behind a norm without
        weights there is little left of the others.

        Args:
            hidden_states: ``(..., E)``, of tokens like those that the layer will read.
        """
        plain = nn.functional.rms_norm(hidden_states.flatten(0, -2).float(), self.norm.normalized_shape, eps=self.norm.eps)
        self.norm.weight.copy_(plain.square().mean(0).clamp(min=1e-6).rsqrt())

    def run(self, hidden_states: Tensor, context: Context, cache: Any) -> Tensor:
        """``forward`` as a call of the model describes itself."""
        entry = None if cache is None else slot(cache, self.entry)
        context.forgot |= cache is None
        ticking = self._ticking(hidden_states, context)
        if context.offsets is None:
            mask = padding_mask(context.mask, hidden_states.shape[1])
            mask = mask if ticking is None else ticking if mask is None else mask & ticking
            return cast(Tensor, self(hidden_states, mask=mask, cache=entry))
        if ticking is None:
            return cast(Tensor, self(hidden_states, cu_seqlens=context.offsets, cache=entry))
        before = torch.nn.functional.pad(ticking[0].cumsum(0), (1, 0))
        read = self(hidden_states[:, ticking[0]], cu_seqlens=before[context.offsets.long()], cache=entry)
        return hidden_states.masked_scatter(ticking.unsqueeze(-1), read)

    def _ticking(self, hidden_states: Tensor, context: Context) -> Tensor | None:
        """``(B, L)`` bool, which tokens the layer reads; None for all."""
        if self.ticks is None:
            return None
        if context.ids is None or context.ids.shape != hidden_states.shape[:2]:
            raise InvalidInputError("A layer with ticks has to know the tokens: call the model with input_ids.")
        return torch.isin(context.ids, torch.tensor(self.ticks, device=context.ids.device))


class StandIn(nn.Module):
    """In the place of a decoder layer, which it keeps out of sight and answers for; passes on what it gets."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.__dict__["original"] = original

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "original" not in self.__dict__:
                raise
            return getattr(self.__dict__["original"], name)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return hidden_states


class ReplacedLayer(StandIn):
    """One of our layers in the place of a decoder layer."""

    def __init__(self, original: nn.Module, index: int, inserted: InsertedLayer, context: Context) -> None:
        super().__init__(original)
        self.__dict__.update(index=index, context=context)
        setattr(self, _CHILD, inserted)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        cache = cache_among(args, kwargs.values())
        out = cast(InsertedLayer, getattr(self, _CHILD)).run(hidden_states, self.context, cache)
        if cache is not None and self.index < len(cache.layers) and isinstance(cache.layers[self.index], CacheLayerMixin):
            # The model counts positions by the keys of its first layer of attention, which may be the one that is gone.
            seen = hidden_states.new_zeros(hidden_states.shape[0], 1, hidden_states.shape[1], 1)
            cache.layers[self.index].update(seen, seen)
        return out


def insert_layers(
    model: Any,
    layer: str = "flash-pd-ssm",
    where: Sequence[int] | None = None,
    *,
    freeze_backbone: bool = True,
    ticks: Sequence[int] | None = None,
    **options: Any,
) -> Any:
    """Put one of our layers before each of some decoder layers, in place; the model's output is the same until they are trained.

    Args:
        model: a causal language model of transformers with a list of decoder layers.
        layer: registered name.
        where: numbers of decoder layers, negative ones from the end; None means the middle one.
        freeze_backbone: let the new parameters alone require gradients.
        ticks: ids of the tokens that the layer reads, such as those that end sentences; None for all.
        options: of the layer.

    Returns:
        The model.

    Raises:
        InvalidInputError: no list of decoder layers, a number out of range, one that has a layer of ours already, or ticks that
            are no ids; the model is as it was then.
        UnknownNameError: no such layer or option.
    """
    return _put(model, "insert", layer, where, freeze_backbone, ticks, options)


def replace_layers(
    model: Any,
    layer: str = "flash-pd-ssm",
    where: Sequence[int] | None = None,
    *,
    freeze_backbone: bool = True,
    ticks: Sequence[int] | None = None,
    **options: Any,
) -> Any:
    """Put one of our layers in the place of each of some decoder layers; it passes on what it gets until it is trained.

    Args:
        model: a causal language model of transformers with a list of decoder layers.
        layer: registered name.
        where: numbers of decoder layers, negative ones from the end; None means the last one.
        freeze_backbone: let the new parameters alone require gradients.
        ticks: ids of the tokens that the layer reads, such as those that end sentences; None for all.
        options: of the layer.

    Returns:
        The model.

    Raises:
        InvalidInputError: no list of decoder layers, a number out of range, one that has a layer of ours already, or ticks that
            are no ids; the model is as it was then.
        UnknownNameError: no such layer or option.
    """
    return _put(model, "replace", layer, where, freeze_backbone, ticks, options)


def remove_layers(model: Any) -> Any:
    """Take out all our layers: the model is what it was, bit for bit, and its parameters train as they did.

    Raises:
        InvalidInputError: there are none.
    """
    context = context_of(model)
    layers = decoder_layers(model)
    for handle in context.handles:
        handle.remove()
    for i, module in enumerate(layers):
        if isinstance(module, ReplacedLayer):
            old = next(module.parameters())
            layers[i] = module.original.to(old.device)
        elif _CHILD in module._modules:
            del module._modules[_CHILD], module.__dict__[_CONTEXT]
    del _body(model).__dict__[_CONTEXT]
    named = dict(model.named_parameters())
    for name in context.trainable:
        named[name].requires_grad_(True)
    return model


def inserted_layers(model: Any) -> list[InsertedLayer]:
    """Our layers in a model, in the order of their entries in the cache."""
    found = [module for module in model.modules() if isinstance(module, InsertedLayer)]
    return sorted(found, key=lambda module: module.entry)


def context_of(model: Any) -> Context:
    """What a model with our layers remembers. Raises ``InvalidInputError`` if it has none."""
    context = _body(model).__dict__.get(_CONTEXT)
    if context is None:
        raise InvalidInputError(f"{type(model).__name__} has none of our layers.")
    return cast(Context, context)


def decoder_layers(model: Any) -> nn.ModuleList:
    """The list of decoder layers. Raises ``InvalidInputError`` if there is none."""
    return _found(model)[1]


def _body(model: Any) -> nn.Module:
    """The module whose forward runs the decoder layers."""
    return _found(model)[0]


def _found(model: Any) -> tuple[nn.Module, nn.ModuleList]:
    n = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    for module in model.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) == n:
                return module, child
    raise InvalidInputError(f"{type(model).__name__} has no list of as many decoder layers as its configuration says ({n}).")


def _put(
    model: Any,
    kind: Kind,
    layer: str,
    where: Sequence[int] | None,
    freeze: bool,
    ticks: Sequence[int] | None,
    options: dict[str, Any],
) -> Any:
    """Insert or replace; nothing of the model is touched before all that can be wrong has been looked at."""
    layers = decoder_layers(model)
    n, taken = len(layers), len(inserted_layers(model))
    chosen = _chosen(where, n, default=n // 2 if kind == "insert" else n - 1)
    for i in chosen:
        if _CHILD in layers[i]._modules:
            raise InvalidInputError(
                f"Decoder layer {i} has one of our layers already; remove_layers(model) takes all of them out."
            )
    read = _checked_ticks(ticks)
    made = [_made(model, layer, n + taken + k, options, read) for k in range(len(chosen))]
    context = _context(model, freeze)
    for i, inserted in zip(chosen, made, strict=True):
        if kind == "replace":
            layers[i] = ReplacedLayer(layers[i], i, inserted, context)
            continue
        layers[i].add_module(_CHILD, inserted)
        layers[i].__dict__[_CONTEXT] = context
        context.handles.append(layers[i].register_forward_pre_hook(_before, with_kwargs=True))
    context.records.append({"kind": kind, "layer": layer, "where": chosen, "ticks": read, "options": options})
    return model


def _chosen(where: Any, n: int, default: int) -> list[int]:
    asked = [default] if where is None else list(where) if isinstance(where, Iterable) else where
    listed = isinstance(asked, list) and len(asked) > 0
    if not listed or any(isinstance(i, bool) or not isinstance(i, int) or not -n <= i < n for i in asked):
        raise InvalidInputError(f"where must name decoder layers from {-n} to {n - 1}, at least one; got {asked}.")
    chosen = [i % n for i in asked]
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"where names a decoder layer twice: {asked}.")
    return chosen


def _checked_ticks(ticks: Any) -> tuple[int, ...] | None:
    if ticks is None:
        return None
    read = tuple(ticks) if isinstance(ticks, Iterable) else ()
    if not read or any(isinstance(i, bool) or not isinstance(i, int) or i < 0 for i in read):
        raise InvalidInputError(f"ticks must be ids of tokens, at least one; got {ticks!r}.")
    return read


def _context(model: Any, freeze: bool) -> Context:
    """The context of a model, which gets one if it has none."""
    body = _body(model)
    context = body.__dict__.get(_CONTEXT)
    if context is None:
        context = Context(trainable=[name for name, parameter in model.named_parameters() if parameter.requires_grad])
        body.__dict__[_CONTEXT] = context
        context.handles.append(body.register_forward_pre_hook(_remember, with_kwargs=True))
        context.handles.append(body.register_forward_hook(_check, with_kwargs=True))
    if freeze:
        ours = {id(parameter) for inserted in inserted_layers(model) for parameter in inserted.parameters()}
        for parameter in model.parameters():
            if id(parameter) not in ours:
                parameter.requires_grad_(False)
    return cast(Context, context)


def _made(model: Any, layer: str, entry: int, options: dict[str, Any], ticks: tuple[int, ...] | None) -> InsertedLayer:
    like = next(model.parameters())
    inserted = InsertedLayer(layer, model.config.hidden_size, entry, options, ticks).to(like.device, like.dtype)
    return inserted.train(model.training)


def _remember(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before the model runs: what only it is told, and its layers are not."""
    context: Context = module.__dict__[_CONTEXT]
    context.forgot = False
    ids = kwargs.get("input_ids", args[0] if args else None)
    context.ids = ids if isinstance(ids, Tensor) else None
    context.mask = kwargs.get("attention_mask") if isinstance(kwargs.get("attention_mask"), Tensor) else None
    offsets = kwargs.get("cu_seq_lens_q")
    context.offsets = offsets if isinstance(offsets, torch.Tensor) else None


def _check(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
    """After the model has run: whoever goes on from its cache must find our states there."""
    context: Context = module.__dict__[_CONTEXT]
    if not context.forgot or (module.training and torch.is_grad_enabled()):
        return
    made = output if isinstance(output, tuple) else getattr(output, "values", tuple)()
    if kwargs.get("use_cache") or cache_among(args, kwargs.values(), made) is not None:
        raise InvalidInputError(
            f"{type(module).__name__} hands its decoder layers no cache in which ours could keep their states; "
            "call it with use_cache=False."
        )


def _before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Before a decoder layer runs: our layer changes what it gets."""
    inserted, context = cast(InsertedLayer, module._modules[_CHILD]), module.__dict__[_CONTEXT]
    cache = cache_among(args, kwargs.values())
    if args:
        return (inserted.run(args[0], context, cache), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": inserted.run(kwargs["hidden_states"], context, cache)}
