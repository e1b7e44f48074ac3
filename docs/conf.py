"""Sphinx configuration."""

import statetrack

project = "statetrack"
author = "The statetrack authors"
release = statetrack.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
suppress_warnings = ["myst.header", "ref.python"]
