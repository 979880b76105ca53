"""What a session tells about its model: inputs, outputs, metadata."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import onnx

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError
from clgraph.frontend.files import map_model
from clgraph.graph.signature import Dimension, Signature
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.onnxruntime.typing_of import onnx_type

_NO_VERSION = 2**63 - 1

Shape = tuple[Dimension, ...]


@frozen
class NodeArg:
    """An input or output.

    Attributes:
        type: As ``tensor(float)``.
        sizes: A number, a name or ``None`` for each axis. Empty where the shape is not known.
    """

    name: str
    type: str
    sizes: Shape

    @classmethod
    def of(cls, signature: Signature) -> NodeArg:
        """Return what *signature* says."""
        return cls(signature.name, onnx_type(signature), tuple(signature.shape or ()))

    @property
    def shape(self) -> list[Dimension]:
        """A list of :attr:`sizes`, for the caller to change."""
        return list(self.sizes)

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


def output_args(model: Model, source: str | bytes) -> list[NodeArg]:
    """Return the outputs of *model*, with the sizes that ONNX infers where its file has names for them."""
    signatures = model.outputs
    if not all(s.is_fixed for s in signatures):
        inferred = _inferred(source, {s.name for s in model.overridable})
        signatures = tuple(replace(s, shape=_merged(s.shape, inferred.get(s.name))) for s in signatures)
    by_name = {s.name: NodeArg.of(s) for s in signatures}
    return [by_name[name] for name in model.about.listed or by_name]


def _merged(declared: Shape | None, inferred: Shape | None) -> Shape | None:
    if declared is None or inferred is None:
        return declared or inferred
    if len(declared) != len(inferred):
        return inferred
    return tuple(i if isinstance(i, int) else d for d, i in zip(declared, inferred, strict=True))


def _inferred(source: str | bytes, fed: Container[str]) -> dict[str, Shape]:
    """Return the shapes of outputs that ONNX's own rules infer, whatever is *fed* in place of initialisers."""
    try:
        model = map_model(source)[0]
        kept = [tensor for tensor in model.graph.initializer if tensor.name not in fed]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")  # where both are there and differ, what is inferred counts
        found = onnx.shape_inference.infer_shapes(model)
    except (ModelError, onnx.shape_inference.InferenceError, ValueError) as error:
        pass_on(error)
        return {}  # the file is gone or too large for it: what it declares is all there is
    shapes = {v.name: v.type.tensor_type.shape for v in found.graph.output if v.type.tensor_type.HasField("shape")}
    return {
        name: tuple(d.dim_value if d.HasField("dim_value") else _given(d.dim_param) for d in shape.dim)
        for name, shape in shapes.items()
    }


def _given(name: str) -> str | None:
    """Return the name of a size, ``None`` where it is one that ONNX has made up."""
    return None if name.startswith("unk__") else name or None


@frozen
class OrtEpAssignedNode:
    """A node of a graph."""

    name: str
    domain: str
    op_type: str


@frozen
class OrtEpAssignedSubgraph:
    """Nodes that one provider has."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Return the nodes."""
        return list(self.nodes)


def assigned(provider: str, source: str | bytes) -> OrtEpAssignedSubgraph:
    """Return that a provider has every node of a graph."""
    nodes = map_model(source)[0].graph.node
    return OrtEpAssignedSubgraph(provider, tuple(OrtEpAssignedNode(n.name, n.domain, n.op_type) for n in nodes))


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
