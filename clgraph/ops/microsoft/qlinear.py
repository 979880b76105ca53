"""Operators on integers with scales that ONNX Runtime's quantiser writes beside ONNX's own.

Each is Dequantize, the operator of floats, and Quantize: see :mod:`clgraph.ops.qlinear`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.cast_like import CastLike
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.channels import channels_last
from clgraph.ops.microsoft.whole_windows import WholeWindows
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.pooling import import_pooling
from clgraph.ops.qlinear import import_qlinear_conv
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.softmax import Softmax
from clgraph.ops.where import Where

_LARGE = 2.0**118
"""Scales above it may make floats of bytes infinite."""


def _floats(node: OnnxNode, quantised: Sequence[str], axis: int = 1) -> str:
    """Emit the floats of x, its scale and perhaps its zero point."""
    return node.emit(Dequantize(axis), *filter(None, quantised))[0]


def _rounded(node: OnnxNode, y: str, parameters: Sequence[str], like: str) -> tuple[str, ...]:
    """Emit the rounding of y by scale and zero point; without a zero point to the type of *like*, an input."""
    scale, zero = (*parameters, "")[:2]
    if not zero:
        (zero,) = node.emit(CastLike(), node.literal(np.zeros((), np.uint8)), like)
    return node.emit(Quantize(), y, scale, zero)


def _nearest_integers(node: OnnxNode, y: str, parameters: Sequence[str]) -> str:
    """Emit the steps of the integers next to ``y / scale + zero``: a half becomes an even integer, not a step."""
    scale, zero = (*parameters, "")[:2]
    (t,) = node.emit(Eltwise("div"), y, scale)
    if zero:
        (zero,) = node.emit(Reorder(DType.F32), zero)
        (t,) = node.emit(Eltwise("add"), t, zero)
    (t,) = node.emit(Activation("round"), t)
    if zero:
        (t,) = node.emit(Eltwise("sub"), t, zero)
    return node.emit(Eltwise("mul"), t, scale)[0]


@onnx("QLinearConv", since=(1,), domain=MICROSOFT)
def import_contrib_qlinear_conv(node: OnnxNode) -> Primitive | Sequence[str]:
    convolution = import_qlinear_conv(node)
    return channels_last(node, convolution, *node.inputs) if node.attribute("channels_last", 0) else convolution


@onnx("QLinearAdd", since=(1,), domain=MICROSOFT)
@onnx("QLinearMul", since=(1,), domain=MICROSOFT)
def import_qlinear_eltwise(node: OnnxNode) -> Sequence[str]:
    function = node.op_type.removeprefix("QLinear").lower()
    inputs = [*node.inputs]
    scales = {slot: found for slot in (1, 4, 6) if (found := node.constant(slot)) is not None}
    if function == "mul" and any((np.abs(scales.get(slot, 0.0)) > _LARGE).any() for slot in (1, 4)) and 6 in scales:
        # A mask of the smallest float: its steps times 255 may be infinite, and 0 times that NaN.
        slot = 1 if 1 in scales and (np.abs(scales[1]) > _LARGE).any() else 4
        node.note(f"scales of inputs {slot} and 6 become 256 times smaller, because floats of bytes would be infinite")
        for i in (slot, 6):
            inputs[i] = node.literal(scales[i] / scales[i].dtype.type(256))
    left, right = (_floats(node, inputs[i : i + 3]) for i in (0, 3))
    (y,) = node.emit(_on_known_steps(node, inputs, function) or Eltwise(function), left, right)
    return _rounded(node, y, inputs[6:], inputs[0])


def _on_known_steps(node: OnnxNode, inputs: Sequence[str], function: str) -> OnSteps | None:
    """Return the function of a QLinearAdd or QLinearMul, ``None`` where not all scales and zero points are known."""
    names = (*node.inputs, "", "")
    scales = [node.constant(slot) if names[slot] == inputs[slot] else None for slot in (1, 4, 6)]
    zeros = [node.constant(slot) if names[slot] else np.zeros((), np.uint8) for slot in (2, 5, 7)]
    if any(v is None or v.size != 1 for v in (*scales, *zeros)):
        return None
    a, b, y = (float(v.reshape(())) for v in scales if v is not None)
    zero_a, zero_b, zero_y = (int(v.reshape(())) for v in zeros if v is not None)
    made = QuantizedSum if function == "add" else QuantizedProduct
    return made((a, b, y), (zero_a, zero_b, zero_y)) if min(a, b, y) > 0 else None


@onnx("QLinearWhere", since=(1,), domain=MICROSOFT)
def import_qlinear_where(node: OnnxNode) -> Sequence[str]:
    left, right = (_floats(node, node.inputs[i : i + 3]) for i in (1, 4))
    (y,) = node.emit(Where(), node.inputs[0], left, right)
    return _rounded(node, y, node.inputs[7:], node.inputs[1])


@onnx("QGemm", since=(1,), domain=MICROSOFT)
def import_qgemm(node: OnnxNode) -> Sequence[str]:
    """Return ``alpha a b`` plus the bias, whose steps are those of the product, rounded where there is a scale."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = (*node.inputs, "", "", "")[:9]
    alpha, transposed = node.attribute("alpha", 1.0), bool(node.attribute("transB", 0))
    right = _floats(node, (b, b_scale, b_zero), 0 if transposed else 1)
    inputs = [_floats(node, (a, a_scale, a_zero)), right]
    if bias:
        (scale,) = node.emit(Eltwise("mul"), a_scale, b_scale)
        known, steps = node.constant(6), node.constant(4)
        if known is not None and steps is not None and (steps.size == 1 or known.shape[-1:] == steps.shape):
            # A constant that remembers its integers: sums of bytes start with them.
            inputs += node.emit(Dequantize(-1), bias, scale)
        else:
            node.note("the bias becomes float32, because it or the scale of b is computed or fits no axis")
            inputs += node.emit(Eltwise("mul"), *node.emit(Reorder(DType.F32), bias), scale)
    (y,) = node.emit(MatMul(bool(node.attribute("transA", 0)), transposed), *inputs)
    if alpha != 1:
        (y,) = node.emit(Activation("linear", alpha), y)
    return _rounded(node, y, (y_scale, y_zero), a) if y_scale else (y,)


def _softmax(node: OnnxNode) -> Primitive:
    return Softmax((node.attribute("axis", -1),), flatten=node.attribute("opset", 13) < 13)


def _mean(node: OnnxNode) -> Primitive:
    return Reduce("mean", tuple(node.attribute("axes", ())), bool(node.attribute("keepdims", 1)))


def _average_pool(node: OnnxNode) -> Primitive:
    pooling = import_pooling(node, "average")
    return WholeWindows(pooling) if pooling.ceil_mode and pooling.count_include_pad else pooling


_UNARY: dict[str, Callable[[OnnxNode], Primitive]] = {
    "QLinearGlobalAveragePool": lambda node: Reduce("mean", spatial=True),
    "QLinearAveragePool": _average_pool,
    "QLinearSigmoid": lambda node: Activation("sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearLeakyRelu": lambda node: Activation("leaky_relu", node.attribute("alpha", 0.01)),
    "QLinearReduceMean": _mean,
}


def share_of_steps(scale: Array) -> float:
    """Return the share of a softmax that becomes steps: ONNX Runtime multiplies by the whole part of 1 / *scale*.

    That of float32(1 / 255) is 254.
    """
    step = scale.astype(np.float32).item()
    return float(np.floor(1 / step) * step) if step > 0 else 1.0


@onnx("QLinearGlobalAveragePool", since=(1,), domain=MICROSOFT)
@onnx("QLinearAveragePool", since=(1,), domain=MICROSOFT)
@onnx("QLinearSigmoid", since=(1,), domain=MICROSOFT)
@onnx("QLinearLeakyRelu", since=(1,), domain=MICROSOFT)
@onnx("QLinearSoftmax", since=(1,), domain=MICROSOFT)
@onnx("QLinearReduceMean", since=(1,), domain=MICROSOFT)
def import_qlinear_unary(node: OnnxNode) -> Sequence[str]:
    last = bool(node.attribute("channels_last", 0))
    x = _floats(node, node.inputs[:3])
    function = _UNARY[node.op_type](node)
    (y,) = channels_last(node, function, x) if last else node.emit(function, x)
    scale = node.constant(3)
    if node.op_type == "QLinearSoftmax" and scale is not None and scale.size != 1:
        raise node.unsupported(f"the scale of the result is one number, not a tensor of shape {list(scale.shape)}")
    if node.op_type == "QLinearSoftmax" and scale is not None and (share := share_of_steps(scale)) != 1:
        (y,) = node.emit(Activation("linear", share), y)
    if node.op_type == "QLinearAveragePool":
        y = _nearest_integers(node, y, node.inputs[3:])
    return _rounded(node, y, node.inputs[3:], node.inputs[0])


@onnx("QLinearConcat", since=(1,), domain=MICROSOFT)
def import_qlinear_concat(node: OnnxNode) -> Sequence[str]:
    y_scale, y_zero, *parts = node.inputs
    if len(parts) % 3:
        raise node.unsupported(f"{len(parts)} inputs are not parts with a scale and a zero point each")
    floats = [_floats(node, parts[i : i + 3]) for i in range(0, len(parts), 3)]
    (y,) = node.emit(Concat(node.attribute("axis", 0)), *floats)
    return _rounded(node, y, (y_scale, y_zero), parts[0])


@onnx("QuantizeLinear", since=(1,), domain=MICROSOFT)
def import_contrib_quantize(node: OnnxNode) -> Primitive:
    return Quantize(node.attribute("axis", 1))


@onnx("DequantizeLinear", since=(1,), domain=MICROSOFT)
def import_contrib_dequantize(node: OnnxNode) -> Primitive:
    return Dequantize(node.attribute("axis", 1))
