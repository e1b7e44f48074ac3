"""Recipes that train estimators on series: a run per method, set and seed, each kept in a file of its own when it is done."""

from __future__ import annotations

import multiprocessing
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from statetrack.errors import InvalidInputError, MissingDataError, MissingExtraError, StateTrackError
from statetrack.recipes.base import Recipe
from statetrack.recipes.series_methods import BASELINES, Parts, compare
from statetrack.training.files import read_json, write_json, write_text
from statetrack.training.revision import revision

Entry = dict[str, Any]


@dataclass(frozen=True)
class SeriesJob:
    """One run that is to be.

    Attributes:
        method: a layer or a baseline.
        data: name of the set.
        seed: of initialisation and order, and of the split where the protocol says so.
        settings: options of the estimator.
    """

    method: str
    data: str
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the run."""
        return f"{self.data}-{self.method}-{self.seed}"


class SeriesRecipe(Recipe):
    """A recipe made of runs on series; a subclass says which, on what data, and how they read as a table.

    A run whose data or packages are missing is skipped with the reason, and done the next time if they are there by then.
    """

    @abstractmethod
    def jobs(self) -> list[SeriesJob]:
        """All runs, in the order in which they are done."""

    @abstractmethod
    def parts(self, job: SeriesJob) -> Parts:
        """The cases of a run. Raises ``MissingDataError`` where the user has to supply them."""

    @abstractmethod
    def protocol(self) -> dict[str, Any]:
        """What all runs share, in plain data for the result file."""

    def measure(self, job: SeriesJob) -> Entry:
        """Train and test: what a run finds, in plain data."""
        return compare(job.method, job.settings, self.parts(job), job.seed)

    def run(
        self, out: Path, *, workers: int = 1, observer: Callable[[str], None] = print, only: Iterable[str] = ("*",)
    ) -> dict[str, Any]:
        """Do the runs that are not done yet, and write ``NAME_PRESET.json`` and its table under ``out`` after each.

        Args:
            out: folder of the runs and the results.
            workers: number of processes, one thread each.
            observer: gets a line when a run ends or is skipped.
            only: patterns of run names; the other runs are left for later.

        Returns:
            ``{"recipe", "preset", "protocol", "runs": [one entry per run]}``; runs that ``only`` leaves out are in it as far as
            they are done.

        Raises:
            InvalidInputError: no run matches ``only``.
        """
        only, everything = tuple(only), self.jobs()
        wanted = [job for job in everything if any(fnmatch(job.name, pattern) for pattern in only)]
        if not wanted:
            raise InvalidInputError(
                f"No run of {self.name} matches {', '.join(only)}; they are called like {everything[0].name}."
            )
        entries = {job.name: entry for job in everything if (entry := _done(out, job)) is not None}
        result = self._write(out, everything, entries)
        told: set[str] = set()
        for job, entry in self._outcomes([job for job in wanted if job.name not in entries], out, workers):
            entries[job.name] = entry
            result = self._write(out, everything, entries)
            if entry["status"] == "done":
                observer(_line(entry))
            elif entry["error"] not in told:  # one set that is missing is told once, not for every method and seed
                told.add(entry["error"])
                observer(f"{job.name}: {entry['status']}, {entry['error']}")
        return result

    def work(self, job: SeriesJob, out: Path) -> Entry:
        """Do one run in this process and keep it; whatever goes wrong is told in its entry."""
        entry = {"run": job.name, "method": job.method, "data": job.data, "seed": job.seed, "status": "done", "error": None}
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            entry.update(self.measure(job))
        except (MissingDataError, MissingExtraError) as error:
            return {**entry, "status": "skipped", "error": str(error)}
        except StateTrackError as error:
            return {**entry, "status": "failed", "error": str(error)}
        except Exception as error:
            return {**entry, "status": "failed", "error": f"{type(error).__name__}: {error}"}
        finally:
            torch.set_num_threads(threads)
        entry.update(settings=job.settings, revision=revision())
        write_json(_file(out, job), entry)
        return entry

    def _outcomes(self, jobs: list[SeriesJob], out: Path, workers: int) -> Iterator[tuple[SeriesJob, Entry]]:
        if workers <= 1:
            for job in jobs:
                yield job, self.work(job, out)
            return
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = {pool.submit(self.work, job, out): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _write(self, out: Path, jobs: list[SeriesJob], entries: dict[str, Entry]) -> dict[str, Any]:
        runs = [entries[job.name] for job in jobs if job.name in entries]
        result = {"recipe": self.name, "preset": self.preset, "protocol": self.protocol(), "runs": runs}
        write_json(out / f"{self.name}_{self.preset}.json", result)
        write_text(out / f"{self.name}_{self.preset}.md", self.table(result) + "\n")
        return result


def methods(layers: Iterable[str]) -> tuple[str, ...]:
    """Layers and baselines, in the order of tables."""
    return (*layers, *BASELINES)


def _file(out: Path, job: SeriesJob) -> Path:
    return out / "runs" / f"{job.name}.json"


def _done(out: Path, job: SeriesJob) -> Entry | None:
    """What is kept of a run, if it had the same settings."""
    path = _file(out, job)
    if not path.exists():
        return None
    entry: Entry = read_json(path)
    return entry if entry["settings"] == job.settings else None


def _line(entry: Entry) -> str:
    found = f"{100 * entry['accuracy']:.1f} % of {entry['n_test']}, macro-F1 {100 * entry['macro_f1']:.1f} %"
    return f"{entry['run']}: {found}; {entry['cpu_minutes']:.1f} CPU-minutes"
