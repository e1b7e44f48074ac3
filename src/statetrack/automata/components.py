"""Strongly connected components of a graph with the same number of edges out of every node."""

from __future__ import annotations

import numpy as np

from statetrack.automata.arrays import IntArray


def strong_components(successors: IntArray) -> IntArray:
    """The component ``(n,)`` of each node of a graph with edges ``node -> successors[node, :]``, numbered from 0.

    A component has a higher number than every other one that it leads to.

    Args:
        successors: ``(n, k)`` node ids.

    Source: R. Tarjan, "Depth-first search and linear graph algorithms", 1972, with the recursion unrolled.

    >>> strong_components(np.array([[1], [0], [1]])).tolist()
    [0, 0, 1]
    """
    n, degree = successors.shape
    table: list[list[int]] = successors.tolist()
    component = [-1] * n
    order = [-1] * n  # when a node was met
    low = [0] * n  # the earliest node on the stack that it leads back to
    stack: list[int] = []
    n_met = n_components = 0
    for root in range(n):
        if order[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, edge = path.pop()
            if edge == 0:
                order[node] = low[node] = n_met
                n_met += 1
                stack.append(node)
            elif component[table[node][edge - 1]] < 0:  # back from the target of the last edge
                low[node] = min(low[node], low[table[node][edge - 1]])
            while edge < degree and order[table[node][edge]] >= 0:
                target = table[node][edge]
                if component[target] < 0:
                    low[node] = min(low[node], order[target])
                edge += 1
            if edge < degree:
                path += [(node, edge + 1), (table[node][edge], 0)]
            elif low[node] == order[node]:
                while component[node] < 0:
                    component[stack.pop()] = n_components
                n_components += 1
    return np.array(component, dtype=np.int64)
