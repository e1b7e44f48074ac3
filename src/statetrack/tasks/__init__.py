"""Tasks: generators of labelled token sequences, each with its exact automaton where it has one."""

from __future__ import annotations

from statetrack.tasks.base import Batch, Task, register, tasks
from statetrack.tasks.options import make_task, task_options
from statetrack.tasks.streams import Split, fixed_set, stream, uniform_lengths

__all__ = ["Batch", "Split", "Task", "fixed_set", "make_task", "register", "stream", "task_options", "tasks", "uniform_lengths"]
