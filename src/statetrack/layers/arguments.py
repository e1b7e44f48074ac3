"""What a layer may be given: inputs and states that fit it, checked without a look at their values.

Letters: B = rows (sequences, or packed documents), L = tokens, E = ``d_model``, T = tokens in a cache that grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError

if TYPE_CHECKING:
    from statetrack.layers.base import Layer


class Expected(NamedTuple):
    """What fits a layer as it is now, which its parameters and its initial state say.

    Attributes:
        dtype: of the input; None where the layer has no parameters.
        kind: type of the state.
        names: of the state's fields.
        shapes: theirs, without rows; None stands for a dimension that grows.
        dtypes: theirs.
    """

    dtype: torch.dtype | None
    kind: type
    names: tuple[str, ...]
    shapes: tuple[tuple[int | None, ...], ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, layer: Layer) -> Expected:
        """Read off a layer; the input has the dtype of its narrowest parameter, since some stay float32 in half precision."""
        dtypes = {p.dtype for p in layer.parameters() if p.is_floating_point()}
        with torch.no_grad():
            state = layer.initial_state(0)
        grows = not layer.traits.streams
        return cls(
            min(dtypes, key=lambda dtype: torch.finfo(dtype).bits, default=None),
            type(state),
            getattr(state, "_fields", tuple(map(str, range(len(state))))),
            tuple(tuple(None if grows and size == 0 else size for size in field.shape[1:]) for field in state),
            tuple(field.dtype for field in state),
        )

    def takes(self, x: Tensor) -> bool:
        """Whether an input has a dtype that fits, also under autocast, which casts what is not float64."""
        if x.dtype is self.dtype:
            return True
        if self.dtype is None:
            return x.is_floating_point()
        device = x.device.type
        castable = x.is_floating_point() and torch.float64 not in (x.dtype, self.dtype)
        return castable and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)

    def holds(self, state: Any, rows: int) -> bool:
        """Whether a state of so many rows fits."""
        fields: Any = state if type(state) is self.kind else ()
        if len(fields) != len(self.shapes):
            return False
        cached: list[int] = []
        for field, shape, dtype in zip(fields, self.shapes, self.dtypes):  # noqa: B905 - a step waits for this
            if not isinstance(field, Tensor) or field.dtype is not dtype:
                return False
            found, wanted = field.shape, (rows, *shape)
            if found != wanted:
                if None not in shape or len(found) != len(wanted):
                    return False
                if any(b not in (None, a) for a, b in zip(found, wanted, strict=True)):
                    return False
                cached += [a for a, b in zip(found, wanted, strict=True) if b is None]
        return len(set(cached)) < 2 if cached else True

    def state(self, rows: int) -> str:
        """The state of so many rows, in words."""
        shapes = [", ".join("T" if size is None else str(size) for size in (rows, *shape)) for shape in self.shapes]
        return _in_words(self.kind, self.names, [f"({s}) {d}" for s, d in zip(shapes, self.dtypes, strict=True)])


def check_input(layer: Layer, x: Any, *, lengths: str) -> None:
    """Refuse what is not an input ``(B, L, E)``, or ``(B, E)`` for a single token (``lengths`` is empty).

    Raises:
        InvalidInputError: it is no tensor, or its shape or dtype does not fit.
    """
    name = type(layer).__name__
    if not isinstance(x, Tensor):
        raise InvalidInputError(f"{name} needs x as a tensor, got a {type(x).__name__}.")
    shape = x.shape
    if len(shape) != 2 + len(lengths) or shape[-1] != layer.d_model:
        wanted = ", ".join(("B", *lengths, str(layer.d_model)))
        raise InvalidInputError(f"{name} needs x of shape ({wanted}), got {tuple(shape)}.")
    if not _known(layer).takes(x) and not (expected := _known(layer, again=True)).takes(x):
        raise InvalidInputError(
            f"{name} needs x in {expected.dtype or 'floating point'}, got {x.dtype}; convert x or the layer with .to(dtype)."
        )


def check_state(layer: Layer, state: Any, rows: int) -> None:
    """Refuse a state that is of another layer, number of rows or dtype.

    Raises:
        InvalidInputError: says what fits.
    """
    if not _known(layer).holds(state, rows) and not (expected := _known(layer, again=True)).holds(state, rows):
        given = type(state).__name__
        if isinstance(state, tuple):
            fields = [f"{tuple(f.shape)} {f.dtype}" if isinstance(f, Tensor) else type(f).__name__ for f in state]
            given = _in_words(type(state), getattr(state, "_fields", ("",) * len(fields)), fields)
        raise InvalidInputError(
            f"{type(layer).__name__} needs a state with a row for each of {rows} sequences, {expected.state(rows)}; got {given}."
        )


def forget(layer: Layer) -> None:
    """Look at the layer anew at its next call: it is about to be converted."""
    layer.__dict__.pop("_expected", None)


def _known(layer: Layer, *, again: bool = False) -> Expected:
    """What fits, remembered from the last look; a compiler looks anew."""
    if torch.compiler.is_compiling():
        return Expected.of(layer)
    found: Expected | None = None if again else layer.__dict__.get("_expected")
    if found is None:
        found = layer.__dict__["_expected"] = Expected.of(layer)
    return found


def _in_words(kind: type, names: tuple[str, ...], fields: list[str]) -> str:
    return f"{kind.__name__}({', '.join(f'{n} {f}'.strip() for n, f in zip(names, fields, strict=True))})".replace("torch.", "")
