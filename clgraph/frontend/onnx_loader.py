"""ONNX model -> :class:`Topology`: names, weights and attributes as they are, one importer call a node.

No shape is inferred and nothing is checked that the graph's own rules do not need: that is ``Topology.build``.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from clgraph.errors import ClgraphError, InternalError, ModelError, UnsupportedError
from clgraph.frontend.files import Source, map_model
from clgraph.frontend.inline import Label, inline, labels_of
from clgraph.frontend.nodes import ModelNode, attribute_value
from clgraph.frontend.schema import Importers, opsets_of
from clgraph.frontend.signatures import spelled
from clgraph.frontend.weights import dtype_of, read_tensor
from clgraph.graph.faults import faults
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Dimension, Signature, Topology

_SHOWN = 3


@faults("reading the model")
def load_onnx(source: Source) -> Topology:
    """Read an ONNX model.

    Args:
        source: A path, the bytes of a file, or a ``ModelProto``. External data is read from the path's folder only.

    Raises:
        ModelError: The file cannot be read, or what it holds is not a well-formed graph.
        UnsupportedError: Lists every operator, version and element type of the model that clgraph does not have.
    """
    model, folder, label, mapped = map_model(source)
    importers = Importers(opsets_of(model, label))
    model, labels = inline(model)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return GraphLoader(model.graph, folder, importers, mapped).load(labels, metadata)


class GraphLoader:
    """One graph being read: a model's, or the body of a node in *outer*."""

    def __init__(
        self,
        graph: onnx.GraphProto,
        folder: Path | None,
        importers: Importers,
        mapped: Mapping[str, Array],
        outer: GraphLoader | None = None,
    ) -> None:
        self.outer = outer
        self.graph, self.folder, self.importers, self.mapped = graph, folder, importers, mapped
        self.tensors = {t.name: t for t in graph.initializer}
        self.data: dict[str, Array] = {}
        self.aliases: dict[str, str] = {}
        found = ((v.name, spelled(v.type.tensor_type.elem_type)) for v in graph.input if v.name not in self.tensors)
        self.types = {name: type_ for name, type_ in found if type_ is not None}
        self.reads = [reads_of(node) for node in graph.node]
        self.made = set(self.tensors) | {v.name for v in graph.input} | {n for node in graph.node for n in node.output}
        self.names = self.made.union(*self.reads)
        if outer is not None:
            self.names |= outer.names
        self.topology = Topology()

    def load(self, labels: Iterable[Label], metadata: Mapping[str, str]) -> Topology:
        """Return the topology of the graph."""
        self.check_names()
        pairs = self._ordered(list(zip(self.graph.node, labels, strict=True)))
        self._refuse_unknown(node for node, _ in pairs)
        read = {o.name for o in self.graph.output}.union(*self.reads)
        topology = self.topology
        for value in self.graph.input:
            if value.name not in self.tensors:
                signature = self.signature(value, "input")
                topology.input(value.name, signature.shape, signature.dtype)
        taken: Counter[str] = Counter()
        refused: list[str] = []
        nodes: list[ModelNode] = []
        for proto, label in pairs:
            taken[label.name] += 1
            name = label.name if taken[label.name] == 1 else f"{label.name}_{taken[label.name]}"
            if is_constant(proto):
                self.data[proto.output[0]] = self.read_constant(proto, name)
                continue
            try:
                nodes.append(self.import_node(proto, name, label.annotation, read))
            except UnsupportedError as error:
                refused.append(str(error))
        if refused:
            raise UnsupportedError("; ".join(refused))
        self._add(nodes)
        topology.metadata.update(metadata)
        return topology

    def _add(self, nodes: list[ModelNode]) -> None:
        topology = self.topology
        outputs = [(value.name, self._resolve(value.name)) for value in self.graph.output]
        read = {n for node in nodes for layer in node.emitted for n in layer.inputs} | {n for _, n in outputs}
        literals = {n: a for node in nodes for n, a in node.literals.items()}
        for name in sorted(read):
            if (array := literals.get(name, self._find_constant(name))) is not None:
                topology.constant(name, array)
        for node in nodes:
            topology.op_types[node.name] = node.op_type
            for i, layer in enumerate(node.emitted):
                name = node.name if i == len(node.emitted) - 1 else self._fresh(f"{node.name}/{i}")
                topology.add(
                    name,
                    layer.primitive,
                    *layer.inputs,
                    outputs=layer.outputs,
                    origin=(node.name,),
                    annotation=node.annotation,
                )
        for value, (name, source) in zip(self.graph.output, outputs, strict=True):
            topology.output(name, source)
            topology.declared[name] = self.signature(value, "output")

    def import_node(self, proto: onnx.NodeProto, name: str, annotation: str | None, read: set[str]) -> ModelNode:
        """Return what the importer of a node with a known operator makes of it, *read* being the values that are used.

        Raises:
            ModelError: The node breaks ONNX's rules.
            UnsupportedError: clgraph has not what its attributes or types ask for.
        """
        importer = self.importers.get(proto.op_type, proto.domain)
        since = self.importers.version(proto.op_type, proto.domain)
        assert importer is not None
        assert since is not None
        inputs = _cut([self._resolve(n) for n in proto.input])
        if (signature := self.importers.signature(proto.op_type, proto.domain)) is not None:
            types = tuple([self._type_of(n) if n else None for n in inputs])
            if (problem := signature.problem(proto, inputs, types)) is not None:
                raise ModelError(f"node {name!r} ({proto.op_type}) {problem}")
            self.types.update(signature.output_types(proto, types))
        node = ModelNode(
            proto,
            name,
            annotation,
            since,
            inputs,
            _cut([n if n in read else "" for n in proto.output]) or (proto.output[0],),
            self._find_constant,
            self._fresh,
            self._read_body,
        )
        try:
            with faults(f"the importer of {proto.op_type}", name):
                self.aliases.update(node.finish(importer(node)))
        except UnsupportedError as error:
            raise error if name in str(error) else node.unsupported(str(error)) from error
        except InternalError:
            raise
        except ClgraphError as error:
            raise type(error)(f"node {name!r} ({proto.op_type}): {error}") from error
        return node

    def _read_body(self, graph: onnx.GraphProto, annotation: str | None) -> Topology:
        """Return the body of control flow; what it reads of the graphs around are its last inputs."""
        loader = GraphLoader(graph, self.folder, self.importers, {}, self)
        body = loader.load(labels_of(graph.node, annotation), {})
        self.topology.op_types = body.op_types | self.topology.op_types
        self.topology.scattered |= body.scattered
        return body

    def check_names(self) -> None:
        """Refuse values that two things make, or nothing."""
        made = Counter(t.name for t in self.graph.initializer)
        made.update(v.name for v in self.graph.input if v.name not in self.tensors)
        made.update(n for node in self.graph.node for n in node.output if n)
        if self.graph.sparse_initializer:
            raise UnsupportedError(
                f"constant {self.graph.sparse_initializer[0].values.name!r} is a sparse tensor, "
                "which clgraph does not hold"
            )
        if twice := [name for name, count in made.items() if count > 1]:
            raise ModelError(f"the graph makes {_list(twice)} more than once")
        for node, reads in zip(self.graph.node, self.reads, strict=True):
            if not node.output:
                raise ModelError(f"node {node.name or node.op_type!r} has no output")
            if missing := [n for n in reads if n and not self._visible(n)]:
                raise ModelError(f"node {node.name or node.op_type!r} reads {_list(missing)}, which nothing makes")
        if missing := [v.name for v in self.graph.output if not self._visible(v.name)]:
            raise ModelError(f"the graph's output {_list(missing)} is made by nothing")
        if not self.graph.output:
            raise ModelError("the graph has no outputs")
        twice = [name for name, count in Counter(v.name for v in self.graph.output).items() if count > 1]
        if twice and self.outer is None:
            raise ModelError(f"the graph has two outputs called {_list(twice)}")

    def _ordered(self, pairs: list[tuple[onnx.NodeProto, Label]]) -> list[tuple[onnx.NodeProto, Label]]:
        """Return the nodes in an order in which each stands behind what it reads; the file's where that is one."""
        maker = {name: i for i, (node, _) in enumerate(pairs) for name in node.output if name}
        before = [{maker[name] for name in reads if name in maker} for reads in self.reads]
        readers: list[list[int]] = [[] for _ in pairs]
        for i, made_by in enumerate(before):
            for j in made_by:
                readers[j].append(i)
        waits = [len(made_by) for made_by in before]
        ready = [i for i, count in enumerate(waits) if not count]
        order: list[int] = []
        while ready:
            i = heapq.heappop(ready)
            order.append(i)
            for reader in readers[i]:
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready, reader)
        if len(order) < len(pairs):
            cycle = _list(pairs[i][1].name for i, count in enumerate(waits) if count)
            raise ModelError(f"the graph has a cycle among the nodes {cycle}")
        return [pairs[i] for i in order]

    def _refuse_unknown(self, nodes: Iterable[onnx.NodeProto]) -> None:
        found = Counter((n.op_type, n.domain) for n in nodes if not is_constant(n))
        unknown = Counter[str]()
        for (op_type, domain), count in found.items():
            if self.importers.get(op_type, domain) is None:
                unknown[self.importers.describe(op_type, domain)] += count
        if unknown:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(unknown.items()))
            raise UnsupportedError(f"the model uses operators that clgraph does not have: {listed}")

    def read_constant(self, proto: onnx.NodeProto, name: str) -> Array:
        """Return the value of a Constant node. Raises ``UnsupportedError`` or ``ModelError`` where it has none."""
        what = f"constant {name!r}"
        for attribute in proto.attribute:
            if attribute.name == "value":
                return self._read_tensor(attribute.t, what, self.mapped.get(proto.output[0]))
            if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
                dtype = "float32" if "float" in attribute.name else "int64"
                return _frozen(attribute_value(attribute, what), dtype)
            raise UnsupportedError(f"{what} is given by {attribute.name!r}, which clgraph cannot read")
        raise ModelError(f"{what} has no value")

    def _read_tensor(self, tensor: onnx.TensorProto, what: str, raw: Array | None) -> Array:
        self.topology.scattered |= tensor.data_location == onnx.TensorProto.EXTERNAL
        return read_tensor(tensor, what, self.folder, raw)

    def _find_constant(self, name: str) -> Array | None:
        if name not in self.data and name in self.tensors:
            self.data[name] = self._read_tensor(self.tensors[name], f"constant {name!r}", self.mapped.get(name))
        if name in self.data or self.outer is None or name in self.made:
            return self.data.get(name)
        return self.outer._find_constant(name)

    def _type_of(self, name: str) -> str | None:
        """Return the type of a value as schemas spell it, ``None`` where it is not known."""
        if name in self.types:
            return self.types[name]
        if name in self.tensors:
            return spelled(self.tensors[name].data_type)
        if name in self.data:
            return spelled(helper.np_dtype_to_tensor_dtype(self.data[name].dtype))
        return None if self.outer is None or name in self.made else self.outer._type_of(name)

    def _resolve(self, name: str) -> str:
        """Return the value that *name* stands for; one that the graph around computes becomes an input."""
        if self.outer is None or not name or name in self.made:
            return self.aliases.get(name, name)
        found = self.outer._resolve(name)
        if found not in self.topology.inputs and self._find_constant(found) is None:
            self.topology.input(found, None, None)
        return found

    def _visible(self, name: str) -> bool:
        return name in self.made or (self.outer is not None and self.outer._visible(name))

    def _fresh(self, name: str) -> str:
        candidate, n = name, 1
        while candidate in self.names:
            n += 1
            candidate = f"{name}_{n}"
        self.names.add(candidate)
        return candidate

    def signature(self, value: onnx.ValueInfoProto, role: str) -> Signature:
        """Return name, type and shape of an input or output; raises ``UnsupportedError`` for what is no tensor."""
        what = f"{role} {value.name!r}"
        kind = value.type.WhichOneof("value")
        if self.outer is not None and (kind != "tensor_type" or not value.type.tensor_type.elem_type):
            return Signature(value.name, None, None)
        if kind != "tensor_type":
            if kind is None and role == "output":
                return Signature(value.name, None, None)
            problem = "has no type" if kind is None else f"is a {kind.removesuffix('_type')}, not a tensor"
            raise (ModelError if kind is None else UnsupportedError)(f"{what} {problem}")
        tensor = value.type.tensor_type
        dtype = dtype_of(tensor.elem_type, what) if tensor.elem_type or role == "input" else None
        shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
        return Signature(value.name, dtype, shape)


def is_constant(node: onnx.NodeProto) -> bool:
    """Return whether *node* is ONNX's Constant."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx")


def reads_of(node: onnx.NodeProto) -> list[str]:
    """Return the names that *node* reads, those of its bodies in the graph around it included."""
    found = list(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            made = {t.name for t in graph.initializer} | {v.name for v in graph.input}
            made |= {name for inner in graph.node for name in inner.output}
            read = [n for inner in graph.node for n in reads_of(inner)] + [v.name for v in graph.output]
            found += [name for name in dict.fromkeys(read) if name and name not in made]
    return found


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _cut(names: list[str]) -> tuple[str, ...]:
    while names and not names[-1]:
        names.pop()
    return tuple(names)


def _frozen(value: object, dtype: str) -> Array:
    array = np.asarray(value, dtype)
    array.flags.writeable = False
    return array


def _list(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(map(repr, found[:_SHOWN])) + more
