"""Stories with the states that the frozen part of a model gives them, kept in files, so that none is read twice.

A file is used again only if it holds the same tokens and was made by the same weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from statetrack.integrations.hf.frozen import FrozenPart
from statetrack.integrations.hf.reader import Stories, join
from statetrack.training.files import new_folder


def shelved(
    folder: Path, told: Callable[[int], Stories], n_parts: int, frozen: FrozenPart, observer: Callable[[str], None] = print
) -> Stories:
    """All parts of a set of stories, with their states; what is not in ``folder`` yet is computed and put there.

    Args:
        folder: of the set; each part is a folder in it.
        told: tells part ``i``, always in the same words.
        n_parts: number of parts.
        frozen: computes the states.
        observer: is told of each part computed.
    """
    key, parts = _key(frozen), []
    for i in range(n_parts):
        stories, path = told(i), folder / f"{key}-{i:04d}"
        states = _found(path / "states.safetensors", stories.input_ids)
        if states is None:
            states = frozen.states(stories.input_ids, stories.attention_mask)
            with new_folder(path) as temporary:
                save_file({"input_ids": stories.input_ids, "states": states}, temporary / "states.safetensors")
            observer(f"{folder.name}: states of part {i + 1} of {n_parts}")
        parts.append(stories._replace(states=states))
    return join(parts)


def _found(path: Path, input_ids: Tensor) -> Tensor | None:
    try:
        kept = load_file(path)
    except (OSError, SafetensorError):
        return None
    return kept["states"] if torch.equal(kept["input_ids"], input_ids) else None


def _key(frozen: FrozenPart) -> str:
    """Tells lower parts of different depths and weights apart by the sums of their parameters."""
    below = [parameter for layer in frozen.layers[: frozen.first] for parameter in layer.parameters()]
    sums = [parameter.detach().double().sum().item() for parameter in (*frozen.model.get_input_embeddings().parameters(), *below)]
    return f"layer-{frozen.first}-{hashlib.sha256(repr(sums).encode()).hexdigest()[:8]}"
