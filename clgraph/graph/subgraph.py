"""Subgraphs: the parts of a placed program, each of which is bound to its device and submitted as one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import field, fields

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value


@frozen(eq=False)
class Subgraph:
    """Nodes of one placement that follow each other, behind the transfers that bring there what they read.

    ONNX Runtime's DNNL provider makes the primitives of such a part once, and submits them as one.

    Attributes:
        id: Unique in the program: its number and its placement, as in ``1@pocl:0``.
        nodes: In order of execution.
    """

    id: str
    placement: str
    nodes: tuple[Node, ...]
    _results: Container[Value] = field(repr=False)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that come from elsewhere, the caller included, each once; no constants."""
        read = dict.fromkeys(v for n in self.nodes for v in n.inputs if v.constant is None)
        inside = set(self.nodes)
        return tuple(v for v in read if v.producer not in inside)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that go elsewhere, the caller included."""
        inside = set(self.nodes)
        made = (v for n in self.nodes for v in n.outputs)
        return tuple(v for v in made if v in self._results or any(r not in inside for r, _ in v.uses))

    @property
    def attributes(self) -> Mapping[str, object]:
        """Every attribute of every node and of what is fused into it, under a name of its own.

        They are called ``node.attribute`` and ``node.fused0.attribute``.
        """
        primitives = [
            named
            for n in self.nodes
            for named in ((n.name, n.primitive), *((f"{n.name}.fused{i}", f.primitive) for i, f in enumerate(n.fused)))
        ]
        return {
            f"{where}.{field.name}": getattr(primitive, field.name)
            for where, primitive in primitives
            for field in fields(primitive)  # type: ignore[arg-type]  # every primitive is a dataclass
        }


def cut(nodes: Sequence[Node], results: Container[Value]) -> tuple[Subgraph, ...]:
    """Cut *nodes*, in order of execution, at each change of placement and in front of the transfers in between.

    Args:
        results: What the whole returns.
    """
    if len({n.placement for n in nodes}) == 1:
        parts = [list(nodes)]
    else:
        parts = []
        for node in nodes:
            if not parts or _begins(node, parts[-1][-1]):
                parts.append([])
            parts[-1].append(node)
    placed = [(part[0].placement or "", part) for part in parts]
    return tuple(
        Subgraph(f"{number}@{placement}", placement, tuple(part), results)
        for number, (placement, part) in enumerate(placed)
    )


def _begins(node: Node, before: Node) -> bool:
    return node.placement != before.placement or (_carries(node) and not _carries(before))


def _carries(node: Node) -> bool:
    """Whether *node* reads what is on another placement, as transfers do."""
    return any(_home(v) not in (None, node.placement) for v in node.inputs)


def _home(value: Value) -> str | None:
    """Return where *value* is: with what makes it; a graph's input where its memory is, once that is planned."""
    if value.producer is not None:
        return value.producer.placement
    return None if value.buffer is None else value.buffer.placement
