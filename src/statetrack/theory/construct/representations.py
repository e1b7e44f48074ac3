"""Orthogonal matrices for the elements of a group: permutations of few points, symmetries of a polygon, a cube or an icosahedron.

    rho(a b) = rho(a) rho(b) ,   rho(a)^T rho(a) = I ,   rho(a) = I for the identity alone

Letters: rho = representation, d = its degree. Source: derived; the frame for the cube's rotations: arXiv 2609.24797.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from statetrack.automata import Group, conjugacy_classes, minimal_generators
from statetrack.automata.arrays import IntArray

Array = npt.NDArray[np.float64]

_MOST = 200  # order up to which smaller sets of points to act on are looked for


def polygon(group: Group) -> Array | None:
    """``(order, 2, 2)`` rotations or symmetries of a polygon, None for another group than a cyclic or dihedral one."""
    n = group.order
    found = isomorphic(group, _turns(n))
    if found is None and n % 2 == 0:
        turns = _turns(n // 2)
        found = isomorphic(group, np.concatenate([turns, turns @ np.diag([1.0, -1.0])]))
    return found


def solid(group: Group) -> Array | None:
    """``(order, 3, 3)`` rotations of a tetrahedron, a cube or an icosahedron, None for other groups.

    The cube stands such that each rotation is a reflection times a diagonal of signs.
    """
    if group.order not in (12, 24, 60):
        return None
    if group.order == 60:
        q = icosians()
        columns = [quaternion_product(quaternion_product(q, e), _conjugate(q))[:, 1:] for e in np.eye(4)[1:]]
        return isomorphic(group, np.stack(columns, axis=-1))
    cube = np.array(list(_cube_rotations()))
    if group.order == 12:  # what the rotations by a third generate
        cube = _closure(cube[np.abs(np.trace(cube, axis1=1, axis2=2)) < 1e-9])
    frame = np.array([[0, 1, -1], [0, 1, 1], [math.sqrt(2), 0, 0]]) / math.sqrt(2)
    return isomorphic(group, frame @ cube @ frame.T)


def quaternions(group: Group) -> Array | None:
    """``(60, 4)`` unit quaternions for the elements of A5, a homomorphism up to sign; None for other groups."""
    if group.order != 60:
        return None
    return isomorphic(group, icosians(), product=quaternion_product, up_to_sign=True)


def zero_sum(permutations: IntArray) -> Array:
    """``(order, d, d)`` permutations of d + 1 points, acting on the vectors with sum 0; for one point the number 1."""
    degree = permutations.shape[1]
    if degree == 1:
        return np.ones((len(permutations), 1, 1))
    basis = np.linalg.qr(np.eye(degree)[:, :-1] - 1 / degree)[0].T
    return basis @ permutation_matrices(permutations) @ basis.T


def permutation_matrices(permutations: IntArray) -> Array:
    """``(n, degree, degree)``: column q has its 1 in row ``permutation[q]``."""
    return np.eye(permutations.shape[1])[permutations].transpose(0, 2, 1)


@lru_cache(maxsize=32)
def smallest_action(group: Group) -> IntArray:
    """``(order, degree)`` permutations of few points by which the group acts transitively and faithfully: cosets of a subgroup.

    Subgroups with two generators are tried; the points that the group is given on are kept where they are fewer.
    """
    if group.order > _MOST:
        return group.elements
    first = np.unique(conjugacy_classes(group), return_index=True)[1]
    tried: dict[bytes, IntArray] = {}
    for a in first.tolist():
        for b in range(group.order):
            found = group.closure([a, b])
            if group.order // found.size < group.degree:
                tried[found.tobytes()] = found
    for inside in sorted(tried.values(), key=len, reverse=True):
        least = group.table[:, inside].min(axis=1)
        points, coset = np.unique(least, return_inverse=True)
        action = coset.ravel()[group.table[:, points]]
        if len(np.unique(action, axis=0)) == group.order:
            return action
    return group.elements


def isomorphic(group: Group, matrices: Array, *, product: Any = np.matmul, up_to_sign: bool = False) -> Array | None:
    """The matrices of a group in an order in which they represent ``group``, or None."""
    n = group.order
    if len(matrices) != n:
        return None
    flat = matrices.reshape(n, -1)

    def numbers(found: Array) -> IntArray:
        overlap = found.reshape(len(found), -1) @ flat.T
        return np.asarray((np.abs(overlap) if up_to_sign else overlap).argmax(axis=1))

    table = np.array([numbers(product(m[None], matrices)) for m in matrices])
    identity = int(np.flatnonzero((table == np.arange(n)).all(axis=1))[0])
    orders, power = np.ones(n, dtype=np.int64), np.arange(n)
    while (power != identity).any():
        orders += power != identity
        power = np.where(power == identity, identity, table[power, np.arange(n)])
    if (np.sort(orders) != np.sort(group.element_orders)).any():
        return None
    generators = minimal_generators(group)
    path, seen = [], {0}
    for element in (queue := [0]):
        for i, g in enumerate(generators):
            after = int(group.table[element, g])
            if after not in seen:
                seen.add(after)
                queue.append(after)
                path.append((after, element, i))
    choices = [np.flatnonzero(orders == group.element_orders[g]).tolist() for g in generators]
    for images in itertools.product(*choices):
        image = np.full(n, identity)
        for after, before, i in path:
            image[after] = table[image[before], images[i]]
        right = all((image[group.table[:, g]] == table[image, h]).all() for g, h in zip(generators, images, strict=True))
        if right and np.unique(image).size == n:
            return matrices[image]
    return None


def _turns(n: int) -> Array:
    angles = 2 * np.pi * np.arange(n) / n
    return np.stack([np.stack([np.cos(angles), -np.sin(angles)], -1), np.stack([np.sin(angles), np.cos(angles)], -1)], -2)


def _cube_rotations() -> Iterator[Array]:
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            matrix = np.eye(3)[list(order)] * np.array(signs)
            if np.linalg.det(matrix) > 0:
                yield matrix


def _closure(generators: Array) -> Array:
    """All products of some matrices of a finite group."""
    found = [np.eye(generators.shape[-1])]
    for m in found:
        for g in generators:
            after = m @ g
            if not any(np.allclose(after, other) for other in found):
                found.append(after)
    return np.array(found)


def quaternion_product(a: Array, b: Array) -> Array:
    """Products of quaternions ``(..., 4)``, real part first."""
    real = a[..., :1] * b[..., :1] - (a[..., 1:] * b[..., 1:]).sum(-1, keepdims=True)
    return np.concatenate([real, a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])], -1)


def _conjugate(a: Array) -> Array:
    return a * np.array([1.0, -1.0, -1.0, -1.0])


@cache
def icosians() -> Array:
    """``(60, 4)``: one of each pair ``q, -q`` of the unit quaternions over the rotations of the icosahedron."""
    golden = (1 + math.sqrt(5)) / 2
    generators = np.array([[1.0, 1.0, 1.0, 1.0], [golden, 1.0, 1 / golden, 0.0]]) / 2
    found = [np.array([1.0, 0.0, 0.0, 0.0])]
    for q in found:
        for g in generators:
            after = quaternion_product(q, g)
            if max(abs(float(after @ other)) for other in found) < 1 - 1e-9:
                found.append(after)
    return np.array(found)
