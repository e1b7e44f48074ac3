"""Saving what was inserted into a model, and nothing of the model: a few megabytes beside a backbone of gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from statetrack.errors import InvalidInputError, RunError
from statetrack.integrations.hf.insertion import context_of, decoder_layers, insert_layers, inserted_layers, replace_layers
from statetrack.training.files import new_folder, read_json, write_json

_FORMAT = 1


def save_inserted(model: Any, folder: str | Path) -> None:
    """Write our layers of a model into a new folder, or over one.

    Raises:
        InvalidInputError: the model has none of our layers.
    """
    context = context_of(model)
    tensors = {
        f"{i}.{name}": tensor.detach().cpu().contiguous()
        for i, inserted in enumerate(inserted_layers(model))
        for name, tensor in inserted.state_dict().items()
    }
    told = {"hidden_size": model.config.hidden_size, "num_hidden_layers": len(decoder_layers(model))}
    with new_folder(Path(folder)) as path:
        save_file(tensors, path / "inserted.safetensors")
        write_json(path / "inserted.json", {"format": _FORMAT, "backbone": told, "records": context.records})


def load_inserted(model: Any, folder: str | Path, *, freeze_backbone: bool = True) -> Any:
    """Put saved layers into a model of the same shape, in place.

    Returns:
        The model.

    Raises:
        RunError: the folder holds no saved layers.
        InvalidInputError: the model has another width or number of layers than the one they were trained in, or has some already.
    """
    path = Path(folder)
    stored = read_json(path / "inserted.json")
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise RunError(f"{path} holds no layers that this version can read.")
    told = {"hidden_size": model.config.hidden_size, "num_hidden_layers": len(decoder_layers(model))}
    if stored["backbone"] != told:
        raise InvalidInputError(f"The layers in {path} belong to a model with {stored['backbone']}; this one has {told}.")
    if inserted_layers(model):
        raise InvalidInputError("The model has some of our layers already; remove_layers(model) takes them out.")
    tensors = load_file(path / "inserted.safetensors")
    for record in stored["records"]:
        put = insert_layers if record["kind"] == "insert" else replace_layers
        put(
            model,
            record["layer"],
            record["where"],
            freeze_backbone=freeze_backbone,
            ticks=record.get("ticks"),
            **record["options"],
        )
    for i, inserted in enumerate(inserted_layers(model)):
        begin = f"{i}."
        inserted.load_state_dict({n.removeprefix(begin): t for n, t in tensors.items() if n.startswith(begin)})
    return model
