"""Numbers in kernels: real ones, or complex ones as pairs of reals.

Every value is a pair ``(re, im)`` of blocks. For real numbers ``im`` is a copy of ``re`` that nothing reads, so it costs
nothing once compiled. In memory a complex number is two neighbouring reals; offsets and strides count numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load(base, offset, col, mask, COMPLEX: tl.constexpr, ACC: tl.constexpr):
    """Numbers ``base[offset + col]`` in the precision ``ACC``; 0 where ``mask`` is not."""
    if COMPLEX:
        part = tl.arange(0, 2)
        pair = tl.load(base + 2 * offset + 2 * col[:, None] + part[None, :], mask=mask[:, None], other=0.0).to(ACC)
        re, im = tl.split(pair)
    else:
        re = tl.load(base + offset + col, mask=mask, other=0.0).to(ACC)
        im = re
    return re, im


@triton.jit
def store(base, offset, col, mask, re, im, COMPLEX: tl.constexpr):
    """Write numbers to ``base[offset + col]``, rounded to its precision."""
    if COMPLEX:
        part = tl.arange(0, 2)
        tl.store(base + 2 * offset + 2 * col[:, None] + part[None, :], tl.join(re, im), mask=mask[:, None])
    else:
        tl.store(base + offset + col, re, mask=mask)


@triton.jit
def multiply(a_re, a_im, re, im, CONJ: tl.constexpr, COMPLEX: tl.constexpr):
    """``a * z``, or ``conj(a) * z``."""
    if COMPLEX:
        if CONJ:
            out_re, out_im = a_re * re + a_im * im, a_re * im - a_im * re
        else:
            out_re, out_im = a_re * re - a_im * im, a_re * im + a_im * re
    else:
        out_re = a_re * re
        out_im = out_re
    return out_re, out_im
