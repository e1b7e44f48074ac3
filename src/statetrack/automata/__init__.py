"""Finite automata and permutation groups: tables, minimisation, equivalence, regular expressions, word problems, algebra."""

from statetrack.automata.automaton import Automaton
from statetrack.automata.characters import CharacterTable, character_table, faithful_degree
from statetrack.automata.equivalence import counterexample, equivalent
from statetrack.automata.green import GreenClasses, MaximalSubgroup, green_classes, is_solvable_monoid, maximal_subgroups
from statetrack.automata.group_names import group
from statetrack.automata.groups import Group, generated_group
from statetrack.automata.holonomy import Holonomy, holonomy
from statetrack.automata.identify import group_name, is_dihedral
from statetrack.automata.images import ImageSets, image_sets
from statetrack.automata.invariants import abelian_invariants, elementary_series, exponent, minimal_generators, p_group_prime
from statetrack.automata.minimisation import minimise
from statetrack.automata.monoid import TooLargeError, TransitionMonoid, transition_monoid
from statetrack.automata.normal import composition_factors, conjugacy_classes, normal_closure, quotient, subgroup
from statetrack.automata.products import product
from statetrack.automata.random import random_automaton, random_permutation_automaton
from statetrack.automata.regex import from_regex
from statetrack.automata.search import reachable, trim
from statetrack.automata.subgroups import commutator_subgroup, derived_series, is_solvable
from statetrack.automata.words import alphabet, word_automaton

__all__ = [
    "Automaton",
    "CharacterTable",
    "GreenClasses",
    "Group",
    "Holonomy",
    "ImageSets",
    "MaximalSubgroup",
    "TooLargeError",
    "TransitionMonoid",
    "abelian_invariants",
    "alphabet",
    "character_table",
    "commutator_subgroup",
    "composition_factors",
    "conjugacy_classes",
    "counterexample",
    "derived_series",
    "elementary_series",
    "equivalent",
    "exponent",
    "faithful_degree",
    "from_regex",
    "generated_group",
    "green_classes",
    "group",
    "group_name",
    "holonomy",
    "image_sets",
    "is_dihedral",
    "is_solvable",
    "is_solvable_monoid",
    "maximal_subgroups",
    "minimal_generators",
    "minimise",
    "normal_closure",
    "p_group_prime",
    "product",
    "quotient",
    "random_automaton",
    "random_permutation_automaton",
    "reachable",
    "subgroup",
    "transition_monoid",
    "trim",
    "word_automaton",
]
