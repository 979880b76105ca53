"""The adapter that Model Explorer loads by the name of the package around it."""

from __future__ import annotations

from typing import Any, ClassVar

from model_explorer import Adapter, AdapterMetadata, graph_builder

from clgraph.explorer.model_explorer.graphs import collections


class ClgraphAdapter(Adapter):  # type: ignore[misc]  # Model Explorer has no types
    """Shows an ONNX model as it is after every pass of clgraph that changed it."""

    metadata: ClassVar[Any] = AdapterMetadata(
        id="clgraph",
        name="clgraph",
        description="What every pass of clgraph made of the model",
        fileExts=["onnx"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the graphs of the ONNX file at *model_path*; *settings* are Model Explorer's own.

        Raises:
            ClgraphError: The model cannot be compiled, or has open sizes.
        """
        return {"graphCollections": collections(model_path, graph_builder)}
