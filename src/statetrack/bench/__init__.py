"""Benchmarks: ours, the alternatives and the limit of the machine, side by side in one process."""

from statetrack.bench.base import Benchmark, benchmarks
from statetrack.bench.run import run_bench

__all__ = ["Benchmark", "benchmarks", "run_bench"]
