"""Where an output comes from: the causal operator of a layer, its influence on later outputs, and how both fade with distance."""

from statetrack.analysis.recency.decoding import Decoding, decoding
from statetrack.analysis.recency.distance import InfluenceCurve, by_distance
from statetrack.analysis.recency.jacobian import influence, model_influence
from statetrack.analysis.recency.memory import MemoryCurve, decay_rate, memory_curve, memory_half_life
from statetrack.analysis.recency.operator import Operator, hidden_attention, operator, rollout, system_operator
from statetrack.analysis.recency.retention import Retention, retention
from statetrack.analysis.recency.unrolled import Unrolled, unroll

__all__ = [
    "Decoding",
    "InfluenceCurve",
    "MemoryCurve",
    "Operator",
    "Retention",
    "Unrolled",
    "by_distance",
    "decay_rate",
    "decoding",
    "hidden_attention",
    "influence",
    "memory_curve",
    "memory_half_life",
    "model_influence",
    "operator",
    "retention",
    "rollout",
    "system_operator",
    "unroll",
]
