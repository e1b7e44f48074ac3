"""Options that a layer shares with its family: written once, at the base class, and still named by every constructor.

    @inherits_options(DeltaLayer, expand_v=2)
    def __init__(self, d_model: int, *, mine: bool = False, **shared: Unpack[DeltaOptions]) -> None:
        super().__init__(d_model, **shared)

is the constructor ``(d_model, *, n_heads=4, ..., expand_v=2, ..., mine=False)``. ``DeltaOptions`` (a ``TypedDict``) says which
options of ``DeltaLayer`` the layer passes on; their defaults are those of ``DeltaLayer`` where the decorator names no other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from torch import nn

Constructor = TypeVar("Constructor", bound=Callable[..., None])


def inherits_options(base: type[nn.Module], /, **defaults: Any) -> Callable[[Constructor], Constructor]:
    """Decorator that lets a constructor's ``**`` argument stand for options of a base class.

    The signature names the shared options first, then the constructor's own. A call is held against it: names that it does not
    have are refused, and the constructor receives every option that was left out, with its default.

    Args:
        base: the class whose constructor takes the options.
        defaults: defaults that differ from those of ``base``.

    Raises:
        TypeError: where it decorates: the ``**`` argument is missing or not ``Unpack`` of a ``TypedDict``, or a default or an
            entry of the ``TypedDict`` is no option of ``base``.
    """

    def decorate(init: Constructor) -> Constructor:
        signature = _named(init, base, defaults)

        @functools.wraps(init)
        def construct(self: Any, *args: Any, **options: Any) -> None:
            try:
                given = signature.bind(self, *args, **options)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}: {error}") from None
            given.apply_defaults()
            init(*given.args, **given.kwargs)

        hints = {p.name: p.annotation for p in signature.parameters.values() if p.annotation is not p.empty}
        construct.__annotations__ = {**hints, "return": None}
        construct.__signature__ = signature  # type: ignore[attr-defined]
        return construct  # type: ignore[return-value]

    return decorate


def _named(init: Callable[..., None], base: type, defaults: dict[str, Any]) -> inspect.Signature:
    """The signature of a constructor, with the options behind its ``**`` named and all annotations resolved."""
    hints = get_type_hints(init)
    *own, rest = (p.replace(annotation=hints.get(p.name, p.empty)) for p in inspect.signature(init).parameters.values())
    inherited = inspect.signature(base.__init__).parameters  # type: ignore[misc]
    shared = get_type_hints(*get_args(rest.annotation)) if rest.kind is rest.VAR_KEYWORD and get_args(rest.annotation) else {}
    if not shared or not defaults.keys() <= shared.keys() <= inherited.keys():
        raise TypeError(
            f"{init.__qualname__} needs `**shared: Unpack[...]` of a TypedDict whose entries are options of {base.__name__}; "
            f"got the entries {sorted(shared)}, defaults for {sorted(defaults)} and the options {sorted(inherited)}."
        )
    named = [
        inherited[name].replace(annotation=hint, default=defaults.get(name, inherited[name].default))
        for name, hint in shared.items()
    ]
    positional = [p for p in own if p.kind is not p.KEYWORD_ONLY]
    return inspect.Signature([*positional, *named, *own[len(positional) :]], return_annotation=None)
