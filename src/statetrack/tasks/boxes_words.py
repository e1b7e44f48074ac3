"""The words of the boxes task: two disjoint lists of objects and two wordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Nouns: TypeAlias = Literal["house", "market"]
Wording: TypeAlias = Literal["plain", "story"]

_HOUSE = (  # noqa: SIM905
    "key comb drum lamp rope vase bell kite sock fork brush clock towel spoon candle ribbon hammer pillow mirror bottle "
    "needle button basket blanket pencil kettle ladder magnet marble napkin ornament padlock postcard quilt razor ruler "
    "saucer scarf screw shovel sponge stamp string tablet teapot thimble ticket toaster tweezers umbrella wallet whistle "
    "wrench album anchor apron badge bracelet broom bucket camera canvas chain chisel coaster compass cork cushion diary doll "
    "envelope eraser feather flute funnel globe glove goggles guitar hanger helmet hose iron jigsaw keyboard lantern lens "
    "locket mallet mask medal mop mug notebook oar paddle paint parcel pipe plate"
).split()
_MARKET = (  # noqa: SIM905
    "apple pear plum fig date lime mango melon grape peach lemon orange cherry banana papaya quince apricot olive onion "
    "garlic leek carrot radish turnip beet celery fennel pepper tomato potato pumpkin squash cabbage lettuce spinach kale "
    "broccoli artichoke asparagus cucumber bean pea lentil almond walnut pecan cashew peanut hazelnut chestnut rice barley "
    "oat rye wheat millet flour bread roll bagel biscuit cake tart pie waffle honey syrup jam butter cheese yogurt cream milk "
    "egg sausage bacon ham chicken duck salmon trout herring cod shrimp crab oyster mussel basil thyme sage mint parsley "
    "ginger cumin cinnamon vanilla mustard vinegar saffron nutmeg"
).split()
NOUNS: dict[str, tuple[str, ...]] = {"house": tuple(_HOUSE), "market": tuple(_MARKET)}
"""100 objects each."""


def listed(names: Sequence[str], empty: str) -> str:
    """Objects in words.

    >>> listed(["fig", "pea", "rye"], "nothing"), listed([], "nothing")
    ('the fig and the pea and the rye', 'nothing')
    """
    return " and ".join(f"the {name}" for name in names) or empty


@dataclass(frozen=True)
class Told:
    """Sentences; ``{box}``, ``{target}`` and ``{things}`` are filled in.

    Attributes:
        holds: what a box holds, up to its objects; also the question.
        move: of objects.
        move_contents: of all a box holds.
        remove: of objects.
        put: of objects.
        empty: what stands for no object.
    """

    holds: str
    move: str
    move_contents: str
    remove: str
    put: str
    empty: str

    def content(self, box: int, names: Sequence[str]) -> str:
        """The sentence of a description."""
        return f"{self.question(box)} {self.answer(names)}"

    def question(self, box: int) -> str:
        """What the answer completes."""
        return self.holds.format(box=box)

    def answer(self, names: Sequence[str]) -> str:
        """The objects and a full stop."""
        return f"{listed(names, self.empty)}."

    def operation(self, kind: str, box: int, target: int, names: Sequence[str], contents: bool) -> str:
        """The sentence of an operation."""
        sentence: str = getattr(self, "move_contents" if kind == "move" and contents else kind)
        return sentence.format(box=box, target=target, things=listed(names, self.empty))

    def all(self) -> Iterator[str]:
        """Every sentence with its gaps empty, for a vocabulary."""
        for sentence in (self.holds, self.move, self.move_contents, self.remove, self.put, self.empty, "the and ."):
            yield sentence.format(box="", target="", things="")


WORDINGS: dict[str, Told] = {
    "plain": Told(
        holds="Box {box} contains",
        move="Move {things} from box {box} to box {target}.",
        move_contents="Move the contents of box {box} to box {target}.",
        remove="Remove {things} from box {box}.",
        put="Put {things} into box {box}.",
        empty="nothing",
    ),
    "story": Told(
        holds="Inside crate {box} there is",
        move="Then Ada carried {things} out of crate {box} and over to crate {target}.",
        move_contents="Then Ada carried everything in crate {box} over to crate {target}.",
        remove="Somebody took {things} away from crate {box}.",
        put="A visitor laid {things} down in crate {box}.",
        empty="no object",
    ),
}
"""Two ways to tell the same."""
