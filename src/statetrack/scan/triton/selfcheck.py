"""A known answer before the first use of a GPU: kernels that a compiler or a GPU model gets wrong are refused, not believed."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from statetrack.errors import BackendError
from statetrack.scan.triton.launch import WARP_STATES
from statetrack.scan.triton.passes import Form, Problem, backward, forward, run
from statetrack.scan.triton.spans import spans
from statetrack.structures import ColumnOneHot, RowOneHot

_TOKENS, _CHUNK, _FEW = 5, 2, 8
_TOLERANCE = 1e-4


def verify(problem: Problem) -> None:
    """Check the kernels of such a problem, once per process.

    Raises:
        BackendError: they give wrong values on this device.
    """
    _verify(problem.value.device, problem.form, problem.value.is_complex(), problem.width > WARP_STATES)


@lru_cache(maxsize=64)
def _verify(device: torch.device, form: Form, is_complex: bool, many_warps: bool) -> None:
    errors = known_answer(device, form, is_complex, 2 * WARP_STATES if many_warps else _FEW)
    wrong = [f"{name} by {error:.1e}" for name, error in errors.items() if not error <= _TOLERANCE]  # NaN is wrong too.
    if wrong:
        raise BackendError(
            f"the triton kernels for {form} scans give wrong values on {device}: in a scan of {_TOKENS} tokens that should be "
            f"right to {_TOLERANCE}, off are {', '.join(wrong)}. Use backend='tree'."
        )


def known_answer(device: torch.device, form: Form, is_complex: bool, n: int) -> dict[str, float]:
    """Largest errors of states and gradients, relative to the largest entry, against equations in double precision."""
    exact, dtype = (torch.complex128, torch.complex64) if is_complex else (torch.float64, torch.float32)
    generator = torch.Generator().manual_seed(0)
    d, b, g = (torch.randn(_TOKENS, 1, n, generator=generator, dtype=exact) for _ in range(3))
    x0 = torch.randn(1, 1, n, generator=generator, dtype=exact)
    index = torch.randint(n, (_TOKENS, n), generator=generator)
    maps = None if form == "diagonal" else index.to(device, torch.int16)
    value, inputs, cotangent, initial = (x.to(device, dtype) for x in (d, b, g, x0))
    problem = Problem(value, form, spans(1, _TOKENS, _CHUNK, None), dtype, maps)
    states = forward(problem, inputs, initial)
    run(states.launches)
    back = backward(problem, states.states, initial, cotangent, torch.zeros_like(initial), dtype)
    run(back.launches)
    found = {"states": states.states, "g_value": back.value, "g_inputs": back.inputs, "g_initial": back.initial}
    truth = _equations(form, index, *(x.squeeze(1) for x in (d, b, x0, g)))
    return {name: _distance(found[name], truth[name]) for name in truth}


def _equations(form: Form, index: Tensor, d: Tensor, b: Tensor, x0: Tensor, g: Tensor) -> dict[str, Tensor]:
    """The recurrence and its gradients, one token after another."""
    n = d.shape[-1]
    ones = torch.ones(n, dtype=d.dtype)
    kinds = {"column": ColumnOneHot, "row": RowOneHot}
    where = index if form != "diagonal" else torch.arange(n).expand_as(index)
    selections = [kinds.get(form, RowOneHot)(i, ones) for i in where]
    column = form == "column"
    states = [x0[0]]
    for p, d_t, b_t in zip(selections, d, b, strict=True):
        states.append((p.apply(d_t * states[-1]) if column else d_t * p.apply(states[-1])) + b_t)
    carry, g_value, g_inputs = torch.zeros_like(x0[0]), torch.empty_like(d), torch.empty_like(d)
    for t, (before, _) in reversed(list(enumerate(pairwise(states)))):
        p, total = selections[t], g[t] + carry
        g_inputs[t] = total
        if column:
            back = p.apply_adjoint(total)
            g_value[t], carry = back * before.conj(), d[t].conj() * back
        else:
            g_value[t], carry = total * p.apply(before).conj(), p.apply_adjoint(d[t].conj() * total)
    return {"states": torch.stack(states[1:]), "g_value": g_value, "g_inputs": g_inputs, "g_initial": carry.unsqueeze(0)}


def _distance(found: Tensor | None, exact: Tensor) -> float:
    assert found is not None
    return float((found.squeeze(1).to("cpu", exact.dtype) - exact).abs().max() / exact.abs().max())
