"""ONNX model -> :class:`Topology`: names, weights and attributes as they are, one importer call a node.

No shape is inferred and nothing is checked that the graph's own rules do not need: that is ``Topology.build``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from clgraph.errors import ClgraphError, InternalError, MixedTypesError, SchemaError, UnsupportedError
from clgraph.frontend.about import about_of
from clgraph.frontend.adopted import adopted, as_onnx
from clgraph.frontend.files import Source, map_model
from clgraph.frontend.functions import expand, type_of
from clgraph.frontend.inline import Label, inline, labels_of
from clgraph.frontend.kept_schemas import Schemas
from clgraph.frontend.nodes import ModelNode
from clgraph.frontend.opsets import marked, opsets_of
from clgraph.frontend.order import ordered, reads_of
from clgraph.frontend.protobuf import onnx
from clgraph.frontend.schema import Importers
from clgraph.frontend.scope import Scope, is_constant
from clgraph.frontend.value_types import check_declared, completed, made_of, signature_of
from clgraph.graph.faults import faults
from clgraph.graph.primitive import Array
from clgraph.graph.random_numbers import KEY_WORDS, RANDOM_KEY
from clgraph.graph.topology import Topology

Read = tuple[onnx.NodeProto, Label, Importers]
"""A node to be read, with what it came from and the operator sets that it is written for."""


@faults("reading the model")
def load_onnx(source: Source, fed: Iterable[str] = (), kept: Path | None = None) -> Topology:
    """Read an ONNX model.

    Args:
        source: A path, the bytes of a file, or a ``ModelProto``. External data is read from the path's folder only.
        fed: Inputs that are to be fed although the model has values for them.
        kept: A folder, below the cache folder, that keeps what onnx says of operators.

    Raises:
        ModelError: The file cannot be read, or what it holds is not a well-formed graph.
        UnsupportedError: Lists every operator, version and element type of the model that clgraph does not have.
    """
    model, folder, label, mapped = map_model(source)
    schemas = Schemas(kept)
    importers = Importers(opsets_of(model, label, schemas), schemas)
    whole, labels = inline(model)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    topology = GraphLoader(whole.graph, folder, importers, mapped, fed=fed).load(labels, metadata)
    topology.about = about_of(model)
    schemas.keep()
    return topology


class GraphLoader:
    """One graph being read: a model's, or the body of a node in *outer*."""

    def __init__(
        self,
        graph: onnx.GraphProto,
        folder: Path | None,
        importers: Importers,
        mapped: Mapping[str, Array],
        outer: GraphLoader | None = None,
        fed: Iterable[str] = (),
    ) -> None:
        self.outer, self.graph, self.folder, self.importers = outer, graph, folder, importers
        self.topology = Topology()
        self.scope: Scope = Scope(graph, folder, mapped, self.topology, None if outer is None else outer.scope, fed)

    def load(self, labels: Iterable[Label], metadata: Mapping[str, str]) -> Topology:
        """Return the topology of the graph."""
        self.scope.check_names()
        pairs = ordered(list(zip(self.graph.node, labels, strict=True)), self.scope.reads)
        self._refuse_unknown(node for node, _ in pairs)
        read = {o.name for o in self.graph.output}.union(*self.scope.reads)
        topology = self.topology
        for value in self.graph.input:
            signature = signature_of(value, "input", inner=self.outer is not None)
            if value.name in self.scope.overridable:
                check_declared(signature, "input", self.scope.type_of(value.name), self.scope.shape_of(value.name))
                topology.overridable[value.name] = signature
            else:
                dtype = signature.host_type or signature.dtype
                topology.input(value.name, signature.shape, dtype, sparse=signature.sparse)
        taken: Counter[str] = Counter()
        refused: list[str] = []
        nodes: list[ModelNode] = []
        waiting = [(proto, label, self.importers_of(proto)) for proto, label in reversed(pairs)]
        while waiting:
            proto, label, importers = waiting.pop()
            taken[label.name] += 1
            name = label.name if taken[label.name] == 1 else f"{label.name}_{taken[label.name]}"
            if is_constant(proto):
                self.scope.data[proto.output[0]] = self.scope.read_constant(proto, name)
                continue
            label = label if name == label.name else replace(label, name=name)
            try:
                if (expanded := self.expand_node(proto, label, importers)) is None:
                    nodes.append(self.import_node(proto, label, importers, read))
                else:
                    waiting += reversed(expanded)
                    read.update(n for node, *_ in expanded for n in reads_of(node))
            except UnsupportedError as error:
                refused.append(str(error))
        if refused:
            raise UnsupportedError("; ".join(refused))
        self._add(nodes)
        topology.metadata.update(metadata)
        topology.deciding = frozenset(self.scope.deciding & self.scope.overridable)
        return topology

    def _add(self, nodes: list[ModelNode]) -> None:
        topology = self.topology
        outputs = [(value.name, self.scope.resolve(value.name)) for value in self.graph.output]
        read = {n for node in nodes for layer in node.emitted for n in layer.inputs} | {n for _, n in outputs}
        literals = {n: a for node in nodes for n, a in node.literals.items()}
        for name in sorted(read):
            if (array := literals.get(name, self.scope.constant(name))) is not None:
                topology.constant(name, array)
        for node in nodes:
            topology.op_types[node.name] = node.op_type
            for i, layer in enumerate(node.emitted):
                name = node.name if i == len(node.emitted) - 1 else self.scope.fresh(f"{node.name}/{i}")
                topology.add(
                    name,
                    layer.primitive,
                    *layer.inputs,
                    outputs=layer.outputs,
                    origin=(node.name,),
                    annotation=node.annotation,
                )
        listed = {name for name, _ in topology.outputs}
        for value, (name, source) in zip(self.graph.output, outputs, strict=True):
            if self.outer is None and name in listed:  # a model may list an output twice; a body's have places
                continue
            listed.add(name)
            topology.output(name, source)
            declared = signature_of(value, "output", inner=self.outer is not None)
            if self.outer is None:
                check_declared(declared, "output", self.scope.type_of(source))
            topology.declared[name] = completed(declared, self.scope.type_of(source))

    def expand_node(self, proto: onnx.NodeProto, label: Label, importers: Importers) -> list[Read] | None:
        """Return the nodes of the function that defines a node without an importer, ``None`` where it has one.

        Raises:
            ModelError: The node breaks ONNX's rules.
            UnsupportedError: It has neither an importer nor a function for what it is given.
        """
        if importers.get(proto.op_type, proto.domain) is not None:
            return None
        if (version := adopted(proto.op_type, proto.domain)) is not None:
            proto, importers = as_onnx(proto, label.name, version), importers.under({"": version.opset})
        if (schema := importers.function(proto.op_type, proto.domain)) is None:
            raise UnsupportedError(
                f"node {label.name!r}: clgraph does not have {importers.describe(proto.op_type, proto.domain)}"
            )
        inputs = self._checked_inputs(proto, label.name, importers)
        types = [type_of(self.scope.type_of(n), self.scope.shape_of(n)) if n else onnx.TypeProto() for n in inputs]
        made = expand(proto, label, schema, types, self.scope.fresh)
        self.scope.made.update(n for node, _ in made.nodes for n in node.output if n)
        self.topology.expanded[label.name] = importers.describe(proto.op_type, proto.domain)
        inner = importers.under(made.opsets)
        return [(node, at, inner) for node, at in made.nodes]

    def _checked_inputs(self, proto: onnx.NodeProto, name: str, importers: Importers) -> tuple[str, ...]:
        """Return the values that a node reads; notes the types of what it makes.

        Raises:
            ModelError: The node breaks ONNX's rules.
        """
        inputs = _cut([self.scope.resolve(n) for n in proto.input[:]])
        if (signature := importers.signature(proto.op_type, proto.domain)) is not None:
            types = tuple([self.scope.type_of(n) if n else None for n in inputs])
            if (problem := signature.problem(proto, inputs, types)) is not None:
                error = MixedTypesError if signature.mixes(types) else SchemaError
                raise error(f"node {name!r} ({proto.op_type}) {problem}")
            self.scope.types.update(signature.output_types(proto, types))
            if (made := made_of(proto, types)) is not None:
                self.scope.types[proto.output[0]] = made
        return inputs

    def import_node(self, proto: onnx.NodeProto, label: Label, importers: Importers, read: set[str]) -> ModelNode:
        """Return what the importer of a node with a known operator makes of it, *read* being the values that are used.

        Raises:
            ModelError: The node breaks ONNX's rules.
            UnsupportedError: clgraph has not what its attributes or types ask for.
        """
        name = label.name
        importer = importers.get(proto.op_type, proto.domain)
        since = importers.version(proto.op_type, proto.domain)
        assert importer is not None
        assert since is not None
        inputs = self._checked_inputs(proto, name, importers)
        node = ModelNode(
            proto,
            name,
            label.annotation,
            since,
            inputs,
            _cut([n if n in read else "" for n in proto.output[:]]) or (proto.output[0],),
            self.scope.deciding_constant,
            self.scope.fresh,
            partial(self._read_body, importers),
            self._read_key,
            tuple([self.scope.type_of(n) if n else None for n in inputs]),
        )
        try:
            with faults(f"the importer of {proto.op_type}", name):
                self.scope.aliases.update(node.finish(importer(node)))
                node.leave_strings_to_the_host()
        except UnsupportedError as error:
            raise error if name in str(error) else node.unsupported(str(error)) from error
        except InternalError:
            raise
        except ClgraphError as error:
            raise type(error)(f"node {name!r} ({proto.op_type}): {error}") from error
        self.scope.types |= {name: type_ for name, type_ in node.told_types() if name not in self.scope.types}
        if node.notes:
            self.topology.noted[name] = f"({node.op_type}) {'; '.join(node.notes)}"
        return node

    def _read_body(self, importers: Importers, graph: onnx.GraphProto, annotation: str | None) -> Topology:
        """Return the body of control flow; what it reads of the graphs around are its last inputs."""
        loader = GraphLoader(graph, self.folder, importers, {}, self)
        body = loader.load(labels_of(graph.node, annotation), {})
        self.topology.op_types = body.op_types | self.topology.op_types
        self.topology.expanded = body.expanded | self.topology.expanded
        self.topology.noted, body.noted = body.noted | self.topology.noted, {}
        self.topology.scattered |= body.scattered
        return body

    def _read_key(self) -> str:
        """Return the input that holds the key of a run; a body reads that of the graph around it."""
        if RANDOM_KEY in self.scope.made:
            raise UnsupportedError(f"the model has a value called {RANDOM_KEY!r}, which clgraph reads the run's key by")
        if self.outer is not None:
            self.outer._read_key()
        if RANDOM_KEY not in self.topology.inputs:
            self.topology.input(RANDOM_KEY, (KEY_WORDS,) if self.outer is None else None, np.uint32)
        return RANDOM_KEY

    def importers_of(self, node: onnx.NodeProto) -> Importers:
        """Return what reads *node*: under its own operator sets, where it came from a function of others."""
        opsets = marked(node) if node.metadata_props else None
        return self.importers if opsets is None else self.importers.under(opsets)

    def _refuse_unknown(self, nodes: Iterable[onnx.NodeProto]) -> None:
        found = Counter((self.importers_of(n), n.op_type, n.domain) for n in nodes if not is_constant(n))
        unknown = Counter[str]()
        for (importers, op_type, domain), count in found.items():
            if not importers.knows(op_type, domain):
                unknown[importers.describe(op_type, domain)] += count
        if unknown:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(unknown.items()))
            advised = sorted({text for by, op_type, domain in found if (text := by.advice(op_type, domain))})
            ways = advised or ["custom operators (clgraph.custom_op, --module FILE.py) and plugins add their own"]
            raise UnsupportedError("; ".join([f"the model uses operators that clgraph does not have: {listed}", *ways]))


def _cut(names: list[str]) -> tuple[str, ...]:
    while names and not names[-1]:
        names.pop()
    return tuple(names)
