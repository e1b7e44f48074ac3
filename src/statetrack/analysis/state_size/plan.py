"""How large a state should be: measured costs of several sizes, and how much of the present one is used.

No formula for the best size is known. What is known are lower bounds from the task, here one from counting; what a size costs,
which is measured on this machine; and how much of a state a trained layer uses. From these follows a next size to try, not the
best one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from statetrack.analysis.recency.unrolled import has_states
from statetrack.analysis.state_size.slots import option_size
from statetrack.analysis.state_use import state_use
from statetrack.bench.timing import take_turns
from statetrack.errors import InvalidInputError
from statetrack.layers.base import Layer, rebuilt
from statetrack.tasks.checks import whole_number

Verdict = Literal["saturated", "in use", "mostly unused"]


@dataclass(frozen=True)
class Budget:
    """What a layer may cost; None sets no limit.

    Attributes:
        seconds: of one forward and backward pass over the planned length, one row, on this machine.
        state_numbers: real numbers of state per row.
        parameters: of the layer.
    """

    seconds: float | None = None
    state_numbers: int | None = None
    parameters: int | None = None

    def allows(self, seconds: float, state_numbers: int, parameters: int) -> bool:
        """Whether costs stay within every limit."""
        limits = ((self.seconds, seconds), (self.state_numbers, state_numbers), (self.parameters, parameters))
        return all(limit is None or cost <= limit for limit, cost in limits)


@dataclass(frozen=True)
class Cost:
    """What one size costs, as measured.

    Attributes:
        d_state: the size, as the layer's option counts it.
        seconds: median of one forward and backward pass over the planned length, one row.
        state_numbers: real numbers of state per row.
        parameters: of the layer.
        affordable: whether the budget allows it.
    """

    d_state: int
    seconds: float
    state_numbers: int
    parameters: int
    affordable: bool


@dataclass(frozen=True)
class StateSizePlan:
    """A next size to try.

    Attributes:
        d_state: it.
        present: the size that the layer has.
        verdict: what the measured use says.
        used: entropy rank of the states visited, in real numbers per head, mean over heads.
        share: the same divided by the size of a head's state.
        costs: of every size that was measured, ascending.
        reason: one sentence.
        measured_on: ``"given inputs"`` or ``"noise"``, on which use says little.
    """

    d_state: int
    present: int
    verdict: Verdict
    used: float
    share: float
    costs: list[Cost]
    reason: str
    measured_on: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**vars(self), "costs": [vars(cost) for cost in self.costs]}


def plan_state_size(
    layer: Layer,
    length: int,
    budget: Budget | float,
    *,
    x: Tensor | None = None,
    sizes: Sequence[int] | None = None,
    saturated: float = 0.8,
    unused: float = 0.25,
    timing: float = 0.2,
) -> StateSizePlan:
    """Plan the state size of a layer for words of some length.

    A saturated state (share of at least ``saturated``) asks for the next larger size within the budget; a mostly unused one (at
    most ``unused``) for the smallest size of which the used dimensions would fill no more than ``saturated``, though a state may
    be unused because training has not found a use for it: look at that first. In between the size stays.

    Args:
        layer: with an option ``d_state``, trained on what it is for; it is left as it is.
        length: tokens that it will run over; costs are measured at it.
        budget: what it may cost, or seconds.
        x: ``(B, L, d_model)``, what the layer is given in its model (``analysis.layer_inputs``); None measures on noise.
        sizes: that are compared; None means powers of two from a quarter to four times the present size, and that one.
        saturated: share from which on a state counts as full; no threshold is published.
        unused: share up to which a state counts as mostly unused.
        timing: seconds that measuring a size may take.

    Raises:
        InvalidInputError: a layer without such an option, numbers out of range, or a budget that no size fits.

    Example:
        >>> from statetrack.layers import make_layer
        >>> layer, budget = make_layer("mamba", 4, d_state=4), Budget(state_numbers=100)
        >>> plan = plan_state_size(layer, 16, budget, sizes=[2, 4, 8, 16], timing=0.01)
        >>> [cost.d_state for cost in plan.costs if cost.affordable]
        [2, 4, 8]
    """
    if length < 1 or not 0 < unused < saturated <= 1 or not timing > 0:
        raise InvalidInputError(
            "length must be at least 1, timing positive and 0 < unused < saturated <= 1; got "
            f"{length}, {timing}, {unused} and {saturated}."
        )
    if not has_states(layer):
        raise InvalidInputError(
            f"{type(layer).__name__} has a cache that grows with every token, and no state whose size is planned."
        )
    present = option_size(layer)
    limit = budget if isinstance(budget, Budget) else Budget(seconds=float(budget))
    costs = _costs(layer, length, limit, _sizes(present, sizes), timing)
    affordable = [cost.d_state for cost in costs if cost.affordable]
    if not affordable:
        cheapest = min(costs, key=lambda cost: cost.seconds)
        raise InvalidInputError(f"No size fits {limit}; the cheapest, {cheapest.d_state}, costs {cheapest}.")
    given = _noise(layer, length) if x is None else x
    use = state_use(layer, given)
    used = float(use.entropy_rank.mean())
    share = used / use.size
    verdict: Verdict = "saturated" if share >= saturated else "mostly unused" if share <= unused else "in use"
    chosen, reason = _choice(verdict, present, share, saturated, affordable)
    return StateSizePlan(chosen, present, verdict, used, share, costs, reason, "noise" if x is None else "given inputs")


def copy_bound(bits: float, alphabet: int) -> int:
    """The longest uniform word over an alphabet that a state of so many bits can hold, by counting.

    A state with ``|S|`` values errs on a word of n letters with probability at least ``1 - |S| / alphabet^n``. Numbers of a
    trained state hold far fewer bits than their format has, so this bounds from above what can be hoped for. Source: Repeat After
    Me (arXiv 2402.01032).

    Example:
        >>> copy_bound(16 * 256 * 16, 26)
        13942
    """
    if bits < 0 or alphabet < 2:
        raise InvalidInputError(f"bits must not be negative and alphabet at least 2; got {bits} and {alphabet}.")
    return int(bits // math.log2(alphabet))


def _choice(verdict: Verdict, present: int, share: float, saturated: float, affordable: list[int]) -> tuple[int, str]:
    largest = max(affordable)
    seen = f"{100 * share:.0f} % of the state is in use"
    if verdict == "saturated":
        larger = [size for size in affordable if size > present]
        if larger:
            return larger[0], f"{seen}: try the next larger size."
        kept = min(present, largest)
        return kept, f"{seen}, but the budget allows no more than {largest}."
    if verdict == "mostly unused":
        enough = [size for size in affordable if share * present <= saturated * size]
        if enough and enough[0] < present:
            return enough[0], f"{seen}: {enough[0]} would hold it, unless training has yet to find a use for the rest."
    if present <= largest:
        return present, f"{seen}: keep the size."
    return largest, f"{seen}, but the budget allows no more than {largest}."


def _sizes(present: int, sizes: Sequence[int] | None) -> list[int]:
    if sizes is None:
        powers = [2**k for k in range(20)]
        return sorted({present, *(p for p in powers if present / 4 <= p <= 4 * present)})
    if not sizes:
        raise InvalidInputError("sizes must not be empty.")
    return sorted({present, *(whole_number("a size", size, 1) for size in sizes)})


def _costs(layer: Layer, length: int, budget: Budget, sizes: list[int], timing: float) -> list[Cost]:
    made = {}
    for size in sizes:
        try:
            made[size] = rebuilt(layer, d_state=size)
        except (InvalidInputError, TypeError) as error:
            if size == option_size(layer):
                raise InvalidInputError(f"{type(layer).__name__} cannot be built with another d_state: {error}") from error
    x = _noise(layer, length).to(next(layer.parameters()))
    times = take_turns({str(size): partial(_pass, other, x) for size, other in made.items()}, timing)
    costs = []
    for size, other in made.items():
        seconds = times[str(size)].median
        numbers = sum(f.numel() * (2 if f.is_complex() else 1) for f in other.initial_state(1) if _numeric(f))
        parameters = sum(p.numel() for p in other.parameters())
        costs.append(Cost(size, seconds, numbers, parameters, budget.allows(seconds, numbers, parameters)))
    return costs


def _pass(layer: Layer, x: Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    with torch.enable_grad():
        layer(x)[0].square().sum().backward()


def _noise(layer: Layer, length: int) -> Tensor:
    return torch.randn(1, length, layer.d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _numeric(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
