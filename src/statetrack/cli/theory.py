"""``statetrack theory``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Column, Table
from rich.text import Text

from statetrack.automata import Automaton, alphabet, group, word_automaton
from statetrack.cli.console import console, note, print_json
from statetrack.cli.options import Flag, parse
from statetrack.errors import InvalidInputError, UnknownNameError
from statetrack.layers import layers
from statetrack.tasks import make_task, tasks
from statetrack.tasks.automaton_task import AutomatonTask
from statetrack.theory import Depth, depths, facts_of
from statetrack.theory.verdict import theorem_sources

_LARGE = 1_000_000
"""Entries of a table of transitions from which on an answer takes more than a few seconds."""

_KINDS = ("exact", "bounds", "unknown", "never")
_GROUPS = ("C<n>", "D<n>", "S<n>", "A<n>", "Q8", "F20", "products such as A4xC5")


@dataclass(frozen=True)
class TheoryOptions:
    """Which layers can track an automaton, and in how many layers. It tells what weights can do, not what training finds.

    Attributes:
        target: a group such as S4 or A4xC5 (its word problem), a task such as parity, or a .json file of an automaton.
        regex: in place of a target, a regular expression; the question is whether the word so far matches as a whole.
        letters: alphabet of the regular expression, one character a symbol.
        file: in place of a target, a JSON file with transitions and outputs, as the automaton task reads it.
        alphabet: which elements of a group are symbols: all, generators, swaps, 3-point, random-6.
        json: print one JSON object in place of the tables.
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GROUP|TASK|FILE")] = ""
    regex: str | None = None
    letters: str = "ab"
    file: str | None = None
    alphabet: str = "all"
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(TheoryOptions, argv, "statetrack theory")
    name, automaton = named_automaton(options)
    large = automaton.transitions.size > _LARGE
    if large:
        note(
            f"{name}: {automaton.n_states:,} states and {automaton.n_symbols:,} symbols, which can take minutes. Of a group, "
            "--alphabet generators asks about fewer symbols.\nFacts about its words ..."
        )
    facts = facts_of(automaton).summary()
    if large:
        note(f"Depths of {len(list(layers))} layers ...")
    found = depths(automaton)
    if options.json:
        print_json({"name": name, **facts, "depth": {layer: depth.to_dict() for layer, depth in found.items()}})
        return 0
    out = console()
    out.print(Text(name, style="bold"))
    out.print(_facts(facts))
    theorems = theorem_sources(_ranked(found).values())
    out.print(_depths(found, list(theorems)))
    out.print(_theorems(theorems))
    return 0


def named_automaton(options: TheoryOptions) -> tuple[str, Automaton]:
    """The automaton that the options ask about, and what to call it.

    Raises:
        InvalidInputError: none or more than one is named, or the task has no finite automaton.
        UnknownNameError: no group or task has the name.
    """
    given = {"a target": options.target, "--regex": options.regex, "--file": options.file}
    named = [what for what, value in given.items() if value not in ("", None)]
    if len(named) != 1:
        got = f"got {' and '.join(named)}" if named else "none is named"
        raise InvalidInputError(f"statetrack theory asks about one automaton: GROUP, TASK, FILE, --regex or --file; {got}.")
    if options.regex is not None:
        return f"{options.regex} over {' '.join(options.letters)}", AutomatonTask(
            regex=options.regex, letters=options.letters
        ).words
    if options.file or options.target.endswith(".json"):
        file = options.file or options.target
        return file, AutomatonTask(file=file).words
    if options.target in tasks.names():
        automaton = make_task(options.target).automaton
        if automaton is None:
            raise InvalidInputError(f"The task {options.target!r} has no finite automaton, so the theorems do not speak of it.")
        return options.target, automaton
    try:
        made = group(options.target)
    except UnknownNameError as error:
        raise UnknownNameError("group or task", options.target, [*error.suggestions, *tasks, *_GROUPS]) from None
    symbols = "" if options.alphabet == "all" else f", symbols: {options.alphabet}"
    return f"word problem of {made.name}{symbols}", word_automaton(made, alphabet(made, options.alphabet))


def _facts(facts: dict[str, Any]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    flat = {key: value for key, value in facts.items() if key != "group"}
    flat |= {key: value for key, value in (facts.get("group") or {}).items() if key not in flat and key != "name"}
    for key, value in flat.items():
        if value not in (None, []):
            grid.add_row(f"  {_LABELS.get(key, key.replace('_', ' '))}", _plain(value))
    grid.add_row()
    return grid


_LABELS = {
    "states": "states (minimal)",
    "letters": "different symbols",
    "is_group": "permutes its states",
    "order": "words that differ",
    "groups": "groups of words",
    "definite_order": "last symbols needed",
}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _ranked(found: dict[str, Depth]) -> dict[str, Depth]:
    """The fewest layers first, what is out of reach last."""

    def rank(item: tuple[str, Depth]) -> tuple[int, tuple[float, ...]]:
        layers = item[1].layers
        least, most = (layers or 0, layers or 0) if not isinstance(layers, tuple) else layers
        return _KINDS.index(item[1].kind), (least, float("inf") if most is None else most)

    return dict(sorted(found.items(), key=rank))


def _depths(found: dict[str, Depth], theorems: list[str]) -> Table:
    rows: dict[Depth, list[str]] = {}
    for layer, depth in _ranked(found).items():
        rows.setdefault(depth, []).append(layer)
    columns = (Column("Layers", no_wrap=True), Column("Of", ratio=3), Column("Why", ratio=6), Column("Needs", ratio=3))
    table = Table(*columns, box=None, padding=(0, 2, 1, 0), pad_edge=False, expand=True)
    for depth, names in rows.items():
        why = depth.reason if depth.witness is None else f"{depth.reason} Witness: {depth.witness}."
        if depth.theorem:
            why = f"{why} [{1 + theorems.index(depth.theorem)}]"
        table.add_row(Text(str(depth), style="bold"), Text(", ".join(names)), Text(why), Text(depth.needs))
    return table


def _theorems(theorems: dict[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for number, (theorem, source) in enumerate(theorems.items(), start=1):
        grid.add_row(f"\\[{number}]", Text(f"{theorem} ({source})", style="dim"))
    return grid
