"""``check_layer``: the whole contract suite for one layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statetrack.errors import UnknownNameError
from statetrack.layers.base import Layer, layers
from statetrack.testing.case import Case
from statetrack.testing.exclusions import EXCLUSIONS, SURROGATE_GRADIENTS
from statetrack.testing.laws import LAWS

SLOW_LAWS = ("compiled_equals_eager",)


def layer_laws() -> tuple[str, ...]:
    """The names of all laws, in the order in which they are checked."""
    return tuple(LAWS)


def excused(layer_class: type[Layer], law: str) -> str | None:
    """Why a registered layer is excused from a law; None if it is not."""
    return EXCLUSIONS.get((_registered_name(layer_class), law))


def check_layer(
    layer_class: type[Layer],
    *,
    d_model: int = 6,
    laws: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    surrogate: Iterable[str] = (),
    **options: Any,
) -> None:
    """Check every law of a layer, in float64 and on small sizes.

    Args:
        layer_class: the layer; it needs no registration.
        d_model: width.
        laws: names of the laws to check; None means all but the slow ones (``SLOW_LAWS``).
        exclude: names of laws to leave out.
        surrogate: beginnings of the names of parameters that feed a hard choice, whose gradient is not a derivative.
        options: constructor options.

    Raises:
        AssertionError: names the layer, its options, the law and the numbers.
        UnknownNameError: no such law.

    Example:
        >>> from statetrack.layers.complex_diagonal import ComplexDiagonal
        >>> check_layer(ComplexDiagonal, laws=["steps_equal_forward", "padding_changes_nothing"], d_state=4)
    """
    chosen = [name for name in LAWS if name not in SLOW_LAWS] if laws is None else list(laws)
    for name in (*chosen, *exclude):
        if name not in LAWS:
            raise UnknownNameError("law", name, LAWS)
    surrogate = (*surrogate, *SURROGATE_GRADIENTS.get(_registered_name(layer_class), ()))
    case = Case(layer_class, d_model, options, tuple(surrogate))
    for name in chosen:
        if name in exclude or excused(layer_class, name):
            continue
        try:
            LAWS[name](case)
        except Exception as error:
            stated = ", ".join(f"{key}={value!r}" for key, value in options.items())
            raise AssertionError(f"{layer_class.__name__}({d_model}, {stated}) breaks {name}: {error}") from error


def _registered_name(layer_class: type[Layer]) -> str:
    return next((name for name in layers if layers.get(name) is layer_class), "")
