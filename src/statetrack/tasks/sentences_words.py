"""How the letters of an automaton are told: an opening, paraphrases for training and others for testing, a question, answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statetrack.automata.automaton import Automaton
from statetrack.automata.group_names import group
from statetrack.automata.words import alphabet, word_automaton


@dataclass(frozen=True)
class Theme:
    """A story in which an automaton runs.

    Attributes:
        automaton: what happens; its outputs are the answers.
        opening: first sentence.
        question: what the answer completes.
        answers: one word for each output.
        train: paraphrases of each letter that training sees.
        test: paraphrases of each letter that only held-out data use.
    """

    automaton: Automaton
    opening: str
    question: str
    answers: tuple[str, ...]
    train: tuple[tuple[str, ...], ...]
    test: tuple[tuple[str, ...], ...]


def _group(name: str, letters: str) -> Automaton:
    found = group(name)
    return word_automaton(found, alphabet(found, letters, 0))


def _by(subjects: tuple[str, ...], *deeds: str) -> tuple[str, ...]:
    """Every deed, ``{}`` standing for who does it, with every subject."""
    told = (deed.format(subject) for deed in deeds for subject in subjects)
    return tuple(sentence[0].upper() + sentence[1:] for sentence in told)


def parity() -> Theme:
    """A lamp: letter 1 flips it, letter 0 leaves it alone."""
    people = ("Tom", "Lily", "Ben", "Mom", "Dad", "a little girl")
    return Theme(
        _group("C2", "all"),
        opening="The lamp is off.",
        question="Now the lamp is",
        answers=("off", "on"),
        train=(
            (
                *_by(
                    people,
                    "{} looked at the lamp.",
                    "{} sat down and read a story.",
                    "{} ran past the lamp and went out to play.",
                    "{} thought about the lamp but did nothing.",
                    "{} sang a little song in the garden.",
                    "{} walked by the switch.",
                    "{} did not touch the lamp.",
                    "{} did not press the button.",
                    "Then {} came in and sat down once.",
                    "{} talked about the switch with a friend.",
                ),
                "A cat walked by.",
                "Nobody touched the lamp at all.",
                "The switch was not used.",
                "It was a quiet day.",
                "The wind blew.",
                "A little dog sat near the button.",
                "A book was on the table.",
            ),
            (
                *_by(
                    people,
                    "{} pressed the switch.",
                    "{} flipped the switch of the lamp.",
                    "{} pushed the button once.",
                    "Someone saw {} as the button was pressed.",
                    "{} came in and flipped the switch.",
                    "{} used the switch.",
                    "{} switched the lamp.",
                    "The lamp was switched by {}.",
                    "The switch was pressed by {}.",
                    "{} ran to the lamp and pushed its button.",
                    "Then {} went by and used the button.",
                ),
                "Then the button was pressed.",
                "The switch was flipped.",
            ),
        ),
        test=(
            _by(
                people,
                "{} sat near the lamp.",
                "{} ran by and looked at a book.",
                "{} did not touch the switch.",
                "{} read a book.",
            ),
            _by(
                people,
                "{} pushed the switch.",
                "{} came in and pressed the button once.",
                "The switch was flipped by {}.",
                "Then {} ran to the switch and flipped the lamp.",
            ),
        ),
    )


def cycle() -> Theme:
    """Five rooms in a ring: letter 0 stays, 1 goes one on, 2 goes one back."""
    steps = Automaton(np.array([[s, (s + 1) % 5, (s + 4) % 5] for s in range(5)]), np.arange(5))
    who, late = ("Lily", "she"), ("Lily", "she", "then Lily", "then she")
    train_ways, test_ways = (
        (
            "{} went {way}.",
            "{} walked {way} to the room {beside}.",
            "{} ran one room {way}.",
            "{} moved {way} by one.",
            "{} took one step {way}.",
            "{} went {way} through the door.",
            "{} jumped {way} to the room {beside}.",
            "{} walked one room {way} at last.",
        ),
        (
            "{} ran {way} to the room {beside}.",
            "{} moved one step {way}.",
            "{} walked {way}.",
        ),
    )

    train_turned = ("one room {way}, that is where {} went.", "{way} {} walked.")
    test_turned = ("{way} through the door {} went.",)

    def ways(deeds: tuple[str, ...], turned: tuple[str, ...], way: str, beside: str) -> tuple[str, ...]:
        def told(deed: str) -> str:
            return deed.replace("{way}", way).replace("{beside}", beside)

        return _by(late, *map(told, deeds)) + _by(who, *map(told, turned))

    return Theme(
        steps,
        opening="Five rooms lie in a ring: red, blue, green, white and black. Lily is in the red room.",
        question="Now Lily is in the",
        answers=("red", "blue", "green", "white", "black"),
        train=(
            _by(
                late,
                "{} stayed.",
                "{} did not move at all.",
                "{} sat down in the same room.",
                "{} stayed where she was.",
                "{} took a nap.",
                "{} looked out and did not go.",
                "{} slept for a while.",
                "{} did not go.",
                "{} looked at the door and sat down.",
            )
            + _by(who, "a long time {} stayed in that room."),
            ways(train_ways, train_turned, "on", "after"),
            ways(train_ways, train_turned, "back", "before"),
        ),
        test=(
            _by(late, "{} took a nap in the same room.", "{} stayed for a long time.", "{} did not move."),
            ways(test_ways, test_turned, "on", "after"),
            ways(test_ways, test_turned, "back", "before"),
        ),
    )


def travel() -> Theme:
    """The Cayley graph of A5 with two generators: one is told as rides, the other as ways on foot."""
    automaton = _group("A5", "generators")
    names = tuple(f"stop{number}" for number in range(automaton.n_outputs))
    return Theme(
        automaton,
        opening="Sixty stops are joined by rides and paths. Ada is at stop0.",
        question="Now Ada is at",
        answers=names,
        train=(
            (
                "Ada took the bus.",
                "Ada rode one stop by train.",
                "A car brought Ada to where the road leads.",
                "She went by tram this time.",
                "By bus she went on.",
                "Then a taxi took her one stop along.",
                "She caught a plane.",
                "The next ride was by train.",
            ),
            (
                "Ada walked.",
                "Ada ran along the path.",
                "On foot she went to where the path leads.",
                "She hiked this time.",
                "Then she jogged to the other end of the path.",
                "She strolled over.",
                "The next way she went on foot.",
                "Ada took the path and walked along it to its end.",
            ),
        ),
        test=(
            ("A bus brought her one stop along.", "She rode by car.", "Then Ada caught the tram this time."),
            ("She walked along the path.", "Ada jogged.", "Then on foot she took the path to its end."),
        ),
    )


_VERBS = ("pressed", "pushed", "touched", "chose", "used")
_NAMES = ("Ada", "Ben", "Lily", "Tom")
_SIGNS = (  # noqa: SIM905
    "red blue green white black brown pink gold silver grey purple violet amber ivory coral teal navy olive ruby pearl copper "
    "bronze lilac mint rose sand sky snow stone straw"
).split()


def machine(automaton: Automaton) -> Theme:
    """Any automaton as a machine with a button of its own colour for each letter.

    Letters beyond the list of colours have numbers.
    """
    signs = [_SIGNS[i] if i < len(_SIGNS) else f"grey{i}" for i in range(automaton.n_symbols)]
    train = tuple(
        (
            *(f"{name} {verb} the {sign} button." for name in _NAMES[:3] for verb in _VERBS[:3]),
            f"Then the {sign} button was {_VERBS[0]}.",
            f"The {sign} one was next, and somebody {_VERBS[2]} it.",
        )
        for sign in signs
    )
    test = tuple(
        (
            f"{_NAMES[3]} {_VERBS[1]} the {sign} button.",
            f"Then the {sign} one was {_VERBS[1]} by {_NAMES[0]}.",
            f"The {sign} button was next.",
        )
        for sign in signs
    )
    answers = tuple(f"light{number}" for number in range(automaton.n_outputs))
    return Theme(
        automaton, f"A machine shows {answers[automaton.outputs[automaton.start]]}.", "Now it shows", answers, train, test
    )


THEMES = {"parity": parity, "cycle": cycle, "A5": travel}
