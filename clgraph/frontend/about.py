"""What a model file says about itself, read."""

from __future__ import annotations

from clgraph.frontend.protobuf import onnx
from clgraph.graph.about import About


def about_of(model: onnx.ModelProto) -> About:
    """Return what *model* says about itself."""
    outputs = tuple(_text(value.name) for value in model.graph.output)
    return About(
        producer=_text(model.producer_name),
        producer_version=_text(model.producer_version),
        domain=_text(model.domain),
        version=int(model.model_version) if model.HasField("model_version") else None,
        graph=_text(model.graph.name),
        doc=_text(model.doc_string),
        graph_doc=_text(model.graph.doc_string),
        ir_version=int(model.ir_version),
        opsets=tuple(sorted((entry.domain, int(entry.version)) for entry in model.opset_import)),
        listed=outputs if len(set(outputs)) < len(outputs) else (),
    )


def _text(said: str | bytes) -> str:
    """Return a text of the file, with replacements if it is not UTF-8: only reports show it."""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said
