"""Everything in an ONNX model that clgraph does not read, at once: what ``clgraph check`` lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError, InternalError, UnsupportedError
from clgraph.frontend import protobuf
from clgraph.frontend.bodies import bodies_of
from clgraph.frontend.files import Source, map_model
from clgraph.frontend.inline import Label, inline, labels_of
from clgraph.frontend.onnx_loader import GraphLoader
from clgraph.frontend.opsets import opsets_of
from clgraph.frontend.protobuf import onnx
from clgraph.frontend.schema import Importers
from clgraph.frontend.scope import is_constant
from clgraph.frontend.value_types import signature_of
from clgraph.graph.faults import faults
from clgraph.graph.importing import IMPORTERS


@frozen
class Diagnostic:
    """One thing that keeps a model from being run.

    Attributes:
        node: Name of the ONNX node, ``body/node`` inside a body of If, Loop or Scan; empty for the graph itself.
        operator: Domain, type and schema version.
        what: What is wrong.
        needed: What would have to be there.
    """

    node: str
    operator: str
    what: str
    needed: str


@frozen
class Findings:
    """What a model is made of, and what of it cannot be read.

    Attributes:
        operators: How many nodes of each operator there are, bodies included.
        expanded: The operators that are read by the functions of their schemas, by the names of their nodes.
        noted: What importers say of what they read otherwise than it is written, by the names of the nodes.
    """

    operators: dict[str, int]
    problems: tuple[Diagnostic, ...]
    expanded: dict[str, str]
    noted: dict[str, str]


@faults("reading the model")
def check_onnx(source: Source) -> Findings:
    """Return every operator, version, attribute and element type of a model that clgraph does not have.

    Raises:
        ModelError: The file cannot be read at all.
        UnsupportedError: Its operator set is newer than the installed onnx.
    """
    model, folder, label, mapped = map_model(source)
    importers = Importers(opsets_of(model, label))
    model, labels = inline(model)
    loader = GraphLoader(model.graph, folder, importers, mapped)
    pairs = list(zip(model.graph.node, labels, strict=True))
    everything = list(_with_bodies(pairs))
    operators = Counter(_describe(loader.importers_of(node), node) for node, _ in everything)
    problems = tuple(_problems(loader, pairs, everything))
    return Findings(dict(sorted(operators.items())), problems, loader.topology.expanded, loader.topology.noted)


Pairs = Iterable[tuple[onnx.NodeProto, Label]]


def _problems(loader: GraphLoader, pairs: Pairs, everything: Pairs) -> Iterator[Diagnostic]:
    graph = loader.graph
    try:
        loader.scope.check_names()
    except ClgraphError as error:
        yield Diagnostic("", "", str(error), "a well-formed graph")
    for value, role in [*((v, "input") for v in graph.input), *((v, "output") for v in graph.output)]:
        if value.name not in loader.scope.constants:
            try:
                signature_of(value, role)
            except ClgraphError as error:
                yield Diagnostic("", "", str(error), "tensors, or sequences, optionals or maps of them")
    unknown = set()
    for node, label in everything:
        importers = loader.importers_of(node)
        if not (is_constant(node) or importers.knows(node.op_type, node.domain)):
            unknown.add(id(node))
            yield Diagnostic(label.name, _describe(importers, node), *_unknown(importers, node))
    waiting = [(node, label, loader.importers_of(node)) for node, label in pairs][::-1]
    while waiting:
        node, label, these = waiting.pop()
        if id(node) in unknown or any(id(inner) in unknown for inner, _ in _with_bodies([(node, label)])):
            continue
        try:
            if is_constant(node):
                loader.scope.data[node.output[0]] = loader.scope.read_constant(node, label.name)
            elif (expanded := loader.expand_node(node, label, these)) is not None:
                waiting += reversed(expanded)
            else:
                loader.import_node(node, label, these, set(node.output))
        except ClgraphError as error:
            what = str(error).removeprefix(f"node {label.name!r} ({node.op_type})").removeprefix(":").strip()
            yield Diagnostic(label.name, _describe(these, node), what, _needed(error))


def _needed(error: ClgraphError) -> str:
    """Return what would have to be there for a node that was refused with *error*."""
    if isinstance(error, InternalError):
        return "clgraph without that fault"
    if isinstance(error, UnsupportedError):
        return "support for it in the importer, or a model without it"
    return "a node as ONNX defines it"


def _unknown(importers: Importers, node: onnx.NodeProto) -> tuple[str, str]:
    """Return what is wrong with a node that no importer reads, and what would be needed."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = importers.version(node.op_type, node.domain)
    read = sorted(v for d, o, v in IMPORTERS if (d, o) == (domain, node.op_type))
    if read and version is not None:
        return f"version {version} is not read, only {_list(read)}", f"an importer of version {version}"
    if domain or not any(s.name == node.op_type and s.domain == "" for s in protobuf.defs.get_all_schemas()):
        where = f"domain {domain!r}" if domain else "ONNX"
        known = any(s.name == node.op_type and s.domain == domain for s in protobuf.defs.get_all_schemas())
        needed = importers.advice(node.op_type, node.domain) or "a plugin that has it"
        return f"clgraph has no such operator of {where}" + ("" if known else ", nor has onnx"), needed
    return "clgraph does not have the operator", "the operator, as docs/adding_an_operator.md says, or a plugin"


def _with_bodies(pairs: Pairs, prefix: str = "") -> Iterator[tuple[onnx.NodeProto, Label]]:
    """Yield *pairs*, and the nodes of their bodies, named after the node they are in."""
    for node, label in pairs:
        name = f"{prefix}{label.name}"
        yield node, replace(label, name=name)
        for attribute in node.attribute:
            for body in bodies_of(attribute):
                yield from _with_bodies(zip(body.node, labels_of(body.node), strict=True), f"{name}/")


def _describe(importers: Importers, node: onnx.NodeProto) -> str:
    name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    version = importers.version(node.op_type, node.domain)
    return name if version is None else f"{name}-{version}"


def _list(versions: Iterable[int]) -> str:
    return ", ".join(map(str, versions))
