"""Scans: run a recurrence along a sequence, by whatever method is fastest for its structure."""

from statetrack.scan.api import ScanResult, scan
from statetrack.scan.backends import Backend
from statetrack.scan.low_rank import LowRankBackend, low_rank_scan
from statetrack.scan.ssd import SSDBackend, ssd_scan
from statetrack.scan.straight_through import straight_through

__all__ = ["Backend", "LowRankBackend", "SSDBackend", "ScanResult", "low_rank_scan", "scan", "ssd_scan", "straight_through"]
