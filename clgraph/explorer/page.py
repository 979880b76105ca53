"""The explorer's page: markup, style, scripts and data in one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = (
    "history.js",
    "scopes.js",
    "straighten.js",
    "layout.js",
    "colours.js",
    "overview.js",
    "drawing.js",
    "pane.js",
    "elements.js",
    "node_panel.js",
    "pass_panel.js",
    "memory_panel.js",
    "time_panel.js",
    "roofline_panel.js",
    "explorer.js",
)
"""In the order in which they build on each other; they share one scope."""


def page(data: Mapping[str, Any]) -> str:
    """Return the page that shows *data*, as :func:`clgraph.explorer.document.document` returns it.

    Names in a model are its author's: they are data in the page, never markup or script, and the page's policy lets
    only its own scripts run.
    """
    script = "\n".join(_text("page", name) for name in SCRIPTS)
    scripts = [_text("vendor", "dagre.min.js"), f'"use strict";\n(() => {{\n{script}\n}})();\n']
    style = _text("page", "explorer.css")
    policy = f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; style-src {_digest(style)}"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(str(data['title']))} - clgraph</title>",
            f"<style>{style}</style>",
            "</head>",
            _text("page", "body.html"),
            f'<script type="application/json" id="data">{_inert(data)}</script>',
            *(f"<script>{text}</script>" for text in scripts),
            "</html>\n",
        ]
    )


def _inert(data: Mapping[str, Any]) -> str:
    """Return JSON that no HTML parser finds a tag or a comment in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(folder: str, name: str) -> str:
    return files("clgraph.explorer").joinpath(folder, name).read_text(encoding="utf-8")
