"""Published reach of the running-product task: the longest length above 90 %, None where 100 falls short.

Two layers for C2xC4, S3 and A4, else one. Source: arXiv 2603.01959, read second-hand.
"""

from __future__ import annotations

PUBLISHED: dict[str, dict[str, int | None]] = {
    "mamba": {"C2": None, "C6": None, "C24": None, "C60": None, "S3": None, "A4": None, "A5": None},
    "negative-mamba": {"C2": 1000, "C6": None, "C24": None, "C60": None, "C2xC4": 360, "S3": None, "A4": None, "A5": None},
    "simple-aussm": {"C2": 160, "C6": 240, "C24": 240, "C60": 300, "S3": None, "A4": None, "A5": None},
    "aussm": {"C2": 1000, "C6": 940, "C24": 260, "C60": 240, "S3": None, "A4": None, "A5": None},
    "rnn": {"C2": 1000, "C6": 1000, "C24": 1000, "C60": None, "S3": 1000, "A4": 1000, "A5": None},
}
