"""Hugging Face: language models made of our layers, and our layers inside pre-trained models.

Importing it registers ``StateTrackForCausalLM`` with the Auto classes of ``transformers``.
"""

from statetrack.integrations.hf import require as _require  # noqa: F401 (first: it names the extra that is missing)
from statetrack.integrations.hf.configuration import StateTrackConfig
from statetrack.integrations.hf.frozen import FrozenPart
from statetrack.integrations.hf.inserted_files import load_inserted, save_inserted
from statetrack.integrations.hf.insertion import insert_layers, inserted_layers, remove_layers, replace_layers
from statetrack.integrations.hf.modeling import StateTrackForCausalLM, StateTrackModel

__all__ = [
    "FrozenPart",
    "StateTrackConfig",
    "StateTrackForCausalLM",
    "StateTrackModel",
    "insert_layers",
    "inserted_layers",
    "load_inserted",
    "remove_layers",
    "replace_layers",
    "save_inserted",
]
