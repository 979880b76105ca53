"""Columns of several inputs side by side: ai.onnx.ml's FeatureVectorizer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.concat import Concat
from clgraph.ops.gather import Gather
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class FeatureVectorizer(Composite):
    """The inputs ``[rows, ...]`` side by side as float32; a vector is one row.

    Attributes:
        sizes: Columns of each: further ones are cut off, missing ones are zeros; none for what there are.
    """

    sizes: tuple[int, ...] = ()

    kind: ClassVar[str] = "feature_vectorizer"

    def compose(self, c: Composition) -> Sequence[str]:
        if self.sizes and len(self.sizes) != len(c.inputs):
            raise ShapeError(f"inputdimensions has {len(self.sizes)} sizes for {len(c.inputs)} inputs")
        parts = []
        for i, name in enumerate(c.inputs):
            shape = c.layout(name).shape
            rows, columns = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, prod(shape))
            wanted = self.sizes[i] if self.sizes else columns
            part = c.add(Reshape((rows, columns), zero_is_zero=True), c.add(Reorder(DType.F32), name))
            if wanted < columns:
                part = c.add(Gather(1), part, c.constant(np.arange(wanted)))
            parts.append(part)
            if wanted > columns:
                parts.append(c.constant(np.zeros((rows, wanted - columns), np.float32)))
        return (c.add(Concat(1), *parts),)


@onnx("FeatureVectorizer", since=(1,), domain="ai.onnx.ml")
def import_feature_vectorizer(node: OnnxNode) -> Primitive:
    return FeatureVectorizer(node.attribute("inputdimensions", ()))
