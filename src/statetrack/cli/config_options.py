"""The options of ``statetrack train LAYER TASK``: a dataclass made from the training configuration, the layer and the task."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_type_hints

from statetrack.cli.docstrings import documented
from statetrack.cli.options import parse_known, section
from statetrack.layers import layer_options, layers, names_of
from statetrack.recipes.defaults import default_config
from statetrack.tasks import task_options, tasks
from statetrack.training import TrainConfig, constructed

_PARTS = ("model", "lengths", "optim", "evaluation")
_NAMED = ("layer", "task", "task_options", "seed", *_PARTS)


def parse_config(
    layer: str, task: str, argv: Sequence[str], prog: str, *, seed: int = 0, extra: type | None = None
) -> tuple[TrainConfig, Any, list[str], type]:
    """A training configuration from arguments, over the defaults of the layer and the task.

    Args:
        layer: name of the layer.
        task: name of the task.
        argv: the options.
        prog: what help and errors call the command.
        seed: of the run.
        extra: a dataclass of further options that the command takes; with a field ``seed``, that one counts.

    Returns:
        The configuration, the parsed options, arguments that are unknown, and the class that was parsed.
    """
    chosen = {"layer": _given(argv, "layer"), "task": _given(argv, "task")}
    defaults = default_config(layer, task, seed=seed)
    cls = _options_class(defaults, extra)
    parsed: Any
    parsed, rest = parse_known(cls, argv, prog)
    if chosen["layer"] or chosen["task"]:
        # Defaults may depend on what was chosen, so they are asked for again and the rest is read over them.
        of_layer, of_task = (_picked(parsed, part, names) for part, names in chosen.items())
        defaults = default_config(layer, task, seed=seed, layer_options=of_layer, task_options=of_task)
        cls = _options_class(defaults, extra)
        parsed, rest = parse_known(cls, argv, prog)
    if parsed.init != "random":
        # The construction says what the stack is; an option that says otherwise stands, and is refused before the run.
        defaults = constructed(replace(defaults, init=parsed.init))
        cls = _options_class(defaults, extra)
        parsed, rest = parse_known(cls, argv, prog)
    return _config(defaults, parsed), parsed, rest, cls


def _given(argv: Sequence[str], part: str) -> set[str]:
    """Names of the options of one part that the arguments mention."""
    start = f"--{part}."
    names = {token.removeprefix(start).split("=")[0] for token in argv if token.startswith(start)}
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def _picked(parsed: Any, part: str, names: set[str]) -> dict[str, Any]:
    options = _layer_values(getattr(parsed, part)) if hasattr(parsed, part) else {}
    return {name: value for name, value in options.items() if name.replace("-", "_") in names}


def _options_class(defaults: TrainConfig, extra: type | None) -> type:
    """A dataclass of all options, whose defaults are those of a configuration."""
    entries: dict[str, tuple[Any, Any, str]] = {}
    if extra is not None:
        hints = get_type_hints(extra, include_extras=True)
        texts = documented(extra)
        entries = {f.name: (hints[f.name], f.default, texts.get(f.name, "")) for f in dataclasses.fields(extra)}
    entries |= _fields(defaults, leave_out=_NAMED)
    entries |= {name: (type(part), part, "") for name, part in _sections(defaults).items()}
    return type(section("Train a layer on a task.", entries))


def _fields(config: Any, leave_out: Sequence[str] = ()) -> dict[str, tuple[Any, Any, str]]:
    hints, texts = get_type_hints(type(config)), documented(type(config))
    return {name: (hints[name], value, texts.get(name, "")) for name, value in vars(config).items() if name not in leave_out}


def _sections(defaults: TrainConfig) -> dict[str, Any]:
    """One dataclass for each group of options, with its defaults."""
    layer, task = defaults.layer, defaults.task
    texts, hints = documented(tasks.get(task)), task_options(task)
    of_task = {k: (hint, defaults.task_options.get(k, default), texts.get(k, "")) for k, (hint, default) in hints.items()}
    found = {}
    if of_task:
        found["task"] = section(f"The task {task}.", of_task)
    found["layer"] = _layer_section(layer, defaults.model.layer)
    for name in _PARTS:
        part = getattr(defaults, name)
        found[name] = section((type(part).__doc__ or "").splitlines()[0], _fields(part, leave_out=("layer",)))
    return found


def _layer_section(pattern: str, values: dict[str, Any]) -> Any:
    """The options of a layer, or of all layers of a hybrid within a section each."""
    names = list(dict.fromkeys(names_of(pattern)))
    if len(names) == 1:
        return _options_of(names[0], values)
    parts = {name: {key.removeprefix(f"{name}."): v for key, v in values.items() if key.startswith(f"{name}.")} for name in names}
    sections = {name.replace("-", "_"): _options_of(name, own) for name, own in parts.items()}
    return section(f"The layers of {pattern}.", {name: (type(part), part, "") for name, part in sections.items()})


def _options_of(layer: str, values: dict[str, Any]) -> Any:
    cls = layers.get(layer)
    hints, texts = get_type_hints(cls.__init__), documented(cls)
    entries = {k: (hints[k], values.get(k, p.default), texts.get(k, "")) for k, p in layer_options(layer).items()}
    return section(f"The layer {layer}.", entries)


def _layer_values(parsed: Any) -> dict[str, Any]:
    """The inverse of ``_layer_section``."""
    found: dict[str, Any] = {}
    for key, value in vars(parsed).items():
        if dataclasses.is_dataclass(value):
            found |= {f"{key.replace('_', '-')}.{name}": inner for name, inner in vars(value).items()}
        else:
            found[key] = value
    return found


def _config(defaults: TrainConfig, parsed: Any) -> TrainConfig:
    """The configuration with everything spelt out, so that another version's defaults cannot change a run."""
    loose = {f.name: getattr(parsed, f.name) for f in dataclasses.fields(TrainConfig) if f.name not in _NAMED}
    parts = {name: replace(getattr(defaults, name), **vars(getattr(parsed, name))) for name in _PARTS}
    parts["model"] = replace(parts["model"], layer=_layer_values(parsed.layer))
    task = dict(vars(parsed.task)) if hasattr(parsed, "task") else {}
    return replace(defaults, **loose, **parts, task_options=task, seed=getattr(parsed, "seed", defaults.seed))
