"""Constructors that share their family's options name, default, check and pass on every one of them."""

import copy
import inspect
import pickle
from typing import Any, Literal, TypedDict, Unpack, get_type_hints

import pytest
from torch import nn

from statetrack.layers import layer_options, layers, make_layer
from statetrack.layers.options import inherits_options

Kind = Literal["a", "b"]
SHARING = [name for name in layers if hasattr(layers.get(name).__init__, "__wrapped__")]


class Options(TypedDict, total=False):
    size: int
    kind: Kind


class MoreOptions(Options, total=False):
    scale: float


class Base(nn.Module):
    def __init__(self, d_model: int, *, size: int = 2, kind: Kind = "a", hidden: int = 7) -> None:
        super().__init__()
        self.got = {"d_model": d_model, "size": size, "kind": kind, "hidden": hidden}


class Middle(Base):
    @inherits_options(Base, kind="b")
    def __init__(self, d_model: int, *, scale: float = 1.0, **shared: Unpack[Options]) -> None:
        super().__init__(d_model, hidden=9, **shared)
        self.got |= {"scale": scale, "shared": shared}


class Leaf(Middle):
    """A leaf."""

    @inherits_options(Middle, size=5)
    def __init__(self, d_model: int, *, own: bool, **shared: Unpack[MoreOptions]) -> None:
        """Leaves have it."""
        super().__init__(d_model, **shared)
        self.got["own"] = own


def test_signature_names_every_option_with_its_type_and_default():
    found = inspect.signature(Leaf.__init__).parameters
    assert [(name, p.kind) for name, p in found.items()] == [
        ("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ("d_model", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *((name, inspect.Parameter.KEYWORD_ONLY) for name in ("size", "kind", "scale", "own")),
    ]
    assert {name: p.default for name, p in found.items() if p.default is not p.empty} == {"size": 5, "kind": "b", "scale": 1.0}
    hints = {"d_model": int, "size": int, "kind": Kind, "scale": float, "own": bool, "return": type(None)}
    assert get_type_hints(Leaf.__init__) == hints
    assert Leaf.__init__.__doc__ == "Leaves have it."
    assert str(inspect.signature(Leaf)).startswith("(d_model: int, *, size: int = 5,")


def test_constructor_receives_every_option():
    expected = {"d_model": 3, "size": 5, "kind": "b", "hidden": 9, "scale": 1.0, "own": True}
    assert Leaf(3, own=True).got == {**expected, "shared": {"size": 5, "kind": "b"}}
    given = Leaf(d_model=4, own=False, size=1, kind="a", scale=0.5).got
    assert given == {
        **expected, "d_model": 4, "own": False, "size": 1, "kind": "a", "scale": 0.5, "shared": {"size": 1, "kind": "a"}
    }  # fmt: skip
    assert Middle(3).got["shared"] == {"size": 2, "kind": "b"}


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((3,), {"own": True, "sise": 1}, "Leaf: got an unexpected keyword argument 'sise'"),
        ((3,), {"own": True, "hidden": 1}, "Leaf: got an unexpected keyword argument 'hidden'"),
        ((3,), {}, "Leaf: missing a required.* argument: 'own'"),
        ((), {"own": True}, "Leaf: missing a required argument: 'd_model'"),
        ((3, 4), {"own": True}, "Leaf: too many positional arguments"),
    ],
)
def test_calls_that_do_not_fit_are_refused(args, options, message):
    with pytest.raises(TypeError, match=message):
        Leaf(*args, **options)


def test_errors_inside_a_constructor_stay_as_they_are():
    class Broken(Base):
        @inherits_options(Base)
        def __init__(self, d_model: int, **shared: Unpack[Options]) -> None:
            raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        Broken(3)


def test_decorator_refuses_what_the_base_does_not_have():
    class Wrong(TypedDict, total=False):
        width: int

    def entries(self, d_model: int, **shared: Unpack[Wrong]) -> None: ...
    def fits(self, d_model: int, **shared: Unpack[Options]) -> None: ...
    def untyped(self, d_model: int, **shared: Any) -> None: ...
    def none(self, d_model: int, *, size: int = 1) -> None: ...

    for init, defaults in ((entries, {}), (fits, {"hidden": 2}), (untyped, {}), (none, {})):
        with pytest.raises(TypeError, match="options of Base"):
            inherits_options(Base, **defaults)(init)


def test_the_families_share_their_options():
    assert set(SHARING) >= {"deltanet", "kda", "complex-kda", "gdn2", "gated-deltaproduct", "flash-pd-ssm", "complex-diagonal"}


@pytest.mark.parametrize(
    ("name", "fixed", "defaults"),
    [
        ("deltanet", {"n_householder", "forget_gate", "substeps"}, {"expand_v": 1, "output_gate": False, "d_head": None}),
        ("gated-deltanet", {"n_householder", "forget_gate", "substeps"}, {"expand_v": 2, "output_gate": True}),
        ("deltaproduct", {"forget_gate"}, {"expand_v": 2, "n_householder": 2, "negative_eigenvalues": True}),
        ("gated-deltaproduct", {"forget_gate"}, {"expand_v": 2, "n_householder": 2, "negative_eigenvalues": True}),
        ("kda", {"activate_keys"}, {"expand_v": 1, "bounded_decay": False, "negative_eigenvalues": False}),
        ("gdn2", {"activate_keys"}, {"expand_v": 1, "bounded_decay": False, "negative_eigenvalues": False}),
        ("complex-kda", {"activate_keys", "negative_eigenvalues"}, {"doubled_beta": True, "output_gate": True}),
        ("pd-ssm", {"ste"}, {"d_state": 64, "n_heads": 1, "initial_state": "first", "dictionary_size": 8, "magnitude_bias": 3.0}),
        ("flash-pd-ssm", set(), {"initial_state": "first", "dictionary_scale": 2.0, "temperature_end": None}),
        ("complex-diagonal", {"dictionary_size"}, {"initial_state": "zero", "d_generator": "mlp", "skip": True}),
    ],
)
def test_layers_have_the_published_defaults_and_no_option_that_they_fix(name, fixed, defaults):
    found = {key: parameter.default for key, parameter in layer_options(name).items()}
    assert found.items() >= defaults.items()
    assert not fixed & set(found)


@pytest.mark.parametrize("name", SHARING)
def test_layers_can_be_copied_and_pickled(name):
    layer = make_layer(name, 4)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.state_dict().keys() == layer.state_dict().keys()
        assert all(bool((a == b).all()) for a, b in zip(other.parameters(), layer.parameters(), strict=True))
