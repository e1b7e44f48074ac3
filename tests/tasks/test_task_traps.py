"""The traps of the published formats that these tasks can fall into; each test fails on the naive reading."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from statetrack.tasks import fixed_set, make_task, stream, tasks, uniform_lengths

WORD_TASKS = ["parity", "even-pairs", "cycle-navigation", "modular-arithmetic", "modular-arithmetic-brackets"]


@pytest.mark.parametrize("name", ["parity", "even-pairs", "cycle-navigation"])
def test_the_answer_slot_counts_in_xlstm_so_40_there_is_39_elsewhere(name: str) -> None:
    there = make_task(name, format="xlstm", **({"cycle": 5} if name == "cycle-navigation" else {}))
    here = make_task(name, format="slice")
    xlstm, slice_ = there.sample(8, 40, np.random.default_rng(4)), here.sample(8, 39, np.random.default_rng(4))
    assert xlstm.inputs.shape == (8, 39)
    assert all(torch.equal(a, b) for a, b in zip(xlstm, slice_, strict=True))


def test_the_default_cycle_of_xlstm_has_six_places() -> None:
    six, five = make_task("cycle-navigation", format="xlstm"), make_task("cycle-navigation", format="xlstm", cycle=5)
    assert (six.vocab_size, five.vocab_size) == (10, 9)
    walk = np.full((1, 5), 2)
    assert six.automaton is not None and five.automaton is not None
    assert six.automaton.output(walk)[0].tolist() == [5, 6, 7, 8, 9]
    assert five.automaton.output(walk)[0].tolist() == [5, 6, 7, 8, 4]
    assert make_task("cycle-navigation").chance == make_task("cycle-navigation", format="chomsky").chance == 0.2


def test_xlstm_arithmetic_has_odd_sizes_and_39_in_both_ranges() -> None:
    task = make_task("modular-arithmetic", format="xlstm")
    generator = np.random.default_rng(0)
    for low, high, least, most in ((3, 40, 3, 39), (40, 256, 39, 255)):
        batch = task.sample(4000, uniform_lengths(4000, low, high, generator), generator)
        assert set((batch.lengths + 1).tolist()) == set(range(least, most + 1, 2))


def test_slice_arithmetic_shares_length_40_between_training_and_test() -> None:
    task = make_task("modular-arithmetic")
    assert [task.sample(1, length, np.random.default_rng(0)).lengths.item() for length in (38, 39, 40, 41)] == [38, 40, 40, 42]


def test_validation_and_test_are_not_the_training_stream_under_another_seed() -> None:
    """Doubling the seed makes run 0 validate on its own training data."""
    first = {
        (seed, split, index): stream(seed, split, index).integers(2**63, size=4).tobytes()
        for seed in range(6)
        for split in ("train", "validation", "test")
        for index in range(20)
    }
    assert len(set(first.values())) == len(first)


@pytest.mark.parametrize("name", ["modular-arithmetic", "modular-arithmetic-brackets"])
def test_the_operators_do_not_run_out_after_the_first_length(name: str) -> None:
    task = make_task(name, format="chomsky")
    generator = np.random.default_rng(0)
    for batch_size, length in ((64, 9), (32, 21), (16, 9), (50, 33)):
        tokens = task.sample(batch_size, length, generator).inputs
        assert {5, 6, 7} <= set(tokens.unique().tolist())


@pytest.mark.parametrize("name", tasks.names())
def test_only_the_given_generator_is_read(name: str) -> None:
    task = make_task(name)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    length = max(12, task.min_length)
    one, same, other = (task.sample(6, length, np.random.default_rng(seed)) for seed in (1, 1, 2))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    assert before[:2] == after[:2] and torch.equal(before[2], after[2])
    assert torch.equal(one.inputs, same.inputs) and not torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize("name", tasks.names())
def test_inputs_targets_and_mask_share_one_padded_length_and_nothing_is_asked_of_padding(name: str) -> None:
    task = make_task(name)
    for batch in fixed_set(task, 40, task.min_length, task.min_length + 30, seed=0, split="test", batch_size=7):
        assert batch.inputs.shape == batch.targets.shape == batch.mask.shape
        assert int(batch.lengths.max()) == batch.inputs.shape[1]
        padded = torch.arange(batch.inputs.shape[1]) >= batch.lengths[:, None]
        assert not batch.mask[padded].any() and not batch.targets[~batch.mask].any()
        assert (batch.inputs[padded] == task.padding).all()


@pytest.mark.parametrize("name", WORD_TASKS)
def test_chomsky_asks_at_an_empty_step_after_the_word(name: str) -> None:
    task = make_task(name, format="chomsky")
    batch = task.sample(20, np.arange(1, 21), np.random.default_rng(0))
    empty = task.vocab_size - 1
    assert (batch.inputs[batch.mask] == empty).all()
    before = torch.roll(batch.mask, -1, dims=1)
    assert (batch.inputs[before] != empty).all()


def test_products_come_before_sums() -> None:
    """Left to right 2 + 3 * 4 would be 0 and 1 - 2 * 3 would be 2 (mod 5)."""
    machine = make_task("modular-arithmetic").automaton
    assert machine is not None
    assert machine.output([7, 1, 8, 3, 9, 4])[-1] == 5 + 4
    assert machine.output([6, 2, 7, 3, 8, 4])[-1] == 5 + 0
    batch = make_task("modular-arithmetic").sample(20_000, 6, np.random.default_rng(0))
    for row, answer in (([7, 1, 8, 3, 9, 4], 5 + 4), ([6, 2, 7, 3, 8, 4], 5 + 0)):
        matches = (batch.inputs == batch.inputs.new_tensor(row)).all(dim=1)
        assert matches.any() and set(batch.targets[matches][:, -1].tolist()) == {answer}
