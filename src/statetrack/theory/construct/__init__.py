"""Exact weights: from an automaton to a tagger that tracks it, without training."""

from statetrack.theory.construct.api import construct
from statetrack.theory.construct.tagger import ExactTagger, near_exact

__all__ = ["ExactTagger", "construct", "near_exact"]
