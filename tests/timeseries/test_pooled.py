"""The pooled protocol: duplicates, sizes and permutations."""

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.timeseries.pooled import RUNS, pool, split
from statetrack.timeseries.ts_file import Cases

SIZES = {
    "EigenWorms": (236, 36),
    "EthanolConcentration": (524, 79),
    "Heartbeat": (409, 62),
    "MotorImagery": (378, 57),
    "SelfRegulationSCP1": (561, 85),
    "SelfRegulationSCP2": (380, 57),
}
"""Published numbers of cases without duplicates, and of test cases."""


@pytest.mark.parametrize("variant", ["linoss", "pd-ssm"])
@pytest.mark.parametrize("name", SIZES)
def test_stored_permutations_have_the_published_sizes(name, variant):
    n, n_test = SIZES[name]
    for run in RUNS:
        parts = split(name, n, run, variant=variant)
        assert sorted(np.concatenate(parts).tolist()) == list(range(n))
        assert len(parts.test) == n_test and len(parts.train) == int(0.7 * n)


def test_runs_and_variants_differ():
    firsts = {tuple(split("Heartbeat", 409, run, variant=variant).train[:9]) for run in RUNS for variant in ("linoss", "pd-ssm")}
    assert len(firsts) == 2 * len(RUNS)


def test_other_sets_split_by_their_run():
    parts = split("Toy", 20, 1)
    assert [len(part) for part in parts] == [14, 3, 3] and sorted(np.concatenate(parts).tolist()) == list(range(20))
    assert (split("Toy", 20, 1).test == parts.test).all() and (split("Toy", 20, 2).train != parts.train).any()


def test_what_does_not_fit_the_stored_permutations_is_refused():
    with pytest.raises(InvalidInputError, match="236"):
        split("EigenWorms", 259, 2345)
    with pytest.raises(InvalidInputError, match="2345"):
        split("EigenWorms", 236, 1)
    with pytest.raises(InvalidInputError, match="variant"):
        split("EigenWorms", 236, 2345, variant="mine")


def test_duplicates_go_and_the_order_is_that_of_the_variant():
    series = [np.full((3, 1), value, np.float32) for value in (2, 1, 2, 3, 1)]
    parts = Cases(series[:3], np.array(list("abc"))), Cases(series[3:], np.array(list("de")))
    assert pool(*parts).labels.tolist() == ["a", "b", "d"]
    assert pool(*parts, variant="linoss").labels.tolist() == ["b", "a", "d"]
    ragged = Cases([np.zeros((2, 1), np.float32), np.zeros((3, 1), np.float32)], np.array(["a", "b"]))
    assert pool(ragged, ragged).labels.tolist() == ["a", "b"]
    with pytest.raises(InvalidInputError, match="one length"):
        pool(ragged, ragged, variant="linoss")
