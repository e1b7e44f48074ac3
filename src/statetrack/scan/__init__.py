"""Scans: run a recurrence along a sequence, by whatever method is fastest for its structure."""

from statetrack.scan.api import ScanResult, scan
from statetrack.scan.backends import Backend
from statetrack.scan.straight_through import straight_through

__all__ = ["Backend", "ScanResult", "scan", "straight_through"]
