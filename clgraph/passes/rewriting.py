"""What rewriting passes share: conditions for merging nodes, constant subgraphs, insertion, substitution."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.transfer import Transfer


def apart(nodes: Sequence[Node]) -> str | None:
    """Say why *nodes* cannot become one node (different annotations or placements), or return ``None``."""
    for what in ("annotation", "placement"):
        found = {v for n in nodes if (v := getattr(n, what)) is not None}
        if len(found) > 1:
            return f"the {what}s {' and '.join(sorted(found))} differ"
    return None


def read_outside(program: Program, value: Value, inside: Sequence[Node]) -> str | None:
    """Say who reads *value* other than the nodes *inside*, or return ``None``."""
    if program.is_output(value):
        return f"{value.name} is an output of the graph"
    outside = next((n for n, _ in value.uses if all(n is not i for i in inside)), None)
    return None if outside is None else f"{value.name} is also read by {outside.name}"


def substitute(
    program: Program, nodes: Sequence[Node], primitive: Primitive, inputs: Sequence[Value], named: Node | None = None
) -> Node:
    """Put one node in the place of *nodes*, the last of which makes the result that is read elsewhere.

    The new node takes the name of *named*, the first one by default, and its result the name of the last one's result.
    """
    first, last = named or nodes[0], nodes[-1]
    made = program.insert(primitive, inputs, sources=nodes, before=last)
    program.rewire(last.output, made.output)
    for node in reversed(nodes):
        program.erase(node)
    made.name, made.output.name = first.name, last.output.name
    return made


@frozen
class Inserter:
    """Inserts nodes in front of *node*, which it is to stand for: called with a primitive and what that reads."""

    program: Program
    node: Node

    def __call__(self, primitive: Primitive, *inputs: Value) -> Value:
        """Return the result of the new node."""
        return self.program.insert(primitive, inputs, sources=[self.node], before=self.node).output


def supersede(program: Program, node: Node, value: Value) -> bool:
    """Let the readers of *node*'s result read *value*, which takes its name, and remove *node*; return true."""
    name = node.output.name
    program.rewire(node.output, value)
    program.erase(node)
    value.name = name
    return True


def mover(value: Value, reader: Node) -> Node:
    """Return the node beside which *value* is moved for *reader*: in front of a transfer, still on its own device."""
    if not isinstance(reader.primitive, Transfer):
        return reader
    # A graph input lives with those of its readers that need no transfer.
    return value.producer or next((n for n in value.readers if n.placement == reader.primitive.source), reader)


def constant_part(program: Program) -> list[Node]:
    """Return the nodes that depend on constants alone, in order: their results are constants once they have run."""
    known: set[Value] = set()
    nodes = []
    for node in program:
        if all(v.constant is not None or v in known for v in node.inputs):
            nodes.append(node)
            known.update(node.outputs)
    return nodes


def bypass(program: Program, node: Node) -> bool:
    """Let the readers of *node*'s result read its first input, and remove it; say whether that was possible.

    A node between a graph input or constant and a graph output stays: an output is a value that the program makes.
    """
    source = node.inputs[0]
    if program.is_output(node.output) and source.producer is None:
        return False
    program.rewire(node.output, source)
    program.erase(node)
    return True
