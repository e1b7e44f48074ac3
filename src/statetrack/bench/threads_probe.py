"""One row on one thread and on two, in a process of its own; ``python -m statetrack.bench.threads_probe SETTINGS_AS_JSON`` prints
wall times.

Idle threads of OpenMP must not spin on the core that the second thread needs, which is settled before a process starts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from statetrack.bench.scan_cases import OPS, Problem, Shape

N_THREADS = 2


def probe(op: str, length: int, n: int, rounds: int) -> dict[str, Any]:
    """Seconds by direction and number of threads, in turns; and how far the states are from those of one thread."""
    problem = Problem.make(next(known for known in OPS if str(known) == op), Shape(1, length, n))
    calls: dict[str, Callable[[], object]] = {
        "forward": lambda: problem.run("cpu"),
        "forward+backward": lambda: problem.gradients("cpu"),
    }
    found: dict[str, Any] = {}
    for direction, call in calls.items():
        seconds: dict[int, list[float]] = {1: [], N_THREADS: []}
        for i in range(-2, rounds):
            for n_threads in seconds if i % 2 else reversed(seconds):
                torch.set_num_threads(n_threads)
                began = time.perf_counter()
                call()
                if i >= 0:
                    seconds[n_threads].append(time.perf_counter() - began)
        found[direction] = {str(n_threads): times for n_threads, times in seconds.items()}
    results = []
    for n_threads in (1, N_THREADS):
        torch.set_num_threads(n_threads)
        results.append(problem.run("cpu"))
    found["difference"] = float((results[1] - results[0]).abs().max() / results[0].abs().max())
    return found


if __name__ == "__main__":
    print(json.dumps(probe(**json.loads(sys.argv[1]))))
