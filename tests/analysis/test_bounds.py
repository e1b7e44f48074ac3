"""Bounds hold what they bound: float32 and float64 runs and points of boxes, in the arithmetic of search and of checker."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from statetrack.analysis.certificate import intervals
from statetrack.analysis.certificate.components import Component
from statetrack.analysis.certificate.intervals import Interval
from statetrack.analysis.certificate.modules import bounds
from statetrack.analysis.certificate.selections import softmax_bounds
from statetrack.analysis.certificate.tail import Tail
from statetrack.analysis.certificate.undecided import Undecided
from statetrack.analysis.checker import boxes
from statetrack.analysis.checker.check import _lead, _Piece
from statetrack.models import ModelConfig, Tagger

FUNCTIONS = {
    "exp": (intervals.exp, torch.exp),
    "sigmoid": (intervals.sigmoid, torch.sigmoid),
    "log_sigmoid": (intervals.log_sigmoid, nn.functional.logsigmoid),
    "softplus": (intervals.softplus, nn.functional.softplus),
    "gelu": (intervals.gelu, nn.functional.gelu),
    "silu": (intervals.silu, nn.functional.silu),
    "cosine": (lambda x: intervals.turn(x)[0], torch.cos),
    "sine": (lambda x: intervals.turn(x)[1], torch.sin),
    "gelu (checker)": (lambda x: Interval(*boxes.gelu((x.lo, x.hi))), nn.functional.gelu),
    "silu (checker)": (lambda x: Interval(*boxes.silu((x.lo, x.hi))), nn.functional.silu),
    "sigmoid (checker)": (lambda x: Interval(*boxes.rising(boxes.sigmoid, (x.lo, x.hi))), torch.sigmoid),
}


def samples(generator, low, high, n=9):
    """Points of boxes: both ends and some in between."""
    share = np.concatenate([[0, 1], generator.random(n - 2)])
    return low[..., None] + (high - low)[..., None] * share


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    bound, function = FUNCTIONS[name]
    generator = np.random.default_rng(0)
    low = np.concatenate([generator.uniform(-12, 12, 4000), generator.normal(size=4000), np.linspace(-2, 2, 2000)]).astype(
        np.float32
    )
    high = (low + generator.choice([0, 0, 1e-3, 0.3, 4], low.size) * generator.random(low.size)).astype(np.float32)
    found = bound(Interval(low.astype(np.float64), high.astype(np.float64)))
    points = torch.from_numpy(samples(generator, low.astype(np.float64), high.astype(np.float64)))
    for x in (points, points.float()):
        value = function(x).double().numpy().T
        inside = x.double().numpy().T  # float32 may have rounded a point out of its box
        held = (inside >= low) & (inside <= high)
        assert ((found.lo <= value) & (value <= found.hi) | ~held).all()
    width = found.hi - found.lo
    assert (width[low == high] < 3e-5 * (1 + np.abs(low) + np.abs(found.lo))[low == high]).all()


def test_exp_of_what_is_not_positive_is_at_most_one_in_float32():
    x = -torch.cat([torch.logspace(-40, 2, 400_000), torch.linspace(0, 2, 400_000)])
    assert (x.exp() <= 1).all()
    assert (nn.functional.logsigmoid(torch.linspace(-50, 50, 400_001)) <= 0).all()


def test_sums_and_products_of_any_order():
    generator = np.random.default_rng(1)
    weight = generator.normal(size=(5, 40)).astype(np.float32) * np.exp(generator.normal(size=(5, 40))).astype(np.float32)
    x, bias = generator.normal(size=(200, 40)).astype(np.float32), generator.normal(size=5).astype(np.float32)
    found = intervals.linear(Interval.point(x), weight.astype(np.float64), bias.astype(np.float64))
    other = boxes.dot(weight.astype(np.float64), (x.astype(np.float64),) * 2, bias.astype(np.float64))
    for _ in range(20):
        order = generator.permutation(40)
        value = np.zeros((200, 5), dtype=np.float32)
        for i in order:
            value = (value + x[:, i : i + 1] * weight[:, i]).astype(np.float32)
        value = (value + bias).astype(np.float32)
        assert ((found.lo <= value) & (value <= found.hi)).all()
        assert ((other[0] <= value) & (value <= other[1])).all()
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    assert (found.hi - found.lo < 2e-5 * (1 + np.abs(x) @ np.abs(weight).T)).all()
    assert ((found.lo <= exact) & (exact <= found.hi)).all()


def in_float64(module):
    """The same module in float64; a norm's default epsilon stays that of float32."""
    module = copy.deepcopy(module).double()
    for part in module.modules():
        if isinstance(part, nn.RMSNorm) and part.eps is None:
            part.eps = torch.finfo(torch.float32).eps
    return module


@pytest.mark.parametrize("norm", [nn.LayerNorm(12), nn.RMSNorm(12), nn.LayerNorm(12, eps=1e-3)])
@pytest.mark.parametrize("width, scale, shift", [(0, 1, 0), (1e-3, 1, 5), (0.5, 2, 0), (0, 1e-3, 0), (3, 1, 0)])
def test_norms(norm, width, scale, shift):
    generator = np.random.default_rng(2)
    norm = copy.deepcopy(norm)
    nn.init.normal_(norm.weight)
    low = (generator.normal(size=(300, 12)) * scale + shift).astype(np.float32)
    high = (low + width * generator.random(low.shape)).astype(np.float32)
    x = Interval(low.astype(np.float64), high.astype(np.float64))
    found, other = bounds(norm, x), boxes.apply(norm, (x.lo, x.hi))
    for share in (0, 1, *generator.random(6)):
        point = torch.from_numpy(np.clip(low + (high - low) * np.float32(share), low, high))
        for value in (norm(point).double(), in_float64(norm)(point.double())):
            value = value.detach().numpy()
            assert ((found.lo <= value) & (value <= found.hi)).all()
            assert ((other[0] <= value) & (value <= other[1])).all()


def test_softmax():
    generator = np.random.default_rng(3)
    low = generator.normal(size=(300, 5)) * 8
    high = low + generator.random(low.shape) * generator.choice([0, 0.1, 3], (300, 1))
    found = softmax_bounds(Interval(low, high))
    for share in itertools.product((0, 1), repeat=5):
        value = torch.from_numpy(low + (high - low) * share).softmax(-1).numpy()
        assert ((found.lo <= value) & (value <= found.hi)).all()


MODELS = [
    ("flash-pd-ssm", {"layer.d_field": "real", "layer.modulus": "unit", "layer.additive_input": False}),
    ("flash-pd-ssm", {"layer.d_field": "real", "norm": "pre", "residual": True}),
    ("flash-pd-ssm", {"layer.orientation": "row", "layer.initial_state": "learned"}),
    ("flash-pd-ssm", {"layer.d_generator": "decay_phase", "layer.readout": "gated", "norm": "none"}),
    ("flash-pd-ssm", {"layer.d_generator": "affine", "layer.readout": "mlp", "feedforward": 2}),
    ("flash-pd-ssm", {"layer.modulus": "annealed", "layer.readout": "real", "layer.skip": False, "norm": "pre"}),
    ("pd-ssm", {}),
    ("pd-ssm", {"layer.orientation": "row", "layer.d_field": "real", "layer.readout": "gated"}),
    ("complex-diagonal", {"norm": "pre", "residual": True, "feedforward": 1}),
    ("flash-pd-ssm", {"n_layers": 2, "layer.d_field": "real", "layer.modulus": "unit", "layer.additive_input": False}),
    ("pd-ssm", {"n_layers": 2, "norm": "pre", "residual": True, "feedforward": 1}),
]


def tagger(layer, options, seed):
    inner = {key.removeprefix("layer."): value for key, value in options.items() if key.startswith("layer.")}
    outer = {key: value for key, value in options.items() if not key.startswith("layer.")}
    if layer != "complex-diagonal":
        inner["dictionary_size"] = 3
    torch.manual_seed(seed)
    model = Tagger(layer, 3, 4, ModelConfig(d_model=6, layer={"d_state": 5, "n_heads": 2, **inner}, **outer)).eval()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            nn.init.normal_(module.weight)
    return model


def flat(states):
    parts = [[s.h.real, s.h.imag] if s.h.is_complex() else [s.h] for s in states]
    return torch.cat([p.flatten(1) for part in parts for p in part], dim=1).detach().double().numpy()


def inflate(state, like):
    """Model states from flat rows."""
    out, first = [], 0
    for s in like:
        n = s.h[0].numel()
        re = torch.from_numpy(state[:, first : first + n]).view(-1, *s.h.shape[1:])
        first += n
        if s.h.is_complex():
            im = torch.from_numpy(state[:, first : first + n]).view(-1, *s.h.shape[1:])
            first += n
            re = torch.complex(re, im)
        out.append(type(s)(re.to(s.h.dtype)))
    return out


@pytest.mark.parametrize("layer, options", MODELS)
def test_a_step_holds_every_run_from_within_the_box(layer, options):
    generator = np.random.default_rng(4)
    for seed in range(3):
        model = tagger(layer, options, seed)
        exact = in_float64(model)
        component, tail = Component(model), Tail(model)
        width = generator.choice([0.0, 0.05 if len(model.layers) == 1 else 1e-4])
        low = component.initial.lo + generator.normal(size=component.initial.shape) * (component.initial.lo == 0) * 0.3
        high = (low + width * generator.random(low.shape)).astype(np.float32).astype(np.float64)
        low = np.minimum(low.astype(np.float32).astype(np.float64), high)
        for token in range(3):
            try:
                step = component.step(np.array([token]), Interval(low, high))
            except Undecided:  # wide boxes leave too many selections possible
                assert width
                continue
            theirs = checker_steps(model, token, low[0], high[0])
            for share in (0, 1, *generator.random(4)):
                point = np.clip((low + (high - low) * share).astype(np.float32), low, high)
                for net in (model, exact):
                    like = net.initial_state(1)
                    features, states = net.features(torch.tensor([[token]]), inflate(point, like))
                    state, scores = flat(states), net.head(features)[0, 0].detach().double().numpy()
                    among = ((step.state.lo <= state) & (state <= step.state.hi)).all(axis=1)
                    assert among.any()
                    assert any(((lo <= state[0]) & (state[0] <= hi)).all() for (lo, hi), _ in theirs)
                    for target in range(4):
                        z, classes = step.z[among], np.full(int(among.sum()), target)
                        leads = tail.leads(tail.project(z, classes), z, classes)
                        actual = np.where(np.arange(4) == target, np.inf, scores[target] - scores)
                        assert (leads <= actual + 1e-9).all(axis=1).any()
                        their = [_lead(model, [(lo[None], hi[None])], target) for _, (lo, hi) in theirs]
                        assert min(their) <= actual.min() + 1e-9


def checker_steps(model, token, low, high):
    """The checker's successors of one box."""
    nodes = [[0, list(range(len(low))), low.tolist(), high.tolist()]]
    start = flat(model.initial_state(1))[0]
    wide = [0, list(range(len(low))), np.minimum(low, start).tolist(), np.maximum(high, start).tolist()]

    class Words:
        start = 0

    piece = _Piece(model, Words, {"heads": None, "nodes": [wide, *nodes]})
    return piece._steps(token, (piece.lo[1], piece.hi[1]))


@pytest.mark.parametrize("layer, options", [m for m in MODELS if "n_layers" not in m[1] and "feedforward" not in m[1]][:8])
def test_heads_add_up_to_the_whole(layer, options):
    if options.get("layer.readout") == "mlp":
        pytest.skip("not a sum over heads")
    model = tagger(layer, options, 7)
    tokens = np.array([0, 1, 2])
    whole = Component(model)
    parts = [Component(model, (head,)) for head in range(2)]
    all_z = whole.step(tokens, whole.initial[[0, 0, 0]])
    z = parts[0].constant(tokens)
    for part in parts:
        step = part.step(tokens, part.initial[[0, 0, 0]])
        assert len(step.rows) == 3
        z = Interval(z.lo + step.z.lo, z.hi + step.z.hi)
    middle = (all_z.z.lo + all_z.z.hi) / 2
    np.testing.assert_allclose((z.lo + z.hi) / 2, middle, atol=1e-6)
    assert ((z.lo - 1e-5 <= middle) & (middle <= z.hi + 1e-5)).all()
