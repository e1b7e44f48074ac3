"""Models: stacks of layers that map tokens to scores."""

from statetrack.models.blocks import Block, Dropout
from statetrack.models.tagger import ModelConfig, Tagger

__all__ = ["Block", "Dropout", "ModelConfig", "Tagger"]
