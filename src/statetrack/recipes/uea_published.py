"""Published accuracies (%) on six long UEA sets: test part of the pooled protocol, mean and deviation of five runs.

Each row took the best settings of a grid; PD-SSM's by test accuracy. Sources: the table of PD-SSM (arXiv 2509.22284), most of
whose rows are those of Log-NCDE (arXiv 2402.18512) and LinOSS (arXiv 2410.03943).
"""

from __future__ import annotations

SETS = ("EigenWorms", "SelfRegulationSCP1", "SelfRegulationSCP2", "EthanolConcentration", "Heartbeat", "MotorImagery")

Cell = tuple[float, float]

PUBLISHED: dict[str, tuple[Cell, ...]] = {
    "NRDE": ((83.9, 7.3), (80.9, 2.5), (53.7, 6.9), (25.3, 1.8), (72.9, 4.8), (47.0, 5.7)),
    "NCDE": ((75.0, 3.9), (79.8, 5.6), (53.0, 2.8), (29.9, 6.5), (73.9, 2.6), (49.5, 2.8)),
    "Log-NCDE": ((85.6, 5.1), (83.1, 2.8), (53.7, 4.1), (34.4, 6.4), (75.2, 4.6), (53.7, 5.3)),
    "LRU": ((87.8, 2.8), (82.6, 3.4), (51.2, 3.6), (21.5, 2.1), (78.4, 6.7), (48.4, 5.0)),
    "S5": ((81.1, 3.7), (89.9, 4.6), (50.5, 2.6), (24.1, 4.3), (77.7, 5.5), (47.7, 5.5)),
    "S6": ((85.0, 16.1), (82.8, 2.7), (49.9, 9.4), (26.4, 6.4), (76.5, 8.3), (51.3, 4.7)),
    "Mamba": ((70.9, 15.8), (80.7, 1.4), (48.2, 3.9), (27.9, 4.5), (76.2, 3.8), (47.7, 4.5)),
    "LinOSS-IMEX": ((80.0, 2.7), (87.5, 4.0), (58.9, 8.1), (29.9, 1.0), (75.5, 4.3), (57.9, 5.3)),
    "LinOSS-IM": ((95.0, 4.4), (87.8, 2.6), (58.2, 6.9), (29.9, 0.6), (75.8, 3.7), (60.0, 7.5)),
    "PD-SSM": ((90.0, 5.7), (80.9, 2.0), (56.1, 8.6), (34.7, 4.0), (80.0, 2.6), (60.0, 3.7)),
}

CHOSEN: dict[str, tuple[float, int, int, int]] = {
    "EigenWorms": (1e-4, 6, 128, 16),
    "EthanolConcentration": (1e-3, 4, 128, 16),
    "Heartbeat": (1e-3, 2, 64, 128),
    "MotorImagery": (1e-4, 2, 64, 16),
    "SelfRegulationSCP1": (1e-5, 2, 128, 64),
    "SelfRegulationSCP2": (1e-3, 6, 128, 16),
}
"""What PD-SSM's grid came down to: learning rate, blocks, width, states."""
