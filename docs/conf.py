"""Sphinx's configuration; ``tools/docs`` builds the site."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import clgraph  # noqa: E402  # from the repository that the pages stand in

# A dependency of furo lets every logger speak.
logging.getLogger("clgraph").setLevel(logging.WARNING)

project = "clgraph"
author = "the clgraph authors"
version = release = clgraph.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "extensions.commands",
    "extensions.explorers",
    "extensions.listings",
    "extensions.pictures",
]
exclude_patterns = ["benchmarks/*", "extensions", "static"]
nitpicky = True
nitpick_ignore_regex = [
    # Types of signatures that are no public names of clgraph, or another package's.
    ("py:.*", r"(?!clgraph\.).*"),
    ("py:.*", r"clgraph\.(?!errors|settings|Model|Tensor|TensorSpec|Topology|compile|load|tune|custom_op|devices).*"),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"

smartquotes = False

html_theme = "furo"
html_title = "clgraph"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
