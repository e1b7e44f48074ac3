"""Types of the short interface, for editors and type checkers; the names themselves are loaded on first use."""

from statetrack.layers import make_layer as make_layer
from statetrack.recipes.defaults import default_config as default_config
from statetrack.report import compare as compare
from statetrack.report import write_report as write_report
from statetrack.tasks import make_task as make_task
from statetrack.training import Run as Run
from statetrack.training import TrainConfig as TrainConfig
from statetrack.training import resume as resume
from statetrack.training import train as train

__version__: str
