"""Precision policy: what decides a transition never falls below float32.

Values near 1, such as a decay ``exp(-5e-4)``, round to exactly 1 in half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` in float32, or as it is where it has more precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def zero_state(module: nn.Module, *shape: int) -> Tensor:
    """Zeros on the device of a module, in its dtype but at least float32."""
    return at_least_float32(next(module.parameters()).new_zeros(shape))


class KeepsFloat32(nn.Module):
    """Mixin for modules whose parameters named in ``float32_parameters`` stay float32 under ``.half()`` and ``.bfloat16()``.

    Other conversions, such as ``.double()`` or moves between devices, reach them as usual. List it before ``nn.Module`` classes.
    """

    float32_parameters: tuple[str, ...] = ()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = {name: self.get_parameter(name).detach() for name in self.float32_parameters}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in before.items():
            parameter = self.get_parameter(name)
            if torch.finfo(parameter.dtype).bits < 32 <= torch.finfo(value.dtype).bits:
                parameter.data = value.to(parameter.device)
        return self
