"""Windows along an axis, laid out as an axis of their own: ONNX Runtime's UnfoldTensor, PyTorch's ``unfold``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.gather import Gather
from clgraph.ops.transpose import Transpose


@primitive
@frozen
class Unfold(Composite):
    """The windows of *size* along *axis*, *step* apart: ``[..., windows, ..., size]``."""

    size: int
    axis: int = -1
    step: int = 1

    kind: ClassVar[str] = "unfold"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        shape = c.layout(x).shape
        axis = positive_axis(self.axis, len(shape))
        if not 0 < self.size <= shape[axis] or self.step < 1:
            raise ShapeError(f"{list(shape)} has no windows of {self.size} along axis {axis}, {self.step} apart")
        starts = np.arange(0, shape[axis] - self.size + 1, self.step)
        windows = c.add(Gather(axis), x, c.constant(starts[:, None] + np.arange(self.size)))
        order = [a for a in range(len(shape) + 1) if a != axis + 1]
        return (c.add(Transpose((*order, axis + 1)), windows),)


@onnx("UnfoldTensor", since=(1,), domain=MICROSOFT)
def import_unfold_tensor(node: OnnxNode) -> Primitive:
    return Unfold(node.attribute("size", 0), node.attribute("dim", -1), node.attribute("step", 1))
