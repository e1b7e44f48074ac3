"""The layers that ``bench layer`` and ``bench decode`` compare, the step they time, and what a profiler says about it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from statetrack.bench.peers import PEERS
from statetrack.bench.runner import Contender, Runner, own
from statetrack.errors import UnknownNameError

OURS = (
    own("flash-pd-ssm", "N = 128, K = 8, D by two-layer nets", d_state=128),
    own(
        "flash-pd-ssm",
        "2 heads of N = 128, K = 16, D by linear maps, gated readout",
        name="flash-pd-ssm, wide",
        d_state=128,
        n_heads=2,
        dictionary_size=16,
        d_generator="decay_phase",
        readout="gated",
    ),
    own("pd-ssm", "N = 128, K = 8", d_state=128),
    own("complex-diagonal", "N = 128", d_state=128),
    own("mamba", "state 16, 2 E channels"),
    own("mamba2", "state 128, 2 E channels in heads of 64"),
    own("gated-deltanet", "its defaults"),
)
CONTENDERS: tuple[Contender, ...] = (*OURS, *PEERS)
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mkldnn_linear", "linear")


def by_name(label: str) -> Contender:
    """The contender called ``"library: name"``."""
    known = {label_of(contender): contender for contender in CONTENDERS}
    if label not in known:
        raise UnknownNameError("contender", label, known)
    return known[label]


def label_of(contender: Contender) -> str:
    """Names are unique only within a library."""
    return f"{contender.library}: {contender.name}"


def training_step(runner: Runner, x: Tensor) -> None:
    """Forward and backward from a cotangent of the whole output; the input gets a gradient, as inside a network."""
    runner(x.detach().requires_grad_()).backward(x)
    runner.zero_grad()


def shares(runner: Runner, x: Tensor) -> dict[str, float]:
    """Parts of a training step's time: ``products`` (of matrices), ``scan`` (our kernels, credit of choices included) and
    ``rest``."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        training_step(runner, x)
    found = {"products": 0.0, "scan": 0.0, "rest": 0.0}
    for event in seen.events() or ():
        found[_kind(event)] += event.self_cpu_time_total
    total = sum(found.values())
    return {kind: time / total for kind, time in found.items()}


def _kind(event: Any) -> str:
    node = event
    while node is not None:
        if node.name.startswith("statetrack::"):
            return "scan"
        node = node.cpu_parent
    return "products" if event.name.removeprefix("aten::") in _PRODUCTS else "rest"


def check(runner: Runner, width: int) -> dict[str, Any]:
    """Does a layer of ours give what it gives in double precision on the slow path, output and gradients?

    Returns:
        ``{"ok": ..., "error": largest error over largest entry, "budget": ...}``.
    """
    exact = copy.deepcopy(runner).double()
    for module in exact.modules():
        if hasattr(module, "backend"):
            setattr(module, "backend", "reference")  # noqa: B010  (an option of some layers, unknown to nn.Module)
    x = torch.randn(2, 67, width, generator=torch.Generator().manual_seed(1))
    error = max(
        float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-30))
        for a, b in zip(_outcome(runner, x), _outcome(exact, x.double()), strict=True)
    )
    return {"ok": error <= 1e-3, "error": error, "budget": 1e-3}


def _outcome(runner: Runner, x: Tensor) -> list[Tensor]:
    x = x.detach().requires_grad_()
    y = runner(x)
    used = [p for p in runner.parameters() if p.requires_grad]
    found = torch.autograd.grad(y.square().sum(), [x, *used], allow_unused=True)
    return [y.detach(), *(torch.zeros(1, dtype=y.dtype) + 1 if g is None else g for g in found)]
