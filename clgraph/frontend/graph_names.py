"""The names of a graph: each value is made once, and what is read is made by something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from clgraph.errors import ModelError, UndefinedError
from clgraph.frontend.order import some_of
from clgraph.frontend.protobuf import onnx


def check_names(
    graph: onnx.GraphProto,
    given: Counter[str],
    reads_of_nodes: Sequence[Sequence[str]],
    visible: Callable[[str], bool],
) -> None:
    """Refuse values that two things make, or nothing.

    Args:
        given: How often each input and constant is there.
        reads_of_nodes: What each node reads, its bodies included.
        visible: Whether a name is made in the graph or around it.

    Raises:
        UndefinedError: A node reads what nothing makes.
        ModelError: A name is made twice, an output by nothing, a node has no output, or the graph has none.
    """
    made = given.copy()
    made.update(n for node in graph.node for n in node.output[:] if n)
    if twice := [name for name, count in made.items() if count > 1]:
        raise ModelError(f"the graph makes {some_of(twice)} more than once")
    for node, reads in zip(graph.node, reads_of_nodes, strict=True):
        if not node.output:
            raise ModelError(f"node {node.name or node.op_type!r} has no output")
        if missing := [n for n in reads if n and not visible(n)]:
            raise UndefinedError(f"node {node.name or node.op_type!r} reads {some_of(missing)}, which nothing makes")
    if missing := [v.name for v in graph.output if not visible(v.name)]:
        raise ModelError(f"no node produces the graph's output {some_of(missing)}")
    if not graph.output:
        raise ModelError("the graph has no outputs")
