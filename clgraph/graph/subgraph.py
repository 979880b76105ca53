"""The parts of a placed program: consecutive nodes of one device, with what goes in and out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node
from clgraph.graph.program import Program


@frozen
class Subgraph:
    """Consecutive nodes on one placement. ONNX Runtime's DNNL provider builds its primitives for such a part at once.

    Attributes:
        id: Unique in the program: its number and its placement, as in ``1@pocl:0``.
        nodes: Names of the nodes, in order.
        inputs, outputs: Names of the values that come from and go to elsewhere, the caller included; no constants.
        attributes: Every attribute of every node and of what is fused into it, under a name of its own:
            ``node.attribute``, ``node.fused0.attribute``.
    """

    id: str
    placement: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]


def subgraphs(program: Program) -> tuple[Subgraph, ...]:
    """Return the parts of *program*, whose nodes have placements, in order of execution."""
    parts = [(placement, list(nodes)) for placement, nodes in groupby(program, lambda n: n.placement or "")]
    return tuple(
        _subgraph(program, f"{number}@{placement}", placement, nodes) for number, (placement, nodes) in enumerate(parts)
    )


def _subgraph(program: Program, identity: str, placement: str, nodes: Sequence[Node]) -> Subgraph:
    inside = {id(n) for n in nodes}
    read = dict.fromkeys(v for n in nodes for v in n.inputs if v.constant is None)
    made = [v for n in nodes for v in n.outputs]
    return Subgraph(
        identity,
        placement,
        tuple(n.name for n in nodes),
        tuple(v.name for v in read if id(v.producer) not in inside),
        tuple(v.name for v in made if program.is_output(v) or any(id(r) not in inside for r in v.readers)),
        {name: value for n in nodes for name, value in _attributes(n)},
    )


def _attributes(node: Node) -> list[tuple[str, object]]:
    primitives = [
        (node.name, node.primitive),
        *((f"{node.name}.fused{i}", f.primitive) for i, f in enumerate(node.fused)),
    ]
    return [
        (f"{where}.{field.name}", getattr(primitive, field.name))
        for where, primitive in primitives
        for field in fields(primitive)  # type: ignore[arg-type]  # every primitive is a dataclass
    ]
