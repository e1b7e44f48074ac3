"""Published accuracies (%) of length generalisation on four formal languages: trained on lengths 3-40, tested on 40-256,
five runs.

Selected by best validation on the set that is reported. Sources: PD-SSM (arXiv 2509.22284, Table 2); the rows of Flash PD-SSM and
Mamba-3 are from Flash PD-SSM (arXiv 2605.19150), read second-hand.
"""

from __future__ import annotations

TASKS = ("cycle-navigation", "even-pairs", "modular-arithmetic", "parity")

Cell = tuple[float, float]
"""Mean and standard deviation."""

PUBLISHED: dict[str, tuple[Cell, Cell, Cell, Cell]] = {
    "LSTM": ((100.0, 0.0), (100.0, 0.0), (99.9, 0.1), (100.0, 0.0)),
    "sLSTM": ((32.5, 0.4), (100.0, 0.0), (27.7, 0.6), (100.0, 0.0)),
    "xLSTM[1:1]": ((53.5, 5.6), (99.0, 1.9), (29.3, 1.6), (100.0, 0.0)),
    "Transformer": ((24.4, 0.5), (90.4, 10.4), (23.6, 0.7), (52.2, 0.4)),
    "Mamba": ((48.4, 2.2), (100.0, 0.0), (33.1, 6.6), (54.2, 2.1)),
    "Mamba-3": ((69.0, 11.7), (100.0, 0.0), (46.8, 5.5), (76.5, 7.8)),
    "D-SLiCE": ((69.5, 6.3), (100.0, 0.0), (20.9, 0.1), (100.0, 0.0)),
    "C-diagonal": ((90.4, 4.3), (82.4, 4.8), (59.9, 27.0), (61.8, 6.8)),
    "DeltaNet": ((49.8, 4.7), (100.0, 0.0), (42.2, 4.8), (57.8, 0.8)),
    "DeltaNet[-1,1]": ((46.7, 6.1), (100.0, 0.0), (66.4, 8.8), (97.7, 2.0)),
    "Gated DeltaNet": ((53.8, 8.8), (100.0, 0.0), (42.8, 8.2), (56.5, 1.9)),
    "Gated DeltaProduct[-1,1]": ((46.3, 6.6), (100.0, 0.0), (78.4, 10.9), (98.0, 1.4)),
    "RWKV-7": ((37.8, 5.0), (88.1, 14.2), (39.5, 6.1), (51.1, 0.3)),
    "DPLR-SLiCE": ((81.1, 16.6), (100.0, 0.0), (68.3, 19.3), (91.0, 18.0)),
    "WH-SLiCE": ((69.7, 8.8), (93.1, 13.9), (23.8, 1.1), (71.4, 12.9)),
    "BD-SLiCE": ((99.8, 0.2), (85.9, 11.3), (54.0, 12.5), (95.3, 3.9)),
    "D-DE-SLiCE": ((73.3, 29.4), (84.8, 8.5), (98.4, 0.7), (83.8, 11.3)),
    "PD-SSM": ((99.5, 0.7), (99.7, 0.3), (96.2, 3.4), (99.9, 0.1)),
    "Flash PD-SSM": ((92.7, 1.9), (98.8, 0.8), (94.7, 2.9), (99.0, 1.5)),
    "chance": ((20.0, 0.0), (50.0, 0.0), (20.0, 0.0), (50.0, 0.0)),
}
