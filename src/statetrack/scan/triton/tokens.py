"""What a program finds: its chunk of tokens, its states, and the state before a token. ``spans.Spans`` describes the tables."""

from __future__ import annotations

import triton
import triton.language as tl

from statetrack.scan.triton.arithmetic import load


@triton.jit
def span(item, chunk, length, per_row, offsets, firsts, owners, PACKED: tl.constexpr):
    """Sequence and tokens of chunk ``item``: ``(sequence, begin of the sequence, start, stop, end of the sequence)``."""
    if PACKED:
        sequence = tl.load(owners + item)
        begin, end = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
        start = begin + (item - tl.load(firsts + sequence)) * chunk
    else:
        sequence = item // per_row
        begin = sequence * length
        end = begin + length
        start = begin + (item % per_row) * chunk
    return sequence, begin, start, tl.minimum(start + chunk, end), end


@triton.jit
def chunks_of(sequence, per_row, firsts, PACKED: tl.constexpr):
    """Numbers of the first chunk of a sequence and of the one behind its last."""
    if PACKED:
        first, stop = tl.load(firsts + sequence), tl.load(firsts + sequence + 1)
    else:
        first = sequence * per_row
        stop = first + per_row
    return first, stop


@triton.jit
def columns(head, channels, FORM: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """States of a program, and which of them exist."""
    col = tl.arange(0, BLOCK)
    mask = head * WIDTH + col < channels if FORM == "diagonal" else col < WIDTH
    return col, mask


@triton.jit
def state_before(t, begin, sequence, offset, channels, states, initial, col, mask, COMPLEX: tl.constexpr, ACC: tl.constexpr):
    """The state that token ``t`` found."""
    if t > begin:
        re, im = load(states, (t - 1) * channels + offset, col, mask, COMPLEX, ACC)
    else:
        re, im = load(initial, sequence * channels + offset, col, mask, COMPLEX, ACC)
    return re, im
