"""The page "What can my layer track?": depths of all layers for well-known automata.

``python -m statetrack.theory.table FILE`` writes it for the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from statetrack.automata import Automaton, from_regex, group, word_automaton
from statetrack.layers import layers
from statetrack.tasks import make_task
from statetrack.theory.depth import depths
from statetrack.theory.facts import facts_of
from statetrack.theory.verdict import Depth, theorem_sources

_NONE = "\u2013"
_GROUPS = ("C2", "C3", "C4", "S3", "D4", "D5", "Q8", "A4", "S4", "A5", "S5")
_PAGE = """\
# What can my layer track?

<!-- Written by python -m statetrack.theory.table; edit the text there. -->

How many layers of a kind follow an automaton, at every length and at finite precision? The table tells what is proved:

| cell | meaning |
|---|---|
| `2` | two layers are enough, one is not |
| `1\u20132` | between one and two |
| `2 or more` | at least two; some number is enough |
| `never` | no number of layers is enough |
| `?` | nothing is proved |

The question is what some weights can do. Gates, inputs and readouts may be any function of the symbol and the layers below;
layers are as wide as they need to be and have their short convolution, if there is one; options are those that serve best (the
last table names them); and eigenvalues that are only approached count as reached. Whether training finds such weights is another
question: see [the results](results.md).

## Depths

Groups stand for their word problem: every element is a symbol, and the state is the product so far. `C2` is parity. The flip-flop
keeps or sets one bit, `(ab)*` is a star-free language, and modular arithmetic is the value mod 5 of an expression with `+`, `-`
and `*`.

{depths}

For an automaton of your own:

```bash
statetrack theory S4
statetrack theory --regex '(a|bab)*'
statetrack theory --file automaton.json --json
```

and in Python `statetrack.theory.depth("aussm", automaton)`, which comes with the reason, the theorem, its source and a witness.

## The automata

The transition monoid holds all maps of states that words induce. An automaton is aperiodic (star-free) if no group is in it, and
solvable if every group in it is. The derived length counts abelian factors of the worst of these groups.

{automata}

## Theorems

{theorems}

"Derived" marks what follows from a short argument, which the docstrings of `statetrack.theory` give; the tests build what is
claimed to be enough (levels of the cascade as diagonal layers, reflections as matrices) and run it.

## Options that are needed

{needs}
"""


def examples() -> dict[str, Automaton]:
    """The automata of the page by name."""
    found = {name: word_automaton(group(name), range(group(name).order)) for name in _GROUPS}
    found["flip-flop"] = Automaton(np.array([[0, 0, 1], [1, 0, 1]]), np.arange(2))
    found["(ab)*"] = from_regex("(ab)*", "ab")
    modular = make_task("modular-arithmetic").automaton
    assert modular is not None
    return {**found, "modular arithmetic": modular}


def page() -> str:
    """The whole page in Markdown."""
    automata = examples()
    found = {name: depths(automaton) for name, automaton in automata.items()}
    cells = [[f"`{layer}`", *(str(found[name][layer]) for name in automata)] for layer in layers]
    all_depths = [depth for row in found.values() for depth in row.values()]
    return _PAGE.format(
        depths=_table(["layer", *(f"`{name}`" if name[-1] in ")*" else name for name in automata)], cells),
        automata=_automata(automata),
        theorems=_table(["statement", "source"], sorted(theorem_sources(all_depths).items())),
        needs=_needs(found),
    )


def _automata(automata: dict[str, Automaton]) -> str:
    heads = ["automaton", "states", "monoid", "aperiodic", "solvable", "derived length", "groups of words", "real degree"]
    rows = []
    for name, automaton in automata.items():
        told = facts_of(automaton).summary()
        degree = told["group"]["real_degree"] if "group" in told else None
        yes_no = ["yes" if told[key] else "no" for key in ("aperiodic", "solvable")]
        numbers = [told["derived_length"] if told["solvable"] else _NONE, ", ".join(told["groups"]) or _NONE, degree or _NONE]
        rows.append([f"`{name}`", told["states"], told["order"], *yes_no, *numbers])
    return _table(heads, rows)


def _needs(found: dict[str, dict[str, Depth]]) -> str:
    """For each layer that needs options, those for every automaton; layers with the same needs share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    names = [name for name in found if any(depth.needs for depth in found[name].values())]
    for layer in layers:
        cells = tuple(f"`{found[name][layer].needs}`" if found[name][layer].needs else "" for name in names)
        if any(cells):
            rows.setdefault(cells, []).append(f"`{layer}`")
    heads = ["automaton", *(", ".join(sharing) for sharing in rows.values())]
    return _table(heads, [[f"`{name}`", *(cells[i] for cells in rows)] for i, name in enumerate(names)])


def _table(heads: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(path: Path) -> None:
    """Write the page to a file."""
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
