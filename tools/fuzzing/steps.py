"""Steps of random graphs: elementwise functions, chains, moves and reductions, on large constants too."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from tools.fuzzing.making import STEPPED, Making, Shape, Tensor, step

UNARY = ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Erf", "HardSwish", "HardSigmoid", "Softplus", "Softsign", "Floor")
UNARY += ("Ceil", "Round", "Sign", "Sin", "Cos", "Mish", "Identity")


def unary(g: Making, x: Tensor) -> Tensor:
    """Add a function of one number."""
    match g.number(0, 7):
        case 0:
            return g.add("Clip", x, g.constant(np.float32(-0.5)), g.constant(np.float32(0.75)), shape=x.shape)
        case 1:
            return g.add("LeakyRelu", x, shape=x.shape, alpha=0.1)
        case 2:
            return g.add("Sqrt", g.add("Abs", x, shape=x.shape), shape=x.shape)
        case 3:
            return g.add("Exp", g.add("Tanh", x, shape=x.shape), shape=x.shape)
        case _:
            return g.add(g.one([f for f in UNARY if not (x.loose and f in STEPPED)]), x, shape=x.shape)


def binary(g: Making, x: Tensor) -> Tensor:
    """Add arithmetic with a second operand, often a scalar, on either side."""
    y, op = g.beside(x), g.one(("Add", "Sub", "Mul", "Mul", "Min", "Max", "Div", "PRelu"))
    shape = np.broadcast_shapes(x.shape, y.shape)
    if op == "PRelu":
        return g.add(op, x, y, shape=x.shape) if shape == x.shape else g.add("Add", x, y, shape=shape)
    if op == "Div":
        one = g.constant(np.float32(1))
        y = g.add("Add", g.add("Abs", y, shape=y.shape), one, shape=y.shape)
    swapped = op != "Div" and g.chance(0.3)
    return g.add(op, *((y, x) if swapped else (x, y)), shape=shape)


@step
def elementwise(g: Making) -> None:
    x = g.pick()
    for _ in range(g.number(1, 4)):
        x = unary(g, x) if g.chance(0.5) else binary(g, x)


@step
def chain(g: Making) -> None:
    """Add a long chain; what it scales stays near 1."""
    x = g.pick(most=MOST_IN_CHAIN)
    for i in range(g.number(10, 60)):
        match i % 3:
            case 0:
                x = g.add("Mul", x, g.constant(np.float32(0.9)), shape=x.shape)
            case 1:
                x = g.add("Add", x, g.source(g.one(((), (1,), x.shape)), keep=False), shape=_wide(x, 1))
            case _:
                x = g.add(g.one(("Tanh", "Relu", "Abs", "Neg", "Sigmoid")), x, shape=x.shape)


MOST_IN_CHAIN = 2048


def _wide(x: Tensor, rank: int) -> Shape:
    return x.shape if x.rank >= rank else (1,) * rank


@step
def large_constant(g: Making) -> None:
    """Add arithmetic on constants too large to fold, with scalars, and moves of them."""
    x = g.large()
    for _ in range(g.number(1, 3)):
        match g.number(0, 3):
            case 0:
                x = unary(g, x)
            case 1:
                x = binary(g, x)
            case 2:
                x = moved(g, x)
            case _:
                x = reduced(g, x)


@step
def large_integers(g: Making) -> None:
    """Add arithmetic on large generated constants of integers."""
    x = g.large(np.int64)
    one = g.constant(np.array(g.number(-3, 9), np.int64))
    x = g.add(g.one(("Add", "Sub", "Min", "Max")), x, one, shape=x.shape)
    moved(g, x)


def moved(g: Making, x: Tensor) -> Tensor:
    """Add something that moves elements."""
    count = x.count
    axis = g.number(0, x.rank - 1) if x.rank else 0
    match g.number(0, 9):
        case 0:
            rows = next(d for d in (g.number(2, 7), 4, 2, 3, 1) if count % d == 0)
            return g.add("Reshape", x, g.integers(rows, count // rows), shape=(rows, count // rows))
        case 1 if x.rank:
            perm = [int(a) for a in g.random.permutation(x.rank)]
            return g.add("Transpose", x, shape=[x.shape[a] for a in perm], perm=perm)
        case 2 if x.rank and x.shape[axis] > 2:
            step_, end = g.number(1, 2), x.shape[axis]
            size = -(-(end - 1) // step_)
            shape = [size if a == axis else d for a, d in enumerate(x.shape)]
            return g.add("Slice", x, *(g.integers(i) for i in (1, end, axis, step_)), shape=shape)
        case 3 if x.rank and x.shape[axis] > 1:
            first = g.number(1, x.shape[axis] - 1)
            sizes = (first, x.shape[axis] - first)
            shapes = [[s if a == axis else d for a, d in enumerate(x.shape)] for s in sizes]
            parts = g.split("Split", x, g.integers(*sizes), shapes=shapes, axis=axis)
            return parts[0] if g.chance(0.5) else g.add("Concat", *parts[::-1], shape=x.shape, axis=axis)
        case 4 if x.rank < 5:
            return g.add("Unsqueeze", x, g.integers(axis), shape=(*x.shape[:axis], 1, *x.shape[axis:]))
        case 5 if x.rank:
            other = g.source(x.shape, x.dtype, keep=False)
            shape = [d * (2 if a == axis else 1) for a, d in enumerate(x.shape)]
            return g.add("Concat", *((x, other) if g.chance(0.5) else (x, x)), shape=shape, axis=axis)
        case 6 if x.rank and count < 1 << 16:
            pads = [g.number(0, 2) for _ in range(2 * x.rank)]
            shape = [d + pads[a] + pads[a + x.rank] for a, d in enumerate(x.shape)]
            return g.add("Pad", x, g.integers(*pads), shape=shape)
        case 7 if x.rank:
            places = g.constant(np.asarray(g.random.integers(0, x.shape[axis], g.number(1, 5))).astype(np.int64))
            return g.add("Gather", x, places, shape=(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]), axis=axis)
        case 8 if count < 1 << 14:
            return g.add("Expand", x, g.integers(2, *x.shape), shape=(2, *x.shape))
        case _:
            axis = g.number(0, x.rank)
            return g.add("Flatten", x, shape=(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), axis=axis)


@step
def moving(g: Making) -> None:
    x = g.pick(g.one(("f", "f", "i", "u", "b")))
    for _ in range(g.number(1, 4)):
        x = moved(g, x)


def reduced(g: Making, x: Tensor) -> Tensor:
    """Add a reduction."""
    axes = sorted({g.number(0, x.rank - 1) for _ in range(g.number(1, 2))}) if x.rank else []
    keep = g.chance(0.5)
    shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
    op = g.one(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceSum"))
    if not axes:
        return g.add(op, x, shape=(), keepdims=0)
    return g.add(op, x, g.integers(*axes), shape=shape, keepdims=int(keep))


@step
def reduction(g: Making) -> None:
    reduced(g, g.pick())


@step
def rows(g: Making) -> None:
    x = g.pick(ranks=(1, 2, 3, 4))
    if g.chance(0.6):
        g.add(g.one(("Softmax", "Softmax", "LogSoftmax")), x, shape=x.shape, axis=g.number(-x.rank, x.rank - 1))
    elif x.shape[-1] > 1 and not x.loose:  # equal numbers are as ill-conditioned as can be
        scale, bias = (g.source(x.shape[-1:], array=g.array(x.shape[-1:]), keep=False) for _ in range(2))
        g.add("LayerNormalization", x, scale, bias, shape=x.shape, axis=-1)


@step
def where(g: Making) -> None:
    x = g.pick()
    limit = g.source(g.one(((), (1,), x.shape)), keep=False)
    shape = np.broadcast_shapes(x.shape, limit.shape)
    condition = g.add(g.one(("Greater", "Less", "GreaterOrEqual")), x, limit, shape=shape, dtype=np.bool_)
    g.add("Where", condition, x, limit, shape=shape, dtype=x.dtype)


@step
def cast(g: Making) -> None:
    x = g.pick(close="loose")
    to = g.one((np.float16, np.float64, np.int32))
    if to == np.int32:
        x = g.add("Round", g.add("Tanh", x, shape=x.shape), shape=x.shape)
    y = g.add("Cast", x, shape=x.shape, dtype=to, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    if to != np.int32:
        g.values.remove(y)
        g.add("Cast", y, shape=x.shape, dtype=np.float32, to=TensorProto.FLOAT)


@step
def shuffle(g: Making) -> None:
    x = g.source((1, int(g.one((4, 8, 16, 32))), g.number(1, 6), g.number(1, 6)))
    n, c, h, w = x.shape
    y = unary(g, x) if g.chance(0.5) else x
    g.add("DepthToSpace", y, shape=(n, c // 4, h * 2, w * 2), blocksize=2, mode=g.one(("DCR", "CRD")))


@step
def indices(g: Making) -> None:
    """Add what gives places, of values that are exact."""
    x = g.source(g.shape(g.number(1, 3)), keep=False)
    axis = g.number(0, x.rank - 1)
    shape = [d for a, d in enumerate(x.shape) if a != axis]
    match g.number(0, 2):
        case 0:
            g.add(g.one(("ArgMax", "ArgMin")), x, shape=shape, dtype=np.int64, axis=axis, keepdims=0)
        case 1:
            g.add("Shape", x, shape=(x.rank,), dtype=np.int64)
        case _:
            g.add("CumSum", x, g.constant(np.array(axis, np.int64)), shape=x.shape)
