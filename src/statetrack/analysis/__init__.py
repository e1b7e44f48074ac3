"""What a layer does and a trained network computes: operators and influences, smoothing, use of the state; automata, proofs for
every length, and exact weights in place of trained ones."""

from statetrack.analysis.certificate.certify import certify, decide
from statetrack.analysis.checker import Refused, check
from statetrack.analysis.extraction.extract import Extraction, extract
from statetrack.analysis.extraction.picture import draw
from statetrack.analysis.language import Grammar, Specification, grammar_of, specification
from statetrack.analysis.recency import by_distance, hidden_attention, influence, model_influence, operator, retention
from statetrack.analysis.smoothing import sharpness, smoothing_bound, smoothing_by_depth
from statetrack.analysis.snapping.snap import NotSnapped, Snapped, snap
from statetrack.analysis.state_use import StateMonitor, effective_state_size, state_drift, train_monitored

__all__ = [
    "Extraction",
    "Grammar",
    "NotSnapped",
    "Refused",
    "Snapped",
    "Specification",
    "StateMonitor",
    "by_distance",
    "certify",
    "check",
    "decide",
    "draw",
    "effective_state_size",
    "extract",
    "grammar_of",
    "hidden_attention",
    "influence",
    "model_influence",
    "operator",
    "retention",
    "sharpness",
    "smoothing_bound",
    "smoothing_by_depth",
    "snap",
    "specification",
    "state_drift",
    "train_monitored",
]
