"""Checks a certificate against the stored weights, with bounds of its own and without the search that found it.

    for every piece: the initial state lies in node 0, and whatever follows a node lies in a node of the next state
    for every move that asks: the right class leads in every sum of what nodes of all pieces may read out

The certificate holds the nodes alone. Words, answers and model are those of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from statetrack.analysis.checker.boxes import Box, F, Refused, U, add, apply, array, demand, exact, hull, size
from statetrack.analysis.checker.layer import advance, constant, read, start
from statetrack.analysis.language import specification
from statetrack.layers.selective import SelectiveLayer
from statetrack.training import Run
from statetrack.training.files import read_json

__all__ = ["Refused", "check", "digest"]


def check(path: Path, run: Run) -> dict[str, Any]:
    """The entries of a certificate, if it holds for a run.

    Raises:
        Refused: it does not hold; the message says which part.
        RunError: the certificate or the run cannot be read.
    """
    stored = read_json(path)
    try:
        _check(stored, run)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Refused(f"The certificate is refused: it is not well formed ({error!r}).") from error
    return dict(stored)


def _check(stored: dict[str, Any], run: Run) -> None:
    demand(stored["format"] == 1 and stored["digest"] == digest(stored), "it was changed after it was written")
    weights = (run.latest_checkpoint() / "model.safetensors").read_bytes()
    demand(stored["weights"] == hashlib.sha256(weights).hexdigest(), "the weights are not those it was made for")
    demand(stored["config"] == json.loads(json.dumps(run.config.to_dict())), "the configuration is not the one it was made for")
    model: Any = run.load_model()
    spec = specification(run.task).from_length(stored["shortest"])
    if stored["verdict"] == "refuted":
        word = np.array([stored["counterexample"]["word"]])
        right = spec.expected(word)[0, -1]
        with torch.no_grad():
            demand(right >= 0 and model(torch.from_numpy(word))[0][0, -1].argmax() != right, "the model answers the word rightly")
        return
    demand(stored["verdict"] == "certified", f"the verdict is {stored['verdict']!r}, which claims nothing")
    demand(all(p.isfinite().all() for p in model.parameters()), "some weights are not finite")
    demand(all(isinstance(layer, SelectiveLayer) for layer in model.layers), "it is about layers that cannot be checked")
    spec, pieces = spec.remembering(stored["history"]), stored["pieces"]
    whole = pieces[0]["heads"] is None
    if whole:
        demand(len(pieces) == 1, "a whole model is one piece")
    else:
        demand(len(model.layers) == 1, "only a single layer falls into heads")
        demand(model.layers[0].readout.kind != "mlp" and model.blocks[0].feedforward is None, "heads do not simply add up")
        demand(sorted(h for piece in pieces for h in piece["heads"]) == list(range(model.layers[0].n_heads)), "heads are missing")
    reads: dict[Any, list[Box]] = {}
    for piece in pieces:
        for case, box in _Piece(model, spec, piece).cases(merged=len(pieces) > 1):
            reads.setdefault(case, []).append(box)
    for (q, token, _), boxes in reads.items():
        target = int(spec.answers[spec.moves[q, token]])
        if target >= 0:
            demand(len(boxes) == len(pieces), "a piece does not reach where another does")
            boxes = boxes if whole else [*boxes, _constant(model, token)]
            demand(_lead(model, boxes, target) > 0, f"the answer after token {token} in state {q} is not settled")


def digest(stored: dict[str, Any]) -> str:
    """A hash of all entries of a certificate but this one."""
    text = json.dumps({key: value for key, value in stored.items() if key != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _Piece:
    """Some heads of a one-layer model, or the whole of a model."""

    def __init__(self, model: Any, spec: Any, stored: dict[str, Any]) -> None:
        self.model, self.spec, self.whole = model, spec, stored["heads"] is None
        self.heads = [list(range(layer.n_heads)) if self.whole else stored["heads"] for layer in model.layers]
        starts = [start(layer, heads) for layer, heads in zip(model.layers, self.heads, strict=True)]
        self.shapes, first = [h.shape for h in starts], np.concatenate([h.ravel() for h in starts])
        self.states = np.array([node[0] for node in stored["nodes"]])
        self.lo, self.hi = (np.zeros((len(self.states), len(first))) for _ in range(2))
        for row, (_, index, lo, hi) in enumerate(stored["nodes"]):
            self.lo[row, index], self.hi[row, index] = lo, hi
        demand(self.states[0] == spec.start and self._holds(np.array([0]), first, first), "node 0 lacks the initial state")

    def _holds(self, nodes: Any, lo: Any, hi: Any) -> bool:
        return bool(((self.lo[nodes] <= lo) & (hi <= self.hi[nodes])).all(axis=-1).any())

    def cases(self, *, merged: bool) -> Iterator[tuple[Any, Box]]:
        """What moves may read out, a row each: by state and token, or each on its own. Demands that nothing leaves the nodes."""
        reads: dict[Any, list[Box]] = {}
        for row, q in enumerate(self.states.tolist()):
            for token in np.flatnonzero(self.spec.moves[q] >= 0).tolist():
                nodes = np.flatnonzero(self.states == self.spec.moves[q, token])
                for h, z in self._steps(token, (self.lo[row], self.hi[row])):
                    demand(self._holds(nodes, *h), f"token {token} leads out of the nodes from node {row}")
                    reads.setdefault((q, token, 0 if merged else len(reads)), []).append(z)
        for case, boxes in reads.items():
            yield case, (np.stack([lo for lo, _ in boxes]), np.stack([hi for _, hi in boxes]))

    def _steps(self, token: int, state: Box) -> list[tuple[Box, Box]]:
        """The states that may follow and what they read out."""
        empty = np.zeros(0)
        ways: list[tuple[Box, Box, Box]] = [(exact(self.model.embedding.weight[token]), (empty, empty), (empty, empty))]
        first = 0
        for block, heads, shape in zip(self.model.blocks, self.heads, self.shapes, strict=True):
            own = [end[first : first + np.prod(shape)].reshape(shape) for end in state]
            first += int(np.prod(shape))
            ways = [way for x, h, _ in ways for way in self._through(block, heads, x, h, (own[0], own[1]))]
        return [(h, z) for _, h, z in ways]

    def _through(self, block: Any, heads: list[int], x: Box, before: Box, own: Box) -> Iterator[tuple[Box, Box, Box]]:
        u = apply(block.norms[0], x) if block.norm_kind == "pre" else x
        for h in advance(block.layer, heads, u, own):
            z = read(block.layer, heads, u, h)
            z = _with_constant(block, x, u, z) if self.whole else z
            demand(max(size(z).max(), size(h).max()) < 1e30, "numbers may leave the range of float32")
            after = (np.append(before[0], h[0]), np.append(before[1], h[1]))
            yield z if block is self.model.blocks[-1] else _leave(block, z), after, z


def _with_constant(block: Any, x: Box, u: Box, z: Box) -> Box:
    z = add(z, constant(block.layer, u))
    return add(x, z) if block.residual else z


def _constant(model: Any, token: int) -> Box:
    block, x = model.blocks[0], exact(model.embedding.weight[token])
    u = apply(block.norms[0], x) if block.norm_kind == "pre" else x
    lo, hi = _with_constant(block, x, u, (np.zeros_like(x[0]), np.zeros_like(x[0])))
    return lo[None], hi[None]


def _leave(block: Any, z: Box) -> Box:
    """From the sum of layer and residual path to the block's output."""
    x = z if block.norm_kind == "pre" else apply(block.norms[0], z)
    if block.feedforward is None:
        return x
    y = apply(block.feedforward, apply(block.norms[1], x) if block.norm_kind == "pre" else x)
    y = add(x, y) if block.residual else y
    return y if block.norm_kind == "pre" else apply(block.norms[1], y)


def _lead(model: Any, boxes: list[Box], target: int) -> float:
    """The least lead of a class in a sum of one row of each box: behind a norm ``(a . z) / sigma + rest``, less rounding."""
    block, weight, bias = model.blocks[-1], array(model.head.weight), array(model.head.bias)
    norm = block.norms[0] if block.norm_kind == "post" else model.norm
    if block.feedforward is not None:
        rows = [apply(model.norm, _leave(block, (boxes[0][0][0], boxes[0][1][0])))]
        boxes, norm = [(rows[0][0][None], rows[0][1][None])], None
    scaled = isinstance(norm, nn.LayerNorm)
    n = weight.shape[1]
    scale, shift = (array(norm.weight), array(norm.bias)) if scaled else (np.ones(n), np.zeros(n))
    a = (weight[target] - weight) * scale
    plain, a = a, a - a.mean(1, keepdims=True) if scaled else a
    z = [sum(end) for end in zip(*(hull(list(zip(*box, strict=True))) for box in boxes), strict=True)]
    loss = 8 * U * size((z[0], z[1]))  # the last additions: bias, skip, residual path
    z, most = [z[0] - loss, z[1] + loss], size((z[0] - loss, z[1] + loss))
    along = sum((lo @ np.maximum(a, 0).T + hi @ np.minimum(a, 0).T).min(0) for lo, hi in boxes) - np.abs(a) @ loss
    rest = (weight[target] - weight) @ shift + bias[target] - bias
    if not scaled:
        own = np.abs(weight) @ most + np.abs(bias)
        return float(np.delete(along + rest - (n + 3) * 1.01 * U * (own + own[target]), target).min(initial=np.inf))
    c = (z[0] - z[1].mean(), z[1] - z[0].mean())
    high = min((most**2).mean(), (size(c) ** 2).mean())
    low = (np.where((c[0] < 0) & (c[1] > 0), 0, np.minimum(np.abs(c[0]), np.abs(c[1]))) ** 2).mean()
    low = np.maximum(low, np.maximum(along, 0) ** 2 / (n * np.maximum((a**2).sum(1), 1e-300)))
    lost = (4 * n + 120) * U * most.max() ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.sqrt(low + norm.eps - lost)
        length = np.sqrt((plain**2).sum(1) * n)
        error = np.abs(plain).sum(1) * (4 * n + 24) * U * most.max() / sigma + length * (lost / sigma**2 + F)
    own = np.sqrt(((weight * scale) ** 2).sum(1) * n) + np.abs(weight) @ np.abs(shift) + np.abs(bias)
    error = error + U * (8 * (length + np.abs(weight[target] - weight) @ np.abs(shift)) + (n + 3) * (own + own[target]))
    lead = np.where(along >= 0, along / np.sqrt(high + norm.eps), along / np.sqrt(low + norm.eps)) + rest - 1.01 * error
    return float(np.delete(np.where(low + norm.eps > 2 * lost, lead, -np.inf), target).min(initial=np.inf))
