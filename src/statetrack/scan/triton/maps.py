"""Moving values along a map ``m`` of ``N`` states, inside one block.

Gathering reads, ``z[i] = x[m[i]]``. Scattering sends and adds up, ``z[i] = sum of x[q] over m[q] = i``. A GPU scatters by atomic
additions, in whatever order they arrive; here a *plan* of the map turns it into gathers, in a fixed order:

    source   the sources q sorted by where they are sent (ties in order), as ~q where a new destination begins
    last     for every destination, the place of its last source in that order; -1 where there is none
    whole    1 if the map is a permutation: the sorted sources are then the answer, and nothing is added

so that ``z = running sums of x[source] that restart at every destination, read at last``. Running sums of one source are that
source, bit for bit.
"""

from __future__ import annotations

import triton
import triton.language as tl

from statetrack.scan.triton.arithmetic import multiply


@triton.jit
def restarting_sum(a_new, a_re, a_im, b_new, b_re, b_im):
    """Two stretches of running sums put together; ``new`` says that a stretch holds the beginning of a destination."""
    return a_new | b_new, tl.where(b_new != 0, b_re, a_re + b_re), tl.where(b_new != 0, b_im, a_im + b_im)


@triton.jit
def restarting_real_sum(a_new, a, b_new, b):
    """The same for real numbers."""
    return a_new | b_new, tl.where(b_new != 0, b, a + b)


@triton.jit
def gather(re, im, index, COMPLEX: tl.constexpr):
    """``x[index]``."""
    re = tl.gather(re, index, 0)
    im = tl.gather(im, index, 0) if COMPLEX else re
    return re, im


@triton.jit
def scatter(re, im, source, last, whole, COMPLEX: tl.constexpr):
    """Values sent along a planned map and added up where they meet."""
    new = source < 0
    re, im = gather(re, im, tl.where(new, ~source, source), COMPLEX)
    if whole == 0:
        at = tl.maximum(last, 0)
        if COMPLEX:
            _, re, im = tl.associative_scan((new.to(tl.int32), re, im), 0, restarting_sum)
        else:
            _, re = tl.associative_scan((new.to(tl.int32), re), 0, restarting_real_sum)
        re, im = gather(re, im, at, COMPLEX)
        re = tl.where(last >= 0, re, 0.0)
        im = tl.where(last >= 0, im, 0.0)
    return re, im


@triton.jit
def move(re, im, d_re, d_im, index, source, last, whole, FORM: tl.constexpr, CONJ: tl.constexpr, COMPLEX: tl.constexpr):
    """One transition without its input: ``d * x``, ``d * x[index]``, or ``d * x`` scattered."""
    if FORM == "gather":
        re, im = gather(re, im, index, COMPLEX)
    re, im = multiply(d_re, d_im, re, im, CONJ, COMPLEX)
    if FORM == "scatter":
        re, im = scatter(re, im, source, last, whole, COMPLEX)
    return re, im


@triton.jit
def read_map(
    t,
    head,
    col,
    mask,
    maps,
    source,
    last,
    whole,
    routes,
    heads,
    entries,
    FORM: tl.constexpr,
    ROUTED: tl.constexpr,
    WITH_INDEX: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """The map of a token and a head, its plan if it is scattered along, and itself if it is gathered along or asked for."""
    index_, source_, last_, whole_ = col, col, col, tl.full((), 1, tl.int32)
    if FORM != "diagonal":
        row = t * heads + head
        if ROUTED:
            row = head * entries + tl.load(routes + row).to(tl.int64)
        base = row * WIDTH + col
        if FORM == "gather" or WITH_INDEX:
            index_ = tl.load(maps + base, mask=mask, other=0).to(tl.int32)
        if FORM == "scatter":
            source_ = tl.load(source + base, mask=mask, other=0).to(tl.int32)
            last_ = tl.load(last + base, mask=mask, other=-1).to(tl.int32)
            whole_ = tl.load(whole + row)
    return index_, source_, last_, whole_


@triton.jit
def write_plan(index, col, mask, row, source, last, whole, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Plan a map and store it at ``row``. ``last`` has to hold -1 beforehand."""
    # States beyond the width stay where they are, behind all others.
    key = tl.sort(tl.where(mask, index, col) * BLOCK + col)
    origin, destination = key % BLOCK, key // BLOCK
    new = (col == 0) | (tl.gather(destination, tl.maximum(col - 1, 0), 0) != destination)
    ends = (col == BLOCK - 1) | (tl.gather(destination, tl.minimum(col + 1, BLOCK - 1), 0) != destination)
    tl.store(source + row * WIDTH + col, tl.where(new, ~origin, origin).to(tl.int16), mask=mask)
    tl.store(last + row * WIDTH + destination, col.to(tl.int16), mask=mask & ends)
    tl.store(whole + row, tl.min((destination == col).to(tl.int32), axis=0))


@triton.jit
def plan(maps, source, last, whole, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Plans of all maps; one program each."""
    row, col = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    mask = col < WIDTH
    index = tl.load(maps + row * WIDTH + col, mask=mask, other=0).to(tl.int32)
    write_plan(index, col, mask, row, source, last, whole, WIDTH, BLOCK)
