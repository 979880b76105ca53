"""Convolutions of 8-bit integers: ONNX's ConvInteger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered_of_arrays, shared_of_arrays
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, primitive
from clgraph.graph.topology import Inlinable, Topology
from clgraph.ops.convolution import Convolution, convolution_table, import_conv
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import BYTES, as_floats, exact_parts, with_zeros
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query


@primitive
@frozen
class IntegerConvolution(Inlinable):
    """The convolution of ``x - x_zero`` with ``w - w_zero``, 8-bit integers, in int32, exactly; pads are zeros of that.

    Inputs: x ``[N, C, *spatial]``, w ``[O, C / groups, *kernel]``, x_zero (one number), w_zero (one number or ``[O]``).
    With w known it becomes a convolution of floats, or a few, where these are exact too.

    Attributes:
        strides, dilations, pads, groups, auto_pad: As of :class:`Convolution`.
    """

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    groups: int = 1
    auto_pad: str = ""

    kind: ClassVar[str] = "integer_convolution"
    holds_sizes: ClassVar[bool] = False

    @property
    def window(self) -> Convolution:
        """The same convolution of floats."""
        return Convolution(self.strides, self.dilations, self.pads, self.groups, self.auto_pad)

    @staticmethod
    def of(window: Convolution) -> IntegerConvolution:
        """Return the convolution of integers with the window of one of floats."""
        return IntegerConvolution(window.strides, window.dilations, window.pads, window.groups, window.auto_pad)

    def takes_sizes(self) -> bool:
        return self.window.takes_sizes()

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        bound = self.window.bind(inputs[:2], [None, None]).primitive
        assert isinstance(bound, Convolution)
        return Bound(IntegerConvolution.of(bound), (0, 1, 2, 3))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w, x_zero, w_zero = inputs
        if x.dtype not in BYTES or w.dtype not in BYTES:
            raise ShapeError(f"a convolution of integers requires u8 and i8, not {x.dtype} and {w.dtype}")
        if x_zero.count != 1 or (w_zero.count != 1 and w_zero.shape != w.shape[:1]):
            raise ShapeError(f"the zero points {x_zero} and {w_zero} do not fit {x} and {w}")
        return (replace(self.window.infer([x, w])[0], dtype=DType.I32),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, x_zero, w_zero = inputs
        # Doubles hold sums of 2^37 products.
        wide = x.astype(np.float64) - x_zero.astype(np.float64).reshape(())
        (y,) = self.window.reference(wide, _less(w, w_zero).astype(np.float64))
        return (y.astype(np.int64).astype(np.int32),)

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        w, w_zero = values[1], values[3]
        if w is None or w_zero is None:
            return None
        bounds = _cuts(w, w_zero, values[2])
        if bounds is None or (len(bounds) > 1 and self.window.groups > 1):
            return None
        c = Composition(inputs, values)
        x, found, weights = as_floats(c, c.inputs[0], c.inputs[2]), "", _floats(w, w_zero)
        for start, stop in bounds:
            part = x if len(bounds) == 1 else c.add(Slice((start,), (stop,), axes=(1,)), x)
            y = c.add(
                replace(self.window, exact=True),
                part,
                c.constant(np.ascontiguousarray(weights[:, start:stop])),
            )
            y = c.add(Reorder(DType.I32), y)
            found = c.add(Eltwise("add"), found, y) if found else y
        return c.finish(found)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return self.window.flops(inputs[:2], outputs)


def _less(w: Array, zero: Array, exact: type[np.generic] = np.int64) -> Array:
    """Return the weights less their zero points in a type that holds them."""
    wide = zero.astype(exact)
    return w.astype(exact) - (wide.reshape(()) if wide.size == 1 else wide.reshape(-1, *(1,) * (w.ndim - 1)))


@shared_of_arrays
def _floats(w: Array, zero: Array) -> Array:
    return _less(w, zero, np.float32)


@remembered_of_arrays
def _cuts(w: Array, w_zero: Array, x_zero: Array | None) -> list[tuple[int, int]] | None:
    """Return the ranges of channels whose sums are exact in floats, as :func:`exact_parts` does."""
    return exact_parts(np.abs(_less(w, w_zero)).reshape(*w.shape[:2], -1).sum(2).T, x_zero)


@onnx("ConvInteger", since=(10,))
def import_conv_integer(node: OnnxNode) -> tuple[str, ...]:
    return node.emit(IntegerConvolution.of(import_conv(node)), *with_zeros(node))


@implements(
    IntegerConvolution,
    name="integer_convolution.ref",
    serves=Serves(dtypes=BYTES | {DType.I32}, mixed=True),
    general=True,
)
class IntegerConvolutionRef(General[IntegerConvolution]):
    """One work-item an output element, any number of spatial axes."""

    @classmethod
    def plan(cls, q: Query[IntegerConvolution]) -> Plan:
        (x, w, x_zero, w_zero), (y,), f = q.own, q.outputs, q.primitive.window
        whole: Query[Any] = q
        alone = replace(whole, primitive=f, inputs=q.inputs[:2], arity=2)
        numbers = convolution_table(alone, w.shape[0] // f.groups, w.shape[1])
        pitch = w_zero.all_pitches[0] if w_zero.count != 1 else 0
        zeros = table([x_zero.origin, w_zero.origin, pitch])
        numbers = Table((*zeros.values, *numbers.values))
        jit = Jit().define(RANK=y.rank, A=x.dtype, B=w.dtype, ZERO_A=x_zero.dtype, ZERO_B=w_zero.dtype)
        kernel = "integer_convolution/integer_convolution_ref"
        return Plan((launch(kernel, jit, y.count, "in0", "in1", "in2", "in3", "out0", numbers),))
