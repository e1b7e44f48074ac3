"""What outputs read from the state before their token: derivatives of single steps of a layer.

    y_t = Re sum conj(R_t) h_{t-1} + ...

Letters: B = rows, T = tokens, E = ``d_model``, H = heads, N = state size, V = columns of a matrix state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.analysis.recency.frozen import FrozenGates
from statetrack.analysis.recency.unrolled import Unrolled


def readouts(run: Unrolled, tokens: slice, *, frozen: bool | None = None) -> Tensor:
    """``R``, ``(B, T, E, H, N, V)``: output e is ``Re sum conj(R_e) h`` plus what does not depend on the state ``h`` before it.

    Args:
        run: the run.
        tokens: which outputs.
        frozen: hold norms and gates; None means for layers that are linear in their state.
    """
    frozen = run.layer.traits.linear if frozen is None else frozen
    h = run.h[:, :-1][:, tokens].flatten(0, 1).clone().requires_grad_()
    with torch.enable_grad():
        if frozen:
            with FrozenGates():
                y, _ = run.one_step(tokens, h)
        else:
            y, _ = run.one_step(tokens, h)
    columns = [
        torch.autograd.grad(y[:, e].sum(), h, retain_graph=True, allow_unused=True, materialize_grads=True)[0]
        for e in range(y.shape[1])
    ]
    return torch.stack(columns, dim=1).unflatten(0, (len(run.x), -1))
