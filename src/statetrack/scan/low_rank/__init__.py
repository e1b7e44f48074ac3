"""Matrix states under diagonal-plus-low-rank transitions: the delta rule and its family."""

from statetrack.scan.low_rank.api import LowRankBackend, LowRankResult, low_rank_scan

__all__ = ["LowRankBackend", "LowRankResult", "low_rank_scan"]
