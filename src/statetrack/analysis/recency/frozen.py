"""Frozen gates: what a readout does to the state, with norms and gates held at the values they have in this run.

    f(z) -> z * sg(f(z) / z)        norm(z) -> z * sg(1 / scale(z))        glu(a, b) -> a * sg(sigmoid(b))

with ``sg`` for a constant. Values stay as they are; derivatives become those of a linear map, so that outputs are sums of what
the tokens before them contributed. A plain derivative would lose the part along the state itself, which a norm cancels. Source:
the unified view of gated recurrences as implicit attention (arXiv 2405.16504).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class FrozenGates(TorchFunctionMode):
    """While it is active, what a derivative flows through is linear: norms, GELU, SiLU, ReLU and GLU are held at their gains."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        frozen = _RULES.get(getattr(func, "__name__", ""))
        if frozen is None or not args or not isinstance(args[0], Tensor) or not args[0].requires_grad:
            return func(*args, **kwargs)
        return frozen(func, *args, **kwargs)


def _gain(func: Callable[..., Tensor], z: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    value = z.detach()
    out = func(value, *args, **kwargs)
    tiny = value.abs() < torch.finfo(value.dtype).tiny
    return z * torch.where(tiny, 0.5, out / torch.where(tiny, 1.0, value))  # both GELU and SiLU have the slope 1/2 at 0


def _rectified(_: Any, z: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return z * (z.detach() > 0)


def _gated(_: Any, z: Tensor, dim: int = -1) -> Tensor:
    value, gate = z.chunk(2, dim=dim)
    return value * gate.detach().sigmoid()


def _rms_norm(_: Any, z: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(z.dtype).eps if eps is None else eps
    y = z * (z.detach().square().mean(dims, keepdim=True) + eps).rsqrt()
    return y if weight is None else y * weight


def _layer_norm(
    _: Any, z: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any
) -> Tensor:
    dims = tuple(range(-len(shape), 0))
    centred = z - z.mean(dims, keepdim=True)
    y = centred * (centred.detach().square().mean(dims, keepdim=True) + eps).rsqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _group_norm(
    _: Any, z: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any
) -> Tensor:
    y = _layer_norm(None, z.reshape(len(z), groups, -1), (z[0].numel() // groups,), eps=eps).reshape(z.shape)
    per_channel = (1, -1) + (1,) * (z.ndim - 2)
    y = y if weight is None else y * weight.view(per_channel)
    return y if bias is None else y + bias.view(per_channel)


_RULES: dict[str, Callable[..., Tensor]] = {
    "gelu": _gain,
    "silu": _gain,
    "relu": _rectified,
    "glu": _gated,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
}
"""By the name of torch's function."""
