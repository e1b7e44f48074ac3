"""ListOps against a recursive reading of the expression."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.tasks import make_task


def read(tokens: Iterator[int], depth: int, found: list[tuple[int, int]]) -> int:
    """The value of one node; ``found`` takes depth and number of members (0 for a digit) of all nodes."""
    token = next(tokens)
    if token < 10:
        found.append((depth, 0))
        return token
    members: list[int] = []
    while True:
        try:
            members.append(read(tokens, depth + 1, found))
        except StopIteration:
            break
    found.append((depth, len(members)))
    result = {10: min, 11: max, 12: lambda m: int(statistics.median(m)), 13: lambda m: sum(m) % 10}[token](members)
    return int(result)


def tree(tokens: list[int]) -> Iterator[int]:
    """Tokens one by one; a closing bracket ends the members of its list."""
    position = iter(tokens)

    class Reader:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            token = next(position)
            if token == 14:
                raise StopIteration
            return token

    return Reader()


@pytest.mark.parametrize("options", [{}, {"depth": 4, "arguments": 3, "operator": 0.6}])
def test_values(options: dict) -> None:
    task = make_task("listops", **options)
    asked = np.array([1, 5, 12, 40, 30, 300 if not options else 25] * 20)
    batch = task.sample(120, asked, np.random.default_rng(0))
    seen: set[int] = set()
    for inputs, targets, mask, n, most in zip(
        batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), batch.lengths.tolist(), asked.tolist(), strict=True
    ):
        assert most / 4 < n <= most and mask == [at == n - 1 for at in range(len(mask))]
        found: list[tuple[int, int]] = []
        assert targets[n - 1] == read(tree(inputs[:n]), 1, found)
        assert all(depth <= task.depth and (m == 0 or 2 <= m <= task.arguments) for depth, m in found)
        assert sum(1 if m == 0 else 2 for _, m in found) == n
        seen |= set(inputs[:n])
    assert seen == set(range(15))


def test_a_node_is_an_operator_with_the_probability_that_was_asked_for() -> None:
    # At depth 2 a tree of at most 12 tokens is any tree, but for the bound from below, which 1 to 3 leave out.
    task = make_task("listops", depth=2, arguments=2)
    batch = task.sample(6000, 3, np.random.default_rng(1))
    assert batch.lengths.max() == 1
    batch = make_task("listops", depth=3, arguments=2, operator=0.5).sample(8000, 4, np.random.default_rng(2))
    # More than one and at most four tokens: only lists of two digits.
    assert set(batch.lengths.tolist()) == {4}
    counts = np.bincount(batch.inputs[:, 0].numpy(), minlength=14)[10:]
    assert np.abs(counts / 8000 - 1 / 4).max() < 0.02


def test_lengths_that_never_come_up(monkeypatch) -> None:
    monkeypatch.setattr("statetrack.tasks.listops._TRIES", 100)
    with pytest.raises(InvalidInputError, match="None of 100 random expressions has more than 25 and at most 100 tokens"):
        make_task("listops", depth=2).sample(1, 100, np.random.default_rng(0))
