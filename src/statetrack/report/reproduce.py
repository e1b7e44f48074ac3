"""The command that makes a run again."""

from __future__ import annotations

import shlex
from typing import Any

from statetrack.recipes.defaults import default_config
from statetrack.training import TrainConfig
from statetrack.training.settings import settings


def train_command(config: TrainConfig, out: str) -> str:
    """``statetrack train`` with every setting that differs from the defaults of the layer and the task."""
    words = ["statetrack", "train", config.layer, config.task, "--seed", str(config.seed)]
    for name, value in unusual_settings(config).items():
        words += option_words(name, value)
    return shlex.join([*words, "--out", out])


def unusual_settings(config: TrainConfig) -> dict[str, Any]:
    """Settings by dotted name, without the seed, that the command line has to give to get this configuration."""
    ours = settings(config)
    given: dict[str, Any] = {}
    while True:
        # The defaults may depend on the options that are given, so giving one more is followed by another look.
        base = default_config(
            config.layer, config.task, seed=config.seed, task_options=_part(given, "task"), layer_options=_part(given, "layer")
        )
        defaults = settings(base)
        changed = {name: value for name, value in ours.items() if value != defaults.get(name) or name in given}
        chosen = {name: value for name, value in changed.items() if name.startswith(("task.", "layer."))}
        if chosen == given:
            return {name: value for name, value in changed.items() if name != "seed"}
        given = chosen


def _part(given: dict[str, Any], part: str) -> dict[str, Any]:
    return {name.removeprefix(f"{part}."): value for name, value in given.items() if name.startswith(f"{part}.")}


def option_words(name: str, value: Any) -> list[str]:
    """A setting as the words of an option.

    Example:
        >>> option_words("layer.d_state", 8), option_words("layer.skip", False)
        (['--layer.d-state', '8'], ['--layer.no-skip'])
    """
    name = name.replace("_", "-")
    if isinstance(value, bool):
        before, dot, last = name.rpartition(".")
        return [f"--{before}{dot}{'' if value else 'no-'}{last}"]
    return [f"--{name}", str(value)]


def folded(command: str, width: int = 84) -> str:
    """A command over several lines, broken before options."""
    lines = [""]
    for part in command.replace(" --", "\n--").split("\n"):
        if len(lines[-1]) + len(part) >= width:
            lines.append(f"   {part}")
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else part
    return " \\\n".join(lines)
