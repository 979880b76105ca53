"""Operators on integers with scales: ONNX's QLinearConv and QLinearMatMul, ONNX Runtime's QLinearAdd and the like.

Each is Dequantize, the operator of floats, and Quantize. Products are scaled to steps of the result by their constant
operand, so that sums stay small numbers whatever they are stored in; what is constant of it is computed once. Results
are within one step of those of integer arithmetic: of values as near to a half as float32 rounds, either neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution, import_conv
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import as_floats
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import import_pooling
from clgraph.ops.quantize import Dequantize, Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.softmax import Softmax

CONTRIB = "com.microsoft"


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


@onnx("QLinearAdd", since=(1,), domain=CONTRIB)
@onnx("QLinearMul", since=(1,), domain=CONTRIB)
def import_qlinear_eltwise(node: OnnxNode) -> Sequence[str]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = node.inputs
    (left,) = node.emit(Dequantize(), *filter(None, (a, a_scale, a_zero)))
    (right,) = node.emit(Dequantize(), *filter(None, (b, b_scale, b_zero)))
    (y,) = node.emit(Eltwise(node.op_type.removeprefix("QLinear").lower()), left, right)
    return node.emit(Quantize(), y, y_scale, *y_zero)


@onnx("QGemm", since=(1,), domain=CONTRIB)
def import_qgemm(node: OnnxNode) -> Sequence[str]:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, *y_zero = (*node.inputs, "", "")[:9]
    if node.attribute("alpha", 1.0) != 1:
        raise node.unsupported("alpha is 1 wherever onnxruntime writes it; another one is not there")
    axis = 0 if node.attribute("transB", 0) else 1
    (left,) = node.emit(Dequantize(), a, a_scale, a_zero)
    (right,) = node.emit(Dequantize(axis), b, b_scale, b_zero)
    (y,) = node.emit(MatMul(bool(node.attribute("transA", 0)), bool(axis == 0)), left, right)
    if bias:
        (scale,) = node.emit(Eltwise("mul"), a_scale, b_scale)
        (whole,) = node.emit(Reorder(DType.F32), bias)
        (y,) = node.emit(Eltwise("add"), y, *node.emit(Eltwise("mul"), whole, scale))
    return node.emit(Quantize(), y, *filter(None, (y_scale, *y_zero))) if y_scale else (y,)


@onnx("QLinearGlobalAveragePool", since=(1,), domain=CONTRIB)
@onnx("QLinearAveragePool", since=(1,), domain=CONTRIB)
@onnx("QLinearSigmoid", since=(1,), domain=CONTRIB)
@onnx("QLinearLeakyRelu", since=(1,), domain=CONTRIB)
@onnx("QLinearSoftmax", since=(1,), domain=CONTRIB)
def import_qlinear_unary(node: OnnxNode) -> Sequence[str]:
    if node.attribute("channels_last", 0):
        raise node.unsupported("channels come first")
    x, x_scale, x_zero, y_scale, *y_zero = node.inputs
    if node.op_type == "QLinearSoftmax" and node.attribute("opset", 13) < 13:
        raise node.unsupported("softmax of an operator set before 13 is not there")
    function: dict[str, Callable[[], Primitive]] = {
        "QLinearGlobalAveragePool": lambda: Reduce("mean", spatial=True),
        "QLinearAveragePool": lambda: import_pooling(node, "average"),
        "QLinearSigmoid": lambda: Activation("sigmoid"),
        "QLinearSoftmax": lambda: Softmax((node.attribute("axis", -1),)),
        "QLinearLeakyRelu": lambda: Activation("leaky_relu", node.attribute("alpha", 0.01)),
    }
    (floats,) = node.emit(Dequantize(), *filter(None, (x, x_scale, x_zero)))
    (y,) = node.emit(function[node.op_type](), floats)
    return node.emit(Quantize(), y, y_scale, *filter(None, y_zero))


@onnx("QLinearConcat", since=(1,), domain=CONTRIB)
def import_qlinear_concat(node: OnnxNode) -> Sequence[str]:
    y_scale, y_zero, *parts = node.inputs
    floats = [node.emit(Dequantize(), *parts[i : i + 3])[0] for i in range(0, len(parts), 3)]
    (y,) = node.emit(Concat(node.attribute("axis", 0)), *floats)
    return node.emit(Quantize(), y, y_scale, y_zero)


@onnx("QuantizeLinear", since=(1,), domain=CONTRIB)
def import_contrib_quantize(node: OnnxNode) -> Primitive:
    return Quantize(node.attribute("axis", 1))


@onnx("DequantizeLinear", since=(1,), domain=CONTRIB)
def import_contrib_dequantize(node: OnnxNode) -> Primitive:
    return Dequantize(node.attribute("axis", 1))
