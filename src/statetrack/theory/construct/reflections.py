"""Orthogonal matrices as products of reflections, and keys that a SiLU does not bend.

    R = H_1 ... H_r ,   H = I - 2 u u^T ,   r = rank(R - I)

Keys of DeltaNet and DeltaProduct pass a SiLU, which is never below -0.278, before they are divided by ``sqrt(|k|^2 + 1e-6)``. A
normal whose entries have one sign can be made large and is exact. Others have to stay small, and the reflection then shrinks its
direction by ``2e-6 / |k|^2``, about 1e-5, per use; of the normals that make up R, those that allow the largest keys are taken.

Letters: R = orthogonal matrix, u = unit normals, H = reflections. Source: E. Cartan and J. Dieudonne; signs: arXiv 2609.24797.
"""

from __future__ import annotations

import itertools

import numpy as np

from statetrack.theory.construct.representations import Array
from statetrack.theory.construct.turning import inverse_silu

_ZERO = 1e-9
_DEEPEST = 0.27
_TRIES = 12


def reflections(matrix: Array) -> list[Array]:
    """Unit normals ``(d,)``, the first one acting last; none for the identity."""
    d = len(matrix)
    generator = np.random.Generator(np.random.PCG64(0))
    starts = [np.eye(d)[i] for i in range(d)] + list(generator.standard_normal((_TRIES, d)))
    found = [_peeled(matrix, [starts[i], *starts]) for i in range(len(starts))]
    fewest = min(len(normals) for normals in found)
    return max((n for n in found if len(n) == fewest), key=lambda n: min((largest(u) for u in n), default=0.0))


def _peeled(matrix: Array, starts: list[Array]) -> list[Array]:
    """One vector after the other is put back by a reflection, which leaves those that were in place."""
    normals: list[Array] = []
    for vector in starts:
        gap = matrix @ vector - vector
        if np.linalg.norm(gap) > _ZERO:
            normal = gap / np.linalg.norm(gap)
            normal = np.where(np.abs(normal) < _ZERO, 0.0, normal)
            normals.append(-normal if largest(-normal) > largest(normal) else normal)
            matrix = matrix - 2 * np.outer(normal, normal @ matrix)
    return normals


def largest(normal: Array) -> float:
    """The longest key in this direction."""
    return np.inf if normal.min() >= 0 else float(_DEEPEST / -normal.min())


def key_inputs(normal: Array, at_most: float) -> Array:
    """What SiLU turns into a multiple of a unit normal, as long as can be."""
    return inverse_silu(min(at_most, largest(normal)) * normal)


def signed_reflection(matrix: Array) -> tuple[Array, Array] | None:
    """``(u, a)`` with ``matrix = (I - 2 u u^T) Diag(a)`` and signs a, u = 0 for a diagonal matrix; None if there is none."""
    d = len(matrix)
    for signs in itertools.product((1.0, -1.0), repeat=d):
        a = np.array(signs)
        twice = np.eye(d) - matrix * a
        column = twice[:, twice.diagonal().argmax()]
        length = np.linalg.norm(column)
        u = column / length if length > _ZERO else np.zeros(d)
        if np.allclose(twice, 2 * np.outer(u, u), atol=1e-9):
            return u, a
    return None
