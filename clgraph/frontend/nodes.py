"""The importers' view of an ONNX node, and the layers that they emit for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any
from zlib import crc32

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen, mutable
from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.attribute_rules import plain_value
from clgraph.frontend.protobuf import AttributeProto, onnx
from clgraph.frontend.weights import dtype_of, read_tensor
from clgraph.graph.host_types import STRINGS
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.primitive import Array, OfHostValues, Primitive
from clgraph.graph.topology import Topology


@frozen
class Emitted:
    """A layer that an importer made: its primitive, the names it reads and those it makes."""

    primitive: Primitive
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@mutable
class ModelNode:
    """One ONNX node; the ``OnnxNode`` of importers.

    Attributes:
        name: Of the ONNX node, or made up from operator and position; unique in the model.
        outputs: Names, ``""`` for those that nothing reads; trailing ones of these are cut.
        find_constant: Returns the data of a name, ``None`` where it is computed.
        fresh: Returns a name that no value of the model has, the given one where possible.
        read_key: Returns the input that holds the key of a run.
        read_body: Reads the graph of an attribute, whose nodes are annotated like this one unless they say otherwise.
        types: Of the inputs as schemas spell them, ``None`` where they are absent or not known.
        emitted, literals, notes: What the importer has added so far.
    """

    proto: onnx.NodeProto
    name: str
    annotation: str | None
    since: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    find_constant: Callable[[str], Array | None]
    fresh: Callable[[str], str]
    read_body: Callable[[onnx.GraphProto, str | None], Topology]
    read_key: Callable[[], str]
    types: tuple[str | None, ...] = ()
    emitted: list[Emitted] = field(default_factory=list)
    literals: dict[str, Array] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _attributes: dict[str, onnx.AttributeProto] = field(init=False)

    def __post_init__(self) -> None:
        """Look at the attributes once; the first counts of a name."""
        self._attributes = {a.name: a for a in reversed(self.proto.attribute[:])}

    @property
    def op_type(self) -> str:
        """The operator."""
        return self.proto.op_type

    @property
    def output_count(self) -> int:
        """How many outputs something reads, those before the last of them counted too."""
        return len(self.outputs)

    @property
    def declared_outputs(self) -> int:
        """How many outputs the node has, read or not."""
        return len(self.proto.output)

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of the attributes that the node has."""
        return tuple(a.name for a in self.proto.attribute)

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute, *default* when it is absent; an element type where *default* is a ``DType``."""
        if (found := self._attributes.get(name)) is None:
            return default
        value = attribute_value(found, f"attribute {name!r} of node {self.name!r}")
        return dtype_of(value, f"node {self.name!r}") if isinstance(default, DType) else value

    def type_of(self, slot: int) -> str | None:
        """Return the type of an input, as ``tensor(float)``; ``None`` where it is absent or not known."""
        return self.types[slot] if slot < len(self.types) else None

    def constant(self, slot: int) -> Array | None:
        """Return the value of an input that is an initializer or a Constant node, else ``None``."""
        if slot >= len(self.inputs) or not self.inputs[slot]:
            return None
        found = self.literals.get(self.inputs[slot])
        return self.find_constant(self.inputs[slot]) if found is None else found

    def emit(self, primitive: Primitive, *inputs: str, outputs: int = 1) -> tuple[str, ...]:
        """Add a layer of this node; return the names of its outputs."""
        base = self.fresh(f"{self.name}/{len(self.emitted)}")
        names = tuple(self.fresh(f"{base}:{i}") if i else base for i in range(outputs))
        self.emitted.append(Emitted(primitive, inputs, names))
        return names

    def bodies(self, *attributes: str) -> tuple[tuple[Topology, ...], tuple[str, ...]]:
        """Return the graphs that *attributes* hold, and the names that they read of the graph around.

        Raises:
            ModelError: An attribute is missing or no graph.
        """
        graphs = {a.name: a.g for a in self.proto.attribute if a.type == AttributeProto.GRAPH}
        if missing := [name for name in attributes if name not in graphs]:
            raise ModelError(f"node {self.name!r} ({self.op_type}) has no graph {missing[0]!r}")
        bodies = tuple(self.read_body(graphs[name], self.annotation) for name in attributes)
        own = {v.name for name in attributes for v in graphs[name].input}
        captured = tuple(dict.fromkeys(name for body in bodies for name in body.inputs if name not in own))
        for body in bodies:
            read = {name: body.inputs.pop(name) for name in captured if name in body.inputs}
            for name in captured:
                if name in read:
                    body.inputs[name] = read[name]
                else:
                    body.input(name, None, None)
        return bodies, captured

    def told_types(self) -> Iterator[tuple[str, str]]:
        """Yield the outputs whose types the bodies or the attributes of what makes them tell, with the types."""
        for layer in self.emitted:
            if isinstance(layer.primitive, ControlFlow | OfHostValues):
                for name, type_ in zip(layer.outputs, layer.primitive.result_types(), strict=False):
                    if type_ is not None:
                        yield name, type_

    def leave_strings_to_the_host(self) -> None:
        """Let the host compute what operators that are not about strings make of them."""
        if STRINGS in self.types:
            from clgraph.ops.on_strings import on_strings

            self.emitted = [replace(layer, primitive=on_strings(layer.primitive)) for layer in self.emitted]

    def random_key(self) -> tuple[str, int]:
        """Return the input of the model that holds the key of a run, and a number of 32 bits of this node's own."""
        return self.read_key(), crc32(next(filter(None, self.proto.output)).encode())

    def literal(self, array: Array) -> str:
        """Add a constant; return its name."""
        name = self.fresh(f"{self.name}/literal{len(self.literals)}")
        self.literals[name] = np.asarray(array)
        return name

    def note(self, text: str) -> None:
        """Say that the node is computed in another precision or from other data than it names, and why."""
        if text not in self.notes:
            self.notes.append(text)

    def unsupported(self, why: str) -> Exception:
        """Return the error that names this node."""
        return UnsupportedError(f"node {self.name!r} ({self.op_type}): {why}")

    def finish(self, result: Primitive | Sequence[str]) -> dict[str, str]:
        """Take what the importer returned; return the outputs that are another value, by name.

        The layer that makes an output of the node makes it under the output's own name.

        Raises:
            UnsupportedError: The importer did not make an output that is read; ``""`` stands for such a one.
        """
        if isinstance(result, Primitive):
            names = tuple(name or self.fresh(f"{self.name}:{i}") for i, name in enumerate(self.outputs))
            self.emitted.append(Emitted(result, tuple(filter(None, self.inputs)), names))
            return {}
        if len(result) < self.output_count:
            raise self.unsupported(f"output {self.output_count - 1} is read, but only {len(result)} are made")
        if missing := [
            i for i, (output, name) in enumerate(zip(self.outputs, result, strict=False)) if output and not name
        ]:
            raise self.unsupported(f"output {missing[0]} is read, which is not made")
        made = {name for layer in self.emitted for name in layer.outputs}
        renamed: dict[str, str] = {}
        aliases: dict[str, str] = {}
        for output, name in zip(self.outputs, result, strict=False):
            if output and name in made and name not in renamed:
                renamed[name] = output
            elif output:
                aliases[output] = renamed.get(name, name)
        self.emitted = [
            Emitted(
                layer.primitive,
                tuple(renamed.get(n, n) for n in layer.inputs),
                tuple(renamed.get(n, n) for n in layer.outputs),
            )
            for layer in self.emitted
        ]
        return aliases


def attribute_value(attribute: onnx.AttributeProto, what: str) -> Any:
    """Return an attribute as int, float, str, tuple of those, or NumPy array.

    Raises:
        ModelError: The attribute has no type. UnsupportedError: It is a graph, a sparse tensor or a type.
    """
    match attribute.type:
        case AttributeProto.TENSOR:
            return read_tensor(attribute.t, what, None)
        case AttributeProto.STRINGS:
            texts = tuple(attribute.strings)  # millions, where nodes of decision trees are
            decoded = {text: text.decode("utf-8", "replace") for text in set(texts)}
            return tuple(map(decoded.__getitem__, texts))
        case AttributeProto.UNDEFINED:
            raise ModelError(f"{what} has no type")
    value = plain_value(attribute)
    if value is None:
        kind = AttributeProto.AttributeType.Name(attribute.type)
        raise UnsupportedError(f"{what} is a {kind}, which clgraph cannot read")
    return value
