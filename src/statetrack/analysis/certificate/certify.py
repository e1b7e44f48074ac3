"""The verdict about a run: certified, refuted or undecided, and the file that says so."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import statetrack
from statetrack.analysis.certificate.proof import DEFAULT_LIMITS, Limits, Proof, prove
from statetrack.analysis.certificate.reach import Invariant
from statetrack.analysis.certificate.refute import DEFAULT_EFFORT, Counterexample, Effort, answer, search
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.analysis.checker import digest
from statetrack.analysis.language import Specification, specification
from statetrack.errors import InvalidInputError
from statetrack.models import Tagger
from statetrack.training import Run

Verdict = Literal["certified", "refuted", "undecided"]
FORMAT = 1


@dataclass(frozen=True)
class Decision:
    """What is known about a model's answers on all words.

    Attributes:
        verdict: ``"certified"``: they are right on every word; ``"refuted"``: not on this one; ``"undecided"``.
        proof: of a certified model.
        counterexample: of a refuted one, confirmed by running the model.
        missing: what an undecided one lacks.
    """

    verdict: Verdict
    proof: Proof | None = None
    counterexample: Counterexample | None = None
    missing: str | None = None


def decide(
    model: Tagger,
    specification: Specification,
    *,
    limits: Limits = DEFAULT_LIMITS,
    effort: Effort = DEFAULT_EFFORT,
    seed: int = 0,
) -> Decision:
    """Prove that a model is right on every word, or find one that it gets wrong.

    Args:
        model: in evaluation mode, float32.
        specification: words and answers.
        limits: of the search for a proof.
        effort: of the search for a wrong word.
        seed: of its random words.
    """
    quick = search(model, specification, Effort(states=min(2000, effort.states), lengths=()), seed)
    if quick.counterexample is not None:
        return _refuted(model, specification, quick.counterexample)
    try:
        return Decision("certified", proof=prove(model, specification, limits))
    except Undecided as reason:
        missing = str(reason)
    found = search(model, specification, effort, seed)
    if found.counterexample is not None:
        return _refuted(model, specification, found.counterexample)
    if found.exhausted:
        missing += f"; as computed here, all {found.visited:,} states that the model reaches answer rightly"
    return Decision("undecided", missing=missing)


def _refuted(model: Tagger, specification: Specification, found: Counterexample) -> Decision:
    confirmed = answer(model, specification, found.word)
    if confirmed is None:
        word = f"a word of {len(found.word)} tokens is answered wrongly token by token and rightly at once"
        return Decision("undecided", missing=f"{word}: rounding decides")
    return Decision("refuted", counterexample=found)


def certify(
    run: Run, *, shortest: int | None = None, limits: Limits = DEFAULT_LIMITS, effort: Effort = DEFAULT_EFFORT
) -> dict[str, Any]:
    """The certificate of a run's newest weights, as plain data; see ``docs/certificates.md`` for its entries.

    Args:
        run: a run with a checkpoint.
        shortest: number of tokens from which on answers count; None for all that the task asks for.
        limits: of the search for a proof.
        effort: of the search for a wrong word.

    Raises:
        InvalidInputError: a task without an automaton or whose words are not known, or a negative length.
        RunError: a run without a checkpoint.
    """
    if shortest is not None and shortest < 1:
        raise InvalidInputError(f"The shortest word needs at least 1 token, got {shortest}.")
    shortest = 1 if shortest is None else shortest
    model = run.load_model()
    decision = decide(model, specification(run.task).from_length(shortest), limits=limits, effort=effort, seed=run.config.seed)
    weights = (run.latest_checkpoint() / "model.safetensors").read_bytes()
    stored: dict[str, Any] = {
        "format": FORMAT,
        "statetrack": statetrack.__version__,
        "verdict": decision.verdict,
        "statement": _statement(run, shortest, decision),
        "shortest": shortest,
        "config": json.loads(json.dumps(run.config.to_dict())),
        "weights": hashlib.sha256(weights).hexdigest(),
        **_details(decision),
    }
    return {**stored, "digest": digest(stored)}


def _statement(run: Run, shortest: int, decision: Decision) -> str:
    words = f"every word of {run.config.task}" + (f" from {shortest} tokens on" if shortest > 1 else "")
    if decision.verdict == "undecided":
        return f"It is open whether the largest score is that of the right class on {words}."
    if decision.counterexample is not None:
        found = decision.counterexample
        where = f"after {len(found.word)} tokens" + (", the fewest possible" if found.shortest else "")
        return f"The largest score is that of class {found.given} where {found.expected} is right, {where}."
    assert decision.proof is not None
    finite = all(piece.points for piece in decision.proof.pieces)
    order = "in float32 however its sums are ordered" if finite else "in float32 token by token"
    return f"On {words} the largest score is that of the right class, in exact arithmetic and {order}."


def _details(decision: Decision) -> dict[str, Any]:
    if decision.counterexample is not None:
        found = decision.counterexample
        return {
            "counterexample": {
                "word": list(found.word),
                "expected": found.expected,
                "given": found.given,
                "shortest": found.shortest,
            }
        }
    if decision.proof is None:
        return {"missing": decision.missing}
    proof = decision.proof
    margin = proof.margin if np.isfinite(proof.margin) else None  # no other class to lead over
    return {"margin": margin, "history": proof.history, "pieces": [_piece(piece) for piece in proof.pieces]}


def _piece(piece: Invariant) -> dict[str, Any]:
    heads, nodes = piece.component.heads, []
    for state, lo, hi in zip(piece.states.tolist(), piece.boxes.lo, piece.boxes.hi, strict=True):
        held = np.flatnonzero((lo != 0) | (hi != 0))
        nodes.append([state, held.tolist(), lo[held].tolist(), hi[held].tolist()])
    return {"heads": None if heads is None else list(heads), "nodes": nodes}
