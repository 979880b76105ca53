"""What reads an operator out of an ONNX file: importers, and what they may ask of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from clgraph.core.registry import Registry
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Topology


class OnnxNode(Protocol):
    """What an importer may ask of one ONNX node; keeps the onnx package out of operators."""

    @property
    def op_type(self) -> str:
        """The operator."""

    @property
    def since(self) -> int:
        """The schema version in force at the model's opset."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names; ``""`` for an absent optional input. Trailing absent ones are cut."""

    @property
    def output_count(self) -> int:
        """How many outputs something reads, those before the last of them counted too."""

    @property
    def declared_outputs(self) -> int:
        """How many outputs the node has, read or not."""

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of the attributes that the node has."""

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute: int, float, str, tuple of those, or NumPy array for a tensor."""

    def type_of(self, slot: int) -> str | None:
        """Return the type of an input, as ``tensor(float)``; ``None`` where it is absent or not known."""

    def constant(self, slot: int) -> Array | None:
        """Return the value of an input that is an initializer or Constant node, else ``None``."""

    def emit(self, primitive: Primitive, *inputs: str, outputs: int = 1) -> tuple[str, ...]:
        """Add a layer of this node's origin and annotation; return the names of its outputs."""

    def bodies(self, *attributes: str) -> tuple[tuple[Topology, ...], tuple[str, ...]]:
        """Return the graphs that *attributes* hold, and the names that they read of the graph around.

        These are the last inputs of every one of them, in the same order.
        """

    def random_key(self) -> tuple[str, int]:
        """Return the input of the model that holds the key of a run, and a number of 32 bits of this node's own."""

    def literal(self, array: Array) -> str:
        """Add a constant; return its name."""

    def note(self, text: str) -> None:
        """Say that the node is computed in another precision or from other data than it names, and why.

        ``explain``, ``clgraph check`` and the text of a topology show it.
        """

    def unsupported(self, why: str) -> Exception:
        """Return the ``UnsupportedError`` that names this node, to be raised."""


Importer = Callable[[OnnxNode], Primitive | Sequence[str]]
"""Returns the primitive that takes the node's present inputs, or the names of layers it emitted, one an output."""

IMPORTERS: Registry[tuple[str, str, int], Importer] = Registry(
    "ONNX importer", group=lambda key, _: f"{key[0]}:{key[1]}", package="clgraph.ops"
)
"""By domain, operator and schema version; a group is an operator of a domain."""

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators, which its optimiser and its quantiser write."""

NHWC = "com.ms.internal.nhwc"
"""Where ONNX Runtime has ONNX's operators with channels last."""

QONNX = ("qonnx.custom_op.general", "onnx.brevitas")
"""Domains of QONNX's operators, which Brevitas, QKeras and FINN write: one and the same."""

F = TypeVar("F", bound=Importer)


def onnx(op_type: str, *, since: Sequence[int], domain: str = "") -> Callable[[F], F]:
    """Decorator for the function that imports one ONNX operator.

    Args:
        since: The schema versions the function understands; a model that needs another is refused by name.
    """

    def record(function: F) -> F:
        for version in since:
            IMPORTERS.register((domain, op_type, version), function)
        return function

    return record
