"""The same elements under another shape: ONNX's Reshape, Squeeze, Unsqueeze and Flatten."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, positive_axes, positive_axis, present, read_values
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.permute import Axes, held, identity, inverse
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


class _Reinterpreting(Primitive):
    """Base of primitives that ``bind`` turns into a :class:`Reshape`."""

    __slots__ = ()

    computes_unbound: ClassVar[bool] = True

    @abstractmethod
    def target(self, shape: Shape, values: Sequence[Array | None]) -> Shape:
        """Return the shape of the result."""

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(Reshape(self.target(inputs[0].shape, values), zero_is_zero=0 in inputs[0].shape), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].with_shape(self.target(inputs[0].shape, ())),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].reshape(self.target(inputs[0].shape, inputs)),)


@primitive
@frozen
class Reshape(_Reinterpreting):
    """``y`` holds the elements of x in row-major order under another shape.

    Attributes:
        shape: Of the result; before ``bind`` a -1 is whatever is left and a 0 the size of x at that place.
        zero_is_zero: Before ``bind``: a 0 means an empty axis.
        reads: Names of the value inputs, before ``bind``: ``("shape",)`` or nothing.
    """

    shape: tuple[int, ...] = ()
    zero_is_zero: bool = False
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "reshape"

    def target(self, shape: Shape, values: Sequence[Array | None]) -> Shape:
        found = read_values(self.reads, values)
        wanted = ints(found["shape"]) if found else self.shape
        if not self.zero_is_zero:
            if any(d == 0 and i >= len(shape) for i, d in enumerate(wanted)):
                raise ShapeError(f"a 0 in {list(wanted)} stands for an axis that {list(shape)} does not have")
            wanted = tuple(shape[i] if d == 0 else d for i, d in enumerate(wanted))
        count, fixed = prod(shape), prod(d for d in wanted if d != -1)
        if wanted.count(-1) == 1 and fixed and count % fixed == 0:
            wanted = tuple(count // fixed if d == -1 else d for d in wanted)
        if min(wanted, default=0) < 0 or prod(wanted) != count:
            raise ShapeError(f"{count} elements of shape {list(shape)} do not fit the shape {list(wanted)}")
        return wanted

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        """Return the reshape where only axes of size 1 come and go."""
        shape = inputs[0].shape
        large = _large(shape)
        if 0 in shape or [shape[a] for a in large] != [d for d in self.shape if d != 1]:
            return None
        # The large axes stand as they are held, each axis of size 1 behind the large one that it stood behind.
        anchors, place = list[int](), -1
        turned = iter(axes[a] for a in large)
        for size in self.shape:
            place = place if size == 1 else next(turned)
            anchors.append(place)
        made = inverse(tuple(sorted(identity(len(anchors)), key=anchors.__getitem__)))
        return Permuted(Reshape(held(self.shape, made), zero_is_zero=True), (axes,), (made,))


@primitive
@frozen
class Squeeze(_Reinterpreting):
    """Drops axes of size 1: *axes*, or all of them when it is ``None``; ``bind`` makes a Reshape of it."""

    axes: tuple[int, ...] | None = None
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "squeeze"

    def target(self, shape: Shape, values: Sequence[Array | None]) -> Shape:
        found = read_values(self.reads, values)
        axes = ints(found["axes"]) if found else self.axes
        if axes is None:
            return tuple(d for d in shape if d != 1)
        dropped = positive_axes(axes, len(shape))
        if any(shape[a] != 1 for a in dropped):
            raise ShapeError(f"only axes of size 1 can be squeezed; {list(shape)} has others among {list(axes)}")
        return tuple(d for a, d in enumerate(shape) if a not in dropped)


@primitive
@frozen
class Unsqueeze(_Reinterpreting):
    """Inserts axes of size 1 so that they stand at *axes* of the result; ``bind`` makes a Reshape of it."""

    axes: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "unsqueeze"

    def target(self, shape: Shape, values: Sequence[Array | None]) -> Shape:
        found = read_values(self.reads, values)
        axes = ints(found["axes"]) if found else self.axes
        rank = len(shape) + len(axes)
        added, sizes = positive_axes(axes, rank), iter(shape)
        return tuple(1 if a in added else next(sizes) for a in range(rank))


@primitive
@frozen
class Flatten(_Reinterpreting):
    """Two axes: the product of those before *axis*, and of the rest; ``bind`` makes a Reshape of it."""

    axis: int = 1

    kind: ClassVar[str] = "flatten"

    def target(self, shape: Shape, values: Sequence[Array | None]) -> Shape:
        axis = self.axis if self.axis == len(shape) else positive_axis(self.axis, len(shape))
        return (prod(shape[:axis]), prod(shape[axis:]))


def _large(shape: Shape) -> list[int]:
    return [a for a, d in enumerate(shape) if d != 1]


@onnx("Reshape", since=(1,))
def import_reshape_to_attribute(node: OnnxNode) -> Primitive:
    return Reshape(node.attribute("shape", ()))


@onnx("Reshape", since=(5, 13, 14, 19, 21, 23, 24, 25))
def import_reshape(node: OnnxNode) -> Primitive:
    return Reshape(zero_is_zero=bool(node.attribute("allowzero", 0)), reads=("shape",))


@onnx("Squeeze", since=(1, 11, 13, 21, 23, 24, 25))
def import_squeeze(node: OnnxNode) -> Primitive:
    return Squeeze(node.attribute("axes", None), present(("axes",), node.inputs))


@onnx("Unsqueeze", since=(1, 11, 13, 21, 23, 24, 25))
@onnx("ExpandDims", since=(1,), domain=MICROSOFT)
def import_unsqueeze(node: OnnxNode) -> Primitive:
    return Unsqueeze(node.attribute("axes", ()), present(("axes",), node.inputs))


@onnx("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def import_flatten(node: OnnxNode) -> Primitive:
    return Flatten(node.attribute("axis", 1))


@implements(Reshape, name="reshape.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class ReshapeRef(General[Reshape]):
    """A copy on the axes of the side that is not dense; over a dense tensor between when neither is."""

    @classmethod
    def plan(cls, q: Query[Reshape]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        if y.is_dense_plain:
            return Plan((move(x, ("in0", View.of(x)), ("out0", View.of(x.plain())), x.shape),))
        if x.is_dense_plain:
            return Plan((move(x, ("in0", View.of(y.plain())), ("out0", View.of(y)), y.shape),))
        first = move(x, ("in0", View.of(x)), ("scratch0", View.of(x.plain())), x.shape)
        second = move(x, ("scratch0", View.of(y.plain())), ("out0", View.of(y)), y.shape)
        return Plan((first, second), (x.plain().nbytes,))
