"""The pooled protocol: training and test part of a set are thrown together, duplicates are dropped, and each run splits 70/15/15.

    order = permutation(N) of the run ;  training order[: int(0.7 N)], validation .. int(0.85 N), test the rest

For the six long sets of the published tables the permutations are stored, in the two variants that were in use:

    ============  ==================================  ===============================
    ``linoss``    cases sorted, generator before 0.5  Log-NCDE, LinOSS and their rows
    ``pd-ssm``    cases as first met, since 0.5       later code, PD-SSM
    ============  ==================================  ===============================

(0.5 is a version of JAX, whose default generator changed.) Whether they are those of the published runs is not confirmed; the
sizes of all test parts agree. Other sets take NumPy's generator, seeded with the run. Sources: Log-NCDE (arXiv 2402.18512),
LinOSS (arXiv 2410.03943), PD-SSM (arXiv 2509.22284).
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError
from statetrack.layers.diagonal_generators import checked
from statetrack.timeseries.ts_file import Cases

Variant = Literal["linoss", "pd-ssm"]

RUNS = (2345, 3456, 4567, 5678, 6789)
"""The published runs."""
_FILES: dict[str, str] = {"linoss": "pooled_jax_before-0.5.json", "pd-ssm": "pooled_jax_from-0.5.json"}


class Split(NamedTuple):
    """Indices of cases, disjoint and together all."""

    train: npt.NDArray[np.int64]
    validation: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


def pool(train: Cases, test: Cases, *, variant: Variant = "pd-ssm") -> Cases:
    """Both parts without cases whose series have occurred before, in the order of the variant.

    Raises:
        InvalidInputError: an unknown variant, or variant ``"linoss"`` with series of unequal lengths, which have no order.
    """
    series = [*train.series, *test.series]
    labels = np.concatenate([train.labels, test.labels])
    if checked("variant", variant, Variant) == "linoss":
        if len({each.shape for each in series}) > 1:
            raise InvalidInputError("The variant 'linoss' sorts cases, which need one length; use 'pd-ssm'.")
        kept = np.unique(np.stack([each.ravel() for each in series]), axis=0, return_index=True)[1]
    else:
        first: dict[tuple[int, bytes], int] = {}
        for i, each in enumerate(series):
            first.setdefault((len(each), each.tobytes()), i)
        kept = np.array(list(first.values()))
    return Cases([series[i] for i in kept], labels[kept])


def split(name: str, n: int, run: int, *, variant: Variant = "pd-ssm") -> Split:
    """Indices of a run's parts among ``n`` pooled cases of the set ``name``.

    Raises:
        InvalidInputError: a set with stored permutations of another number of cases or without this run.

    Example:
        >>> [len(part) for part in split("EigenWorms", 236, 2345)]
        [165, 35, 36]
    """
    stored = _stored(variant).get(name)
    if stored is None:
        order = np.random.default_rng(run).permutation(n)
    elif str(run) not in stored:
        raise InvalidInputError(f"{name} has stored permutations for the runs {', '.join(stored)}; got {run}.")
    else:
        order = np.array(stored[str(run)])
        if len(order) != n:
            raise InvalidInputError(f"{name} has {len(order)} cases without duplicates; got {n}. Is it the set of the archive?")
    return Split(*np.split(order, [int(0.7 * n), int(0.85 * n)]))


@lru_cache(maxsize=2)
def _stored(variant: Variant) -> dict[str, dict[str, list[int]]]:
    name = _FILES[checked("variant", variant, Variant)]
    text = files("statetrack.timeseries").joinpath("splits", name).read_text(encoding="utf8")
    stored: dict[str, dict[str, list[int]]] = json.loads(text)
    return stored
