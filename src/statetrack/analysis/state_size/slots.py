"""Which entries of a layer's parameters belong to which state: what it takes to copy a layer into a larger one.

A parameter whose shape goes with the number of states has a ``Slots``: a name for every index of each dimension, so that an entry
of a small layer and the same entry of a large one have the same names. ``state_slots`` is open: register a function for a layer
of your own, and ``expand`` works on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import product
from typing import cast

from torch import nn

from statetrack.errors import InvalidInputError
from statetrack.layers.aussm import AUSSM
from statetrack.layers.base import Layer
from statetrack.layers.complex_diagonal import ComplexDiagonal
from statetrack.layers.delta_base import DeltaLayer
from statetrack.layers.dictionary import DictionaryLayer
from statetrack.layers.fixed import ModalLayer
from statetrack.layers.linoss import LinOSS
from statetrack.layers.lru import LRU
from statetrack.layers.lstm import LSTM
from statetrack.layers.mamba import Mamba
from statetrack.layers.mamba2 import Mamba2
from statetrack.layers.mamba3 import Mamba3
from statetrack.layers.polarized_mamba import PolarizedMamba
from statetrack.layers.rnn import RNN
from statetrack.layers.s4d import S4D
from statetrack.layers.s5 import S5
from statetrack.layers.sd_ssm import SDSSM
from statetrack.layers.selective import SelectiveLayer
from statetrack.layers.shift import Shift
from statetrack.layers.simple_aussm import SimpleAUSSM
from statetrack.layers.slice import SLiCE
from statetrack.layers.state_gated_rnn import StateGatedRNN

Name = Hashable


@dataclass(frozen=True)
class Slots:
    """Names of the entries of one parameter.

    Attributes:
        names: for each dimension a name for each index, or None where the dimension does not go with the state.
        reads: a dimension along which entries are read: what is new along it and old along all others starts at 0, so that
            nothing old reads anything new. None where there is none.
        silent: whether a name is one whose new entries start at 0.
        shut: whether what is new along the rows of old columns starts at the columns' least entry, as in scores of which the
            largest is taken (the last two dimensions).
    """

    names: tuple[Sequence[Name] | None, ...]
    reads: int | None = None
    silent: Callable[[Name], bool] | None = None
    shut: bool = False


Layout = dict[str, Slots]
"""By name of the parameter or buffer; those that are not named do not go with the state."""


@singledispatch
def state_slots(layer: Layer) -> Layout:
    """The layout of a layer.

    Raises:
        InvalidInputError: a layer whose state cannot grow without changing outputs, or whose layout is not known.
    """
    name = type(layer).__name__
    if not layer.traits.streams:
        raise InvalidInputError(f"{name} cannot be expanded: its cache grows with every token, there is no state of fixed size.")
    raise InvalidInputError(
        f"{name} cannot be expanded: the layout of its parameters is not known. Register one with state_slots, if there is a way "
        "to add states that old ones do not see."
    )


def option_size(layer: Layer) -> int:
    """The value of the option ``d_state`` that a layer was built with."""
    pinned = layer.n_ones + layer.n_zeros if isinstance(layer, PolarizedMamba) else 0
    size = getattr(layer, "d_state", None)
    if not isinstance(size, int):
        raise InvalidInputError(f"{type(layer).__name__} has no option d_state that could grow.")
    return size - pinned


def _states(layer: Layer) -> list[Name]:
    """A name for every state of a head, in order; pinned ones are not numbered with the others, which grow between them."""
    ones, zeros = layer.pins.ones, layer.pins.zeros
    if layer.pins_heads:
        ones = zeros = 0
    if isinstance(layer, PolarizedMamba):
        ones, zeros = layer.n_ones, layer.n_zeros
    n = getattr(layer, "d_state", 0) - ones - zeros
    return [*(("one", i) for i in range(ones)), *range(n), *(("zero", i) for i in range(zeros))]


def _joined(*segments: tuple[Name, Iterable[Name]]) -> list[Name]:
    """Names of segments that lie one behind the other."""
    return [(segment, name) for segment, names in segments for name in names]


def _starts_silent(*segments: Name) -> Callable[[Name], bool]:
    return lambda name: isinstance(name, tuple) and name[0] in segments


@state_slots.register
def _(layer: Mamba) -> Layout:
    states = _states(layer)
    learned = [name for name in states if not isinstance(name, tuple)] if isinstance(layer, PolarizedMamba) else states
    rows = _joined(("r", range(layer.dt_rank)), ("B", states), ("C", states))
    return {"A_log": Slots((None, learned)), "x_proj.weight": Slots((rows, None), silent=_starts_silent("C"))}


@state_slots.register
def _(layer: Mamba2) -> Layout:
    channels, n = layer.n_heads * layer.d_head, range(layer.d_state)
    line = [("x", range(channels)), ("B", n), ("C", n)]
    rows = _joined(("z", range(channels)), *line, ("r", range(layer.n_heads)))
    silent = _starts_silent("C")
    return {
        "in_proj.weight": Slots((rows, None), silent=silent),
        "conv.weight": Slots((_joined(*line), None)),
        "conv.bias": Slots((_joined(*line),), silent=silent),
    }


@state_slots.register
def _(layer: SimpleAUSSM) -> Layout:
    states = _states(layer)
    found = {
        "phase.linear.weight": Slots((list(states), None)),
        "decoder.0.weight": Slots((None, _joined(("re", states), ("im", states), ("x", range(layer.d_model)))), reads=1),
    }
    if layer.input is not None:
        found["input.weight"] = Slots((list(product(states, range(2))), None))
    return found


def _selective(layer: SelectiveLayer) -> Layout:
    """The diagonal's networks, the input and the start."""
    if layer.readout.kind == "gated":
        raise InvalidInputError(
            f"This {type(layer).__name__} has readout='gated', which normalises over the state: new states would change it."
        )
    each = list(product(range(layer.n_heads), _states(layer)))
    found: Layout = {}
    for name, network, levels in (
        ("magnitude", layer.diagonal.magnitude, None),
        ("phase", layer.diagonal.phase, layer.diagonal.levels),
    ):
        rows: list[Name] = list(each) if levels is None else list(product(each, range(levels)))
        if isinstance(network, nn.Sequential):
            hidden = list(range(cast(nn.Linear, network[0]).out_features))
            found[f"diagonal.{name}.0.weight"] = Slots((hidden, None))
            found[f"diagonal.{name}.0.bias"] = Slots((hidden,))
            found[f"diagonal.{name}.2.weight"] = Slots((rows, hidden), reads=1)
            found[f"diagonal.{name}.2.bias"] = Slots((rows,))
        elif network is not None:
            found[f"diagonal.{name}.weight"] = Slots((rows, None))
            found[f"diagonal.{name}.bias"] = Slots((rows,))
    if hasattr(layer.diagonal, "a_log"):
        found["diagonal.a_log"] = Slots((list(each),))
    found["start"] = Slots((None, list(_states(layer)), None), silent=lambda _: True)
    return found


def _features(layer: SelectiveLayer) -> list[Name]:
    """Names of the parts of all states: real ones first, then imaginary ones."""
    return list(product(range(2 if layer.is_complex else 1), range(layer.n_heads), _states(layer)))


def _reader(layer: SelectiveLayer) -> str:
    return "readout.out.0.weight" if layer.readout.kind == "mlp" else "readout.out.weight"


@state_slots.register
def _(layer: ComplexDiagonal) -> Layout:
    found = {**_selective(layer), _reader(layer): Slots((None, _features(layer)), reads=1)}
    if layer.input is not None:
        found["input.weight"] = Slots((_features(layer), None))
    return found


@state_slots.register
def _(layer: DictionaryLayer) -> Layout:
    """New states start empty and out of reach of the old ones, and may be read: otherwise nothing would train without input."""
    if layer.orientation != "column":
        raise InvalidInputError(
            f"This {type(layer).__name__} has orientation='row': every state reads one, so new ones cannot be kept out of reach."
        )
    states = _states(layer)
    found = {
        **_selective(layer),
        _reader(layer): Slots((None, _features(layer))),
        "scores": Slots((None, None, list(states), list(states)), shut=True),
    }
    if layer.input is not None:
        found["input.weight"] = Slots((_features(layer), None), silent=lambda _: True)
    return found


@state_slots.register
def _(layer: S4D) -> Layout:
    states = _states(layer)
    return {
        "log_A_real": Slots((None, states)),
        "A_imag": Slots((None, states)),
        "C": Slots((None, states, None), silent=lambda _: True),
    }


def _modal(layer: ModalLayer, *modes: str) -> Layout:
    states = _states(layer)
    both = _joined(("re", states), ("im", states))
    return {
        **{name: Slots((list(states),)) for name in modes},
        "input.weight": Slots((both, None)),
        "readout.out.weight": Slots((None, both), reads=1),
    }


@state_slots.register
def _(layer: LRU) -> Layout:
    return _modal(layer, "nu_log", "theta_log", "gamma_log")


@state_slots.register
def _(layer: S5) -> Layout:
    return _modal(layer, "Lambda_re", "Lambda_im", "log_step")


@state_slots.register
def _(layer: LinOSS) -> Layout:
    return _modal(layer, "A_diag", "steps")


@state_slots.register
def _(layer: Shift) -> Layout:
    if layer.options.get("wrap", "drop") != "drop":
        raise InvalidInputError(
            "Only a Shift with wrap='drop' can be expanded: where the last cell is kept, a new one would change it."
        )
    return {"C": Slots((None, _states(layer)), silent=lambda _: True), "index": Slots((None,)), "value": Slots((None,))}


@state_slots.register
def _(layer: SLiCE) -> Layout:
    kind, n, b = layer.field.kind, layer.d_state, layer.field.block_size
    states = _states(layer)
    if kind == "diagonal":
        entries: list[Name] = list(states)
    elif kind == "block-diagonal":
        entries = list(product(range(n // b), range(b), range(b)))
    else:
        raise InvalidInputError(f"SLiCE can be expanded with kind 'diagonal' or 'block-diagonal'; this one has {kind!r}.")
    return {
        "field.linear.weight": Slots((entries, None)),
        "field.linear.bias": Slots((entries,)),
        "start.weight": Slots((states, None)),
        "start.bias": Slots((states,)),
        "out.weight": Slots((None, states), reads=1),
    }


def _nonlinear(layer: RNN | LSTM, gates: int) -> Layout:
    states = _states(layer)
    rows = list(product(range(gates), states))
    return {
        "cell.weight_ih_l0": Slots((rows, None)),
        "cell.weight_hh_l0": Slots((rows, states), reads=1),
        "cell.bias_ih_l0": Slots((rows,)),
        "cell.bias_hh_l0": Slots((rows,)),
        "out.weight": Slots((None, states), reads=1),
    }


@state_slots.register
def _(layer: RNN) -> Layout:
    return _nonlinear(layer, 1)


@state_slots.register
def _(layer: LSTM) -> Layout:
    return _nonlinear(layer, 4)


@state_slots.register
def _(layer: StateGatedRNN) -> Layout:
    states = _states(layer)
    rows = list(product(range(2), states))
    return {
        "input.weight": Slots((rows, None)),
        "input.bias": Slots((rows,)),
        "recurrent.weight": Slots((rows, states), reads=1),
        "out.weight": Slots((None, states), reads=1),
    }


def _refused(layer: Layer, why: str) -> Layout:
    raise InvalidInputError(f"{type(layer).__name__} cannot be expanded: {why}.")


@state_slots.register
def _(layer: DeltaLayer) -> Layout:
    return _refused(layer, "its keys and queries are normalised over the state, so that new entries would change the old ones")


@state_slots.register
def _(layer: Mamba3) -> Layout:
    return _refused(layer, "its keys and queries are normalised over the state, so that new entries would change the old ones")


@state_slots.register
def _(layer: SDSSM) -> Layout:
    return _refused(layer, "its readout normalises over the state, so that new states would change what is read of the old ones")


@state_slots.register
def _(layer: AUSSM) -> Layout:
    return _refused(layer, "what it writes and reads has a positive modulus everywhere, so that no state can start unread")
