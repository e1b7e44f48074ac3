"""Group word problems: the running product of a word of group elements."""

from __future__ import annotations

from statetrack.automata.group_names import group as group_called
from statetrack.automata.words import alphabet as symbols_called
from statetrack.automata.words import word_automaton
from statetrack.tasks.automaton_task import Label, LabelledWords
from statetrack.tasks.base import register
from statetrack.tasks.checks import whole_number


@register("group-word")
class GroupWord(LabelledWords):
    """The product ``x_1 x_2 ... x_t`` of uniform elements of an alphabet in a group.

    Permutations compose as ``(a b)(x) = a(b(x))``, and each token multiplies on the right. Class ids are element ids:
    permutations in lexicographic order, the identity is 0. Token ``x`` is the ``x``-th element of the alphabet; then come the
    padding and, where they are used, the token at the beginning and the filler. A length counts elements only.

    Args:
        group: ``S5``, ``A5``, ``C6``, ``D4``, ``Q8``, ``A4xZ5`` and so on.
        alphabet: ``"all"`` elements (arXiv 2404.08819), ``"generators"``, ``"random-6"`` (generators and others, 6 in all;
            arXiv 2509.22284), ``"swaps"`` or ``"3-point"`` (elements that move at most 3 points; arXiv 2502.10297).
        alphabet_seed: seed of the others in a random alphabet. The published ones are not known.
        label: ``"every"`` asks for each running product (arXiv 2404.08819), ``"last"`` for the last alone (arXiv 2509.22284).
        bos: begin with a token that says so and has no label (arXiv 2404.08819).
        fillers: number of filler tokens after each element, the last of which has its label; 3 in the four-token form of
            arXiv 2411.12537.

    Raises:
        UnknownNameError: no such group or alphabet.
        InvalidInputError: an alphabet that does not generate the group, or a number out of range.

    >>> import numpy as np
    >>> batch = GroupWord(group="C3").sample(1, 5, np.random.default_rng(1))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[1, 1, 2, 2, 0]], [[1, 2, 1, 0, 0]])
    """

    summary = "running product of group elements"
    source = "arXiv 2404.08819, 2411.12537, 2502.10297, 2509.22284"

    def __init__(
        self,
        *,
        group: str = "A5",
        alphabet: str = "all",
        alphabet_seed: int = 0,
        label: Label = "every",
        bos: bool = False,
        fillers: int = 0,
    ) -> None:
        self.group = group_called(group)
        self.alphabet = symbols_called(self.group, alphabet, whole_number("alphabet_seed", alphabet_seed, low=0))
        super().__init__(word_automaton(self.group, self.alphabet), label=label, bos=bos, fillers=fillers)
        self.chance = 1 / self.group.order
