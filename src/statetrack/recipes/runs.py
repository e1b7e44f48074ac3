"""Recipes that are a list of training runs: what is missing is done, what is there is kept, and one file holds it all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from statetrack.errors import InvalidInputError
from statetrack.recipes.base import Recipe
from statetrack.training import Run
from statetrack.training.files import read_json, write_json, write_text
from statetrack.training.sweep import Job, Outcome, run_jobs


class RunsRecipe(Recipe):
    """A recipe made of jobs; a subclass says which, under which protocol, and how they read as a table."""

    @abstractmethod
    def jobs(self, out: Path) -> list[Job]:
        """All runs, each with a folder of its own under ``out``."""

    @abstractmethod
    def protocol(self) -> dict[str, Any]:
        """What all runs share, in plain data for the result file."""

    def measure(self, run: Run) -> dict[str, Any]:
        """What is measured of a finished run beside accuracy, in plain data, and kept in its folder as ``measured.json``."""
        return {}

    def shared(self, out: Path) -> dict[str, Any]:
        """What is measured apart from any run, in plain data; its names are added to the result file."""
        return {}

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Do the runs that are not done yet, and write ``NAME_PRESET.json`` and its table under ``out``.

        Args:
            out: folder of the runs and the results.
            workers: number of processes, one thread each.
            observer: gets a line when a run ends.
            only: patterns of run names; the other runs are left for later.

        Returns:
            ``{"recipe", "preset", "protocol", "runs": [one entry per run]}`` and what ``shared`` adds; runs that ``only`` leaves
            out are in it as far as they are done.

        Raises:
            InvalidInputError: no run matches ``only``.
        """
        only, everything = tuple(only), self.jobs(out)
        wanted = [job for job in everything if any(fnmatch(job.out.name, pattern) for pattern in only)]
        if not wanted:
            raise InvalidInputError(
                f"No run of {self.name} matches {', '.join(only)}; they are called like {everything[0].out.name}."
            )
        jobs = [job for job in everything if job in wanted or _is_done(job)]
        outcomes = run_jobs(jobs, workers=workers, done=lambda outcome: observer(self._line(outcome)))
        result = {
            "recipe": self.name,
            "preset": self.preset,
            "protocol": self.protocol(),
            "runs": [self._entry(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)],
            **self.shared(out),
        }
        write_json(out / f"{self.name}_{self.preset}.json", result)
        write_text(out / f"{self.name}_{self.preset}.md", self.table(result) + "\n")
        return result

    def _line(self, outcome: Outcome) -> str:
        """What is said when a run ends."""
        shares = [f"{100 * share:.1f} % at {length}" for length, share in outcome.accuracy.items()]
        found = ", ".join(shares) if outcome.pooled is None else f"{100 * outcome.pooled:.2f} % pooled"
        what = outcome.error or f"{found}; {outcome.cpu_seconds / 60:.1f} CPU-minutes"
        return f"{Path(outcome.run).name}: {outcome.status}, {what}"

    def _entry(self, job: Job, outcome: Outcome) -> dict[str, Any]:
        entry = {
            "run": job.out.name,
            "layer": outcome.layer,
            "task": outcome.task,
            "seed": outcome.seed,
            "status": outcome.status,
            "error": outcome.error,
            "accuracy": outcome.accuracy,
            "pooled": outcome.pooled,
            "validation": outcome.validation,
            "steps": outcome.step,
            "cpu_minutes": round(outcome.cpu_seconds / 60, 2),
            "settings": job.config.to_dict(),
        }
        if outcome.status == "done":
            run = Run.open(job.out)
            entry["attempts"] = run.progress().attempt + 1
            entry["revision"] = run.revision
            measured = self._measured(run)
            if measured:
                entry["measured"] = measured
        return entry

    def _measured(self, run: Run) -> dict[str, Any]:
        """What ``measure`` has found about the present weights, now or before."""
        path, step = run.path / "measured.json", run.progress().step
        known = read_json(path) if path.exists() else {}
        if known.get("step") == step:
            return dict(known["measured"])
        found = self.measure(run)
        if found:
            write_json(path, {"step": step, "measured": found})
        return found


def _is_done(job: Job) -> bool:
    return (job.out / "config.json").exists() and Run.open(job.out).finished
