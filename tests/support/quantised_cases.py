"""Random calls of ONNX Runtime's own operators on integers: scales, zero points, and packed weights."""

from __future__ import annotations

import numpy as np

from tests.support.drawing import INT, Array, Call, Draw, F


def quantised(d: Draw, *shape: int) -> tuple[Array, Array, Array | None]:
    """Return integers, their scale and perhaps their zero point."""
    signed = d.size(0, 1)
    low, dtype = (-128, np.int8) if signed else (0, np.uint8)
    return d.integers(low, low + 256, shape, dtype), d.scale(), d.integers(low, low + 256, (), dtype)


def qlinear_binary(d: Draw) -> Call:
    """Return a call of QLinearAdd or QLinearMul with broadcasts."""
    shape = tuple(d.size(1, 4) for _ in range(d.size(1, 3)))
    other = d.one(shape, shape[-1:], (1,) * len(shape), ())
    a, a_scale, a_zero = quantised(d, *shape)
    assert a_zero is not None
    low = int(np.iinfo(a.dtype).min)
    b, b_zero = d.integers(low, low + 256, other, a.dtype), d.integers(low, low + 256, (), a.dtype)
    y_zero = d.integers(low, low + 256, (), a.dtype)
    some = d.size(0, 3)
    zeros = [z if some else None for z in (a_zero, b_zero, y_zero)] if a.dtype == np.uint8 else [a_zero, b_zero, y_zero]
    return Call((a, a_scale, zeros[0], b, d.scale(), zeros[1], np.asarray(d.rng.uniform(0.05, 0.5), F), zeros[2]), {})


def qlinear_unary(d: Draw) -> Call:
    """Return a call of QLinearSigmoid and the like."""
    x, scale, zero = quantised(d, *(d.size(1, 5) for _ in range(d.size(1, 3))))
    y_zero = d.integers(int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max), (), x.dtype)
    return Call((x, scale, zero, np.asarray(1 / 256, F), y_zero), {}, constant=(1, 2, 3, 4))


def qlinear_leaky_relu(d: Draw) -> Call:
    """Return a call of QLinearLeakyRelu."""
    whole = qlinear_unary(d)
    return Call(whole.inputs, d.some(alpha=(0.1, 0.5, -0.3)), constant=whole.constant)


def qlinear_softmax(d: Draw) -> Call:
    """Return a call of QLinearSoftmax under old and new rules."""
    whole = qlinear_unary(d)
    assert whole.inputs[0] is not None
    rank = whole.inputs[0].ndim
    attributes = {"opset": d.one(12, 13), "axis": d.size(-rank, rank - 1)}
    return Call(whole.inputs, attributes, constant=whole.constant)


def qlinear_average_pool(d: Draw) -> Call:
    """Return a call of QLinearAveragePool, channels second or last."""
    x, scale, zero = quantised(d, d.size(1, 2), d.size(1, 3), d.size(4, 7), d.size(4, 7))
    attributes = {"kernel_shape": (d.size(1, 3), d.size(1, 3))}
    attributes |= d.one(
        d.some(strides=((2, 1),), count_include_pad=(0, 1)), d.some(strides=((2, 2),), ceil_mode=(0, 1))
    )
    attributes |= d.one({"pads": (0, 0, 0, 0)}, {"auto_pad": "SAME_UPPER"}, {})
    if d.size(0, 1):
        x, attributes["channels_last"] = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), 1
    return Call((x, scale, zero, np.asarray(0.1, F), zero), attributes)


def qlinear_global_average_pool(d: Draw) -> Call:
    """Return a call of QLinearGlobalAveragePool, channels second or last."""
    x, scale, zero = quantised(d, d.size(1, 2), d.size(1, 4), d.size(1, 5), d.size(1, 5))
    return Call((x, scale, zero, np.asarray(0.1, F), zero), {"channels_last": d.one(0, 1)})


def qlinear_concat(d: Draw) -> Call:
    """Return a call of QLinearConcat."""
    rank = d.size(1, 3)
    axis, shape = d.size(-rank, rank - 1), [d.size(1, 4) for _ in range(rank)]
    dtype = d.one(np.int8, np.uint8)
    low = int(np.iinfo(dtype).min)
    inputs = [np.asarray(0.07, F), d.integers(low, low + 256, (), dtype)]
    for _ in range(d.size(1, 3)):
        shape[axis] = d.size(1, 3)
        inputs += [d.integers(low, low + 256, shape, dtype), d.scale(), d.integers(low, low + 256, (), dtype)]
    return Call(tuple(inputs), {"axis": axis})


def qlinear_where(d: Draw) -> Call:
    """Return a call of QLinearWhere."""
    shape = (d.size(), d.size())
    x, x_scale, x_zero = quantised(d, *shape)
    low = int(np.iinfo(x.dtype).min)
    y, zeros = d.integers(low, low + 256, shape, x.dtype), d.integers(low, low + 256, 2, x.dtype)
    condition = d.integers(0, 2, d.one(shape, shape[1:], (1, 1))).astype(bool)
    inputs = (condition, x, x_scale, x_zero, y, d.scale(), zeros[0], np.asarray(0.1, F), zeros[1])
    return Call(tuple(np.asarray(i) for i in inputs if i is not None), {})


def qgemm(d: Draw) -> Call:
    """Return a call of QGemm: scales of columns, a bias, results of integers or floats."""
    m, k, n = d.size(), d.size(), d.size()
    attributes = d.some(alpha=(0.5, 2.0), transA=(0, 1), transB=(0, 1))
    dtype, other = d.one(np.int8, np.uint8), d.one(np.int8, np.uint8)
    low, other_low = int(np.iinfo(dtype).min), int(np.iinfo(other).min)
    columns = (n,) if d.size(0, 1) else ()
    b_zero = np.full(columns, d.integers(other_low, other_low + 256), other)
    b_scale = np.asarray(d.rng.uniform(0.01, 0.1, columns), F)
    inputs: list[Array | None] = [
        d.integers(low, low + 256, (k, m) if attributes.get("transA") else (m, k), dtype),
        d.scale(),
        d.integers(low, low + 256, (), dtype),
        d.integers(other_low, other_low + 256, (n, k) if attributes.get("transB") else (k, n), other),
        b_scale,
        b_zero,
        d.maybe(lambda: d.integers(-500, 500, d.one((n,), (1, n), (m, n)), INT)),
    ]
    inputs += [np.asarray(0.3, F), d.integers(low, low + 256, (), dtype)] if d.size(0, 1) else []
    return Call(tuple(inputs), attributes, constant=(1, 2, 4, 5, 7, 8)[: 6 if len(inputs) > 7 else 4])


def matmul_integer_to_float(d: Draw) -> Call:
    """Return a call of MatMulIntegerToFloat: zero points and scales of all or of columns."""
    batch, m, k, n = tuple(d.size(1, 2) for _ in range(d.size(0, 2))), d.size(), d.size(), d.size()
    a_type, b_type = np.uint8, d.one(np.int8, np.uint8)
    low, columns = int(np.iinfo(b_type).min), d.one((), (n,))
    inputs = (
        d.integers(0, 256, (*batch, m, k), a_type),
        d.integers(low, low + 256, (k, n), b_type),
        d.scale(),
        np.asarray(d.rng.uniform(0.01, 0.1, columns), F),
        d.maybe(lambda: d.integers(0, 256, (), a_type)),
        d.maybe(lambda: d.integers(low, low + 256, columns, b_type)),
        d.maybe(lambda: d.normal(n)),
    )
    return Call(inputs, {}, constant=(1, 3, 5))


def dynamic_quantize_matmul(d: Draw) -> Call:
    """Return a call of DynamicQuantizeMatMul."""
    whole = matmul_integer_to_float(d)
    a, b, _, b_scale, _, b_zero, bias = whole.inputs
    assert a is not None
    return Call((d.normal(*a.shape), b, b_scale, b_zero, bias), {}, constant=(1, 2, 3))


def matmul_n_bits(d: Draw) -> Call:
    """Return a call of MatMulNBits: bits, blocks, zero points of each form, a bias."""
    bits, block = d.one(2, 4, 4, 8), d.one(16, 32, 64)
    n, k = d.size(1, 9), d.size(1, 80)
    blocks = -(-k // block)
    zeros = d.one(
        lambda: None,
        lambda: d.integers(0, 256, n * -(-blocks * bits // 8), np.uint8),
    )()
    inputs = [
        d.normal(*(d.size(1, 3),) * d.size(0, 2), d.size(1, 4), k),
        d.integers(0, 256, (n, blocks, block * bits // 8), np.uint8),
        np.asarray(d.rng.uniform(0.01, 0.1, n * blocks), F),
        zeros,
        None,
        d.maybe(lambda: d.normal(n)),
    ]
    return Call(tuple(inputs), {"K": k, "N": n, "bits": bits, "block_size": block}, constant=(1, 2, 3, 5))


def gather_block_quantized(d: Draw) -> Call:
    """Return a call of GatherBlockQuantized."""
    bits, block = d.one(4, 8), d.one(16, 32)
    rows, columns = d.size(2, 6), 16 * d.size(1, 4)
    table = d.integers(0, 256, (rows, columns * bits // 8), np.uint8)
    blocks = -(-columns // block)
    scales = np.asarray(d.rng.uniform(0.01, 0.1, (rows, blocks)), F)
    zeros = d.maybe(lambda: d.integers(0, 256, (rows, -(-blocks * bits // 8)), np.uint8))
    attributes = {"bits": bits, "block_size": block, "quantize_axis": d.one(1, -1), "gather_axis": 0}
    indices = d.integers(-rows, rows, tuple(d.size(1, 3) for _ in range(d.size(0, 2))), d.one(np.int32, np.int64))
    return Call((table, indices, scales, zeros), attributes, constant=(0, 2, 3))


def dynamic_quantize_lstm(d: Draw) -> Call:
    """Return a call of DynamicQuantizeLSTM."""
    directions, hidden, width, steps, batch = d.size(1, 2), d.size(1, 4), d.size(1, 4), d.size(1, 4), d.size(1, 3)
    direction = "bidirectional" if directions == 2 else d.one("forward", "reverse")
    dtype = d.one(np.int8, np.uint8)
    low = int(np.iinfo(dtype).min)

    def scales() -> Array:
        return np.asarray(d.rng.uniform(0.002, 0.01, directions), F)

    def zeros() -> Array:
        return np.zeros(directions, dtype) if low else np.full(directions, 128, dtype)

    inputs = (
        d.normal(steps, batch, width),
        d.integers(low, low + 256, (directions, width, 4 * hidden), dtype),
        d.integers(low, low + 256, (directions, hidden, 4 * hidden), dtype),
        d.maybe(lambda: d.normal(directions, 8 * hidden)),
        d.maybe(lambda: d.integers(1, steps + 1, batch, INT)),
        d.maybe(lambda: d.normal(directions, batch, hidden)),
        d.maybe(lambda: d.normal(directions, batch, hidden)),
        d.maybe(lambda: d.normal(directions, 3 * hidden)),
        scales(),
        zeros(),
        scales(),
        zeros(),
    )
    attributes = {"hidden_size": hidden, "direction": direction, **d.some(clip=(0.5,))}
    return Call(inputs, attributes, 3, constant=(1, 2, 8, 9, 10, 11))


def nhwc_max_pool(d: Draw) -> Call:
    """Return a call of NhwcMaxPool."""
    x, _, _ = quantised(d, d.size(1, 2), d.size(5, 8), d.size(3, 6), d.size(1, 4))
    attributes = {"kernel_shape": (d.size(1, 3), d.size(1, 3))}
    attributes |= d.some(strides=((2, 1), (1, 1)), ceil_mode=(0, 1), dilations=((1, 1), (2, 1)))
    return Call((x,), attributes)


def quantize(d: Draw) -> Call:
    """Return a call of QuantizeLinear: of all or of an axis."""
    shape = tuple(d.size(1, 4) for _ in range(d.size(1, 3)))
    axis, dtype = d.size(0, len(shape) - 1), d.one(np.int8, np.uint8)
    low, own = int(np.iinfo(dtype).min), d.one((), (shape[axis],))
    inputs = (d.normal(*shape), np.asarray(d.rng.uniform(0.01, 0.1, own), F), d.integers(low, low + 256, own, dtype))
    return Call(inputs, {"axis": axis})


def dequantize(d: Draw) -> Call:
    """Return a call of DequantizeLinear: of all or of an axis."""
    whole = quantize(d)
    x, scale, zero = whole.inputs
    assert x is not None
    assert zero is not None
    low = int(np.iinfo(zero.dtype).min)
    return Call((d.integers(low, low + 256, x.shape, zero.dtype), scale, d.one(zero, None)), whole.attributes)
