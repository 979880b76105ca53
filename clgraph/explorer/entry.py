"""``clgraph.view``: the explorer from Python, for notebooks and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.compilation.entry import compile_model
from clgraph.core.frozen import frozen
from clgraph.errors import OptionError
from clgraph.explorer.document import document
from clgraph.explorer.making import profiled, view_of
from clgraph.explorer.page import page
from clgraph.graph.primitive import Array
from clgraph.model.model import Model
from clgraph.network.profile import Profile

if TYPE_CHECKING:
    from onnx import ModelProto

    from clgraph.graph.topology import Topology

HEIGHT = 640
"""Pixels that the explorer takes in a notebook."""


@frozen
class Report:
    """The explorer's page: in a notebook it is shown by itself, elsewhere it is written to a file.

    Attributes:
        html: The whole page.
    """

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, which needs no network; raises ``OptionError`` where that fails."""
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise OptionError(f"the page cannot be written to {path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        return f"<explorer, {len(self.html) >> 10} KiB; save() writes it>"

    def _repr_html_(self) -> str:
        # Its own document, so that neither page's style or script meets the other's.
        sandbox = "allow-scripts allow-same-origin"
        return f'<iframe srcdoc="{escape(self.html)}" sandbox="{sandbox}" width="100%" height="{HEIGHT}"></iframe>'


def view(
    model: str | os.PathLike[str] | bytes | ModelProto | Topology,
    device: str = "auto",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    feeds: Mapping[str, Array] | None = None,
    config: Mapping[str, Any] | None = None,
    name: str = "",
) -> Report:
    """Compile *model* and return the explorer of what every pass made of it.

    Args:
        model: As :func:`clgraph.compile` takes it; *device*, *shapes* and *config* likewise.
        feeds: Inputs to run the model on once with the clock on every node; without them there are no times.
        name: What the page calls it; the file's name where there is one.

    Raises:
        ClgraphError: The model cannot be compiled, or not run on *feeds*.
    """
    called = name or (Path(model).name if isinstance(model, str | os.PathLike) else "model")

    def compile_into(folder: Path) -> Model:
        return compile_model(model, device, shapes=shapes, config={**(config or {}), "dump_graphs": folder})

    def run(model: Model) -> Profile | None:
        return None if feeds is None else profiled(model, feeds)

    return Report(page(document([view_of(called, compile_into, run)])))
