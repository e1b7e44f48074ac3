"""Theorems as functions: which layer can track which automaton, in how many layers, and why."""

from statetrack.theory.construct import construct, near_exact
from statetrack.theory.depth import depth, depths
from statetrack.theory.facts import Facts, facts_of
from statetrack.theory.verdict import Depth
from statetrack.theory.witness import Cascade, InnerGroup, PeriodicWord, Representation, Series, Size, Witness

__all__ = [
    "Cascade",
    "Depth",
    "Facts",
    "InnerGroup",
    "PeriodicWord",
    "Representation",
    "Series",
    "Size",
    "Witness",
    "construct",
    "depth",
    "depths",
    "facts_of",
    "near_exact",
]
