"""Finite automata and permutation groups: tables, minimisation, equivalence, regular expressions and word problems."""

from statetrack.automata.automaton import Automaton
from statetrack.automata.equivalence import counterexample, equivalent
from statetrack.automata.group_names import group
from statetrack.automata.groups import Group, generated_group
from statetrack.automata.minimisation import minimise
from statetrack.automata.products import product
from statetrack.automata.random import random_automaton, random_permutation_automaton
from statetrack.automata.regex import from_regex
from statetrack.automata.search import reachable, trim
from statetrack.automata.subgroups import commutator_subgroup, derived_series, is_solvable
from statetrack.automata.words import alphabet, word_automaton

__all__ = [
    "Automaton",
    "Group",
    "alphabet",
    "commutator_subgroup",
    "counterexample",
    "derived_series",
    "equivalent",
    "from_regex",
    "generated_group",
    "group",
    "is_solvable",
    "minimise",
    "product",
    "random_automaton",
    "random_permutation_automaton",
    "reachable",
    "trim",
    "word_automaton",
]
