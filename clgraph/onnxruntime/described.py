"""What a session tells about its model: inputs, outputs, metadata."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.graph.topology import Dimension, Signature
from clgraph.model.model import Model
from clgraph.onnxruntime.typing_of import onnx_type

_NO_VERSION = 2**63 - 1


@frozen
class NodeArg:
    """An input or output.

    Attributes:
        type: As ``tensor(float)``.
        shape: Sizes; a name or ``None`` where one is open. Empty where the shape is not known.
    """

    name: str
    type: str
    shape: list[Dimension]

    @classmethod
    def of(cls, signature: Signature) -> NodeArg:
        """Return what *signature* says."""
        return cls(signature.name, onnx_type(signature), list(signature.shape or ()))

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@frozen
class ModelMetadata:
    """What a model's file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    @classmethod
    def of(cls, model: Model) -> ModelMetadata:
        """Return what *model* knows."""
        about = model.about
        return cls(
            about.producer,
            about.graph,
            about.domain,
            about.doc,
            about.graph_doc,
            _NO_VERSION if about.version is None else about.version,
            dict(model.metadata),
        )
