"""Is what the kernel computes right? Checked before its time is reported."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from statetrack.bench.scan_cases import Op, Problem, Shape
from statetrack.scan import Backend

_CHECK = (2, 67)
"""Rows and length of the comparison with the double-precision reference."""

_FACTOR = 4.0
"""How much larger than that of the same-precision reference the kernel's error may be."""

_SAMPLES = 64


def against_reference(op: Op, n: int) -> dict[str, Any]:
    """Compare kernel and same-precision reference with the double-precision reference: states and every gradient.

    Returns:
        ``{"ok": ..., "error": {name: largest error over largest entry}, "budget": {name: what is allowed}}``.
    """
    problem = Problem.make(op, Shape(*_CHECK, n), seed=1)
    plain = replace(problem, transitions=problem.structure())
    truth, kernel, same = _results(plain.double(), "reference"), _results(problem, "cpu"), _results(plain, "reference")
    floor = 4 * torch.finfo(op.dtype).eps
    error = {name: _distance(kernel[name], exact) for name, exact in truth.items()}
    budget = {name: max(floor, _FACTOR * _distance(same[name], exact)) for name, exact in truth.items()}
    return {"ok": all(error[name] <= budget[name] for name in truth), "error": error, "budget": budget}


def at_full_length(problem: Problem) -> dict[str, Any]:
    """Cheap laws that hold at any length.

    One step of the recurrence, in double precision, from the kernel's own state at 64 tokens; and
    ``|x|^2 = Re <g_b, b> + Re <g_0, x_0>`` for the gradients that belong to the cotangent ``x``, because states are linear in
    inputs and initial state together.

    Returns:
        ``{"ok": ..., "step": largest error over largest entry, "energy": relative difference}``.
    """
    cotangent = problem.run("cpu")
    states, gradients = problem.gradients("cpu", cotangent=cotangent)
    step = _step_error(problem, states)
    energy = _inner(states, cotangent)
    parts = [_inner(gradients["initial"], problem.initial)]
    if problem.inputs is not None:
        parts.append(_inner(gradients["inputs"], problem.inputs))
    difference = abs(sum(parts) - energy) / energy
    eps = torch.finfo(problem.op.dtype).eps
    # Rounding adds up over as many tokens as a state lasts.
    allowed = max(1e3, 4 * math.sqrt(states.shape[1])) * eps
    return {"ok": step <= 16 * eps and difference <= allowed, "step": step, "energy": difference}


def _results(problem: Problem, backend: Backend) -> dict[str, Tensor]:
    states, gradients = problem.gradients(backend)
    return {"states": states, **gradients}


def _distance(x: Tensor, exact: Tensor) -> float:
    return float((x - exact).abs().max() / exact.abs().max())


def _inner(x: Tensor, y: Tensor) -> float:
    """``Re <x, y>``, summed in double precision."""
    x, y = (torch.view_as_real(t) if t.is_complex() else t for t in (x.resolve_conj(), y.resolve_conj()))
    return float((x * y).sum(dtype=torch.float64))


def _step_error(problem: Problem, states: Tensor) -> float:
    length = states.shape[1]
    tokens = torch.randint(length, (_SAMPLES,), generator=torch.Generator().manual_seed(2))
    tokens[:2] = torch.tensor([0, length - 1])
    before = states[:, tokens - 1].where((tokens > 0)[:, None, None], problem.initial.unsqueeze(1))
    picked = Problem(
        problem.op,
        problem.transitions[:, tokens],
        None if problem.inputs is None else problem.inputs[:, tokens],
        before,
        states[:, tokens],
    ).double()
    expected = picked.structure().apply(picked.initial)
    if picked.inputs is not None:
        expected = expected + picked.inputs
    return _distance(picked.cotangent, expected)
