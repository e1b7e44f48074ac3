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


def parity() -> Theme:
    """A lamp: letter 1 flips it, letter 0 leaves it alone."""
    return Theme(
        _group("C2", "all"),
        opening="The lamp is off.",
        question="Now the lamp is",
        answers=("off", "on"),
        train=(
            (
                "Tom looked at the lamp.",
                "A cat walked by.",
                "Nobody touched the lamp at all.",
                "Lily sat down and read a book.",
                "It was a quiet day.",
                "Mom sang a little song in the garden.",
                "Tom thought about the lamp but did nothing.",
                "The wind blew.",
                "Ben ran past the lamp and went out to play.",
            ),
            (
                "Tom pressed the switch.",
                "Lily flipped the switch of the lamp.",
                "Ben pushed the button once.",
                "The switch was pressed by Mom.",
                "Someone came in and flipped the switch.",
                "Dad used the switch.",
                "The lamp was switched by a little girl.",
                "Tom ran to the lamp and pushed its button.",
                "Then the button was pressed.",
            ),
        ),
        test=(
            (
                "Ben sat near the lamp.",
                "A little dog ran by and looked at Mom.",
                "Lily did not touch the switch.",
                "Dad read a book.",
            ),
            (
                "Dad pushed the switch.",
                "A little girl came in and pressed the button once.",
                "The switch was flipped by Tom.",
                "Then Ben ran to the switch and flipped the lamp.",
            ),
        ),
    )


def cycle() -> Theme:
    """Five rooms in a ring: letter 0 stays, 1 goes one on, 2 goes one back."""
    steps = Automaton(np.array([[s, (s + 1) % 5, (s + 4) % 5] for s in range(5)]), np.arange(5))
    return Theme(
        steps,
        opening="Five rooms lie in a ring: red, blue, green, white and black. Lily is in the red room.",
        question="Now Lily is in the",
        answers=("red", "blue", "green", "white", "black"),
        train=(
            (
                "Lily stayed.",
                "Lily did not move at all.",
                "She sat down in the same room.",
                "She stayed where she was.",
                "Lily took a nap.",
                "Then Lily looked out and did not go.",
                "For a long time she stayed in that room.",
                "She did not go.",
            ),
            (
                "Lily went on.",
                "She walked to the next room.",
                "Lily ran one room on.",
                "Then she went through the door to the next room.",
                "She moved on by one.",
                "Lily took one step on.",
                "One room on, that is where she went.",
                "On she walked.",
            ),
            (
                "Lily went back.",
                "She walked back to the room before.",
                "Lily ran one room back.",
                "Then she went back through the door.",
                "She moved back by one.",
                "Lily took one step back.",
                "One room back, that is where she went.",
                "Back she walked.",
            ),
        ),
        test=(
            ("She took a nap in the same room.", "Lily stayed for a long time.", "Then she did not move."),
            ("She ran on to the next room.", "Lily moved one step on.", "On through the door she went.", "Then Lily walked on."),
            (
                "She ran back to the room before.",
                "Lily moved one step back.",
                "Back through the door she went.",
                "Then Lily walked back.",
            ),
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
