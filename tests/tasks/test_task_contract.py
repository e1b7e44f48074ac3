"""What holds for every registered task: options, messages, and data that never change."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks import Batch, Task, make_task, register, stream, task_options, tasks


def variants(name: str) -> list[dict[str, str]]:
    """The options that change the form of a task's batches, one by one."""
    for option in ("format", "label"):
        if option in task_options(name):
            return [{option: choice} for choice in get_args(task_options(name)[option][0])]
    return [{}]


VARIANTS = [(name, options) for name in tasks.names() for options in variants(name)]
IDS = ["-".join([name, *options.values()]) for name, options in VARIANTS]
CHECKSUMS = {
    "automaton-every": "2afab81e42f1f12c",
    "automaton-last": "0ad0a5a6170c0caa",
    "binary-addition": "3ee9dc1821a5eaed",
    "binary-multiplication": "6a990c93bc7d526f",
    "boxes": "eee082ce422f3e54",
    "bucket-sort": "ac1323febb2b6a50",
    "chess": "2f252915c7814382",
    "copying": "c09df6b39cd9f023",
    "cycle-navigation-slice": "117703d1832caf12",
    "cycle-navigation-xlstm": "fdea5943e6ad5551",
    "cycle-navigation-chomsky": "eab62a51d5d224b9",
    "duplicate-string": "dfc4136901f76da1",
    "dyck": "496dcd14cd7bc504",
    "even-pairs-slice": "d1f136733bc2db3c",
    "even-pairs-xlstm": "91b50b9e6af08aed",
    "even-pairs-chomsky": "86e26cd3e833ff98",
    "flip-flop": "6a41e1fae8b3c4ab",
    "group-word-every": "fdc4ad4caaf7340a",
    "group-word-last": "af6553ee3fbbcf4d",
    "induction-heads": "53bc05411b79e886",
    "listops": "5475dd5e5b6dda09",
    "mad-compression": "e8e153016ab7b55f",
    "mad-fuzzy-recall": "47901d9a621031d9",
    "mad-in-context-recall": "1f798fee7ee0e312",
    "mad-memorization": "e8906bfcd5232690",
    "mad-noisy-recall": "b5d51b38db503fa5",
    "mad-selective-copying": "64fd772d2311906b",
    "missing-duplicate": "e5570885d7163474",
    "modular-arithmetic-slice": "45ff17a822e43c50",
    "modular-arithmetic-xlstm": "69e79f4b0aa744a6",
    "modular-arithmetic-chomsky": "55671e898d6d66ad",
    "modular-arithmetic-brackets-slice": "9cf9a48ba175595b",
    "modular-arithmetic-brackets-xlstm": "34cd44dc1b6d3a4d",
    "modular-arithmetic-brackets-chomsky": "a54d302c71856c74",
    "mqar": "6146709ff4ddf078",
    "odds-first": "f5c4c5e1567e7b68",
    "parity-slice": "b9b3ee5a2b3440b3",
    "parity-xlstm": "53bde585d7e6da3b",
    "parity-chomsky": "90195233624e6214",
    "regbench": "97a380d8eab952e7",
    "regular-language-last": "78302f8c746bb716",
    "regular-language-every": "c2c9695901d60f28",
    "reverse-string": "6b6c08252eeb13c9",
    "selective-copying": "4280f379c2cbaacc",
    "sentences": "cccb654d55675a76",
    "solve-equation": "5aa33cfad2661193",
    "square-root": "d8a06c1ffc60c5b2",
    "stack-manipulation": "20d9edab1cae4f3e",
    "tomita-last": "9abc7a60f543831c",
    "tomita-every": "16cab0b9f7ab27c3",
}


def checksum(batch: Batch) -> str:
    digest = hashlib.sha256()
    for tensor in batch:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def test_the_tasks_of_this_folder_are_registered() -> None:
    arithmetic = {"modular-arithmetic", "modular-arithmetic-brackets"}
    assert {"automaton", "cycle-navigation", "even-pairs", "group-word", "parity"} | arithmetic <= set(tasks.names())
    assert all(tasks.get(name).summary and tasks.get(name).source for name in tasks)


@pytest.mark.parametrize("variant", CHECKSUMS)
def test_a_seed_gives_the_same_batch_everywhere(variant: str) -> None:
    name, options = VARIANTS[IDS.index(variant)]
    lengths = np.array([3, 40, 17, 8, 5, 39, 4, 22])
    task = make_task(name, **options)
    batch = task.sample(8, np.maximum(lengths, task.min_length), stream(7, "train", 3))
    assert checksum(batch) == CHECKSUMS[variant]


@pytest.mark.parametrize("name, options", VARIANTS, ids=IDS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_batch_keeps_the_contract(name: str, options: dict, data: st.DataObject) -> None:
    task = make_task(name, **options)
    lengths = np.array(data.draw(st.lists(st.integers(task.min_length, task.min_length + 30), min_size=1, max_size=6)))
    generator = np.random.default_rng(data.draw(st.integers(0, 100)))
    batch = task.sample(len(lengths), lengths, generator)
    assert [tensor.dtype for tensor in batch] == [torch.int64, torch.int64, torch.bool, torch.int64]
    assert batch.inputs.shape == batch.targets.shape == batch.mask.shape == (len(lengths), int(batch.lengths.max()))
    assert int(batch.inputs.min()) >= 0 and int(batch.inputs.max()) < task.vocab_size
    assert int(batch.targets.min()) >= 0 and int(batch.targets.max()) < task.n_classes
    assert batch.mask.any(dim=1).all()
    assert task.ceiling is None or task.chance <= task.ceiling <= 1
    if task.automaton is not None:
        emitted = torch.from_numpy(task.automaton.output(batch.inputs.numpy()))
        assert torch.equal(emitted[batch.mask], batch.targets[batch.mask])


@pytest.mark.parametrize("name, options", VARIANTS, ids=IDS)
def test_lengths_that_cannot_be_made(name: str, options: dict) -> None:
    task = make_task(name, **options)
    least = task.min_length
    assert task.sample(2, least, np.random.default_rng(0)).lengths.min() >= 1
    where = f" in format '{options['format']}'" if "format" in options else ""
    for length, given_length in ((least - 1, least - 1), (-3, -3), (np.array([least + 9, least - 1]), least - 1)):
        with pytest.raises(InvalidInputError) as caught:
            task.sample(2, length, np.random.default_rng(0))
        told = f"Length {given_length} was asked of task {name!r}{where}, but the smallest it can make is {least}."
        assert str(caught.value) == told
    for length in (2.5, "9", np.array([9, 9, 9]), np.array([[9], [9]]), None):
        with pytest.raises(InvalidInputError, match="length must be one whole number or 2 of them"):
            task.sample(2, length, np.random.default_rng(0))
    for batch_size in (0, -1, 2.0, True):
        with pytest.raises(InvalidInputError, match="batch_size must be a whole number of at least 1"):
            task.sample(batch_size, 9, np.random.default_rng(0))


@pytest.mark.parametrize("name", tasks.names())
def test_options_are_plain_values_with_defaults(name: str) -> None:
    for annotation, default in task_options(name).values():
        choices = get_args(annotation) if get_origin(annotation) is Literal else ()
        plain = annotation in (int, float, str, bool) or set(get_args(annotation)) <= {int, str, bool, type(None)} or choices
        assert plain, annotation
        assert isinstance(default, (int, float, str, bool, type(None))) and (not choices or default in choices)
    formats = Literal["slice", "xlstm", "chomsky"]
    assert task_options("cycle-navigation") == {"format": (formats, "slice"), "cycle": (int | None, None)}


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: make_task("parities"), UnknownNameError, "Unknown task 'parities'. Did you mean 'parity'"),
        (lambda: task_options("evenpairs"), UnknownNameError, "Did you mean 'even-pairs'"),
        (lambda: make_task("parity", formt="slice"), UnknownNameError, "Unknown option .* 'formt'. Did you mean 'format'"),
        (lambda: make_task("parity", format="slise"), UnknownNameError, "Unknown format 'slise'. Did you mean 'slice'"),
        (lambda: make_task("parity", format=3), UnknownNameError, "Unknown format '3'"),
        (lambda: make_task("cycle-navigation", format="b"), UnknownNameError, "Unknown format 'b'. Known: chomsky, slice, xlstm"),
        (lambda: make_task("cycle-navigation", cycle=1), InvalidInputError, "cycle must be a whole number .* got 1"),
        (lambda: make_task("cycle-navigation", cycle="5"), InvalidInputError, "cycle must be a whole number .* got '5'"),
        (lambda: make_task("modular-arithmetic-brackets", multiplication=1), InvalidInputError, "multiplication must be True"),
    ],
)
def test_wrong_options(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_task_of_ones_own_is_named_by_its_class_until_it_is_registered() -> None:
    class Stutter(tasks.get("parity")):  # type: ignore[misc]
        pass

    with pytest.raises(InvalidInputError, match="asked of task 'Stutter' in format 'slice'"):
        Stutter().sample(1, 0, np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match="already taken"):
        register("parity")(Stutter)
    assert issubclass(Stutter, Task)
