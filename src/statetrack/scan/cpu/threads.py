"""Thread policy of the CPU kernels: as many threads as torch uses, set by ``torch.set_num_threads``.

The kernels are serial loops that release the GIL; work is cut into contiguous ranges and each range runs on a thread of one pool.
A range is made of whole heads of whole sequences; a row with fewer one-hot heads than threads is cut along its tokens
(``stretches``), and a single diagonal recurrence runs on one thread. Ranges never share an output and partial sums are added in a
fixed order, so what the loops compute does not depend on the number of threads, but for rounding where a row is cut along its
tokens. (Straight-through credit of all alternatives also uses torch's matrix products, which repeat bit for bit on one number of
threads.)

OpenMP's idle threads, torch's among them, keep their cores busy for some milliseconds after every parallel operation, unless
``OMP_WAIT_POLICY=PASSIVE`` is set before Python starts. With as many of them as cores, that leaves the threads here none.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import torch

LEAST = 1 << 18
"""States per thread: with fewer, waking it costs more than it does."""


@lru_cache(maxsize=4)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="statetrack-scan")


def over_ranges(n_items: int, work: Callable[[int, int], None], size: int | None = None) -> None:
    """Call ``work(start, stop)`` on ranges that cover ``range(n_items)``.

    With ``size``, the number of states there are, no thread gets fewer than ``LEAST`` of them.
    """
    n_threads = min(torch.get_num_threads(), n_items)
    if size is not None:
        n_threads = min(n_threads, size // LEAST)
    if n_threads <= 1:
        work(0, n_items)
        return
    cuts = [n_items * i // n_threads for i in range(n_threads + 1)]
    at_once([partial(work, *pair) for pair in pairwise(cuts)])


def at_once(work: list[Callable[[], Any]]) -> list[Any]:
    """What all of them return, the first called on this thread and each other on a thread of its own."""
    first, *others = work
    running = [_pool(len(others)).submit(call) for call in others]
    done = first()
    return [done, *(job.result() for job in running)]
