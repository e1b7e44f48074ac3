"""The fused generator: from the projections of a layer's input to what a routed scan takes, in one launch.

    D = |D| exp(i phi)          log |D| = -rate softplus(+-decay)          phi = phase, or 2 pi sigmoid(phase)
    b = drive, its two halves as real and imaginary parts
    k = argmax of the router's logits, with the gradient of softmax(logits / tau)

Letters: T = tokens, S = H N channels, H = heads, K = entries. Projections are read in the precision they come in, and nothing of
size T S is kept but them and ``D``, which the scan keeps anyway; the backward pass is one launch as well. Gradients of ``rate``
are summed per block of tokens and then over blocks, so that no result depends on the order of programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from statetrack.errors import BackendError
from statetrack.scan.parts import polar_diagonal
from statetrack.scan.triton.generator_kernels import generate, generate_backward
from statetrack.scan.triton.launch import Argument, Launch, block_of

_TILE = 512
"""Entries that a program holds at a time."""
_WIDEST = 128
_WARPS = 4


class _Sizes:
    """Grid and tile of a call."""

    def __init__(self, value: Tensor, logits: Tensor) -> None:
        self.n_tokens, self.channels = value.shape
        self.heads, self.entries = logits.shape[1:]
        self.block = min(block_of(self.channels), _WIDEST)
        self.lanes = block_of(self.entries)
        self.rows = max(1, _TILE // max(self.block, self.lanes))
        self.token_blocks = triton.cdiv(self.n_tokens, self.rows)

    def launch(self, kernel: object, arguments: dict[str, Argument], flags: dict[str, object]) -> Launch:
        sizes: dict[str, Argument] = {
            "n_tokens": self.n_tokens,
            "channels": self.channels,
            "heads": self.heads,
            "entries": self.entries,
        }
        tile = {"ROWS": self.rows, "BLOCK": self.block, "ENTRIES": self.lanes}
        grid = self.token_blocks, triton.cdiv(self.channels, self.block) + self.heads
        return Launch(kernel, grid, arguments | sizes, flags | tile, _WARPS)


def _flags(
    decay: Tensor | None, rate: Tensor | None, phase: Tensor | None, drive: Tensor | None, rising: bool, turns: bool
) -> dict[str, object]:
    return {
        "HAS_DECAY": decay is not None,
        "HAS_RATE": rate is not None,
        "HAS_DRIVE": drive is not None,
        "COMPLEX": phase is not None,
        "RISING": rising,
        "TURNS": turns,
    }


def _plain(x: Tensor) -> Tensor:
    """Contiguous, without lazy conjugation."""
    return x.detach().resolve_conj().resolve_neg().contiguous()


def _given(x: Tensor | None) -> Tensor | None:
    return None if x is None else _plain(x)


def _outputs(
    decay: Tensor | None, phase: Tensor | None, drive: Tensor | None, logits: Tensor, credited: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Room for ``value``, ``inputs``, ``route`` and ``routing``."""
    like = decay if phase is None else phase
    assert like is not None
    real = torch.promote_types(like.dtype, torch.float32)
    value = like.new_empty(like.shape, dtype=real if phase is None else real.to_complex())
    inputs = value.new_empty(0 if drive is None else value.shape)
    route = logits.new_empty(logits.shape[:2], dtype=torch.int64)
    return value, inputs, route, logits.new_empty(logits.shape if credited else 0, dtype=real)


def forward_launch(
    decay: Tensor | None,
    rate: Tensor | None,
    phase: Tensor | None,
    drive: Tensor | None,
    logits: Tensor,
    results: tuple[Tensor, Tensor, Tensor, Tensor],
    rising: bool,
    turns: bool,
) -> Launch:
    """The launch that fills ``results``."""
    value, inputs, route, routing = results
    given: dict[str, Argument] = {"decay": decay, "rate": rate, "phase": phase, "drive": drive, "logits": logits}
    made: dict[str, Argument] = {"value": value, "inputs": inputs, "route": route, "routing": routing}
    flags = _flags(decay, rate, phase, drive, rising, turns) | {"CREDITED": bool(routing.numel())}
    return _Sizes(value, logits).launch(generate, given | made, flags)


@torch.library.custom_op("statetrack::triton_generate", mutates_args=())
def triton_generate(
    decay: Tensor | None,
    rate: Tensor | None,
    phase: Tensor | None,
    drive: Tensor | None,
    logits: Tensor,
    rising: bool,
    turns: bool,
    temperature: Tensor,
    credited: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``D (T, S)``, ``b (T, S)`` (empty without ``drive``), routes ``(T, H)`` and, if ``credited``, ``routing (T, H, K)``.

    ``decay (T, S)`` (None: modulus 1), ``rate (S,)`` (None: 1), ``phase (T, S)`` (None: a real diagonal), ``drive (T, 2 S)`` or
    for a real diagonal ``(T, S)``, ``logits (T, H, K)``. ``routing`` is the one-hot form of the routes, for their
    credit at ``temperature ()``, a tensor because it changes during training.
    """
    results = _outputs(decay, phase, drive, logits, credited)
    with torch.cuda.device_of(logits):
        if logits.is_cuda and not torch.cuda.is_current_stream_capturing():
            verify(logits.device)
        given = _given(decay), _given(rate), _given(phase), _given(drive)
        forward_launch(*given, _plain(logits), results, rising, turns)()
    return results


@torch.library.custom_op("statetrack::triton_generate_backward", mutates_args=())
def triton_generate_backward(
    decay: Tensor | None,
    rate: Tensor | None,
    phase: Tensor | None,
    logits: Tensor,
    value: Tensor,
    g_value: Tensor,
    g_inputs: Tensor | None,
    g_routing: Tensor,
    drive_dtype: torch.dtype | None,
    rising: bool,
    turns: bool,
    temperature: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of decay, rate, phase, drive (each empty where there is none) and logits."""
    results, launch = backward_launch(
        _given(decay),
        _given(rate),
        _given(phase),
        _plain(logits),
        _plain(value),
        _plain(g_value),
        _given(g_inputs),
        _plain(g_routing),
        drive_dtype,
        rising,
        turns,
        temperature,
    )
    with torch.cuda.device_of(value):
        launch()
    g_decay, shares, g_phase, g_drive, g_logits = results
    return g_decay, shares.sum(0).to(rate.dtype) if rate is not None else shares, g_phase, g_drive, g_logits


def backward_launch(
    decay: Tensor | None,
    rate: Tensor | None,
    phase: Tensor | None,
    logits: Tensor,
    value: Tensor,
    g_value: Tensor,
    g_inputs: Tensor | None,
    g_routing: Tensor,
    drive_dtype: torch.dtype | None,
    rising: bool,
    turns: bool,
    temperature: Tensor,
) -> tuple[tuple[Tensor, ...], Launch]:
    """Room for the gradients, those of ``rate`` by block of tokens, and the launch that fills it."""
    sizes, real = _Sizes(value, logits), value.real.dtype

    def like(x: Tensor | None) -> Tensor:
        return value.new_empty(0, dtype=real) if x is None else torch.empty_like(x)

    shares = value.new_empty(0 if rate is None else (sizes.token_blocks, sizes.channels), dtype=real)
    width = sizes.channels * (1 if phase is None else 2)
    drive_shape = 0 if drive_dtype is None else (sizes.n_tokens, width)
    g_drive = value.new_empty(drive_shape, dtype=drive_dtype or real)
    results = like(decay), shares, like(phase), g_drive, torch.empty_like(logits)
    given: dict[str, Argument] = {"decay": decay, "rate": rate, "phase": phase, "logits": logits}
    given["temperature"] = temperature.detach().to(value.device, real)
    coming: dict[str, Argument] = {"value": value, "g_value": g_value, "g_inputs": g_inputs, "g_routing": g_routing}
    made: dict[str, Argument] = dict(zip(("g_decay", "g_rate", "g_phase", "g_drive", "g_logits"), results, strict=True))
    flags = _flags(decay, rate, phase, None if drive_dtype is None else g_drive, rising, turns)
    return results, sizes.launch(generate_backward, given | coming | made, flags)


@triton_generate.register_fake
def _(decay, rate, phase, drive, logits, rising, turns, temperature, credited):  # type: ignore[no-untyped-def]
    return _outputs(decay, phase, drive, logits, credited)


@triton_generate_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    decay, rate, phase, logits, value, g_value, g_inputs, g_routing, drive_dtype, rising, turns, temperature
):
    real = value.real.dtype

    def like(x: Tensor | None) -> Tensor:
        return value.new_empty(0, dtype=real) if x is None else x.new_empty(x.shape)

    width = value.shape[1] * (1 if phase is None else 2)
    drive_shape = 0 if drive_dtype is None else (value.shape[0], width)
    g_drive = value.new_empty(drive_shape, dtype=drive_dtype or real)
    return like(decay), like(rate), like(phase), g_drive, logits.new_empty(logits.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    decay, rate, phase, drive, logits, ctx.rising, ctx.turns, temperature, ctx.credited = inputs
    ctx.save_for_backward(decay, rate, phase, logits, output[0], temperature)
    ctx.drive_dtype = None if drive is None else drive.dtype
    ctx.set_materialize_grads(True)


def _gradients(ctx: Any, g_value: Tensor, g_inputs: Tensor, _: Tensor | None, g_routing: Tensor) -> tuple[Tensor | None, ...]:
    decay, rate, phase, logits, value, temperature = ctx.saved_tensors
    has_drive = ctx.drive_dtype is not None
    credit = g_routing if ctx.credited else torch.zeros_like(logits, dtype=value.real.dtype)
    g_decay, g_rate, g_phase, g_drive, g_logits = triton_generate_backward(
        decay,
        rate,
        phase,
        logits,
        value,
        g_value,
        g_inputs if has_drive else None,
        credit,
        ctx.drive_dtype,
        ctx.rising,
        ctx.turns,
        temperature,
    )
    return (
        None if decay is None else g_decay,
        None if rate is None else g_rate,
        None if phase is None else g_phase,
        g_drive if has_drive else None,
        g_logits if ctx.credited else None,
        *[None] * 4,
    )


triton_generate.register_autograd(_gradients, setup_context=_save)


def launches(n_tokens: int, n_heads: int, n: int, n_entries: int, dtype: torch.dtype) -> Iterator[tuple[str, Launch]]:
    """Both launches with everything that there can be, on tensors without memory; ``dtype`` is that of ``D``."""
    real, channels = dtype.to_real(), n_heads * n

    def meta(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=real, device="meta")

    decay, rate, phase = meta(n_tokens, channels), meta(channels), meta(n_tokens, channels) if dtype.is_complex else None
    drive, logits = meta(n_tokens, (2 if dtype.is_complex else 1) * channels), meta(n_tokens, n_heads, n_entries)
    results = _outputs(decay, phase, drive, logits, True)
    yield "forward", forward_launch(decay, rate, phase, drive, logits, results, False, True)
    value, inputs, _, routing = results
    yield "backward", backward_launch(decay, rate, phase, logits, value, value, inputs, routing, real, False, True, meta())[1]


@lru_cache(maxsize=64)
def verify(device: torch.device) -> None:
    """A known answer before the first use of a device.

    Raises:
        BackendError: the kernel gives wrong values there.
    """
    generator = torch.Generator().manual_seed(0)
    decay, phase, drive, logits = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((5, 6), (5, 6), (5, 12), (5, 2, 3))
    )
    rate = torch.rand(6, generator=generator, dtype=torch.float64)
    d, r, p, b, s = (x.to(device, torch.float32) for x in (decay, rate, phase, drive, logits))
    results = _outputs(d, p, b, s, True)
    forward_launch(d, r, p, b, s, results, False, True)()
    exact = polar_diagonal(decay, rate, phase, rising=False, turns=True), torch.complex(*drive.chunk(2, dim=1)), logits.argmax(-1)
    errors = [float((found.cpu() - right).abs().max()) for found, right in zip(results, exact, strict=False)]
    if not max(errors) <= 1e-4:
        raise BackendError(f"the triton kernel that makes D, b and routes gives wrong values on {device}. Use backend='tree'.")
