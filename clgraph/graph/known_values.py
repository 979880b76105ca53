"""Values that depend on constants alone and that shape inference needs: computed on the host when shapes are bound.

What is small is computed in any case (``Primitive.evaluate``); this is for what depends on large constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clgraph.errors import ShapeError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive

MOST_EVALUATED_BYTES = 1 << 30
"""Of a result that is computed on the host while shapes are bound."""
VALUE_ELEMENTS = 256
"""Inputs of up to this many elements may decide sizes inside a model: their values are read when shapes are bound."""


def make_known(wanted: Iterable[Value], nodes: list[Node]) -> bool:
    """Give *wanted* their data where constants alone decide all of them, and say whether they have it.

    Args:
        nodes: In order of execution; those whose results are known afterwards are removed.

    Raises:
        ShapeError, DeviceMemoryError: A node does not fit its inputs, or makes more than the host should compute.
    """
    missing = {v for v in wanted if v.constant is None}
    makers: list[Node] = []
    for node in reversed(nodes):
        if missing.isdisjoint(node.outputs):
            continue
        if not node.primitive.has_reference:
            return False
        makers.append(node)
        missing.difference_update(node.outputs)
        missing.update(v for v in node.inputs if v.constant is None)
    if missing:
        return False
    for node in reversed(makers):
        check_evaluated(node.primitive, node.inputs)
        results = node.reference(*(v.constant for v in node.inputs if v.constant is not None))
        for value, result in zip(node.outputs, results, strict=True):
            value.constant = np.asarray(result)
    made = set(makers)
    nodes[:] = [node for node in nodes if node not in made]
    return True


def check_evaluated(primitive: Primitive, inputs: Sequence[Value]) -> None:
    """Refuse what would be computed while shapes are bound, whatever its size, and take all of the host's memory."""
    if primitive.data_dependent:
        return
    for layout in primitive.infer([v.layout for v in inputs]):
        if layout.nbytes > MOST_EVALUATED_BYTES:
            raise ShapeError(
                f"the result {list(layout.shape)} is computed with the shapes, and takes {layout.nbytes} bytes"
            )


def deciding(value: Value, nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the inputs that *value* is computed from by *nodes*; none when one is larger than ``VALUE_ELEMENTS``."""
    makers = {made: node for node in nodes for made in node.outputs}
    found: dict[str, None] = {}
    waiting, seen = [value], {value}
    while waiting:
        source = waiting.pop()
        if source.constant is not None:
            continue
        if source in makers:
            fresh = [v for v in makers[source].inputs if v not in seen]
            waiting += fresh
            seen.update(fresh)
        elif source.layout.count > VALUE_ELEMENTS:
            return ()
        else:
            found[source.name] = None
    return tuple(found)
