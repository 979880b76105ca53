"""What quantizing and dequantizing share: scale and zero point, their types, and how kernels get to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.conversion import SATURATED
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive
from clgraph.selector.general import FLOATS, General, accesses, launch, post_arguments, post_views, table
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

SMALL = frozenset(
    {*(DType.U8, DType.I8, DType.U16, DType.I16), *(DType.I4, DType.U4, DType.I2, DType.U2), *SATURATED, DType.F4E2M1}
)
"""What floats are quantized to."""
WHOLE = SMALL | {DType.I32}
SCALES = FLOATS | {DType.F8E8M0}
FRACTIONS = SATURATED | {DType.F4E2M1}
"""What is quantized to that has a fraction."""
SINCE = (10, 13, 19, 21, 23, 24, 25, 28)
"""Operator sets in which ONNX's two operators have changed."""


@frozen
class Scaled(Primitive):
    """What quantizing and dequantizing share. Inputs: x, scale and, optionally, zero point.

    Attributes:
        axis: Scale and zero point are one number each, in any shape, or hold one an index of this axis.
        block: Where it is not 0, they have as many axes as x and one number for so many neighbours along *axis*.
    """

    axis: int = 1
    block: int = 0

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, **self.bound_to(inputs)), tuple(range(len(inputs))))

    def bound_to(self, inputs: Sequence[Layout]) -> dict[str, Any]:
        """Return axis, counted from the front, and block; both 0 where one scale is for all."""
        if inputs[1].count == 1 and (not self.block or inputs[1].rank < inputs[0].rank):
            return {"axis": 0, "block": 0}
        return {"axis": positive_axis(self.axis, inputs[0].rank), "block": self.block}

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        turned = replace(self, axis=axes[self.axis]) if axes else self
        along = axes if self.block else None
        return Permuted(turned, (axes, *(along,) * (len(inputs) - 1)), (axes,))

    def spread(self, x: Array, parameter: Array) -> Array:
        """Return the scale or zero point in a shape that broadcasts with x."""
        if self.block:
            return parameter.repeat(self.block, self.axis).take(np.arange(x.shape[self.axis]), self.axis)
        if parameter.size == 1:
            return parameter.reshape(())
        return parameter.reshape([d if a == self.axis else 1 for a, d in enumerate(x.shape)])

    def check(self, inputs: Sequence[Layout]) -> None:
        """Raise ``ShapeError`` unless scale and zero point fit x."""
        x, scale, *zeros = inputs
        for zero in zeros:
            if zero.shape != scale.shape and (self.block or (zero.count, scale.count) != (1, 1)):
                raise ShapeError(f"scale {list(scale.shape)} and zero point {list(zero.shape)} differ")
        if self.block:
            blocks = tuple(-(-d // self.block) if a == self.axis else d for a, d in enumerate(x.shape))
            if scale.shape != blocks:
                raise ShapeError(f"a scale {list(scale.shape)} for blocks of {self.block} should be {list(blocks)}")
        elif scale.count != 1 and (scale.rank != 1 or x.rank <= self.axis or scale.shape[0] != x.shape[self.axis]):
            raise ShapeError(f"a scale {list(scale.shape)} fits neither x {list(x.shape)} nor its axis {self.axis}")


def computed(scale: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that is computed in with a *scale* of a type."""
    return np.dtype(np.float64 if scale == np.float64 else np.float32)


def type_asked(node: OnnxNode, attribute: str) -> DType | None:
    """Return the type that the node asks for by *attribute*; 0, the default, says nothing."""
    asked: DType | None = node.attribute(attribute, DType.U8) if node.attribute(attribute, 0) else None
    return asked


class ScaledRef(General[Any]):
    """One work-item an element, any rank.

    Attributes:
        takes_posts: Whether the kernel applies fused operations.
    """

    kernel: ClassVar[str]
    takes_posts: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def macros(cls, x: DType, y: DType, f: Any) -> dict[str, str]:
        """Return the macros of the types of x and y."""

    @classmethod
    def further_limits(cls, q: Query[Any]) -> str | None:
        scale, *zeros = q.own[1:3]
        if any(_walk(zero) != _walk(scale) for zero in zeros):
            return "requires the zero point where the scale is"
        return None

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        (x, scale), (y,), f = q.own[:2], q.outputs, q.primitive
        pitches = scale.all_pitches if f.block else _along(scale, f.axis, y.rank)
        # An axis that is counted in blocks stays one, under its own number.
        groups = [[a] for a in range(y.rank)] if f.block else None
        s = space(y.shape, [View.of(y), View.of(x), View(scale.origin, pitches), *post_views(q)], groups)
        jit = Jit().define(RANK=len(s.dims), **accesses(scale.dtype, "S"), **cls.macros(x.dtype, y.dtype, f))
        zero = q.role(2)
        tables = table(s.dims, *s.views[:3], [f.axis, max(f.block, 1)])
        post = post_arguments(q, s.views[3:], len(s.dims)) if cls.takes_posts else ()
        return Plan((launch(cls.kernel, jit, y.count, "in0", "in1", zero, "out0", tables, *post),))


def _walk(x: Layout) -> tuple[int, tuple[int, ...]]:
    """Return how a kernel gets to the elements of *x*; there are no steps where it has one."""
    return x.origin, x.all_pitches if x.count > 1 else ()


def _along(scale: Layout, axis: int, rank: int) -> tuple[int, ...]:
    """Return the pitches of a scale over all axes: 0, but along *axis* where it has more than one number."""
    pitch = scale.all_pitches[0] if scale.count != 1 else 0
    return tuple(pitch if a == axis else 0 for a in range(rank))
