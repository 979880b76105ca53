"""Steps of random graphs: exact integers of all widths, and what quantizers write."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tools.fuzzing.making import Making, Tensor, step
from tools.fuzzing.steps import moved
from tools.fuzzing.steps_products import picture


@step
def integers(g: Making) -> None:
    """Add exact arithmetic of integers, of 64 bits above 2^53 among them."""
    dtype = g.one((np.int64, np.int64, np.uint64, np.int32, np.uint8, np.int8))
    x = g.source(g.shape(), dtype)
    for _ in range(g.number(1, 4)):
        match g.number(0, 5):
            case 0:
                limits = [g.constant(limit) for limit in np.sort(g.array((2,), dtype))]
                x = g.add("Clip", x, *limits[: g.number(1, 2)], shape=x.shape)
            case 1 if dtype != np.uint64:
                x = g.add("Abs", x, shape=x.shape)
            case 2:
                y = g.beside(x)
                x = g.add(g.one(("Min", "Max")), x, y, shape=np.broadcast_shapes(x.shape, y.shape))
            case 3 if dtype in (np.int64, np.uint64, np.int32):
                y = g.beside(x)
                x = g.add(g.one(("Add", "Sub")), x, y, shape=np.broadcast_shapes(x.shape, y.shape))
            case 4 if dtype in (np.int64, np.int32):
                y = g.beside(x)
                shape = np.broadcast_shapes(x.shape, y.shape)
                condition = g.add(g.one(("Equal", "Less", "Greater")), x, y, shape=shape, dtype=np.bool_)
                x = g.add("Where", condition, x, y, shape=shape, dtype=x.dtype)
            case _:
                x = moved(g, x)


def _scale(g: Making, value: float) -> Tensor:
    """Return a scale as quantizers write it: a scalar, or one element."""
    return g.constant(np.array(value, np.float32).reshape(g.one(((), (1,)))))


def quantized(g: Making, x: Tensor, dtype: type, scale: float = 0.05) -> tuple[Tensor, list[Tensor]]:
    """Add a QuantizeLinear; return its result and its scale and zero point, whose shapes need not be alike."""
    s = _scale(g, scale)
    zero = g.constant(np.array(g.number(0, 5), dtype).reshape(s.shape if g.chance(0.7) else ()))
    given = [s, zero] if dtype == np.int8 or g.chance(0.8) else [s]
    return g.add("QuantizeLinear", x, *given, shape=x.shape, dtype=dtype), given


def in_8_bits(g: Making, x: Tensor) -> Tensor:
    """Add a QuantizeLinear and a DequantizeLinear."""
    made, given = quantized(g, x, g.one((np.uint8, np.int8)))
    return g.add("DequantizeLinear", made, *given, shape=x.shape, dtype=np.float32)


@step
def quantize_dequantize(g: Making) -> None:
    """Add a quantized convolution, product or sum, as quantizers in QDQ format write it."""
    match g.number(0, 2):
        case 0:
            x = in_8_bits(g, picture(g, close="loose"))
            c, out = x.shape[1], int(g.one((1, 4, 16)))
            data = g.constant(np.asarray(g.random.integers(-127, 127, (out, c, 3, 3))).astype(np.int8))
            if g.chance(0.5):
                given = [g.constant(np.abs(g.array((out,))) * np.float32(0.01) + np.float32(0.001))]
                given.append(g.constant(np.zeros(out, np.int8)))
            else:
                given = [_scale(g, 0.01)]
            w = g.add("DequantizeLinear", data, *given, shape=data.shape, dtype=np.float32, axis=0)
            x = g.add("Conv", x, w, shape=(x.shape[0], out, *x.shape[2:]), pads=[1] * 4)
        case 1:
            x = in_8_bits(g, g.pick(ranks=(2, 3), close="loose"))
            data = g.constant(np.asarray(g.random.integers(-127, 127, (x.shape[-1], 16))).astype(np.int8))
            w = g.add("DequantizeLinear", data, _scale(g, 0.01), shape=data.shape, dtype=np.float32)
            x = g.add("MatMul", x, w, shape=(*x.shape[:-1], 16))
        case _:
            x = in_8_bits(g, g.pick(close="loose"))
            x = g.add("Add", x, in_8_bits(g, g.source(x.shape)), shape=x.shape)
    in_8_bits(g, x)


@step
def integer_product(g: Making) -> None:
    """Add a product of integers, with zero points or without, of constants or of what is quantized."""
    a, b = g.one((np.int8, np.uint8)), g.one((np.int8, np.uint8))
    m, k, n = g.number(1, 5), int(g.one((1, 4, 12, 16, 33))), int(g.one((1, 2, 16, 17)))
    dynamic = g.chance(0.3)
    if dynamic:
        x = g.source((m, k))
        left, _, zero = g.split("DynamicQuantizeLinear", x, shapes=[(m, k), (), ()], dtype=np.uint8)
        zeros: list[Tensor | None] = [zero]
        g.values = [t for t in g.values if t.name not in g.nodes[-1].output]  # the scale is a float
    else:
        left = g.source((m, k), array=np.asarray(g.random.integers(0, 100, (m, k))).astype(a))
        zeros = [g.constant(np.array(3, a))] if g.chance(0.5) else []
    right = g.constant(np.asarray(g.random.integers(0, 100, (k, n))).astype(b))
    if zeros and g.chance(0.5):
        zeros.append(g.constant(np.array(2, b)))
    made = g.add("MatMulInteger", left, right, *zeros, shape=(m, n), dtype=np.int32)
    y = g.add("Cast", made, shape=(m, n), dtype=np.float32, to=TensorProto.FLOAT)
    g.add("Mul", y, g.constant(np.float32(0.01)), shape=y.shape)


@step
def joined_in_8_bits(g: Making) -> None:
    """Add the dynamic quantization of a large join: whatever writes the join notes its extremes."""
    length = g.number(65, 80)
    parts = [g.source((1, rows, length), keep=False) for rows in (512, *[1] * g.number(1, 3))]
    joined = g.add("Concat", *parts, shape=(1, 511 + len(parts), length), axis=1)
    made = g.split("DynamicQuantizeLinear", joined, shapes=[joined.shape, (), ()], dtype=np.uint8)
    g.values[g.values.index(made[1])] = scale = Tensor(made[1].name, np.dtype(np.float32), (), stepped=True)
    x, zero = (g.add("Cast", t, shape=t.shape, dtype=np.float32, to=TensorProto.FLOAT) for t in made[::2])
    g.add("Mul", g.add("Sub", x, zero, shape=x.shape), scale, shape=x.shape)
