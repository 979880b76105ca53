"""A tensor cut or padded around its centre to a shape: ONNX's CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.pad import Pad
from clgraph.ops.slice import Slice


@primitive
@frozen
class CenterCropPad(Composite):
    """x with the sizes that input 1 holds for *axes* (all when ``None``): the middle of it, or zeros around it."""

    axes: tuple[int, ...] | None = None

    kind: ClassVar[str] = "center_crop_pad"

    def value_slots(self) -> tuple[int, ...]:
        return (1,)

    def compose(self, c: Composition) -> Sequence[str]:
        x = c.inputs[0]
        shape, sizes = c.layout(x).shape, known_ints(c.values, 1, "shape")
        axes = range(len(shape)) if self.axes is None else [positive_axis(a, len(shape)) for a in self.axes]
        if len(axes) != len(sizes):
            raise ShapeError(f"{list(sizes)} are not the sizes of the axes {list(axes)}")
        pads, starts, ends = [(0, 0)] * len(shape), [0] * len(shape), list(shape)
        for axis, size in zip(axes, sizes, strict=True):
            more = size - shape[axis]
            if more > 0:
                pads[axis] = (more // 2, more - more // 2)
            else:
                starts[axis] = -more // 2
                ends[axis] = starts[axis] + size
        return (c.add(Pad(tuple(pads)), c.add(Slice(tuple(starts), tuple(ends)), x)),)


@onnx("CenterCropPad", since=(18,))
def import_center_crop_pad(node: OnnxNode) -> Primitive:
    axes = node.attribute("axes", None)
    return CenterCropPad(None if axes is None else tuple(axes))
