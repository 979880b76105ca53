"""Single operators that go on from step to step, that quantise, attend and normalise, and some that only look."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from tools.fuzzing.making import Making, Tensor
from tools.fuzzing.single import FLOATS, NUMBERS, axis_of, beside, case, filled, numbers, shape_of, tensor, term

UNITS = (1, 2, 3, 8, 16, 17)


@case("RNN", "GRU", "LSTM")
def recurrent(g: Making, name: str) -> None:
    drawn = partial(tensor, strange=())  # ONNX Runtime's functions bound what is no number
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    steps, batch, width, hidden = (g.number(1, 5), g.number(1, 4), int(g.one(UNITS)), int(g.one(UNITS)))
    direction = g.one(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    more: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if name == "GRU":
        more["linear_before_reset"] = g.number(0, 1)
    if g.chance(0.2):
        more["clip"] = 0.7
    x = drawn(g, (steps, batch, width), np.float32, -1, 1)
    w, r = (drawn(g, (d, gates * hidden, k), np.float32, -0.5, 0.5) for k in (width, hidden))
    bias = drawn(g, (d, 2 * gates * hidden), np.float32, -0.5, 0.5) if g.chance(0.6) else None
    lengths = np.asarray(g.random.integers(1, steps + 1, batch)).astype(np.int32)
    held = g.source((batch,), np.int32, array=lengths, keep=False) if g.chance(0.4) else None
    starts = [drawn(g, (d, batch, hidden), np.float32, -1, 1) if g.chance(0.5) else None for _ in "hc"]
    given = [x, w, r, bias, held, starts[0]]
    if name == "LSTM":
        given += [starts[1], drawn(g, (d, 3 * hidden), np.float32, -0.5, 0.5) if g.chance(0.3) else None]
    g.split(name, *given, shapes=[()] * (3 if name == "LSTM" else 2), **more)


def zero_of(g: Making, dtype: Any, shape: tuple[int, ...] = ()) -> Tensor:
    """Add a constant zero point."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return g.constant(np.asarray(g.random.integers(low, high + 1, shape)).astype(dtype))


@case("QuantizeLinear", "DequantizeLinear")
def steps_of(g: Making, name: str) -> None:
    shape, dtype = shape_of(g, (0, 1, 2, 3, 4)), g.one((np.uint8, np.int8))
    by_axis = bool(shape) and g.chance(0.4)
    axis = axis_of(g, len(shape)) if by_axis else 0
    wide = (shape[axis],) if by_axis else ()
    scale = g.constant(np.asarray(g.random.choice([0.5, 0.25, 0.1, 1.0, 0.0234], wide)).astype(np.float32))
    zero = [zero_of(g, dtype, wide)] if g.chance(0.7) else []
    if name == "QuantizeLinear":
        x = tensor(g, shape, np.float32, -40, 40)
        made: Any = dtype if zero else np.uint8
    else:
        x, made = tensor(g, shape, dtype, -128, 255), np.float32
    g.add(name, x, scale, *zero, shape=(), dtype=made, **({"axis": axis} if by_axis else {}))


@case("DynamicQuantizeLinear")
def by_range(g: Making, name: str) -> None:
    x = tensor(g, filled(g, (1, 2, 3)), np.float32, float(g.one((-4.0, 0.0, 3.0))), strange=())
    made = g.split(name, x, shapes=[()] * 3, dtype=np.uint8)
    g.values[g.values.index(made[1])] = Tensor(made[1].name, np.dtype(np.float32), ())


@case("MatMulInteger", "QLinearMatMul")
def whole_product(g: Making, name: str) -> None:
    m, k, n = (int(g.one((1, 2, 3, 7, 16, 17, 33))) for _ in range(3))
    batch = tuple(g.number(1, 3) for _ in range(g.number(0, 2)))
    first, second = g.one(((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)))
    a, b = tensor(g, (*batch, m, k), first, -128, 255), tensor(g, (*beside(g, batch), k, n), second, -128, 255)
    if name == "MatMulInteger":
        zeros = [zero_of(g, first), zero_of(g, second)][: g.number(0, 2)]
        g.add(name, a, b, *zeros, shape=(), dtype=np.int32)
        return
    scales = [g.constant(np.float32(s)) for s in (0.02, 0.03, 0.5)]
    out = g.one((np.uint8, np.int8))
    zeros = [zero_of(g, t) for t in (first, second, out)]
    g.add(name, a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2], shape=(), dtype=out)


@case("BatchNormalization")
def over_batches(g: Making, name: str) -> None:
    shape = filled(g, (2, 3, 4, 5))
    x = tensor(g, shape, np.float32, strange=())
    parts = [tensor(g, shape[1:2], np.float32, low, 3, strange=()) for low in (-3, -3, -3, 0.1)]
    g.add(name, x, *parts, shape=(), epsilon=float(g.one((1e-5, 1e-3))))


@case("GroupNormalization", "RMSNormalization", "MeanVarianceNormalization")
def by_groups(g: Making, name: str) -> None:
    if name == "GroupNormalization":
        groups, each = g.number(1, 4), g.number(1, 5)
        shape = (g.number(1, 3), groups * each, *(g.number(1, 6) for _ in range(g.number(1, 2))))
        scale, bias = (tensor(g, shape[1:2], np.float32, strange=()) for _ in "sb")
        g.opset = 21
        g.add(name, tensor(g, shape, np.float32, strange=()), scale, bias, shape=(), num_groups=groups)
    elif name == "RMSNormalization":
        shape = filled(g, (1, 2, 3, 4))
        axis = axis_of(g, len(shape))
        g.opset = 23
        x = tensor(g, shape, np.float32, strange=())
        g.add(
            name,
            x,
            tensor(g, shape[axis:] if axis % len(shape) else shape, np.float32, strange=()),
            shape=(),
            axis=axis,
        )
    else:
        shape = filled(g, (3, 4))
        axes = sorted({g.number(0, len(shape) - 1) for _ in "ab"})
        g.add(name, tensor(g, shape, np.float32, strange=()), shape=(), axes=axes)


@case("Attention")
def attention(g: Making, name: str) -> None:
    heads, groups, batch, d, e = g.number(1, 3), g.number(1, 2), g.number(1, 2), int(g.one(UNITS)), int(g.one(UNITS))
    q, k = g.number(1, 6), g.number(1, 9)
    shapes = [(batch, heads * groups, q, d), (batch, heads, k, d), (batch, heads, k, e)]
    parts = [term(g, s, np.float32, -2, 2) for s in shapes]
    more: dict[str, Any] = {"is_causal": g.number(0, 1)}
    if g.chance(0.3):
        more["softcap"] = 3.0
    if g.chance(0.3):
        more["scale"] = 0.3
    g.opset = 23
    if g.chance(0.5) and not more["is_causal"]:
        parts.append(tensor(g, g.one(((q, k), (batch, 1, q, k), (1, 1, q, k))), np.float32, strange=()))
    g.add(name, *parts, shape=(), **more)


@case("RotaryEmbedding")
def rotated(g: Making, name: str) -> None:
    batch, heads, steps, half = g.number(1, 2), g.number(1, 3), g.number(1, 5), g.number(1, 9)
    tables = [term(g, (steps + 2, half), np.float32, -1, 1) for _ in "cs"]
    places = np.asarray(g.random.integers(0, steps + 2, (batch, steps))).astype(np.int64)
    held = g.source(places.shape, np.int64, array=places, keep=False)
    g.opset = 23
    x = term(g, (batch, heads, steps, 2 * half), np.float32)
    g.add(name, x, *tables, held, shape=(), interleaved=g.number(0, 1))


@case("Sum", "Mean")
def several(g: Making, name: str) -> None:
    shape, dtype = shape_of(g), g.one(FLOATS)
    g.add(name, *(term(g, beside(g, shape) if i else shape, dtype) for i in range(g.number(1, 4))), shape=())


@case("Shrink", "Gelu", "Swish")
def bent(g: Making, name: str) -> None:
    more: dict[str, Any] = {
        "Shrink": {"lambd": 0.7, "bias": 0.2},
        "Gelu": {"approximate": g.one(("none", "tanh"))},
    }.get(name, {"alpha": float(g.one((1.0, 1.7)))})
    g.opset = {"Shrink": 18, "Gelu": 20, "Swish": 24}[name]
    g.add(name, tensor(g, shape_of(g), g.one((np.float32, np.float32, np.float16))), shape=(), **more)


@case("Reshape")
def reshaped(g: Making, name: str) -> None:
    shape = shape_of(g, (0, 1, 2, 3, 4))
    wanted = [int(d) for d in g.random.permutation(shape)] if shape else [1] * g.number(0, 3)
    if 0 not in shape and wanted and g.chance(0.5):
        wanted[g.number(0, len(wanted) - 1)] = -1
    more = {"allowzero": 1} if 0 in shape else {}
    g.add(name, tensor(g, shape, g.one((*NUMBERS, np.bool_))), g.integers(*wanted), shape=(), **more)


@case("Squeeze")
def squeezed(g: Making, name: str) -> None:
    shape = tuple(1 if g.chance(0.5) else d for d in shape_of(g, (1, 2, 3, 4)))
    axes = [a - len(shape) if g.chance(0.4) else a for a, d in enumerate(shape) if d == 1 and g.chance(0.7)]
    g.add(name, tensor(g, shape, g.one(NUMBERS)), *([g.integers(*axes)] if axes else []), shape=())


@case("Shape", "Size")
def sizes_of(g: Making, name: str) -> None:
    shape = shape_of(g)
    ends = {key: g.number(-6, 6) for key in ("start", "end") if g.chance(0.5)} if name == "Shape" else {}
    g.add(name, tensor(g, shape, g.one(NUMBERS)), shape=(), dtype=np.int64, **ends)


@case("EyeLike")
def diagonal(g: Making, name: str) -> None:
    kind = np.dtype(g.one((np.float32, np.int64, np.float64)))
    g.add(name, tensor(g, filled(g, (2,)), np.float32), shape=(), dtype=kind, k=g.number(-4, 4))
    g.nodes[-1].attribute.append(helper.make_attribute("dtype", helper.np_dtype_to_tensor_dtype(kind)))


@case("CastLike")
def cast_as(g: Making, name: str) -> None:
    target = tensor(g, (1,), g.one((*NUMBERS, np.bool_)))
    x = numbers(g, shape_of(g), g.one(NUMBERS), strange=())
    x = np.clip(x, 0, 100).astype(x.dtype)
    g.add(name, g.source(x.shape, x.dtype, array=x, keep=False), target, shape=(), dtype=target.dtype)


@case("Det")
def determinant(g: Making, name: str) -> None:
    n = g.number(1, 5)
    g.add(name, term(g, (*shape_of(g, (0, 1, 2))[:2], n, n), np.float32), shape=())


@case("DFT")
def spectrum(g: Making, name: str) -> None:
    parts = g.number(1, 2)
    shape = (g.number(1, 3), *(g.number(1, 17) for _ in range(g.number(1, 2))), parts)
    axis, inverse = g.number(1, len(shape) - 2), g.number(0, 1) if parts == 2 else 0
    length = [g.constant(np.array(g.number(1, 20), np.int64))] if g.chance(0.4) else [None]
    onesided = g.number(0, 1) if parts == 1 else 0
    g.opset = 20
    x = tensor(g, shape, np.float32, strange=())
    g.add(name, x, *length, g.constant(np.array(axis)), shape=(), inverse=inverse, onesided=onesided)


@case("HannWindow", "HammingWindow", "BlackmanWindow")
def bell(g: Making, name: str) -> None:
    size = g.source((), np.int64, array=np.array(g.number(2, 40)), keep=False)
    g.add(name, size, shape=(), dtype=np.float32, periodic=g.number(0, 1))


@case("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g: Making, name: str) -> None:
    classes, rest = g.number(1, 9), tuple(g.number(1, 5) for _ in range(g.number(0, 2)))
    n = g.number(1, 5)
    x = term(g, (n, classes, *rest), np.float32, -3, 0)
    labels = np.asarray(g.random.integers(0, classes, (n, *rest))).astype(np.int64)
    held = g.source(labels.shape, np.int64, array=labels, keep=False)
    weights = [tensor(g, (classes,), np.float32, 0.1, 2, strange=())] if g.chance(0.5) else []
    more: dict[str, Any] = {"reduction": g.one(("none", "mean", "sum"))}
    if g.chance(0.3) and classes > 1:
        more["ignore_index"] = 0
    g.add(name, x, held, *weights, shape=(), **more)


@case("NonMaxSuppression")
def suppressed(g: Making, name: str) -> None:
    batch, classes, count = g.number(1, 2), g.number(1, 3), g.number(1, 20)
    corners = np.sort(g.random.uniform(0, 10, (batch, count, 2, 2)), 2).reshape(batch, count, 4).astype(np.float32)
    boxes = g.source(corners.shape, np.float32, array=corners, keep=False)
    marks = np.asarray(g.random.permutation(batch * classes * count)).reshape(batch, classes, count)
    scores = g.source(marks.shape, np.float32, array=(marks / marks.size).astype(np.float32), keep=False)
    limits = [np.int64(g.number(0, 5)), np.float32(g.one((0.0, 0.3, 0.7))), np.float32(g.one((0.0, 0.4)))]
    given = [g.constant(np.array([n])) for n in limits][: g.number(1, 3)]
    g.add(name, boxes, scores, *given, shape=(), dtype=np.int64, center_point_box=g.number(0, 1))
