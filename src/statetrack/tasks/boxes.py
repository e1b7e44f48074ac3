"""Boxes: what lies in a box after objects were put, moved and removed, told in words.

    Box 0 contains the key. Box 1 contains nothing. Move the key from box 0 to box 1. Box 1 contains  ->  the key.

Every operation changes the state. Boxes hold at most ``capacity`` objects, no object lies in two of them. The numbers of objects
in the boxes at the beginning (the signature) never are the same in training and in held-out data. Source of the task: Entity
Tracking in Language Models (arXiv 2305.02363); lengths to which it is carried on: Flash PD-SSM (arXiv 2605.19150). Objects and
wordings are our own.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.boxes_words import NOUNS, WORDINGS, Nouns, Wording
from statetrack.tasks.checks import one_of, row_lengths, truth_value, whole_number
from statetrack.tasks.text import TextExample, Words

Kind: TypeAlias = Literal["move", "remove", "put"]
_KINDS: tuple[Kind, ...] = ("move", "remove", "put")
State: TypeAlias = list[list[int]]
_HASH = 2654435761


class World:
    """Boxes with objects, and what can happen to them.

    Args:
        n_boxes: number of boxes.
        capacity: most objects in one.
        n_objects: number of objects there are.
        generator: source of randomness.
    """

    def __init__(self, n_boxes: int, capacity: int, n_objects: int, generator: np.random.Generator) -> None:
        self.n_boxes, self.capacity, self.n_objects, self.generator = n_boxes, capacity, n_objects, generator

    def begin(self) -> State:
        """A first state: about two objects a box, ``min(Poisson(2), capacity)``."""
        while True:
            counts = np.minimum(self.generator.poisson(2, self.n_boxes), self.capacity)
            if counts.sum() <= self.n_objects:
                objects = self.generator.permutation(self.n_objects).tolist()
                ends = counts.cumsum().tolist()
                return [objects[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]

    def draw(self, state: State, whole: bool) -> tuple[Kind, int, int, list[int]]:
        """An operation that is possible and changes the state: kind, box, target (for a move) and objects."""
        while True:
            kind = _KINDS[int(self.generator.integers(3))]
            box = int(self.generator.integers(self.n_boxes))
            if kind == "put":
                lying = {thing for content in state for thing in content}
                free = [thing for thing in range(self.n_objects) if thing not in lying]
                count = max(1, int(self.generator.poisson(1)))
                if count <= len(free) and len(state[box]) + count <= self.capacity:
                    return kind, box, box, self.generator.permutation(free)[:count].tolist()
                continue
            if not state[box]:
                continue
            picked = self._some(state[box], whole and kind == "move")
            if kind == "remove":
                return kind, box, box, picked
            target = (box + 1 + int(self.generator.integers(self.n_boxes - 1))) % self.n_boxes
            if len(state[target]) + len(picked) <= self.capacity:
                return kind, box, target, picked

    def _some(self, content: list[int], whole: bool) -> list[int]:
        while True:
            picked = [thing for thing in content if whole or self.generator.random() < 0.5]
            if picked:
                return picked


def apply(state: State, kind: Kind, box: int, target: int, objects: list[int]) -> State:
    """The state after an operation.

    >>> apply([[4, 7], []], "move", 0, 1, [7])
    [[4], [7]]
    """
    after = [list(content) for content in state]
    if kind != "put":
        after[box] = [thing for thing in after[box] if thing not in objects]
    if kind != "remove":
        after[target] += objects
    return after


@register("boxes")
class Boxes(Task):
    """What a box holds at the end; the answer names its objects in alphabetical order, or says that there are none.

    A length counts operations. Accuracy counts words of the answer; ``row_accuracy`` of a text recipe counts whole answers.

    Args:
        n_boxes: number of boxes.
        capacity: most objects in a box.
        n_objects: number of objects.
        nouns: which objects: ``"house"`` or, with other words throughout, ``"market"``.
        wording: how it is told: ``"plain"`` or ``"story"``.
        contents: moves take all a box holds and name the box alone ("the contents of box 2").
        changed: ask for boxes that some operation changed; what never changed stands in the description. Where there are none,
            any box is asked for.
        n_questions: number of boxes asked for in a row of training data; held-out data ask for one.

    Raises:
        InvalidInputError: a size that does not fit.

    >>> task = Boxes(n_boxes=2, capacity=1, n_objects=4)
    >>> print(task.example(1, np.random.default_rng(4)).text)
    Box 0 contains nothing. Box 1 contains nothing. Put the drum into box 1. Box 1 contains the drum.
    """

    summary = "what a box holds after moves, removals and puts, told in words"
    source = "arXiv 2305.02363, 2605.19150"
    min_length = 0

    def __init__(
        self,
        *,
        n_boxes: int = 7,
        capacity: int = 3,
        n_objects: int = 100,
        nouns: Nouns = "house",
        wording: Wording = "plain",
        contents: bool = False,
        changed: bool = True,
        n_questions: int = 1,
    ) -> None:
        self.n_boxes, self.capacity = whole_number("n_boxes", n_boxes, low=2), whole_number("capacity", capacity, low=1)
        self.n_objects = whole_number("n_objects", n_objects, low=1)
        self.names, self.told = NOUNS[one_of("nouns", nouns, NOUNS)], WORDINGS[one_of("wording", wording, WORDINGS)]
        self.nouns, self.wording = nouns, wording
        self.contents, self.changed = truth_value("contents", contents), truth_value("changed", changed)
        self.n_questions = whole_number("n_questions", n_questions, low=1)
        if not n_objects <= len(self.names) or n_questions > n_boxes or n_boxes > 10:
            raise InvalidInputError(
                f"n_objects can be at most {len(self.names)}, n_boxes 10 and n_questions n_boxes; "
                f"got {n_objects}, {n_boxes} and {n_questions}."
            )
        self.names = tuple(sorted(self.names[:n_objects]))
        self.words = Words([*self.told.all(), *self.names, *map(str, range(n_boxes))])
        self.vocab_size = self.n_classes = len(self.words)
        self.chance = 1 / (1 + self.n_objects)
        self.held = False

    def held_out(self) -> Boxes:
        other = Boxes(
            n_boxes=self.n_boxes,
            capacity=self.capacity,
            n_objects=self.n_objects,
            nouns=self.nouns,
            wording=self.wording,
            contents=self.contents,
            changed=self.changed,
        )
        other.held = True
        return other

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        return self.words.batch([self.examples(int(n), generator, self.n_questions) for n in lengths])

    def example(self, n_operations: int, generator: np.random.Generator) -> TextExample:
        """One story with one question.

        Raises:
            InvalidInputError: a number of operations below 0.
        """
        return self.examples(n_operations, generator, 1)[0]

    def examples(self, n_operations: int, generator: np.random.Generator, n_questions: int) -> list[TextExample]:
        """One story with questions; the prompts of the second and later ones are the bare questions.

        Raises:
            InvalidInputError: a number of operations below 0, or of questions that is not in 1 .. ``n_boxes``.
        """
        n_operations = whole_number("n_operations", n_operations, low=0)
        if whole_number("n_questions", n_questions, low=1) > self.n_boxes:
            raise InvalidInputError(f"n_questions can be at most the number of boxes, {self.n_boxes}, got {n_questions}.")
        world = World(self.n_boxes, self.capacity, self.n_objects, generator)
        state = self._first(world)
        told = [self.told.content(box, self._named(content)) for box, content in enumerate(state)]
        changes = [0] * self.n_boxes
        for _ in range(n_operations):
            kind, box, target, objects = world.draw(state, self.contents)
            state = apply(state, kind, box, target, objects)
            for touched in {box, target}:
                changes[touched] += 1
            told.append(self.told.operation(kind, box, target, self._named(objects), self.contents))
        prefix, parts = " ".join(told) + " ", []
        for box in self._asked(changes, generator, n_questions):
            parts.append(TextExample(prefix + self.told.question(box), self.told.answer(self._named(state[box])), changes[box]))
            prefix = ""
        return parts

    def signature_is_held_out(self, state: State) -> bool:
        """Whether the numbers of objects in the boxes belong to held-out data; about half of all do."""
        code = 0
        for content in state:
            code = code * (self.capacity + 1) + len(content)
        return (code * _HASH & 0xFFFFFFFF) >> 31 == 1

    def _first(self, world: World) -> State:
        while True:
            state = world.begin()
            if self.signature_is_held_out(state) == self.held:
                return state

    def _asked(self, changes: list[int], generator: np.random.Generator, n_questions: int) -> list[int]:
        order = generator.permutation(self.n_boxes).tolist()
        if self.changed:
            order.sort(key=lambda box: changes[box] == 0)
        return order[:n_questions]

    def _named(self, objects: list[int]) -> list[str]:
        return [self.names[i] for i in sorted(objects)]
