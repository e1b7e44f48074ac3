"""Dispatch to the commands, and the one place where errors become a line or two and an exit code."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

import statetrack
from statetrack.cli.outcome import BAD_INPUT, BROKEN_PIPE, FAILED, INTERRUPTED, RunFailed, Stopped
from statetrack.errors import NumericalError, StateTrackError, UnknownNameError

_COMMANDS = {
    "demo": ("demo", "train Flash PD-SSM on cycle navigation, test it up to length 10,000, write a report"),
    "train": ("train", "train LAYER on TASK into a run folder, or continue one with --resume RUN"),
    "eval": ("evaluate", "accuracy of a run at chosen lengths, on the test split"),
    "report": ("report", "write a self-contained report.html about a run"),
    "inspect": ("inspect", "look inside a run: write inspect.html with spectra, memory, state use, automaton"),
    "extract": ("extract", "the automaton a run computes, held against the task's"),
    "certify": ("certify", "prove a run right on words of every length, or find one it gets wrong"),
    "snap": ("snap", "round a PD run to exact weights that are proved right"),
    "compare": ("compare", "one table and one figure over runs: mean and spread over seeds"),
    "sweep": ("sweep", "layers x tasks x seeds x learning rates, in local processes or on Slurm"),
    "pretrain": ("pretrain", "pre-train a language model on TEXT, on one CPU or many machines"),
    "lm-eval": ("lm_evaluate", "evaluate a language model with the harness, on its tasks or ours in words"),
    "recipe": ("recipe", "reproduce a published table"),
    "theory": ("theory", "which layers can track a group, task or automaton, in how many layers, and why"),
    "list": ("listing", "layers, tasks or recipes, with their options"),
    "bench": ("bench", "measure kernels against a copy of the same bytes"),
}
_GROUPS = {
    "One run": ("demo", "train", "eval", "report"),
    "What it computes": ("inspect", "extract", "certify", "snap"),
    "Many runs": ("compare", "sweep", "recipe"),
    "Language models": ("pretrain", "lm-eval"),
    "Look up": ("theory", "list", "bench"),
}


def help_text() -> str:
    """What ``statetrack --help`` prints."""
    lines = ["Usage: statetrack COMMAND ...", "", "Train sequence layers to follow automata, and see how far they go.", ""]
    for group, names in _GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<9}{_COMMANDS[name][1]}" for name in names), ""]
    return "\n".join([*lines, "statetrack COMMAND --help lists the options of a command; --version prints the version."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for a run that failed, 2 for bad input, 130 when interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except Stopped as stop:
        return _say(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("Stopped.", INTERRUPTED)
    except SystemExit as exit:  # --help of a command
        return exit.code if isinstance(exit.code, int) else 0
    except BrokenPipeError:
        # Whoever read our output has left; without this the interpreter would complain when it flushes on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except StateTrackError as error:
        code = FAILED if isinstance(error, (NumericalError, RunFailed)) else BAD_INPUT
        return _say(f"statetrack: error: {error}", code)
    except (MemoryError, KeyError, TypeError, AttributeError, ValueError) as error:  # such as a damaged run folder
        if os.environ.get("STATETRACK_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        return _say(f"statetrack: error: {what}\nSTATETRACK_TRACEBACK=1 shows where.", FAILED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"statetrack: error: {where}{error.strerror or error}.", FAILED)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"statetrack {statetrack.__version__}")
        return 0
    name, *rest = argv
    if name not in _COMMANDS:
        raise UnknownNameError("command", name, _COMMANDS)
    command = importlib.import_module(f"statetrack.cli.{_COMMANDS[name][0]}")
    code: int = command.run(rest)
    return code


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
