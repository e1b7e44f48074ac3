"""Changing the size of a state: compression with its error, expansion that keeps the function, growth, and planning."""

from statetrack.analysis.state_size.along_a_run import ReducedRun, reduced_run
from statetrack.analysis.state_size.answers import minimise_model
from statetrack.analysis.state_size.balanced import Reduced, System, balanced_truncation, hankel_values, measured_error
from statetrack.analysis.state_size.compression import Compressed, compress
from statetrack.analysis.state_size.expansion import expand, expand_model
from statetrack.analysis.state_size.growing import ExpandableState, train_expandable
from statetrack.analysis.state_size.plan import Budget, Cost, StateSizePlan, copy_bound, plan_state_size
from statetrack.analysis.state_size.slots import Layout, Slots, state_slots

__all__ = [
    "Budget",
    "Compressed",
    "Cost",
    "ExpandableState",
    "Layout",
    "Reduced",
    "ReducedRun",
    "Slots",
    "StateSizePlan",
    "System",
    "balanced_truncation",
    "compress",
    "copy_bound",
    "expand",
    "expand_model",
    "hankel_values",
    "measured_error",
    "minimise_model",
    "plan_state_size",
    "reduced_run",
    "state_slots",
    "train_expandable",
]
