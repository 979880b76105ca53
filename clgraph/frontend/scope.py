"""The values of a graph by name: its constants, types and shapes, and what it sees of the graphs around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from clgraph.core.log import Log
from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.graph_names import check_names
from clgraph.frontend.nodes import attribute_value
from clgraph.frontend.order import reads_of, some_of
from clgraph.frontend.protobuf import onnx
from clgraph.frontend.value_types import declared_shape, declared_type, tensor_of
from clgraph.frontend.weights import code_of, read_tensor
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology

LOG = Log(__name__)


class Scope:
    """What is known of the values of a graph that is being read.

    Attributes:
        overridable: Inputs that have a value of their own.
        deciding: Constants whose values decided what was made of the model.
        data: Arrays of constants that were read; ``types``: of values, as schemas spell them.
        aliases: The values that others are names of.
        reads: The values that each node reads.
        made: Values that the graph has, not those around it.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        folder: Path | None,
        mapped: Mapping[str, Array],
        topology: Topology,
        outer: Scope | None,
        fed: Iterable[str],
    ) -> None:
        """Look through *graph*, which becomes *topology*, inside of *outer*; arguments as ``load_onnx`` has them."""
        self.graph, self.folder, self.mapped, self.topology, self.outer = graph, folder, mapped, topology, outer
        inputs = {v.name for v in graph.input}
        left_out = inputs.intersection(fed)
        self.tensors = {t.name: t for t in graph.initializer if t.name not in left_out}
        self.sparse = {t.values.name: t for t in graph.sparse_initializer if t.values.name not in left_out}
        self.constants = self.tensors.keys() | self.sparse.keys()
        self.overridable = inputs & self.constants
        self.deciding: set[str] = set()
        self.data: dict[str, Array] = {}
        self.aliases: dict[str, str] = {}
        found = ((v.name, declared_type(v.type)) for v in graph.input if v.name not in self.constants)
        self.types = {name: type_ for name, type_ in found if type_ is not None}
        self.reads = [reads_of(node) for node in graph.node]
        self.made = self.constants | inputs | {n for node in graph.node for n in node.output[:]}
        self.names = self.made.union(*self.reads)
        if outer is not None:
            self.names |= outer.names

    def check_names(self) -> None:
        """Refuse values that two things make, or nothing; of initializers of one name the last counts.

        Raises:
            ModelError: The graph breaks these rules.
        """
        names = Counter(t.name for t in self.graph.initializer)
        if twice := [name for name, count in names.items() if count > 1]:
            LOG.warning("the model has %s more than once among its initializers: the last counts", some_of(twice))
        made = Counter(self.tensors.keys())
        made.update(self.sparse.keys())
        made.update(v.name for v in self.graph.input if v.name not in self.constants)
        check_names(self.graph, made, self.reads, self.visible)

    def constant(self, name: str) -> Array | None:
        """Return the value of a constant, ``None`` where *name* is none; a body has those around it as its own."""
        if name not in self.data and name in self.tensors:
            self.data[name] = self._read_tensor(self.tensors[name], f"constant {name!r}", self.mapped.get(name))
        if name not in self.data and name in self.sparse:
            self.data[name] = self._read_sparse(self.sparse[name], f"constant {name!r}")
        if name in self.data or self.outer is None or name in self.made:
            return self.data.get(name)
        return self.outer.deciding_constant(name)

    def deciding_constant(self, name: str) -> Array | None:
        """Return a constant whose value decides what is made of the model; one that is also an input is noted."""
        self.deciding.add(name)
        return self.constant(name)

    def type_of(self, name: str) -> str | None:
        """Return the type of a value as schemas spell it, ``None`` where it is not known."""
        if name in self.types:
            return self.types[name]
        if name in self.tensors:
            return tensor_of(self.tensors[name].data_type)
        if name in self.sparse:
            return tensor_of(self.sparse[name].values.data_type)
        if name in self.data:
            return tensor_of(code_of(self.data[name]))
        return None if self.outer is None or name in self.made else self.outer.type_of(name)

    def shape_of(self, name: str) -> tuple[int | str | None, ...] | None:
        """Return the shape of a value as far as the file says it."""
        if name in self.tensors:
            return tuple(self.tensors[name].dims)
        if name in self.data:
            return self.data[name].shape
        values = (*self.graph.input, *self.graph.value_info)
        if (found := next((v for v in values if v.name == name), None)) is not None:
            tensor = found.type.tensor_type
            return declared_shape(tensor)
        return None if self.outer is None or name in self.made else self.outer.shape_of(name)

    def resolve(self, name: str) -> str:
        """Return the value that *name* stands for; one that the graph around computes becomes an input."""
        if self.outer is None or not name or name in self.made:
            return self.aliases.get(name, name)
        found = self.outer.resolve(name)
        if found not in self.topology.inputs and self.constant(found) is None:
            self.topology.input(found, None, None)
        return found

    def visible(self, name: str) -> bool:
        """Whether the graph, or one around it, has a value of that name."""
        return name in self.made or (self.outer is not None and self.outer.visible(name))

    def fresh(self, name: str) -> str:
        """Return a name that no value has, like *name*."""
        candidate, n = name, 1
        while candidate in self.names:
            n += 1
            candidate = f"{name}_{n}"
        self.names.add(candidate)
        return candidate

    def read_constant(self, proto: onnx.NodeProto, name: str) -> Array:
        """Return the value of a Constant node. Raises ``UnsupportedError`` or ``ModelError`` where it has none."""
        what = f"constant {name!r}"
        for attribute in proto.attribute:
            if attribute.name == "value":
                return self._read_tensor(attribute.t, what, self.mapped.get(proto.output[0]))
            if attribute.name in ("value_string", "value_strings"):
                return _frozen(attribute_value(attribute, what), "object")
            if attribute.name == "sparse_value":
                return self._read_sparse(attribute.sparse_tensor, what)
            if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
                dtype = "float32" if "float" in attribute.name else "int64"
                return _frozen(attribute_value(attribute, what), dtype)
            raise UnsupportedError(f"{what} is given by {attribute.name!r}, which clgraph cannot read")
        raise ModelError(f"{what} has no value")

    def _read_tensor(self, tensor: onnx.TensorProto, what: str, raw: Array | None) -> Array:
        self.topology.scattered |= tensor.data_location == onnx.TensorProto.EXTERNAL
        return read_tensor(tensor, what, self.folder, raw)

    def _read_sparse(self, tensor: onnx.SparseTensorProto, what: str) -> Array:
        from clgraph.frontend.sparse import read_sparse_tensor

        return read_sparse_tensor(tensor, what, self.folder)


def is_constant(node: onnx.NodeProto) -> bool:
    """Return whether *node* is ONNX's Constant."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def _frozen(value: object, dtype: str) -> Array:
    array = np.asarray(value, dtype)
    array.flags.writeable = False
    return array
