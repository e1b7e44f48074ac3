"""What the kernels need, compiled ahead of time: ``python -m statetrack.scan.triton.report [--write docs/kernels.md]``.

No GPU is needed. Counts are static: every instruction of a kernel once, prologues and the plan of a chunk's map included.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
import triton

from statetrack.scan.triton.ahead import Resources, compile_ahead
from statetrack.scan.triton.credit import credit
from statetrack.scan.triton.generator import launches as generator_launches
from statetrack.scan.triton.launch import Launch
from statetrack.scan.triton.passes import Form, Problem, backward, forward
from statetrack.scan.triton.spans import spans

CAPABILITIES = (80, 90)
FORMS: tuple[Form, ...] = ("diagonal", "row", "column")
GENERATOR = "generator"
"""What makes the arguments of a scan. It works in tiles, so that what it needs does not depend on N."""
_BEGIN, _END = "<!-- table: begin -->", "<!-- table: end -->"
_ROWS, _LENGTH, _HEADS, _ENTRIES, _CHUNK = 8, 4096, 16, 16, 128


@dataclass(frozen=True)
class Row:
    """A kernel of one direction of one form, and what it needs on one GPU."""

    form: str
    dtype: str
    n: int
    direction: str
    kernel: str
    capability: int
    resources: Resources


def launches(form: str, dtype: torch.dtype, n: int) -> Iterator[tuple[str, Launch]]:
    """All launches of a scan of the given form with inputs, maps by dictionary and several chunks, or of the fused generator; on
    tensors without memory."""
    if form == GENERATOR:
        yield from generator_launches(_ROWS * _LENGTH, _HEADS, n, _ENTRIES, dtype)
        return

    def meta(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=kind, device="meta")

    tokens = _ROWS * _LENGTH
    value, initial = meta(tokens, _HEADS, n), meta(_ROWS, _HEADS, n)
    maps, routes = meta(_HEADS * _ENTRIES, n, kind=torch.int16), meta(tokens, _HEADS, kind=torch.int64)
    one_hot = form != "diagonal"
    cut = spans(_ROWS, tokens, _CHUNK, None)
    problem = Problem(value, cast(Form, form), cut, dtype, maps if one_hot else None, routes if one_hot else None)
    there = forward(problem, value, initial)
    yield from (("forward", launch) for launch in there.launches)
    yield from (("backward", launch) for launch in backward(problem, there.states, initial, value, initial, dtype).launches)
    if one_hot:
        yield "credit", credit(problem, there.states, initial, value, True, True).launch


def measure(forms: tuple[str, ...], dtypes: tuple[torch.dtype, ...], sizes: tuple[int, ...]) -> list[Row]:
    """Compile everything for every capability."""
    return [
        Row(form, str(dtype).removeprefix("torch."), n, direction, launch.kernel.__name__, capability, compiled)
        for form in forms
        for dtype in dtypes
        for n in sizes
        for direction, launch in launches(form, dtype, n)
        for capability in CAPABILITIES
        for compiled in [compile_ahead(launch, capability)]
    ]


def table(rows: list[Row]) -> str:
    """One line per kernel: registers, spills and shared memory on each GPU, and the instructions on the last."""
    last = CAPABILITIES[-1]
    groups = list(rows[0].resources.mix)
    names = [f"sm_{c} {what}" for c in CAPABILITIES for what in ("registers", "spilled", "shared")]
    lines = [["form", "pass", "kernel", *names, f"sm_{last} instructions", *groups]]
    found = {(r.form, r.direction, r.kernel, r.capability): r.resources for r in rows}
    for form, direction, kernel in dict.fromkeys((r.form, r.direction, r.kernel) for r in rows):
        of = [found[form, direction, kernel, c] for c in CAPABILITIES]
        needs = [str(x) for r in of for x in (r.registers, r.spilled, r.shared)]
        mix = [str(of[-1].mix[group]) for group in groups]
        lines.append([form, direction, f"`{kernel}`", *needs, str(of[-1].instructions), *mix])
    return _markdown(lines)


def extremes(rows: list[Row]) -> str:
    """One line per size and dtype: the most that any kernel needs."""
    lines = [["N", "dtype", "most registers", "most spilled", "most shared", "shared / N", "atomics"]]
    for n, dtype in dict.fromkeys((r.n, r.dtype) for r in rows):
        of = [r.resources for r in rows if (r.n, r.dtype) == (n, dtype)]
        shared = max(r.shared for r in of)
        most = [str(max(r.registers for r in of)), str(max(r.spilled for r in of)), str(shared), f"{shared / n:g}"]
        lines.append([str(n), dtype, *most, str(sum(r.mix["atomic"] for r in of))])
    return _markdown(lines)


def _markdown(lines: list[list[str]]) -> str:
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


def page(sizes: tuple[int, ...] = (16, 64, 128, 256, 1024)) -> str:
    """Both tables, with the compiler they came from."""
    dtypes = (torch.float32, torch.complex64)
    rows = measure(FORMS, dtypes, sizes)
    shown = [r for r in rows if r.n == 128 and r.dtype == "complex64"] + measure((GENERATOR,), (torch.complex64,), (128,))
    lines = [
        f"Compiled by Triton {triton.__version__}. Complex states, N = 128, one warp per program, but four for the generator;",
        "registers per thread, memory in bytes:",
        "",
        table(shown),
        "",
        "The most that any of these kernels needs, over all forms of scans and both GPUs:",
        "",
        extremes(rows),
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or put them between the marks of a page, or print the numbers of one form as JSON."""
    parser = argparse.ArgumentParser(prog="python -m statetrack.scan.triton.report", description=__doc__)
    parser.add_argument("--write", type=Path, help="a page with the marks between which the tables go")
    parser.add_argument("--json", nargs="+", metavar=("FORM", "N"), help="a form and sizes: print its numbers, complex, as JSON")
    options = parser.parse_args()
    if options.json:
        form, *sizes = options.json
        rows = measure((form,), (torch.complex64,), tuple(map(int, sizes)))
        print(json.dumps([asdict(row) for row in rows]))
        return
    text = page()
    if options.write is None:
        print(text)
        return
    before, rest = options.write.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    options.write.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
