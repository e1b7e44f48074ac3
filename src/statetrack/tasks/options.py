"""Tasks by name: which options one has, and one built from them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from statetrack.errors import UnknownNameError
from statetrack.tasks.base import Task, tasks


def task_options(name: str) -> dict[str, tuple[Any, Any]]:
    """The options of a task by name, each with its annotation and default.

    Annotations are ``int``, ``float``, ``str``, ``bool``, a ``Literal`` of strings, or one of these or None.

    Raises:
        UnknownNameError: no task has this name.

    >>> task_options("cycle-navigation")["cycle"]
    (int | None, None)
    """
    constructor = tasks.get(name).__init__
    annotations = get_type_hints(constructor)
    parameters = inspect.signature(constructor).parameters.values()
    return {p.name: (annotations[p.name], p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}


def make_task(name: str, **options: Any) -> Task:
    """The task called ``name``.

    Raises:
        UnknownNameError: no task has this name, or it has no such option; names the nearest ones.
        InvalidInputError: an option does not fit.

    >>> make_task("parity", format="xlstm").vocab_size
    3
    """
    known = task_options(name)
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of task {name!r}", option, known)
    return tasks.get(name)(**options)
