"""What stops a proof."""

from __future__ import annotations


class Undecided(Exception):
    """The bounds do not settle a question that the proof needs; the message says which."""
