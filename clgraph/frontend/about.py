"""What a model file says about itself, read."""

from __future__ import annotations

from clgraph.frontend.protobuf import onnx
from clgraph.graph.about import About


def about_of(model: onnx.ModelProto) -> About:
    """Return what *model* says about itself."""
    return About(
        producer=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        version=int(model.model_version) if model.HasField("model_version") else None,
        graph=model.graph.name,
        doc=model.doc_string,
        graph_doc=model.graph.doc_string,
        ir_version=int(model.ir_version),
        opsets=tuple(sorted((entry.domain, int(entry.version)) for entry in model.opset_import)),
    )
