"""Turning a trained PD run into one whose weights are exact, and proving it right."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from statetrack.analysis.certificate.certify import certify
from statetrack.analysis.certificate.proof import DEFAULT_LIMITS, Limits
from statetrack.analysis.extraction.black_box import learn
from statetrack.analysis.extraction.heads import Heads, carrying_heads, trace
from statetrack.analysis.language import grammar_of
from statetrack.analysis.snapping.rounding import round_places, round_states
from statetrack.analysis.words import random_words
from statetrack.errors import InvalidInputError, RunError, StateTrackError
from statetrack.models import Tagger
from statetrack.training import Run, TrainConfig
from statetrack.training.checkpoint import save_checkpoint
from statetrack.training.files import write_json
from statetrack.training.optim import make_optimizer

Way = Literal["places", "states"]

_WORDS, _SEEN = 256, 64


class NotSnapped(StateTrackError):
    """A run that could not be rounded to weights that are proved right."""


@dataclass(frozen=True)
class Snapped:
    """A rounded run.

    Attributes:
        run: its folder.
        way: ``"places"`` if the selections carry the automaton, ``"states"`` if it was learnt from the answers.
        heads: with ``"places"``, the heads that carry it, as layer and head.
        certificate: as ``certify`` gives it.
    """

    run: Run
    way: Way
    heads: Heads
    certificate: dict[str, Any]


def snap(run: Run, out: str | Path, *, shortest: int | None = None, limits: Limits = DEFAULT_LIMITS) -> Snapped:
    """Round a run's newest weights, prove the result right on every word and write it as a run of its own.

    The new folder holds the certificate as ``certificate.json``. Nothing is written unless there is one.

    Args:
        run: a run of PD layers.
        out: folder of the new run.
        shortest: as in ``certify``.
        limits: of the search for a proof.

    Raises:
        NotSnapped: no way of rounding gives a model that is right on every word; the message says why.
        InvalidInputError: layers that cannot be rounded, or a task whose words are not known.
        RunError: no checkpoint, or a folder that exists.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists; choose another folder with --out.")
    reasons = []
    for way, heads, config, model in _candidates(run):
        partial = out.with_name(f".{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            written = _write(run, partial, config, model)
            certificate = certify(written, shortest=shortest, limits=limits)
            if certificate["verdict"] == "certified":
                write_json(partial / "certificate.json", certificate)
                if out.exists():
                    out.rmdir()
                partial.replace(out)
                return Snapped(Run.open(out), way, heads, certificate)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        reasons.append(f"rounded by {way}: {certificate.get('missing') or certificate['statement']}")
    raise NotSnapped(f"{run.path} could not be rounded to weights that are right on every word. {' '.join(reasons)}")


def _candidates(run: Run) -> Iterator[tuple[Way, Heads, TrainConfig, Tagger]]:
    model, grammar = run.load_model(), grammar_of(run.task)
    generator = np.random.default_rng(run.config.seed)
    heads, missed = carrying_heads(model, trace(model, grammar, _WORDS, _SEEN, generator))
    words = random_words(grammar, _WORDS, min(_SEEN, run.config.lengths.high), generator)
    if not missed:
        with contextlib.suppress(InvalidInputError):  # heads that hold several entries: by states, then
            yield "places", heads, *round_places(run.config, model, grammar, heads, words)
    learnt = learn(model, grammar, generator, lengths=(8, run.config.lengths.high))
    if not learnt.complete:
        raise NotSnapped(f"Neither selections nor answers of {run.path} are those of an automaton of moderate size.")
    yield "states", [], *round_states(run.config, model, grammar, learnt.automaton, words)


def _write(run: Run, out: Path, config: TrainConfig, model: Tagger) -> Run:
    """A run folder with these weights, at the step of the trained run, with its metrics."""
    written = Run.create(out, config)
    progress = replace(run.progress(), finished=True)
    save_checkpoint(written.checkpoint_folder, model, make_optimizer(model, config.optim), progress)
    if (run.path / "metrics.jsonl").exists():
        shutil.copyfile(run.path / "metrics.jsonl", out / "metrics.jsonl")
    return written
