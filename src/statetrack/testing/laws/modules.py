"""What people do with modules: copy, store, wrap."""

from __future__ import annotations

import copy
import pickle

import torch
from torch import Tensor, nn

from statetrack.testing.case import Case, cotangents_like, gradients
from statetrack.testing.compare import assert_close, assert_equal
from statetrack.testing.laws.registry import law


@law
def copies_compute_the_same(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    expected, _ = layer(x)
    loaded = case.build(seed=7)
    assert not torch.equal(loaded(x)[0], expected), "two random layers compute the same: the check sees nothing"
    loaded.load_state_dict(layer.state_dict())
    copies = {"deepcopy": copy.deepcopy(layer), "pickle": pickle.loads(pickle.dumps(layer)), "state_dict": loaded}
    for label, other in copies.items():
        assert_equal(label, other(x)[0], expected)


@law
def training_and_evaluation_agree(case: Case) -> None:
    layer, x = case.build(), case.inputs()
    expected, _ = layer(x)
    layer.eval()
    with torch.no_grad():
        y, _ = layer(x)
    assert_close("eval() without gradients", y, expected.detach())


class _Adapter(nn.Module):
    """A frozen linear map plus a trained low-rank one."""

    def __init__(self, linear: nn.Linear, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = linear
        shapes = (linear.in_features, 2), (2, linear.out_features)
        self.down, self.up = (
            nn.Parameter(2 * torch.randn(shape, generator=generator, dtype=linear.weight.dtype)) for shape in shapes
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.down @ self.up


@law
def linear_maps_can_be_wrapped(case: Case) -> None:
    """An adapter around any linear child receives gradients, and changes the outcome unless that is a hard choice."""
    x = case.inputs()
    plain = case.build()
    before, before_state = plain(x)
    for name in [n for n, m in plain.named_modules() if isinstance(m, nn.Linear)]:
        layer = case.build()
        parent, _, child = name.rpartition(".")
        linear = layer.get_submodule(name)
        assert isinstance(linear, nn.Linear)
        adapter = _Adapter(linear, torch.Generator().manual_seed(5))
        setattr(layer.get_submodule(parent), child, adapter)
        y, state = layer(x)
        same = all(torch.equal(a, b) for a, b in zip((y, *state), (before, *before_state), strict=True))
        assert not same or case.is_surrogate(name), f"an adapter around {name} changes nothing: its weight is read directly"
        found = gradients(layer, [y, *state], cotangents_like([y, *state]))
        dead = [part for part in ("down", "up") if not found[f"{name}.{part}"].any()]
        assert not dead, f"an adapter around {name} gets no gradient for {', '.join(dead)}"
