"""Explaining a program: the report of each node's decisions, made at any milestone."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.explanation import Explanation
from clgraph.model.reports import BufferUse, NodeReport, SubgraphReport
from clgraph.selector.choose import Choice


def reading_notes(topology: Topology) -> dict[str, str]:
    """Return the notes about nodes of *topology* that were read by functions of schemas, or otherwise than written."""
    functions = [f"{name} ({what}): expanded from its schema's function" for name, what in topology.expanded.items()]
    importers = [f"{name} {text}" for name, text in topology.noted.items()]
    return {name: "\n".join(lines) for name, lines in {"functions": functions, "importers": importers}.items() if lines}


def explain(program: Program) -> Explanation:
    """Return the report of a program at any stage."""
    held: dict[Buffer, list[str]] = {}
    for value in program.values:
        if value.buffer is not None:
            held.setdefault(value.buffer, []).append(value.name)
    costs = {n.choice.query.device.costs for n in program if isinstance(n.choice, Choice)}
    told = ", ".join(sorted(f"{c.name} ({c.origin})" for c in costs))
    notes = dict(program.notes) | ({"costs": f"estimated by {told}"} if told else {})
    several = len(program.subgraphs) > 1
    subgraph_of = {node: s.id for s in program.subgraphs for node in s.nodes} if several else {}
    nodes = tuple(_report(node, held, subgraph_of.get(node)) for node in program)
    return Explanation(nodes, notes, tuple(map(SubgraphReport.of, program.subgraphs)))


def _report(node: Node, held: Mapping[Buffer, list[str]], subgraph: str | None) -> NodeReport:
    report = {
        "name": node.name,
        "primitive": str(node.primitive),
        "fused": tuple(str(f.primitive) for f in node.fused),
        "origin": node.origin,
        "annotation": node.annotation or node.partitioned_by,
        "placement": node.placement,
        "inputs": tuple(map(_value, node.inputs)),
        "outputs": tuple(map(_value, node.outputs)),
        "buffers": _buffers(node, held),
        "subgraph": subgraph,
    }
    choice = node.choice
    if not isinstance(choice, Choice):
        return NodeReport(**report)  # type: ignore[arg-type]  # the keys are the fields
    steps = tuple(s.name for s in choice.plan().steps)
    return NodeReport(
        **report,  # type: ignore[arg-type]  # the keys are the fields
        implementation=choice.name,
        because=choice.because,
        estimate=choice.expected,
        chosen_by=choice.seconds,
        refusals=dict(choice.refusals),
        slower=dict(choice.slower),
        steps=steps,
    )


def _buffers(node: Node, held: Mapping[Buffer, list[str]]) -> tuple[BufferUse, ...]:
    found = []
    for value in node.outputs:
        if (b := value.buffer) is not None:
            at = None if b.offset is None else b.offset + value.offset
            shared = tuple(name for name in held[b] if name != value.name)
            found.append(BufferUse(value.name, b.name, b.placement, at, value.layout.nbytes, shared))
    found += [BufferUse(b.name, b.name, b.placement, b.offset, b.nbytes) for b in node.scratch]
    return tuple(found)


def _value(value: Value) -> tuple[str, str]:
    return value.name, str(value.layout) + (" constant" if value.constant is not None else "")
