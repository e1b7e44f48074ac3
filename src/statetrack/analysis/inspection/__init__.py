"""Everything that can be measured inside a run, in one object."""

from statetrack.analysis.inspection.confusion import Confusion, confusion
from statetrack.analysis.inspection.inspect import Inspection, inspect_run
from statetrack.analysis.inspection.layer import LayerView, layer_view

__all__ = ["Confusion", "Inspection", "LayerView", "confusion", "inspect_run", "layer_view"]
