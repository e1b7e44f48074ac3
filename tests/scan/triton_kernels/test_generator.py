"""The fused generator against its formulas, written with torch in double precision."""

import math

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed")
from statetrack.layers import make_layer
from statetrack.scan.triton.generator import triton_generate, verify

ONE = torch.ones(())
KINDS = [
    pytest.param(*kind, id="-".join(kind[0] or ["unit"]))
    for kind in [
        (("decay", "rate", "phase", "drive"), False, False),
        (("decay", "rate", "phase"), True, True),
        (("decay", "phase", "drive"), True, True),
        (("phase", "drive"), True, True),
        (("decay", "drive"), True, False),
        (("decay", "rate"), False, False),
    ]
]


def projections(names, dtype, tokens=7, heads=2, n=3, entries=3):
    g = torch.Generator().manual_seed(0)
    size = heads * n
    shapes = {
        "decay": (tokens, size),
        "rate": (size,),
        "phase": (tokens, size),
        "drive": (tokens, 2 * size if "phase" in names else size),
        "logits": (tokens, heads, entries),
    }
    wanted = {*names, "logits"}
    return {k: torch.randn(shape, generator=g).to(dtype).requires_grad_() if k in wanted else None for k, shape in shapes.items()}


def formulas(decay, rate, phase, drive, logits, rising, turns, tau):
    """Value, inputs, routes and their soft form, token by token."""
    values, inputs = [], []
    for t in range(len(logits)):
        modulus = 1.0
        if decay is not None:
            x = -decay[t] if rising else decay[t]
            modulus = torch.exp(-(1 if rate is None else rate) * torch.log(1 + torch.exp(x)))
        if phase is None:
            values.append(modulus)
        else:
            angle = 2 * math.pi / (1 + torch.exp(-phase[t])) if turns else phase[t]
            values.append(torch.complex(modulus * angle.cos(), modulus * angle.sin()))
        if drive is not None:
            half = len(drive[t]) // 2
            inputs.append(drive[t] if phase is None else torch.complex(drive[t][:half], drive[t][half:]))
    soft = torch.exp(logits / tau) / torch.exp(logits / tau).sum(-1, keepdim=True)
    return torch.stack(values), torch.stack(inputs) if inputs else None, soft


@pytest.mark.parametrize(("names", "rising", "turns"), KINDS)
def test_results_and_gradients(device, names, rising, turns):
    given = projections(names, torch.float64)
    moved = {k: None if x is None else x.to(device) for k, x in given.items()}
    tau = 0.7
    value, inputs, route, routing = triton_generate(*moved.values(), rising, turns, torch.tensor(tau, dtype=torch.float64), True)
    exact_value, exact_inputs, soft = formulas(*given.values(), rising, turns, tau)
    torch.testing.assert_close(value.cpu(), exact_value, rtol=1e-12, atol=1e-12)
    for t in range(7):
        for h in range(2):
            scores = given["logits"][t, h].tolist()
            assert route[t, h] == scores.index(max(scores))
            assert routing[t, h].tolist() == [float(s == max(scores)) for s in scores]
    g = torch.Generator().manual_seed(1)
    pairs = [(value, exact_value), (routing, soft)]
    if exact_inputs is None:
        assert inputs.numel() == 0
    else:
        torch.testing.assert_close(inputs.cpu(), exact_inputs, rtol=0, atol=0)
        pairs.append((inputs, exact_inputs))
    cotangents = [torch.randn(x.shape, generator=g, dtype=x.dtype) for _, x in pairs]
    sources = [x for x in given.values() if x is not None]
    found = torch.autograd.grad([x for x, _ in pairs], sources, [c.to(device) for c in cotangents])
    wanted = torch.autograd.grad([x for _, x in pairs], sources, cotangents)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_many_channels_tokens_and_ties(device):
    """Several blocks of each; the first of equal scores wins."""
    given = projections(("decay", "rate", "phase", "drive"), torch.float32, tokens=19, heads=3, n=50, entries=9)
    with torch.no_grad():
        given["logits"][:, 1] = 0.5
        moved = [x.to(device) for x in given.values()]
        value, inputs, route, routing = triton_generate(*moved, False, True, ONE, False)
    wide = [x.detach().double() for x in given.values()]
    exact_value, exact_inputs, _ = formulas(*wide, False, True, 1.0)
    torch.testing.assert_close(value.cpu().to(torch.complex128), exact_value, rtol=1e-5, atol=1e-6)
    assert torch.equal(inputs.cpu(), exact_inputs.to(torch.complex64))
    assert (route[:, 1] == 0).all() and torch.equal(route.cpu()[:, 2], given["logits"][:, 2].argmax(-1))
    assert routing.numel() == 0


def test_half_precision_projections_are_computed_in_float32(device):
    given = projections(("decay", "phase", "drive"), torch.bfloat16)
    moved = [None if x is None else x.to(device) for x in given.values()]
    value, inputs, _, routing = triton_generate(*moved, True, True, ONE, True)
    assert (value.dtype, inputs.dtype, routing.dtype) == (torch.complex64, torch.complex64, torch.float32)
    wide = [None if x is None else x.detach().double() for x in given.values()]
    torch.testing.assert_close(value.cpu().to(torch.complex128), formulas(*wide, True, True, 1.0)[0], rtol=1e-5, atol=1e-5)
    (value.real.sum() + inputs.imag.sum()).backward()
    assert {given[k].grad.dtype for k in ("decay", "phase", "drive")} == {torch.bfloat16}


def test_extreme_logits_stay_finite(device):
    big = torch.tensor([[-1e4, -90.0, 0.0, 90.0, 1e4]])
    decay, phase = (big.to(device).requires_grad_() for _ in range(2))
    logits = big.view(1, 1, 5).to(device).requires_grad_()
    value, _, route, routing = triton_generate(decay, None, phase, None, logits, True, True, torch.tensor(0.1), True)
    assert value.abs()[0].tolist() == pytest.approx([0, 8.2e-40, 0.5, 1, 1], abs=1e-6)
    assert int(route) == 4
    grads = torch.autograd.grad(value.real.sum() + routing[..., 0].sum(), [decay, phase, logits])
    assert all(torch.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("tokens", [0, 1])
def test_no_and_one_token(device, tokens):
    given = [
        x if x is None else x.to(device) for x in projections(("decay", "phase", "drive"), torch.float32, tokens=tokens).values()
    ]
    value, inputs, route, routing = triton_generate(*given, True, True, ONE, True)
    assert (value.shape, inputs.shape, route.shape, routing.shape) == ((tokens, 6), (tokens, 6), (tokens, 2), (tokens, 2, 3))
    grads = torch.autograd.grad(value.real.sum() + inputs.real.sum() + routing.sum(), [given[0], given[2], given[3], given[4]])
    assert all(torch.isfinite(g).all() for g in grads)


def test_two_runs_are_bit_equal_and_layouts_do_not_matter(device):
    given = projections(("decay", "rate", "phase", "drive"), torch.float32, tokens=40)
    plain = [x.detach().to(device) for x in given.values()]
    strided = [x.clone().t().contiguous().t() if x.ndim == 2 else x for x in plain]
    first, second, other = (triton_generate(*args, False, True, ONE, True) for args in (plain, plain, strided))
    for a, b, c in zip(first, second, other, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)


@pytest.mark.parametrize("names", [("decay", "rate", "phase", "drive"), ("decay",)], ids=["all", "real"])
def test_registration(device, names):
    args = [
        None if x is None else x.detach().to(device).requires_grad_()
        for x in projections(names, torch.float32, tokens=3).values()
    ]
    torch.library.opcheck(triton_generate, (*args, False, True, ONE, True))


def test_known_answer(device):
    verify(device)


@pytest.mark.parametrize(
    "options",
    [
        {"d_generator": "decay_phase", "n_heads": 2},
        {"d_field": "real", "additive_input": False, "orientation": "row"},
        {"modulus": "unit", "ste": "active", "temperature": 0.5},
        {"modulus": "annealed"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_layer_gives_what_it_gives_on_the_slow_path(device, options):
    torch.manual_seed(0)
    layer = make_layer("flash-pd-ssm", 4, d_state=3, dictionary_size=3, backend="triton", **options).double().to(device)
    layer.set_progress(0.25)
    x = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    operations = []

    def outcome():
        y, state = layer(x)
        total = y.square().sum() + state.h.abs().square().sum()
        return [y, *torch.autograd.grad(total, [x, *(p for p in layer.parameters() if p.requires_grad)])]

    with torch.profiler.profile() as seen:
        found = outcome()
    operations = {event.name for event in seen.events()}
    assert "statetrack::triton_generate" in operations and "statetrack::triton_generate_backward" in operations
    layer.backend = "reference"
    for a, b in zip(found, outcome(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        layer.backend = "triton"
        torch.testing.assert_close(layer(x)[0], found[0], rtol=1e-12, atol=1e-12)


def test_a_layer_compiles_into_one_graph(device):
    torch.manual_seed(0)
    layer = make_layer("flash-pd-ssm", 4, d_state=3, dictionary_size=3, backend="triton").to(device)
    x = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    compiled = torch.compile(lambda u: layer(u)[0], fullgraph=True, backend="aot_eager")
    found, expected = (
        torch.autograd.grad(run(x).square().sum(), [x, *layer.parameters()]) for run in (compiled, lambda u: layer(u)[0])
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_a_layer_under_autocast_keeps_its_diagonal_in_float32(device):
    torch.manual_seed(0)
    layer = make_layer("flash-pd-ssm", 4, d_state=3, dictionary_size=3, backend="triton").to(device)
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        y, state = layer(x)
        layer.backend = "reference"
        expected, exact = layer(x)
    assert state.h.dtype == exact.h.dtype == torch.complex64
    torch.testing.assert_close(state.h, exact.h, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("shape", [(0, 5, 4), (2, 0, 4)])
def test_a_layer_without_rows_or_tokens(device, shape):
    layer = make_layer("flash-pd-ssm", 4, d_state=3, dictionary_size=3, backend="triton").to(device)
    x = torch.zeros(shape, device=device, requires_grad=True)
    y, state = layer(x)
    assert (y.shape, state.h.shape) == (shape, (shape[0], 1, 3))
    y.sum().backward()
    assert x.grad.shape == shape
    layer.backend = "reference"
    assert torch.equal(state.h, layer(x)[1].h)
