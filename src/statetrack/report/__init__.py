"""Reports: what a run or several runs show, as tables, figures and a page."""

from statetrack.report.comparison import Comparison, compare
from statetrack.report.page import write_report
from statetrack.report.verdict import verdict

__all__ = ["Comparison", "compare", "verdict", "write_report"]
