"""What every layer of a model is given on some words: the inputs that analyses of single layers take."""

from __future__ import annotations

import torch
from torch import Tensor

from statetrack.errors import InvalidInputError
from statetrack.models import Tagger


@torch.no_grad()
def layer_inputs(model: Tagger, tokens: Tensor) -> list[Tensor]:
    """``(B, L, d_model)`` per layer, from the input up, in evaluation mode; the model is left in the mode it was in.

    Raises:
        InvalidInputError: tokens that are not ``(B, L)`` with at least one token.
    """
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise InvalidInputError(f"tokens need shape (B, L) with at least one token, got {tuple(tokens.shape)}.")
    found: list[Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda _, args: found.append(args[0].detach())) for layer in model.layers]
    was_training = model.training
    model.eval()
    try:
        model(tokens)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return found
