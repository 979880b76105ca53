"""Columns picked out: ai.onnx.ml's ArrayFeatureExtractor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class ArrayFeatureExtractor(Composite):
    """The columns of x ``[..., columns]`` whose places input 1 holds, of whatever shape; of ``[columns]`` one row.

    Places that are known must be those of columns; among computed ones, one outside reads as in Gather.
    """

    kind: ClassVar[str] = "array_feature_extractor"

    def compose(self, c: Composition) -> Sequence[str]:
        x, places = c.inputs
        shape, count = c.layout(x).shape, prod(c.layout(places).shape)
        if not shape:
            raise ShapeError("a scalar has no columns")
        if len(c.values) > 1 and (known := c.values[1]) is not None:
            wrong = known[(known < 0) | (known >= shape[-1])]
            if wrong.size:
                last = shape[-1] - 1
                raise ShapeError(f"column {wrong[0]} is picked of x {list(shape)}, whose columns are 0 to {last}")
        picked = c.add(Gather(len(shape) - 1), x, c.add(Reshape((count,), zero_is_zero=True), places))
        return (c.add(Reshape((1, count), zero_is_zero=True), picked) if len(shape) == 1 else picked,)


@onnx("ArrayFeatureExtractor", since=(1,), domain="ai.onnx.ml")
def import_array_feature_extractor(node: OnnxNode) -> Primitive:
    return ArrayFeatureExtractor()
