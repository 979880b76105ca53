"""Operators on integers with scales: ONNX's QLinearConv and QLinearMatMul.

Each is Dequantize, the operator of floats, and Quantize, as the same network has them that is quantised by pairs of
these: both are then computed by the same kernels, from integers where those are faster. Results are within one step of
those of integer arithmetic: of values as near to a half as float32 rounds, either neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.convolution import Convolution, import_conv
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Quantize
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class QLinearConvolution(Composite):
    """A convolution of quantised x and w with an int32 bias in units of both scales.

    Inputs: x, its scale and zero point, w, its scale and zero point (one number or ``[O]``), scale and zero point of
    the result, optional bias ``[O]``.

    Attributes:
        strides, dilations, pads, groups, auto_pad: As of :class:`Convolution`.
    """

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    groups: int = 1
    auto_pad: str = ""

    kind: ClassVar[str] = "qlinear_convolution"
    holds_sizes: ClassVar[bool] = False

    def takes_sizes(self) -> bool:
        return bool(self.auto_pad)

    def compose(self, c: Composition) -> Sequence[str]:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = c.inputs
        by, steps = _single(c, x_scale), _floats(c, w_scale)
        inputs = [c.add(Dequantize(0), x, by, x_zero), c.add(Dequantize(0), w, steps, _like(c, w_zero, steps))]
        if bias:
            inputs.append(c.add(Dequantize(0), *bias, c.add(Eltwise("mul"), steps, by)))
        window = Convolution(self.strides, self.dilations, self.pads, self.groups, self.auto_pad)
        return (c.add(Quantize(0), c.add(window, *inputs), _single(c, y_scale), y_zero),)


@primitive
@frozen
class QLinearMatMul(Composite):
    """A product of quantised matrices. Inputs: a, its scale and zero point, b, the same, scale and zero of the result.

    Scale and zero point of a are one number, those of b one or ``[N]``.
    """

    transpose_a: bool = False
    transpose_b: bool = False

    kind: ClassVar[str] = "qlinear_matmul"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = c.inputs
        if c.layout(a_scale).count != 1 or c.layout(b_scale).rank > 1:
            raise ShapeError("scales a row of the first matrix, or a matrix of a batch, are not there")
        scales = [a_scale, b_scale, y_scale]
        if any(c.layout(s).dtype != DType.F32 for s in scales):
            scales = _of_steps(c, a_scale, b_scale, y_scale)
        steps, axis = scales[1], c.layout(b).rank - (2 if self.transpose_b else 1)
        y = c.add(
            MatMul(self.transpose_a, self.transpose_b),
            c.add(Dequantize(0), a, _single(c, scales[0]), a_zero),
            c.add(Dequantize(axis), b, steps, _like(c, b_zero, steps)),
        )
        return (c.add(Quantize(0), y, _single(c, scales[2]), y_zero),)


def _of_steps(c: Composition, a_scale: str, b_scale: str, y_scale: str) -> list[str]:
    """Return scales of products that are steps of the result, computed in their type, as ONNX's reference does."""
    one = c.constant(np.ones((), np.float32))
    single = [c.add(Reshape(()), s) for s in (a_scale, y_scale)]
    steps = c.add(Eltwise("div"), c.add(Eltwise("mul"), b_scale, single[0]), single[1])
    return [one, _floats(c, steps), one]


def _floats(c: Composition, scale: str) -> str:
    """Return a scale in float32."""
    return scale if c.layout(scale).dtype == DType.F32 else c.add(Reorder(DType.F32), scale)


def _single(c: Composition, scale: str) -> str:
    """Return a scale of one element, in any shape, as a number in float32."""
    return _floats(c, c.add(Reshape(()), scale))


def _like(c: Composition, zero: str, scale: str) -> str:
    return c.add(Reshape(c.layout(scale).shape), zero) if c.layout(zero).count == c.layout(scale).count else zero


@onnx("QLinearConv", since=(10,))
def import_qlinear_conv(node: OnnxNode) -> Primitive:
    window = import_conv(node, 3)
    return QLinearConvolution(window.strides, window.dilations, window.pads, window.groups, window.auto_pad)


@onnx("QLinearMatMul", since=(10, 21))
def import_qlinear_matmul(node: OnnxNode) -> Primitive:
    return QLinearMatMul()
