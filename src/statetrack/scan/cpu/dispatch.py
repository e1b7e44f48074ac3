"""From transitions to the custom op that scans them."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.scan.cpu.ops import diagonal_scan, one_hot_scan
from statetrack.scan.cpu.routed import route_rows, routed_scan
from statetrack.structures import ColumnOneHot, RoutedOneHot, RowOneHot, Structure


def cpu_scan(
    transitions: Structure | RoutedOneHot, inputs: Tensor | None, initial: Tensor, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scan diagonal, one-hot or routed transitions of batch shape ``(B, L, H)``; arguments are checked and of one dtype."""
    value = transitions.values
    n_rows, length = value.shape[:2]
    if offsets is None:
        offsets = torch.arange(n_rows + 1) * length
    d, b = value.flatten(0, 1), None if inputs is None else inputs.flatten(0, 1)
    if isinstance(transitions, RoutedOneHot):
        dictionary, route = transitions.dictionary.to(torch.int16), transitions.route.flatten(0, 1).long()
        column = transitions.orientation == "column"
        if transitions.selection is not None:
            routing = None if transitions.routing is None else transitions.routing.flatten(0, 1)
            states, final = routed_scan(
                dictionary, route, d, b, initial, offsets, transitions.selection, routing, column, transitions.full_credit
            )
        else:
            rows = route_rows(dictionary, route)
            states, final = one_hot_scan(dictionary.flatten(0, 1), rows, d, b, initial, offsets, column)
    elif isinstance(transitions, ColumnOneHot | RowOneHot):
        maps = transitions.index.expand(value.shape).to(torch.int16).flatten(0, 2)
        every = torch.empty(0, dtype=torch.int64)
        states, final = one_hot_scan(maps, every, d, b, initial, offsets, isinstance(transitions, ColumnOneHot))
    else:
        states, final = diagonal_scan(d, b, initial, offsets)
    return states.unflatten(0, (n_rows, length)), final
