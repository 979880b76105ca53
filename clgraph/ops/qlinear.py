"""Operators on integers with scales: ONNX's QLinearConv and QLinearMatMul.

Each is Dequantize, the operator of floats, and Quantize. Products are scaled to steps of the result by their constant
operand, so that sums stay small numbers whatever they are stored in; what is constant of it is computed once. Results
are within one step of those of integer arithmetic: of values as near to a half as float32 rounds, either neighbour.
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
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import as_floats
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Dequantize, Quantize
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

    def compose(self, c: Composition) -> Sequence[str]:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = c.inputs
        scale = _steps(c, x_scale, w_scale, y_scale)
        zero = _like(c, w_zero, scale)
        inputs = [as_floats(c, x, x_zero), c.add(Dequantize(0), w, scale, zero)]
        if bias:
            inputs.append(c.add(Eltwise("mul"), c.add(Reorder(DType.F32), *bias), scale))
        window = Convolution(self.strides, self.dilations, self.pads, self.groups, self.auto_pad)
        return (_quantized(c, c.add(window, *inputs), y_zero),)


@primitive
@frozen
class QLinearMatMul(Composite):
    """A product of quantised matrices. Inputs: a, its scale and zero point, b, the same, scale and zero of the result.

    Scale and zero point of a are one number, those of b one or ``[N]``.
    """

    transpose_a: bool = False
    transpose_b: bool = False

    kind: ClassVar[str] = "qlinear_matmul"

    def compose(self, c: Composition) -> Sequence[str]:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = c.inputs
        if c.layout(a_scale).count != 1 or c.layout(b_scale).rank > 1:
            raise ShapeError("scales a row of the first matrix, or a matrix of a batch, are not there")
        scale = _steps(c, a_scale, b_scale, y_scale)
        axis = c.layout(b).rank - (2 if self.transpose_b else 1)
        y = c.add(
            MatMul(self.transpose_a, self.transpose_b),
            as_floats(c, a, a_zero),
            c.add(Dequantize(axis), b, scale, _like(c, b_zero, scale)),
        )
        return (_quantized(c, y, y_zero),)


def _steps(c: Composition, x_scale: str, w_scale: str, y_scale: str) -> str:
    """Add the scale that takes products of integers to steps of the result, in the shape of w's scale.

    It is computed in the type of the scales, as ONNX's reference does, and float32 from there on.
    """
    single = [c.add(Reshape(()), s) for s in (x_scale, y_scale)]
    scale = c.add(Eltwise("div"), c.add(Eltwise("mul"), w_scale, single[0]), single[1])
    return scale if c.layout(scale).dtype == DType.F32 else c.add(Reorder(DType.F32), scale)


def _like(c: Composition, zero: str, scale: str) -> str:
    return c.add(Reshape(c.layout(scale).shape), zero) if c.layout(zero).count == c.layout(scale).count else zero


def _quantized(c: Composition, y: str, zero: str) -> str:
    """Add the rounding of y, in steps of the result."""
    return c.add(Quantize(), y, c.constant(np.ones(c.layout(zero).shape, np.float32)), zero)


@onnx("QLinearConv", since=(10,))
def import_qlinear_conv(node: OnnxNode) -> Primitive:
    window = import_conv(node, 3)
    return QLinearConvolution(window.strides, window.dilations, window.pads, window.groups, window.auto_pad)


@onnx("QLinearMatMul", since=(10, 21))
def import_qlinear_matmul(node: OnnxNode) -> Primitive:
    return QLinearMatMul()
