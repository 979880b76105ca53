"""QONNX's operators, which Brevitas, QKeras and FINN write: rounding to a number of bits, the result in floats.

What they compute is what qonnx's executor does (https://github.com/fastmachinelearning/qonnx, ``custom_op/general``).
They are a QuantizeLinear and a DequantizeLinear where these say the same, so that products run from bytes as of other
quantised models; else a chain of elementwise operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.importing import QONNX, OnnxNode, onnx
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.bits import BitCast
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.where import Where

_EXPONENT = np.array(0x7F800000, np.int32)
"""The bits of a float32 that are its exponent."""
_GENERAL, _BREVITAS = QONNX


@onnx("Quant", since=(1,), domain=_GENERAL)
@onnx("Quant", since=(1,), domain=_BREVITAS)
@onnx("IntQuant", since=(1,), domain=_GENERAL)
@onnx("IntQuant", since=(1,), domain=_BREVITAS)
def import_quant(node: OnnxNode) -> Sequence[str]:
    """Emit ``(round(clip(x / scale + zero)) - zero) * scale``."""
    x, scale, zero = node.inputs[:3]
    bits, signed = _known(node, 3, "bit width"), bool(node.attribute("signed", 1))
    mode, rounding = _rounding(node, "ROUND")
    if bits == 1 and signed:
        _note(node)
        return _floats(node, _signs(node, _steps(node, x, scale, zero)), zero, scale)
    low, high = _range(bits, signed=signed, narrow=bool(node.attribute("narrow", 1)))
    if mode in ("ROUND", "HALF_EVEN") and (found := _as_pair(node, low, high)) is not None:
        return found
    _note(node)
    bounded = _one(node, Activation("clip", low, high), _steps(node, x, scale, zero))
    return _floats(node, rounding(node, bounded), zero, scale)


@onnx("BipolarQuant", since=(1,), domain=_GENERAL)
@onnx("BipolarQuant", since=(1,), domain=_BREVITAS)
def import_bipolar_quant(node: OnnxNode) -> Sequence[str]:
    x, scale = node.inputs
    _note(node)
    return node.emit(Eltwise("mul"), _signs(node, x), scale)


@onnx("Trunc", since=(1, 2), domain=_GENERAL)
@onnx("Trunc", since=(1, 2), domain=_BREVITAS)
def import_trunc(node: OnnxNode) -> Sequence[str]:
    """Emit the integers without their last bits; since version 2 bounded, and on steps of their own."""
    x, scale, zero = node.inputs[:3]
    _note(node)
    whole = _one(node, Activation("round"), _steps(node, x, scale, zero))
    _, rounding = _rounding(node, "FLOOR")
    if node.since == 1:
        factor = 2.0 ** (_known(node, 3, "bit width") - _known(node, 4, "bit width of the result"))
        return _floats(node, rounding(node, _by(node, "div", whole, factor)), zero, scale)
    factor = 2.0 ** float(np.round(np.log2(_known(node, 4, "scale of the result") / _known(node, 1, "scale"))))
    signed, narrow = bool(node.attribute("signed", 1)), bool(node.attribute("narrow", 0))
    bounds = _range(_known(node, 5, "bit width of the result"), signed=signed, narrow=narrow)
    steps = rounding(node, _one(node, Activation("clip", *bounds), _by(node, "div", whole, factor)))
    return _floats(node, steps, _by(node, "div", zero, factor), node.inputs[4])


@onnx("FloatQuant", since=(1,), domain=_GENERAL)
@onnx("FloatQuant", since=(1,), domain=_BREVITAS)
def import_float_quant(node: OnnxNode) -> Sequence[str]:
    """Emit the rounding to floats of few bits: steps of ``2^(exponent of x - mantissa bits)``, not below the least."""
    if not node.attribute("saturation", 1):
        raise node.unsupported(
            "values that are too large become infinity or NaN there, and the largest number in clgraph"
        )
    x, scale = node.inputs[:2]
    _note(node)
    exponent, mantissa, bias = (_known(node, i, what) for i, what in enumerate(("exponent", "mantissa", "bias"), 2))
    largest = (2 - 2.0**-mantissa) * 2.0 ** (2.0**exponent - 1 - bias)
    largest = min(largest, _known(node, 5, "largest number") if len(node.inputs) > 5 else largest)
    _, rounding = _rounding(node, "ROUND")
    v = _one(node, Eltwise("div"), x, scale)
    power = _one(node, Eltwise("and"), _one(node, BitCast(DType.I32), v), node.literal(_EXPONENT))
    step = _by(node, "mul", _one(node, BitCast(DType.F32), power), 2.0**-mantissa)
    step = _by(node, "max", step, 2.0 ** (1 - bias - mantissa))
    y = _one(node, Eltwise("mul"), rounding(node, _one(node, Eltwise("div"), v, step)), step)
    return node.emit(Eltwise("mul"), _one(node, Activation("clip", -largest, largest), y), scale)


def _note(node: OnnxNode) -> None:
    node.note("its integers stay floats, because no QuantizeLinear and DequantizeLinear say the same")


def _as_pair(node: OnnxNode, low: float, high: float) -> Sequence[str] | None:
    """Emit a Quantize and a Dequantize of the same meaning; ``None`` where there is none.

    A scale is one number, or one for each index of an axis of constants. An odd zero point makes another half even:
    there a value between two steps may become the other one, as after qonnx's own conversion to these operators.
    """
    scale, zero = node.constant(1), node.constant(2)
    dtype = DType.I8 if low < 0 else DType.U8
    least, most = dtype.bounds
    if scale is None or zero is None or scale.dtype != np.float32 or not ((scale > 0) & np.isfinite(scale)).all():
        return None
    axes = [a for a, size in enumerate(scale.shape) if size > 1]
    whole = (zero == np.rint(zero)).all() and (zero >= least).all() and (zero <= most).all()
    if len(axes) > (node.constant(0) is not None) or not whole or low < least or high > most or high != int(high):
        return None
    if np.broadcast_shapes(zero.shape, scale.shape) != scale.shape and zero.size > 1:
        return None
    shape = (-1,) if axes else ()
    starts = np.broadcast_to(zero if zero.size > 1 else zero.reshape(()), scale.shape).astype(dtype.numpy)
    by, start = node.literal(scale.reshape(shape)), node.literal(starts.reshape(shape))
    axis = axes[0] - scale.ndim if axes else 0
    y = _one(node, Quantize(axis, dtype=dtype), node.inputs[0], by, start)
    if (low, high) != (least, most):
        y = _one(node, Activation("clip", low, high), y)
    return node.emit(Dequantize(axis), y, by, start)


def _range(bits: float, *, signed: bool, narrow: bool) -> tuple[float, float]:
    """Return the least and the greatest integer of *bits*."""
    if signed:
        return float(narrow) - 2.0 ** (bits - 1), 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1 - narrow


def _known(node: OnnxNode, slot: int, what: str) -> float:
    """Return the one number that input *slot* is; raises ``UnsupportedError`` where it is none that is known."""
    value = node.constant(slot)
    if value is None or value.size != 1:
        raise node.unsupported(f"its {what} (input {slot}) is computed, or not one number; make it a constant")
    return float(value.reshape(()))


def _one(node: OnnxNode, primitive: Primitive, *inputs: str) -> str:
    return node.emit(primitive, *inputs)[0]


def _by(node: OnnxNode, function: str, x: str, number: float) -> str:
    return x if number == 1 and function != "max" else _one(node, Eltwise(function), x, _number(node, number))


def _number(node: OnnxNode, number: float) -> str:
    return node.literal(np.array(number, np.float32))


def _steps(node: OnnxNode, x: str, scale: str, zero: str) -> str:
    return _moved(node, "add", _one(node, Eltwise("div"), x, scale), zero)


def _floats(node: OnnxNode, y: str, zero: str, scale: str) -> Sequence[str]:
    return node.emit(Eltwise("mul"), _moved(node, "sub", y, zero), scale)


def _moved(node: OnnxNode, function: str, x: str, zero: str) -> str:
    """Return *x* plus or less *zero*, itself where that is known to be 0."""
    value = node.constant(2)
    return x if value is not None and value.size == 1 and not value.any() else _one(node, Eltwise(function), x, zero)


def _signs(node: OnnxNode, x: str) -> str:
    """Return 1 where x is at least 0, else -1."""
    above = _one(node, Eltwise("greater_equal"), x, _number(node, 0))
    return _one(node, Where(), above, _number(node, 1), _number(node, -1))


def _rounding(node: OnnxNode, usual: str) -> tuple[str, Callable[[OnnxNode, str], str]]:
    """Return the node's mode, and what emits it; raises ``UnsupportedError`` where there is no such mode."""
    mode = str(node.attribute("rounding_mode", usual)).upper()
    if mode not in _ROUNDINGS:
        raise node.unsupported(f"rounding_mode {mode!r} is not one of {', '.join(_ROUNDINGS)}")
    return mode, _ROUNDINGS[mode]


def _plainly(function: str) -> Callable[[OnnxNode, str], str]:
    return lambda node, x: _one(node, Activation(function), x)


def _sizes(function: str, more: float = 0.0) -> Callable[[OnnxNode, str], str]:
    """Return what emits a rounding of magnitudes, *more* added to them first."""

    def emit(node: OnnxNode, x: str) -> str:
        size = _one(node, Activation("abs"), x)
        if more:
            size = _one(node, Activation("linear", 1.0, more), size)
        return _one(node, Eltwise("mul"), _one(node, Activation("sign"), x), _one(node, Activation(function), size))

    return emit


_ROUNDINGS: dict[str, Callable[[OnnxNode, str], str]] = {
    "ROUND": _plainly("round"),
    "HALF_EVEN": _plainly("round"),
    "CEIL": _plainly("ceil"),
    "FLOOR": _plainly("floor"),
    "UP": _sizes("ceil"),
    "DOWN": _sizes("floor"),
    "HALF_UP": _sizes("floor", 0.5),
    "HALF_DOWN": _sizes("ceil", -0.5),
}
