"""Distances of all pairs of rows: ONNX Runtime's CDist, which converters of nearest neighbours write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class Distances(Composite):
    """The distance ``[M, N]``, *squared* or not, of each row of a ``[M, K]`` to each of b ``[N, K]``."""

    squared: bool = True

    kind: ClassVar[str] = "distances"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        a, b = c.inputs
        shapes = [c.layout(x).shape for x in (a, b)]
        if any(len(s) != 2 for s in shapes) or shapes[0][1] != shapes[1][1]:
            raise ShapeError(f"{list(shapes[0])} and {list(shapes[1])} are not rows of the same length")
        rows, columns = (c.add(Reduce("sum_square", (1,)), x) for x in (a, b))
        columns = c.add(Reshape((1, shapes[1][0]), zero_is_zero=True), columns)
        products = c.add(Activation("linear", -2.0), c.add(MatMul(transpose_b=True), a, b))
        y = c.add(Eltwise("add"), c.add(Eltwise("add"), products, rows), columns)
        y = c.add(Activation("relu"), y)
        return (y if self.squared else c.add(Activation("sqrt"), y),)


@onnx("CDist", since=(1,), domain=MICROSOFT)
def import_cdist(node: OnnxNode) -> Primitive:
    metric = node.attribute("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise node.unsupported(f"metric is sqeuclidean or euclidean, not {metric!r}")
    return Distances(metric == "sqeuclidean")
