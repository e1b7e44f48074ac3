"""Contract suites, for the library's own layers and structures and for those of others."""

from statetrack.testing.case import option_variants
from statetrack.testing.layers import SLOW_LAWS, check_layer, excused, layer_laws
from statetrack.testing.structures import check_structure

__all__ = ["SLOW_LAWS", "check_layer", "check_structure", "excused", "layer_laws", "option_variants"]
