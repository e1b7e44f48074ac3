"""Custom ops over ``part_loops``: complex numbers from their parts and back, and the diagonal ``D = |D| exp(i phi)``.

The diagonal is made a block of tokens at a time, in buffers that stay in cache: only ``D`` itself, and for the backward pass the
logits, are kept. With ``g`` the gradient of ``D``, that of ``log |D|`` is ``Re(conj(D) g)`` and that of the phase
``Im(conj(D) g)``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from statetrack.scan.cpu import part_loops
from statetrack.scan.cpu.memory import empty
from statetrack.scan.cpu.ops import as_reals, flat
from statetrack.scan.cpu.threads import over_ranges

_BLOCK = 1 << 14
"""Entries of a buffer; the six that the backward pass needs fit in a second-level cache."""


@torch.library.custom_op("statetrack::join_parts", mutates_args=())
def join_parts(parts: Tensor) -> Tensor:
    """Complex ``(..., n)`` from real ``(..., 2 n)``, real parts first."""
    n = parts.shape[-1] // 2
    out = empty((*parts.shape[:-1], n), parts.dtype.to_complex())
    source, target = flat(parts, parts), as_reals(out)
    over_ranges(out.numel() // max(n, 1), lambda lo, hi: part_loops.join(source, target, n, lo, hi))
    return out


@torch.library.custom_op("statetrack::split_parts", mutates_args=())
def split_parts(z: Tensor) -> Tensor:
    """Real ``(..., 2 n)``, real parts first, from complex ``(..., n)``."""
    n = z.shape[-1]
    out = empty((*z.shape[:-1], 2 * n), z.real.dtype)
    source, target = as_reals(z), out.view(-1).numpy()
    over_ranges(z.numel() // max(n, 1), lambda lo, hi: part_loops.split(source, target, n, lo, hi))
    return out


@torch.library.custom_op("statetrack::polar", mutates_args=())
def polar(decay: Tensor | None, rate: Tensor | None, phase: Tensor, rising: bool, turns: bool) -> Tensor:
    """``exp(log|D| + i phi)``, complex ``(T, n)``, from logits ``decay (T, n)`` and ``phase (T, n)``.

    ``log|D|`` is ``rate (n,)``, or 1, times ``-softplus(decay)``, or with ``rising`` times ``-softplus(-decay)``; 0 without
    ``decay``. ``phi`` is ``phase``, or with ``turns`` ``2 pi sigmoid(phase)``.
    """
    out = empty(phase.shape, phase.dtype.to_complex())
    target, angles = as_reals(out), phase.detach()
    logits = None if decay is None else decay.detach()

    def work(start: int, stop: int) -> None:
        modulus, cosine, sine = (angles.new_empty(_rows(phase), phase.shape[-1]) for _ in range(3))
        for lo in range(start, stop, _rows(phase)):
            hi = min(lo + _rows(phase), stop)
            r, c, s = modulus[: hi - lo], cosine[: hi - lo], sine[: hi - lo]
            if turns:
                torch.sigmoid(angles[lo:hi], out=r)
                r.mul_(2 * math.pi)
            else:
                r.copy_(angles[lo:hi])
            torch.cos(r, out=c)
            torch.sin(r, out=s)
            if logits is None:
                r.fill_(1)
            elif rate is None:
                torch.sigmoid(logits[lo:hi] if rising else -logits[lo:hi], out=r)
            else:
                r.copy_(_softplus(logits[lo:hi], rising)).mul_(-rate.detach()).exp_()
            part_loops.polar(r.view(-1).numpy(), c.view(-1).numpy(), s.view(-1).numpy(), target, lo * phase.shape[-1])

    _over_rows(phase, work)
    return out


@torch.library.custom_op("statetrack::polar_backward", mutates_args=())
def polar_backward(
    out: Tensor, decay: Tensor | None, rate: Tensor | None, phase: Tensor, rising: bool, turns: bool, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of decay, rate (empty where they are absent) and phase."""
    n = phase.shape[-1]
    g_phase = empty(phase.shape, phase.dtype)
    g_decay = phase.new_empty(0) if decay is None else empty(phase.shape, phase.dtype)
    shares = phase.new_zeros(0 if rate is None else -(-len(phase) // _rows(phase)), n)
    pairs, g_pairs, angles = as_reals(out), as_reals(g), phase.detach()
    logits, rates = (None if x is None else x.detach() for x in (decay, rate))

    def work(start: int, stop: int) -> None:
        log_modulus, slope = (angles.new_empty(_rows(phase), n) for _ in range(2))
        for lo in range(start, stop, _rows(phase)):
            hi = min(lo + _rows(phase), stop)
            m, s, p = log_modulus[: hi - lo], slope[: hi - lo], g_phase[lo:hi]
            part_loops.polar_credit(pairs, g_pairs, m.view(-1).numpy(), p.view(-1).numpy(), lo * n)
            if turns:
                torch.sigmoid(angles[lo:hi], out=s)
                torch.ops.aten.sigmoid_backward.grad_input(p, s, grad_input=p)
                p.mul_(2 * math.pi)
            if logits is None:
                continue
            if rates is not None:
                shares[lo // _rows(phase)] = -(m * _softplus(logits[lo:hi], rising)).sum(0)
                m.mul_(rates)
            torch.sigmoid(-logits[lo:hi] if rising else logits[lo:hi], out=s)
            torch.mul(m, s if rising else s.neg_(), out=g_decay[lo:hi])

    _over_rows(phase, work)
    return g_decay, phase.new_empty(0) if rate is None else shares.sum(0), g_phase


def _softplus(x: Tensor, rising: bool) -> Tensor:
    return torch.nn.functional.softplus(-x if rising else x)


def _rows(x: Tensor) -> int:
    return max(1, _BLOCK // max(x.shape[-1], 1))


def _over_rows(x: Tensor, work: Any) -> None:
    """Blocks of rows, each done by one thread, whose borders do not depend on their number."""
    size, n_rows = _rows(x), len(x)

    def run(first: int, last: int) -> None:
        with torch.no_grad():  # of this thread
            work(first * size, min(last * size, n_rows))

    over_ranges(-(-n_rows // size), run)


@join_parts.register_fake
def _(parts):  # type: ignore[no-untyped-def]
    return parts.new_empty(*parts.shape[:-1], parts.shape[-1] // 2, dtype=parts.dtype.to_complex())


@split_parts.register_fake
def _(z):  # type: ignore[no-untyped-def]
    return z.new_empty(*z.shape[:-1], 2 * z.shape[-1], dtype=z.dtype.to_real())


@polar.register_fake
def _(decay, rate, phase, rising, turns):  # type: ignore[no-untyped-def]
    return phase.new_empty(phase.shape, dtype=phase.dtype.to_complex())


@polar_backward.register_fake
def _(out, decay, rate, phase, rising, turns, g):  # type: ignore[no-untyped-def]
    def like(x: Tensor | None) -> Tensor:
        return phase.new_empty(0 if x is None else x.shape)

    return like(decay), like(rate), like(phase)


def _save_polar(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    decay, rate, phase, ctx.rising, ctx.turns = inputs
    ctx.save_for_backward(output, decay, rate, phase)


def _polar_gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    out, decay, rate, phase = ctx.saved_tensors
    g_decay, g_rate, g_phase = polar_backward(out, decay, rate, phase, ctx.rising, ctx.turns, g)
    return None if decay is None else g_decay, None if rate is None else g_rate, g_phase, None, None


join_parts.register_autograd(lambda ctx, g: split_parts(g))
split_parts.register_autograd(lambda ctx, g: join_parts(g))
polar.register_autograd(_polar_gradients, setup_context=_save_polar)
