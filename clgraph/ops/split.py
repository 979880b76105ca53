"""A tensor cut into parts along an axis: a Slice each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, positive_axis, present, read_values
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Split(Primitive):
    """Parts of x, one behind the other along *axis*.

    Attributes:
        sizes: Of the parts; before ``bind`` empty: *parts* equal ones, the last smaller where they do not fit.
        reads: Names of the value inputs, before ``bind``: ``("sizes",)`` or nothing.
    """

    axis: int
    sizes: tuple[int, ...] = ()
    parts: int = 0
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "split"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if not inputs[0].rank:
            raise ShapeError("a scalar has no axis to be split along")
        axis = positive_axis(self.axis, inputs[0].rank)
        size, found = inputs[0].shape[axis], read_values(self.reads, values)
        sizes = ints(found["sizes"]) if found else self.sizes
        if not sizes:
            each = -(-size // max(self.parts, 1))
            sizes = tuple(max(min(each, size - i * each), 0) for i in range(self.parts))
        return Bound(replace(self, axis=axis, sizes=sizes, parts=0, reads=()), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, axis = inputs[0], positive_axis(self.axis, inputs[0].rank)
        if sum(self.sizes) != x.shape[axis] or min(self.sizes, default=-1) < 0:
            raise ShapeError(f"parts of {list(self.sizes)} do not make up the {x.shape[axis]} elements of axis {axis}")
        return tuple(x.with_shape((*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in self.sizes)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        cuts = np.cumsum(self.sizes)[:-1]
        return tuple(np.ascontiguousarray(part) for part in np.split(inputs[0], cuts, self.axis))

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted(Split(axes[self.axis], self.sizes), (axes,), (axes,) * len(self.sizes))


@onnx("Split", since=(1,))
def import_split_by_lengths(node: OnnxNode) -> Primitive:
    if "axis" not in node.attribute_names:
        raise node.unsupported("version 1 of the operator does not define a default for axis")
    sizes = tuple(node.attribute("split", ()))
    reads = present(("sizes",), node.inputs) if not sizes else ()
    return Split(node.attribute("axis", 0), sizes, node.declared_outputs, reads)


@onnx("Split", since=(2, 11, 13, 18))
def import_split(node: OnnxNode) -> Primitive:
    declared = node.declared_outputs
    if (parts := node.attribute("num_outputs", declared)) != declared:
        raise ShapeError(f"num_outputs is {parts}; the node has {declared} outputs")
    return Split(node.attribute("axis", 0), tuple(node.attribute("split", ())), parts, present(("sizes",), node.inputs))


@implements(Split, name="split.ref", serves=Serves(dtypes=frozenset(DType), formats=True), general=True)
class SplitRef(General[Split]):
    """A copy of each part."""

    orders = True

    @classmethod
    def plan(cls, q: Query[Split]) -> Plan:
        x, axis = q.inputs[0], q.primitive.axis
        steps, start = [], x.origin
        for slot, y in enumerate(q.outputs):
            steps.append(move(x, ("in0", View(start, x.all_pitches)), (f"out{slot}", View.of(y)), y.shape))
            start += y.shape[axis] * x.all_pitches[axis]
        return Plan(tuple(steps))
