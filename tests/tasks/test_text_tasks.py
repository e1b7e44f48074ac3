"""Boxes and sentences against readers of their text: what is told decides the answer."""

import re

import numpy as np
import pytest

from statetrack.automata import random_automaton
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.tasks import make_task
from statetrack.tasks.boxes import Boxes
from statetrack.tasks.sentences import Sentences
from statetrack.tasks.text import exact_match

READERS = {
    "plain": (
        r"Box (\d) contains",
        r"Move (.*) from box (\d) to box (\d)",
        r"Remove (.*) from box (\d)",
        r"Put (.*) into box (\d)",
        "the contents of box",
    ),
    "story": (
        r"Inside crate (\d) there is",
        r"Then Ada carried (.*?) (?:out of|in) crate (\d)(?: and)? over to crate (\d)",
        r"Somebody took (.*) away from crate (\d)",
        r"A visitor laid (.*) down in crate (\d)",
        "everything",
    ),
}


def things(text):
    return set(re.findall(r"the (\w+)", text))


def read(prompt, wording, capacity):
    """Contents of the boxes at the end, the number of changes of each, and the box that is asked for."""
    holds, move, remove, put, whole = READERS[wording]
    boxes, changes = {}, {}
    *told, question = prompt.split(". ")
    for sentence in told:
        if match := re.match(holds + " (.*)", sentence):
            boxes[int(match[1])] = things(match[2])
            changes[int(match[1])] = 0
            continue
        before = {box: set(content) for box, content in boxes.items()}
        if wording == "plain" and (match := re.match(r"Move the contents of box (\d) to box (\d)", sentence)):
            origin, target = int(match[1]), int(match[2])
            boxes[target] |= boxes[origin]
            boxes[origin] = set()
        elif match := re.match(move, sentence):
            origin, target = int(match[2]), int(match[3])
            objects = set(boxes[origin]) if whole in sentence else things(match[1])
            assert objects <= boxes[origin]
            boxes[origin] -= objects
            boxes[target] |= objects
        elif match := re.match(remove, sentence):
            assert things(match[1]) <= boxes[int(match[2])]
            boxes[int(match[2])] -= things(match[1])
        else:
            match = re.match(put, sentence)
            assert not things(match[1]) & set().union(*boxes.values())
            boxes[int(match[2])] |= things(match[1])
        assert boxes != before, "an operation that changes nothing"
        assert all(len(content) <= capacity for content in boxes.values())
        assert sum(map(len, boxes.values())) == len(set().union(*boxes.values()))
        for box in boxes:
            changes[box] += boxes[box] != before[box]
    return boxes, changes, int(re.match(holds, question)[1])


@pytest.mark.parametrize("wording", ["plain", "story"])
@pytest.mark.parametrize("contents", [False, True])
def test_a_reader_of_the_text_finds_every_answer(wording, contents):
    task, generator = Boxes(wording=wording, contents=contents, nouns="market"), np.random.default_rng(0)
    for n in [0, 1, 2, 6, 12, 26] * 5:
        example = task.example(n, generator)
        boxes, changes, asked = read(example.prompt, wording, task.capacity)
        assert things(example.answer) == boxes[asked]
        assert example.answer == " and ".join(f"the {name}" for name in sorted(boxes[asked])) + "." or not boxes[asked]
        assert example.changes == changes[asked]
        assert changes[asked] > 0 or n == 0 or not any(changes.values())


def test_signatures_of_training_and_held_out_data_are_disjoint():
    task, generator = Boxes(), np.random.default_rng(1)
    seen = []
    for source in (task, task.held_out()):
        prompts = [source.example(0, generator).prompt for _ in range(200)]
        seen.append({tuple(sentence.count("the ") for sentence in prompt.split(". ")[:7]) for prompt in prompts})
    assert not seen[0] & seen[1]
    assert min(map(len, seen)) > 50


def test_rows_hold_the_answers_as_labels():
    task = Boxes(n_questions=3)
    batch = task.sample(5, 4, np.random.default_rng(2))
    again = np.random.default_rng(2)
    for row in range(5):
        parts = task.examples(4, again, 3)
        answers = " ".join(part.answer for part in parts)
        labels = task.words.decode(batch.targets[row][batch.mask[row]].tolist())
        assert exact_match([labels], [answers]) == 1
        told = task.words.decode(batch.inputs[row, : batch.lengths[row]].tolist())
        assert exact_match([f"{told} ."], [" ".join(part.text for part in parts)]) == 1


@pytest.mark.parametrize("theme", ["parity", "cycle", "A5", "S3"])
@pytest.mark.parametrize("paraphrases", ["train", "new", "all"])
def test_sentences_say_what_the_automaton_does(theme, paraphrases):
    task, generator = Sentences(theme=theme, paraphrases=paraphrases), np.random.default_rng(3)
    letter_of = {s: k for group in (task.told.train, task.told.test) for k, told in enumerate(group) for s in told}
    for n in range(12):
        example = task.example(n, generator)
        body = example.prompt.removeprefix(task.told.opening).removesuffix(task.told.question).strip()
        state = task.told.automaton.start
        for sentence in re.findall(r"[^.]+\.", body):
            state = task.told.automaton.transitions[state, letter_of[sentence.strip()]]
        assert example.answer == task.told.answers[task.told.automaton.outputs[state]]


@pytest.mark.parametrize("theme", ["parity", "cycle", "A5", "S3"])
def test_paraphrases_are_many_distinct_and_of_several_lengths(theme):
    told = Sentences(theme=theme).told
    for train, test in zip(told.train, told.test, strict=True):
        assert len(train) >= 8 and len({len(s.split()) for s in train}) >= 3
        assert not set(train) & set(test)
    everything = [s for group in (told.train, told.test) for letter in group for s in letter]
    assert len(everything) == len(set(everything)), "one sentence tells two letters"


def test_any_automaton_can_be_told():
    automaton = random_automaton(5, 3, np.random.default_rng(0))
    task = Sentences(automaton)
    assert task.held_out().told.automaton == automaton
    assert task.held_out().paraphrases == "all"


def test_the_number_of_sentences_does_not_tell_the_answer():
    task, generator = make_task("sentences", theme="parity"), np.random.default_rng(4)
    answers = [task.example(9, generator).answer for _ in range(400)]
    assert 0.4 < answers.count("on") / 400 < 0.6


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Boxes(n_objects=101), InvalidInputError, "n_objects can be at most 100"),
        (lambda: Boxes().example(-1, np.random.default_rng(0)), InvalidInputError, "n_operations must be a whole number of at"),
        (lambda: Boxes().example(1.5, np.random.default_rng(0)), InvalidInputError, "least 0, got 1.5"),
        (lambda: Boxes().examples(1, np.random.default_rng(0), 0), InvalidInputError, "n_questions must be"),
        (lambda: Boxes().examples(1, np.random.default_rng(0), 8), InvalidInputError, "the number of boxes, 7, got 8"),
        (lambda: Boxes(nouns="garden"), UnknownNameError, "Unknown nouns 'garden'"),
        (lambda: Sentences(theme="parti"), UnknownNameError, "Did you mean 'parity'"),
        (lambda: Sentences(paraphrases="old"), UnknownNameError, "Unknown paraphrases"),
        (lambda: Boxes().words.encode("box zebra"), InvalidInputError, "'zebra' is not in the vocabulary"),
    ],
)
def test_what_cannot_be_told(call, error, message):
    with pytest.raises(error, match=message):
        call()
