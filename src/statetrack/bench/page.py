"""Tables of the page about benchmarks from the files that ``statetrack bench --out results`` wrote.

``python -m statetrack.bench.page docs/benchmarks.md results`` puts each between its marks, ``<!-- NAME: begin -->`` and ``end``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from statetrack.bench.base import Report

_DASH = "\N{EN DASH}"
_MIB = 2**20
_DIRECTIONS = ("forward", "forward+backward")


def tables(results: Path) -> dict[str, str]:
    """Markdown by name."""
    found: dict[str, str] = {}
    for name, parts in _PARTS.items():
        report = json.loads((results / f"bench_{name}_cpu.json").read_text(encoding="utf8"))
        found |= {part: write(report) for part, write in parts.items()}
    return found


def filled(page: str, results: Path) -> str:
    """A page with its tables as the results have them.

    Raises:
        ValueError: a mark is missing.
    """
    for name, table in tables(results).items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    first, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([first, "|" + "---|" * len(lines[0]), *body])


def _machine(report: Report) -> str:
    about, versions = report["machine"], report["machine"]["versions"]
    sizes = ", ".join(f"{package} {versions[package]}" for package in ("torch", "numba", "python"))
    busy = f"{about['load']:g} jobs wanted to run when it began"
    return f"Measured on {about['cpu']} ({about['cores']} cores visible), {sizes}; {busy}.\n"


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['library']}: {entry['name']}"


def _layer(report: Report) -> str:
    def shares(entry: dict[str, Any]) -> str:
        parts = entry["shares"]
        return " / ".join(f"{100 * parts[p]:.0f}" for p in ("products", "scan", "rest")) if parts else _DASH

    rows = (
        (
            _name(e),
            f"{e['seconds']['median']:.2f}",
            f"{e['seconds']['low']:.2f} to {e['seconds']['high']:.2f}",
            f"{e['over_first']['median']:.2f}",
            f"{e['step_bytes'] / _MIB:,.0f}",
            shares(e),
        )
        for e in report["entries"]
    )
    head = ("layer", "s per step", "0.2 to 0.8", "times ours", "memory, MiB", "products / kernels / rest, %")
    return f"{_machine(report)}\n{_markdown(head, rows)}"


def _aims(report: Report) -> str:
    found = {_name(e): e for e in report["entries"]}
    ours = found["statetrack: flash-pd-ssm"]
    parts = {name: f"{100 * share:.0f} %" for name, share in ours["shares"].items()}

    def line(aim: str, says: str, met: bool) -> tuple[str, str, str]:
        return aim, says, "yes" if met else "**no**"

    def faster(name: str, least: float, text: str) -> tuple[str, str, str]:
        ratio = found[name]["over_first"]["median"]
        return line(text, f"{ratio:.1f} times", ratio >= least)

    over_lstm = 1 / found["torch: LSTM"]["over_first"]["median"]
    lean = {name: e["step_bytes"] for name, e in found.items() if e["library"] != "statetrack"}
    most = min(lean, key=lambda name: lean[name])
    memory = f"{ours['step_bytes'] / _MIB:,.0f} MiB; the least is {lean[most] / _MIB:,.0f} ({most})"
    return _markdown(
        ("aim for `flash-pd-ssm`", "found", "met"),
        (
            faster("transformers: Mamba-2", 4, "4 times faster than transformers' Mamba-2 (PyTorch path, state 128)"),
            faster("transformers: gated DeltaNet", 2, "2 times faster than transformers' gated DeltaNet"),
            line("at most 1.3 times torch's LSTM", f"{over_lstm:.2f} times", over_lstm <= 1.3),
            line(
                "scan, routing and their backward passes at most 30 % of the step",
                f"{parts['scan']}; products of matrices {parts['products']}, the rest {parts['rest']}",
                ours["shares"]["scan"] <= 0.3,
            ),
            line("less memory than any other library's layer", memory, ours["step_bytes"] < lean[most]),
        ),
    )


def _decode(report: Report) -> str:
    rows = (
        (
            _name(e),
            f"{e['us_per_step']['median']:.0f}",
            f"{e['over_first']['median']:.2f}",
            f"{e['late_over_early']:.2f}",
            f"{e['state_bytes'] / 1024:,.0f}{' and growing' if e['state_grows'] else ''}",
        )
        for e in report["entries"]
    )
    head = ("layer", "µs per token", "times ours", "last quarter / first", "state, KiB")
    return f"{_machine(report)}\n{_markdown(head, rows)}"


def _ops(report: Report) -> list[str]:
    return list(dict.fromkeys(e["op"] for e in report["entries"]))


def _copies(report: Report) -> str:
    """Share of a copy's bytes per second, new memory / memory that is there."""
    settings = report["settings"]
    sizes = [n for n in settings["sizes"] if n in (64, 128)] or settings["sizes"]
    columns = [(rows, length, n) for rows, length in settings["tokens"] if length > 512 for n in sizes]
    found = {(e["op"], e["B"], e["L"], e["N"], e["direction"]): e for e in report["entries"]}
    text = [_machine(report)]
    for direction in _DIRECTIONS:

        def cell(op: str, shape: tuple[int, int, int], direction: str = direction) -> str:
            e = found.get((op, *shape, direction))
            return f"{1 / e['over_copy']['median']:.2f} / {1 / e['over_copy_in_place']['median']:.2f}" if e else _DASH

        head = [direction.replace("+", " + "), *(f"B {rows}, L {length:,}, N {n}" for rows, length, n in columns)]
        text.append(_markdown(head, ([op, *(cell(op, shape) for shape in columns)] for op in _ops(report))))
    return "\n\n".join(part.strip("\n") for part in text)


def _speedups(report: Report) -> str:
    """Times faster than the tree and the dense recurrence, at the largest shape where each ran."""
    sizes = sorted({e["N"] for e in report["entries"]})
    largest = {(name, e["op"], e["N"], e["direction"]): e for e in report["entries"] for name in e["speedup"]}

    def cell(name: str, op: str, n: int) -> str:
        both = [largest.get((name, op, n, d)) for d in _DIRECTIONS]
        return " / ".join(f"{e['speedup'][name]['median']:.0f}" for e in both if e) or _DASH

    rows = ([name, op, *(cell(name, op, n) for n in sizes)] for name in ("tree", "dense") for op in _ops(report))
    return _markdown(("over", "op", *(f"N {n}" for n in sizes)), rows)


def _lengths(report: Report) -> str:
    lengths = report["settings"]["lengths"]
    rows = (
        (
            s["op"],
            s["direction"].replace("+", " + "),
            *(f"{cost:.3f}" if (cost := s["us_per_token"].get(str(length))) else _DASH for length in lengths),
            f"{s['largest_over_smallest']:.2f}",
            f"{max(0, s['fixed_us']):.0f}",
        )
        for s in report["flatness"]
    )
    return _markdown(("op", "", *(f"L {length:,}" for length in lengths), "largest / smallest", "µs per call"), rows)


def _threads(report: Report) -> str:
    rows = (
        (
            e["op"],
            e["direction"].replace("+", " + "),
            *(f"{1e3 * e['fastest_tenth'][n]:.1f}" for n in ("1", "2")),
            f"{e['speedup']:.2f}",
            f"{e['speedup_of_medians']:.2f}",
        )
        for e in report["entries"]
    )
    return f"{_machine(report)}\n" + _markdown(("op", "", "one thread, ms", "two, ms", "times faster", "of medians"), rows)


def _memory(report: Report) -> str:
    rows = ((f"{e['L']:,}", f"{e['step_bytes'] / _MIB:,.0f} MiB", f"{e['bytes_per_state']:.0f} bytes") for e in report["entries"])
    fit, last = report["fit"], report["entries"][-1]
    line = f"Least squares: {fit['bytes_per_state']:.0f} bytes per token and state, R² {fit['r2']:.3f}."
    dense = (
        f"One dense `B x L x N x N` float32 tensor at L = {last['L']:,} alone would take {last['dense_bytes'] / 2**30:.1f} GiB."
    )
    return f"{_markdown(('L', 'step', 'per token and state'), rows)}\n\n{line} {dense}"


_PARTS: dict[str, dict[str, Callable[[Report], str]]] = {
    "layer": {"layer": _layer, "aims": _aims},
    "decode": {"decode": _decode},
    "scan": {"copies": _copies, "speedups": _speedups, "lengths": _lengths},
    "threads": {"threads": _threads},
    "memory": {"memory": _memory},
}


if __name__ == "__main__":
    page, results = map(Path, sys.argv[1:])
    page.write_text(filled(page.read_text(encoding="utf8"), results), encoding="utf8")
