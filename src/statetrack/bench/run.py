"""Running a benchmark by name: measure, then print, save and draw."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statetrack.bench.base import Benchmark, Report, benchmarks
from statetrack.bench.machine import machine
from statetrack.errors import InvalidInputError, MissingExtraError, RunError
from statetrack.training.files import write_json


def run_bench(
    name: str,
    *,
    quick: bool = False,
    json_path: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> int:
    """Run a benchmark; what it found goes to standard output, what it is doing to standard error.

    Args:
        name: of the benchmark.
        quick: small sizes, some twenty seconds.
        json_path: file for the report.
        out: folder for the report and its figure, ``bench_<name>_cpu`` with the endings ``json``, ``svg`` and ``png``.
        as_json: print one JSON object in place of tables.
        sizes: to measure instead of the benchmark's own, such as ``{"width": 128}``.

    Returns:
        0, or 1 if something failed its check and was left out.

    Raises:
        UnknownNameError: no benchmark has that name.
        InvalidInputError: a size that this benchmark does not take, or one below 1.
        MissingExtraError: a package that tables or figures need; before anything is measured.
        RunError: a file that cannot be written; before anything is measured, unless that changes meanwhile.
    """
    benchmark = benchmarks.get(name)
    sizes = _checked_sizes(name, benchmark, sizes or {})
    stem = f"bench_{name}_cpu"
    paths = [path for path in (json_path, None if out is None else out / f"{stem}.json") if path is not None]
    for path in paths:
        _check_writable(path)
    if out is not None and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", None, "Drawing a figure")
    if not as_json and importlib.util.find_spec("rich") is None:
        raise MissingExtraError("rich", None, "Printing a table")
    progress = _Progress()
    report = _rounded({"benchmark": name, "quick": quick, "machine": machine(), **benchmark.measure(quick, progress, **sizes)})
    progress.end()
    for path in paths:
        write_json(path, report)
    if out is not None:
        _save_figure(benchmark.figure(report), out / stem)
    if as_json:
        print(json.dumps(report, indent=2, allow_nan=False))
    else:
        _print_tables(report, benchmark.tables(report))
    for refused in report["refused"]:
        print(f"not reported, because its check against the reference failed: {refused}", file=sys.stderr)
    return 1 if report["refused"] else 0


def _checked_sizes(name: str, benchmark: Benchmark, sizes: Mapping[str, int]) -> Mapping[str, int]:
    for size, value in sizes.items():
        if size not in benchmark.sizes:
            takes = ", ".join(f"--{known}" for known in benchmark.sizes) or "no sizes"
            raise InvalidInputError(f"bench {name} takes {takes}; got --{size}.")
        if value < 1:
            raise InvalidInputError(f"--{size} must be at least 1; got {value}.")
    return sizes


def _rounded(value: Any) -> Any:
    """Floats to five digits, which is more than any timing is good for; what JSON has no number for as a word."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


class _Progress:
    """One line on standard error: rewritten in a terminal, otherwise every message on its own."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def __call__(self, message: str) -> None:
        print(f"\r\x1b[K{message}" if self.live else message, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _check_writable(path: Path) -> None:
    """Better told now than after minutes of measuring."""
    if path.is_dir():
        raise RunError(f"Cannot write {path}: it is a folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror}.") from error


def _print_tables(report: Report, tables: list[Any]) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    about = report["machine"]
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    console.print(f"{about['cpu']}, {about['threads']} of {about['cores']} cores, load {about['load']}; {versions}")
    for table in tables:
        console.print()
        console.print(table)


def _save_figure(figure: Any, stem: Path) -> None:
    for suffix in (".svg", ".png"):
        path = stem.with_suffix(suffix)
        partial = path.with_name(f".{path.name}.partial")
        try:
            figure.savefig(partial, format=suffix[1:], dpi=150)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise RunError(f"Cannot write {path}: {error.strerror}.") from error
