"""State size and its use: spectra of states, effective state size, drift over length, and a monitor for training."""

from statetrack.analysis.state_use.covariance import StateUse, covariance_use, state_use, visited_states
from statetrack.analysis.state_use.drift import Drift, drift_of, state_drift
from statetrack.analysis.state_use.effective_size import EffectiveSize, effective_state_size
from statetrack.analysis.state_use.functionals import (
    energy_rank,
    entropy_rank,
    hoyer_sparsity,
    numerical_rank,
    participation_ratio,
    small_share,
    spectral_entropy,
    stable_rank,
)
from statetrack.analysis.state_use.monitor import StateMonitor, resume_monitored, train_monitored
from statetrack.analysis.state_use.two_sweeps import hankel_singular_values

__all__ = [
    "Drift",
    "EffectiveSize",
    "StateMonitor",
    "StateUse",
    "covariance_use",
    "drift_of",
    "effective_state_size",
    "energy_rank",
    "entropy_rank",
    "hankel_singular_values",
    "hoyer_sparsity",
    "numerical_rank",
    "participation_ratio",
    "resume_monitored",
    "small_share",
    "spectral_entropy",
    "stable_rank",
    "state_drift",
    "state_use",
    "train_monitored",
    "visited_states",
]
