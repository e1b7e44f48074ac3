"""What a trained network computes: its automaton, proofs for every length, and exact weights in place of trained ones."""

from statetrack.analysis.certificate.certify import certify, decide
from statetrack.analysis.checker import Refused, check
from statetrack.analysis.extraction.extract import Extraction, extract
from statetrack.analysis.extraction.picture import draw
from statetrack.analysis.language import Grammar, Specification, grammar_of, specification
from statetrack.analysis.snapping.snap import NotSnapped, Snapped, snap

__all__ = [
    "Extraction",
    "Grammar",
    "NotSnapped",
    "Refused",
    "Snapped",
    "Specification",
    "certify",
    "check",
    "decide",
    "draw",
    "extract",
    "grammar_of",
    "snap",
    "specification",
]
