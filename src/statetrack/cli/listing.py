"""``statetrack list``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import tyro
from rich.table import Column, Table
from rich.text import Text

from statetrack.cli.console import console, note, print_json
from statetrack.cli.docstrings import documented
from statetrack.cli.options import Flag, parse
from statetrack.errors import UnknownNameError
from statetrack.report.layer_table import COLUMNS, layer_rows
from statetrack.report.reproduce import option_words

Entries = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ListOptions:
    """What there is, and the options of one of them.

    Attributes:
        what: layers, tasks or recipes.
        name: one of them, to see all that is known of it and every option with its default.
        json: print one JSON object in place of the list.
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="layers|tasks|recipes")]
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    json: Flag = False


def run(argv: list[str]) -> int:
    """Run the command."""
    options = parse(ListOptions, argv, "statetrack list")
    if options.what not in _LISTS:
        raise UnknownNameError("list", options.what, _LISTS)
    entries = _LISTS[options.what]()
    if options.name:
        if options.name not in entries:
            raise UnknownNameError(options.what.removesuffix("s"), options.name, entries)
        entries = {options.name: entries[options.name]}
    if options.json:
        print_json({options.what: entries})
    elif options.what == "layers" and not options.name:
        console().print(_layer_table())
        note("statetrack list layers NAME shows the options of one.")
    else:
        console().print(_grid(entries, "layer" if options.what == "layers" else "task"))
    return 0


def layer_entries() -> Entries:
    """All layers: what is known about each, and its options."""
    from statetrack.layers import layer_options, layers

    entries = {}
    for name in layers:
        texts = documented(layers.get(name))
        options = {
            key: {"default": parameter.default, "help": texts.get(key, "")} for key, parameter in layer_options(name).items()
        }
        entries[name] = {**asdict(layers.get(name).traits), "options": options}
    return entries


def task_entries() -> Entries:
    """All tasks: what each asks, how far guessing gets, and its options."""
    from statetrack.tasks import make_task, task_options, tasks

    entries = {}
    for name in tasks:
        texts, made = documented(tasks.get(name)), make_task(name)
        entries[name] = {
            "summary": made.summary,
            "source": made.source,
            "vocabulary": made.vocab_size,
            "classes": made.n_classes,
            "chance": made.chance,
            "states": made.automaton.n_states if made.automaton else None,
            "options": {key: {"default": value, "help": texts.get(key, "")} for key, (_, value) in task_options(name).items()},
        }
    return entries


def recipe_entries() -> Entries:
    """All recipes."""
    from statetrack.recipes import recipes

    return {name: {"summary": recipes.get(name).summary, "presets": list(recipes.get(name).presets)} for name in recipes}


_LISTS: dict[str, Callable[[], Entries]] = {"layers": layer_entries, "tasks": task_entries, "recipes": recipe_entries}


def _layer_table() -> Table:
    columns = (Column(name, no_wrap=name == "Layer", overflow="fold") for name in COLUMNS)
    table = Table(*columns, box=None, padding=(0, 1, 1, 0), pad_edge=False)
    for row in layer_rows(sources=False):
        table.add_row(*map(Text, row))
    return table


def _grid(entries: Entries, prefix: str) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    for name, entry in entries.items():
        grid.add_row(Text(name, style="bold not dim"), "")
        for key, value in entry.items():
            if key == "options":
                grid.add_row("  options", _options(value, prefix))
            else:
                grid.add_row(f"  {key.replace('_', ' ')}", _plain(value))
        grid.add_row()
    return grid


def _options(options: dict[str, Any], prefix: str) -> str:
    words = ("=".join(option_words(f"{prefix}.{key}", option["default"])) for key, option in options.items())
    return "  ".join(words) or "none"


def _plain(value: Any) -> str:
    if isinstance(value, dict) and "kind" in value:  # a claim
        return f"{value['kind']}: {value['what']} ({value['source']})"
    if isinstance(value, dict):
        return ", ".join(f"{key}={entry}" for key, entry in value.items()) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)
