"""Single operators that compute: functions, arithmetic, reductions, products, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tools.fuzzing.making import Making, Tensor
from tools.fuzzing.single import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    axis_of,
    beside,
    case,
    filled,
    numbers,
    shape_of,
    tensor,
    term,
)


@case(
    *("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh"),
    *("Cosh", "Asinh", "Acosh", "Atanh", "Softplus", "Softsign", "HardSwish", "Mish", "IsNaN", "IsInf"),
)
def function(g: Making, name: str) -> None:
    x = tensor(g, shape_of(g), g.one(FLOATS))
    g.add(name, x, shape=(), dtype=np.bool_ if name.startswith("Is") else x.dtype)


@case("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Reciprocal", "Not", "BitwiseNot", "Identity")
def simple(g: Making, name: str) -> None:
    kinds = {"Not": (np.bool_,), "BitwiseNot": INTEGERS, "Abs": NUMBERS, "Neg": NUMBERS, "Sign": NUMBERS}
    g.add(name, tensor(g, shape_of(g), g.one(kinds.get(name, FLOATS))), shape=())


@case("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid")
def with_slope(g: Making, name: str) -> None:
    alpha = {"alpha": float(g.one((0.1, 1.0, 2.0, -0.5)))} if g.chance(0.7) and name != "Celu" else {}
    g.add(name, tensor(g, shape_of(g), g.one(FLOATS)), shape=(), **alpha)


@case("Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu")
def arithmetic(g: Making, name: str) -> None:
    shape, dtype = shape_of(g), g.one(FLOATS if name == "PRelu" else NUMBERS)
    other = beside(g, shape)
    x = tensor(g, shape, dtype)
    y = numbers(g, other, dtype, -3, 3)
    if name in ("Div", "Mod") and y.dtype.kind in "iu":
        y = np.where(y == 0, 1, y).astype(y.dtype)
        if y.dtype.kind == "i":
            y = np.where(y == -1, 2, y).astype(y.dtype)  # the lowest number by it is undefined
    if name == "Pow" and y.dtype.kind in "iu":
        y = (np.abs(y.astype(np.int64)) % 4).astype(y.dtype)
    second = g.source(other, dtype, array=y, keep=False)
    more = {"fmod": 1} if name == "Mod" and (y.dtype.kind == "f" or g.chance(0.4)) else {}
    first_last = (second, x) if name in ("Add", "Sub", "Mul") and g.chance(0.4) else (x, second)
    g.add(name, *first_last, shape=(), **more)


@case("Max", "Min")
def extremes(g: Making, name: str) -> None:
    shape, dtype = shape_of(g), g.one(NUMBERS)
    g.add(name, *(tensor(g, beside(g, shape) if i else shape, dtype) for i in range(g.number(1, 3))), shape=())


@case("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def comparison(g: Making, name: str) -> None:
    shape, dtype = shape_of(g), g.one(NUMBERS)
    g.add(name, tensor(g, shape, dtype), tensor(g, beside(g, shape), dtype), shape=(), dtype=np.bool_)


@case("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift")
def bits(g: Making, name: str) -> None:
    shape = shape_of(g)
    dtype = g.one((np.uint8, np.uint32, np.uint64)) if name == "BitShift" else g.one(INTEGERS)
    dtype = np.bool_ if name in ("And", "Or", "Xor") else dtype
    y = tensor(g, beside(g, shape), dtype)
    more = {}
    if name == "BitShift":
        y = g.source(y.shape, dtype, array=np.asarray(g.random.integers(0, 8, y.shape)).astype(dtype), keep=False)
        more = {"direction": g.one(("LEFT", "RIGHT"))}
    g.add(name, tensor(g, shape, dtype), y, shape=(), **more)


@case("Where")
def where(g: Making, name: str) -> None:
    shape, dtype = shape_of(g), g.one(NUMBERS)
    parts = [tensor(g, beside(g, shape), np.bool_), tensor(g, shape, dtype), tensor(g, beside(g, shape), dtype)]
    g.add(name, *parts, shape=(), dtype=dtype)


@case("Clip")
def clip(g: Making, name: str) -> None:
    x = tensor(g, shape_of(g), g.one(NUMBERS))
    low, high = (g.constant(np.array(n, x.dtype)) if g.chance(0.7) else None for n in (1, 3))
    g.add(name, x, low, high, shape=())


@case("Cast")
def cast(g: Making, name: str) -> None:
    source, target = g.one((*NUMBERS, np.bool_)), np.dtype(g.one((*NUMBERS, np.bool_)))
    x = numbers(g, shape_of(g), source)
    if x.dtype.kind == "f" and target.kind in "iu":
        x = np.nan_to_num(np.clip(x, 0, 100))  # beyond the range it is undefined
    held = g.source(x.shape, x.dtype, array=x.astype(source), keep=False)
    g.add(name, held, shape=(), dtype=target, to=helper.np_dtype_to_tensor_dtype(target))


@case(
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum"),
    *("ReduceLogSumExp", "ReduceSumSquare"),
)
def reduction(g: Making, name: str) -> None:
    shape = shape_of(g)
    whole = () if name in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2") else (np.int32, np.int64)
    x = term(g, shape, g.one((np.float32, np.float32, *whole)), 0.2, 3)
    axes = sorted({g.number(0, len(shape) - 1) for _ in range(g.number(1, 3))}) if shape else []
    given = g.integers(*[a - len(shape) if g.chance(0.4) else a for a in axes]) if axes and g.chance(0.8) else None
    more = {"noop_with_empty_axes": 1} if g.chance(0.1) else {}
    g.add(name, x, *([] if given is None else [given]), shape=(), keepdims=g.number(0, 1), **more)


@case("ArgMax", "ArgMin")
def places(g: Making, name: str) -> None:
    shape = tuple(max(1, d) for d in shape_of(g, (1, 2, 3, 4)))
    dtype = g.one((np.float32, np.float32, np.int32, np.uint8, np.float64))
    x = tensor(
        g, shape, dtype, strange=(np.inf, -np.inf, -0.0, 0.0)
    )  # what is not a number is the first here, as in NumPy
    more = {"keepdims": g.number(0, 1), "select_last_index": g.number(0, 1), "axis": axis_of(g, len(shape))}
    g.add(name, x, shape=(), dtype=np.int64, **more)


@case("CumSum")
def running_sum(g: Making, name: str) -> None:
    shape = shape_of(g, (1, 2, 3, 4))
    axis = g.constant(np.array(axis_of(g, len(shape)), np.int64))
    x = term(g, shape, g.one((np.float32, np.float32, np.int64, np.int32, np.float64)))
    g.add(name, x, axis, shape=(), exclusive=g.number(0, 1), reverse=g.number(0, 1))


@case("Softmax", "LogSoftmax", "Hardmax")
def shares(g: Making, name: str) -> None:
    shape = shape_of(g, (1, 2, 3, 4))
    x = tensor(g, shape, g.one((np.float32, np.float32, np.float64)), -30, 30, strange=())
    g.add(name, x, shape=(), axis=axis_of(g, len(shape)))


@case("TopK")
def top(g: Making, name: str) -> None:
    shape = tuple(max(1, d) for d in shape_of(g, (1, 2, 3)))
    axis = axis_of(g, len(shape))
    x = tensor(g, shape, g.one((np.float32, np.float32, np.int64, np.int32)), strange=(np.inf, -np.inf, 0.0))
    k = g.number(1 - g.number(0, 1), shape[axis])
    more = {"axis": axis, "largest": g.number(0, 1), "sorted": 1}
    values, index = g.split(name, x, g.integers(k), shapes=[(), ()], **more)
    g.values[g.values.index(index)] = Tensor(index.name, np.dtype(np.int64), ())
    assert values.dtype == x.dtype


@case("MatMul")
def product(g: Making, name: str) -> None:
    m, k, n = (int(g.one((1, 2, 3, 7, 16, 17, 33))) for _ in range(3))
    batch = shape_of(g, (0, 1, 2))[:2] if g.chance(0.5) else ()
    batch = tuple(min(d, 5) for d in batch)
    first = g.one(((*batch, m, k), (k,))) if g.chance(0.8) else (m, k)
    second = g.one(((*beside(g, batch), k, n), (k,))) if g.chance(0.8) else (k, n)
    dtype = g.one((np.float32, np.float32, np.float64, np.int32))
    g.add(name, term(g, first, dtype), term(g, second, dtype), shape=())


@case("Gemm")
def affine(g: Making, name: str) -> None:
    m, k, n = (int(g.one((1, 2, 3, 7, 16, 17, 33))) for _ in range(3))
    a, b = g.number(0, 1), g.number(0, 1)
    parts = [term(g, (k, m) if a else (m, k), np.float32), term(g, (n, k) if b else (k, n), np.float32)]
    if g.chance(0.7):
        parts.append(term(g, g.one(((), (1,), (n,), (m, 1), (m, n), (1, n))), np.float32))
    more = {"alpha": 0.5, "beta": float(g.one((0.0, 1.0, 2.0)))} if g.chance(0.5) else {}
    g.add(name, *parts, shape=(), transA=a, transB=b, **more)


@case("MaxPool", "AveragePool")
def window(g: Making, name: str) -> None:
    rank = g.number(1, 3)
    sizes = [g.number(3, 9 if rank == 3 else 20) for _ in range(rank)]
    kernel = [g.number(1, 3) for _ in sizes]
    pads = [g.number(0, k - 1) for _ in "be" for k in kernel]
    more: dict[str, Any] = {"kernel_shape": kernel, "strides": [g.number(1, 3) for _ in sizes], "pads": pads}
    more["ceil_mode"] = g.number(0, 1)
    if name == "AveragePool":
        more["count_include_pad"] = g.number(0, 1)
    x = term(g, (g.number(1, 2), int(g.one((1, 3, 16, 17))), *sizes), np.float32)
    g.add(name, x, shape=(), **more)


@case("GlobalAveragePool", "GlobalMaxPool")
def whole_map(g: Making, name: str) -> None:
    sizes = [g.number(1, 9) for _ in range(g.number(1, 3))]
    g.add(name, term(g, (g.number(1, 2), int(g.one((1, 3, 16, 17))), *sizes), np.float32), shape=())


@case("LayerNormalization", "InstanceNormalization", "LRN", "LpNormalization")
def normalization(g: Making, name: str) -> None:
    shape = filled(g, (3, 4))
    x = tensor(g, shape, np.float32, strange=())
    if name == "LRN":
        g.add(name, x, shape=(), size=int(g.one((1, 3, 5))))
    elif name == "LpNormalization":
        g.add(name, x, shape=(), axis=axis_of(g, len(shape)), p=g.number(1, 2))
    else:
        wide = shape[1:2] if name == "InstanceNormalization" else shape[-1:]
        scale, bias = (tensor(g, wide, np.float32, strange=()) for _ in range(2))
        g.add(name, x, scale, bias, shape=(), **({} if name == "InstanceNormalization" else {"axis": -1}))


@case("Resize")
def resize(g: Making, name: str) -> None:
    sizes = [g.number(1, 9), g.number(1, 9)]
    x = tensor(g, (1, int(g.one((1, 3, 16, 17))), *sizes), g.one((np.float32, np.float32, np.uint8)), strange=())
    mode = g.one(("nearest", "linear", "cubic"))
    how = g.one(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    if g.chance(0.5):
        given = [None, g.constant(np.array([1, 1, *(g.one((0.5, 0.6, 1.0, 1.7, 2.0)) for _ in sizes)], np.float32))]
    else:
        given = [None, None, g.integers(*x.shape[:2], *(g.number(1, 13) for _ in sizes))]
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        more["nearest_mode"] = g.one(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    g.add(name, x, *given, shape=(), **more)


@case("Range")
def count(g: Making, name: str) -> None:
    dtype = g.one((np.int64, np.int32, np.float32))
    ends = g.number(-9, 9), g.number(-30, 30), int(g.one((1, 2, -1, 3, -2)))
    part = float(g.one((1.0, 0.1, 0.3))) if dtype is np.float32 else 1  # how many there are depends on a rounding
    given = [g.source((), dtype, array=np.array(n * part, dtype), keep=False) for n in ends]
    g.add(name, *given, shape=())


@case("Unique")
def unique(g: Making, name: str) -> None:
    x = tensor(g, filled(g, (1, 2)), g.one((np.float32, np.int64)), -3, 3)
    if x.name in g.feeds:
        g.feeds[x.name] = np.round(np.nan_to_num(g.feeds[x.name])).astype(x.dtype)
    found = g.split(name, x, shapes=[()] * 4, **({} if g.chance(0.5) else {"axis": axis_of(g, x.rank)}))
    for other in found[1:]:
        g.values[g.values.index(other)] = Tensor(other.name, np.dtype(np.int64), ())


@case("Einsum")
def summed(g: Making, name: str) -> None:
    equation = g.one(
        ("ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "i,i->", "i,j->ij", "ij->ji", "ij->i", "ij->", "bhqd,bhkd->bhqk")
    )
    sizes = {letter: g.number(1, 9) for letter in "bhijkqd"}
    parts = equation.split("->")[0].split(",")
    given = [term(g, tuple(sizes[letter] for letter in part), np.float32) for part in parts]
    g.add(name, *given, shape=(), equation=equation)
