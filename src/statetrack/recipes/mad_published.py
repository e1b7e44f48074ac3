"""Published MAD scores (%), averages over all settings of a task.

Sources: a: the MAD paper's values as the DeltaNet paper (arXiv 2406.06484) repeats them, with its own row, read second-hand; b:
MetaLA, read second-hand; c: independent runs of the repository lin-attn-bench. They differ by several points, so compare within a
source. All are averaged over classes within a batch, then over batches, and select on the reported data.
"""

from __future__ import annotations

from typing import NamedTuple


class Scores(NamedTuple):
    """A published row: its source, the six tasks in the order of ``mad_settings.TASKS``, and the printed mean."""

    model: str
    source: str
    tasks: tuple[float, float, float, float, float, float]
    mean: float


PUBLISHED = (
    Scores("Transformer", "a", (51.6, 29.8, 94.1, 85.2, 86.8, 99.6), 74.5),
    Scores("Hyena", "a", (45.2, 7.9, 81.7, 89.5, 78.8, 93.1), 66.0),
    Scores("MH-Hyena", "a", (44.8, 14.4, 99.0, 89.4, 98.6, 93.0), 73.2),
    Scores("Mamba", "a", (52.7, 6.7, 90.4, 89.5, 90.1, 86.3), 69.3),
    Scores("GLA", "a", (38.8, 6.9, 80.8, 63.3, 81.6, 88.6), 60.0),
    Scores("DeltaNet", "a", (42.2, 35.7, 100.0, 52.8, 100.0, 100.0), 71.8),
    Scores("MH-Hyena", "b", (47.79, 18.01, 97.46, 89.48, 98.74, 90.81), 73.72),
    Scores("GLA", "b", (37.70, 12.45, 91.58, 57.05, 92.58, 88.63), 63.33),
    Scores("Mamba", "b", (43.95, 9.60, 87.92, 89.45, 90.91, 81.79), 67.27),
    Scores("MetaLA", "b", (45.55, 15.18, 99.87, 85.83, 99.73, 97.71), 73.98),
    Scores("PaTH", "c", (41.9, 64.7, 99.9, 78.4, 99.9, 99.9), 80.8),
    Scores("Transformer", "c", (43.2, 56.5, 90.5, 78.8, 89.7, 99.8), 76.4),
    Scores("MesaNet", "c", (34.7, 51.5, 99.9, 75.0, 99.9, 89.4), 75.1),
    Scores("mLSTM", "c", (47.8, 23.7, 100.0, 89.6, 100.0, 87.0), 74.7),
    Scores("RWKV-7", "c", (46.2, 18.0, 99.9, 88.6, 99.9, 94.9), 74.6),
    Scores("Mamba", "c", (49.1, 12.3, 99.3, 89.6, 99.7, 88.7), 73.1),
    Scores("Gated DeltaProduct", "c", (41.6, 27.7, 99.9, 64.8, 99.9, 99.9), 72.3),
    Scores("Gated DeltaNet", "c", (43.5, 28.6, 99.9, 55.2, 99.9, 99.7), 71.2),
    Scores("DeltaNet", "c", (39.6, 39.3, 99.9, 39.4, 99.9, 99.7), 69.7),
    Scores("GLA", "c", (40.8, 15.5, 91.8, 77.1, 93.1, 89.1), 67.9),
    Scores("GSA", "c", (39.7, 21.2, 76.9, 83.1, 82.1, 85.2), 64.8),
)
