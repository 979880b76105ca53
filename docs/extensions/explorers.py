"""A directive that shows the explorer for one of a few models, of the reader's choice."""

from __future__ import annotations

from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import clgraph
from extensions.example_models import MODELS

FOLDER = "explorer"
"""Of the pages that are shown, below the site's."""
_FRAME = "explorer-frame"


class Explorers(SphinxDirective):
    """``{explorers}``: a link a model, and the frame that they open in; it begins with the first."""

    def run(self) -> list[nodes.Node]:
        """Return the links and the frame."""
        links = " · ".join(
            f'<a href="{FOLDER}/{name}.html" target="{_FRAME}">{escape(shown.title)}</a>'
            for name, shown in MODELS.items()
        )
        first = next(iter(MODELS))
        frame = f'<iframe name="{_FRAME}" title="the explorer" loading="lazy" src="{FOLDER}/{first}.html"></iframe>'
        return [nodes.raw("", f'<p class="explorers">{links}</p>{frame}', format="html")]


def _write(app: Sphinx, error: Exception | None) -> None:
    """Write the explorer's page of every model beside the site's."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    for name, shown in MODELS.items():
        page = clgraph.view(shown.make(), "null", shapes=shown.shapes, config={"plugins": "none"}, name=shown.title)
        page.save(folder / f"{name}.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and the pages that it shows."""
    app.add_directive("explorers", Explorers)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
