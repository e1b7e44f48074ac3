"""Checks certificates; shares no code with the search for them."""

from statetrack.analysis.checker.check import Refused, check, digest

__all__ = ["Refused", "check", "digest"]
