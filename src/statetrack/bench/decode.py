"""``statetrack bench decode``: one token at a time, ours and those of other libraries, and whether the cost depends on position.

All layers advance together, a window of tokens each in turn, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from statetrack.bench.base import Benchmark, Note, Report, benchmarks
from statetrack.bench.decode_report import figure, tables
from statetrack.bench.layer_cases import CONTENDERS, label_of
from statetrack.bench.runner import Contender, NotRun, Runner, build
from statetrack.bench.timing import clock, seconds, spread

_WINDOW = 32
_CHECKED = 24
"""Tokens over which steps are compared with one pass."""


def measure(quick: bool, note: Note, *, width: int = 256, batch: int = 1, length: int | None = None) -> Report:
    """The report of all layers that run here."""
    length = (512 if quick else 4096) if length is None else length
    return measure_steps(CONTENDERS, note, width=width, batch=batch, length=length)


def measure_steps(contenders: tuple[Contender, ...], note: Note, *, width: int, batch: int, length: int) -> Report:
    """The report: ``entries`` by time, ``not_run`` with reasons, ``refused``; ratios are to the first contender."""
    found: dict[str, tuple[Contender, Runner]] = {}
    not_run, refused = [], []
    for contender in contenders:
        label = label_of(contender)
        note(f"build {label}")
        try:
            runner = build(contender, width).eval()
        except NotRun as reason:
            not_run.append({"name": label, "reason": str(reason)})
            continue
        error = steps_against_one_pass(runner, width)
        if error <= 1e-4:
            found[label] = contender, runner
        else:
            refused.append({"name": label, "error": error})
    x = torch.randn(batch, _WINDOW, width, generator=torch.Generator().manual_seed(0))
    walks = {label: _Walk(runner, x) for label, (_, runner) in found.items()}
    rounds = max(2, length // _WINDOW)
    for i in range(rounds):
        note(f"window {i + 1} of {rounds}")
        order = list(walks.values())
        for walk in order if i % 2 == 0 else reversed(order):
            walk.advance()
    first = next(iter(walks), "")
    entries = [_entry(contender, walks[label], walks[first]) for label, (contender, _) in found.items()]
    return {
        "settings": {"width": width, "batch": batch, "length": rounds * _WINDOW, "window": _WINDOW, "clock": clock()},
        "entries": sorted(entries, key=lambda entry: entry["us_per_step"]["median"]),
        "first": first,
        "not_run": not_run,
        "refused": refused,
    }


class _Walk:
    """A layer on its way through a sequence."""

    def __init__(self, runner: Runner, x: Tensor) -> None:
        self.runner, self.tokens = runner, x.unbind(1)
        self.us: list[float] = []
        with torch.no_grad():
            for x_t in self.tokens[:4]:  # from a state that is thrown away: what the first calls load or compile is not timed
                state = runner.step(x_t, runner.start(len(x_t)))[1]
            self.state = runner.start(len(x))
            self.bytes = [state_bytes(state)]

    def advance(self) -> None:
        """One window."""
        self.us.append(1e6 * seconds(self._run) / len(self.tokens))
        self.bytes.append(state_bytes(self.state))

    def _run(self) -> None:
        with torch.no_grad():
            for x_t in self.tokens:
                self.state = self.runner.step(x_t, self.state)[1]


def _entry(contender: Contender, walk: _Walk, first: _Walk) -> dict[str, Any]:
    quarter = max(1, len(walk.us) // 4)
    early, late = (statistics.median(part) for part in (walk.us[:quarter], walk.us[-quarter:]))
    return {
        "name": contender.name,
        "library": contender.library,
        "about": contender.about,
        "us_per_step": spread(walk.us),
        "over_first": spread([mine / theirs for mine, theirs in zip(walk.us, first.us, strict=True)]),
        "late_over_early": late / early,
        "state_bytes": walk.bytes[-1],
        "state_grows": walk.bytes[-1] > walk.bytes[0],
        "windows_us": walk.us,
    }


def steps_against_one_pass(runner: Runner, width: int) -> float:
    """Largest difference between steps and one pass, over the largest output."""
    x = torch.randn(2, _CHECKED, width, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole, state, steps = runner(x), runner.start(2), []
        for x_t in x.unbind(1):
            y, state = runner.step(x_t, state)
            steps.append(y)
    return float((torch.stack(steps, dim=1) - whole).abs().max() / whole.abs().max())


def state_bytes(state: Any) -> int:
    """Bytes of all tensors in a state."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(state))


def _tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
        return
    if isinstance(state, dict):
        inner: Any = state.values()
    elif isinstance(state, list | tuple):
        inner = state
    else:
        inner = vars(state).values() if hasattr(state, "__dict__") else ()
    for part in inner:
        yield from _tensors(part)


benchmarks.register("decode")(Benchmark(measure, tables, figure, ("width", "batch", "length")))
