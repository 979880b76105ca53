"""Models of one operator that computes with numbers, in what users' models have beside the first table."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tools.benchmark.operator_cases import Cases, draw, drawn

SIZES = {"small": (8, 512), "large": (1024, 2048)}

IMAGES = {"small": (1, 16, 24, 24), "large": (1, 64, 160, 160)}


def cases_of_numbers(size: str) -> Cases:
    """Yield each case by its title."""
    yield from _reduced(size)
    yield from _functions(size)
    yield from _of_two(size)
    yield from _normalised(size)
    yield from _signals(size)
    yield from _quantised(size)


def _reduced(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rows, columns = shape
    for name in ("L1", "L2", "LogSumExp", "Prod", "SumSquare", "LogSum", "Min", "Mean"):
        for axis in (0, 1):
            yield (
                f"Reduce{name} f32 axis {axis}",
                drawn(f"Reduce{name}", ("f32", shape, 1, 2), constants=(np.array([axis]),)),
            )
        middle = (4, rows, columns // 4)
        yield f"Reduce{name} f32 middle", drawn(f"Reduce{name}", ("f32", middle, 1, 2), constants=(np.array([1]),))
    for name, dtype in (
        ("Max", "i64"), ("Max", "i32"), ("Max", "i8"), ("Max", "u8"), ("Min", "i64"), ("Sum", "i32"),
        ("Sum", "f64"), ("Prod", "i64"), ("Mean", "f64"), ("Mean", "f16"), ("Max", "f64"),
    ):  # fmt: skip
        for axis in (0, 1):
            yield (
                f"Reduce{name} {dtype} axis {axis}",
                drawn(f"Reduce{name}", (dtype, shape), constants=(np.array([axis]),)),
            )
    yield "ReduceSum f32 outer and inner", drawn("ReduceSum", ("f32", image), constants=(np.array([1, 3]),))
    windows = (rows, 2, columns // 16, 6)
    yield "ReduceSum f32 windows", drawn("ReduceSum", ("f32", windows), constants=(np.array([1, 3]),))
    yield "ReduceSum i64 all", drawn("ReduceSum", ("i64", shape), attributes={"keepdims": 0})
    yield "ReduceMax i64 all", drawn("ReduceMax", ("i64", shape), attributes={"keepdims": 0})
    for more in ({"exclusive": 1}, {"reverse": 1}):
        for dtype in ("f32", "i64"):
            yield (
                f"CumSum {dtype} {next(iter(more))}",
                drawn("CumSum", (dtype, shape), constants=(np.array(1),), attributes=more),
            )
    for dtype in ("i32", "f64"):
        yield f"CumSum {dtype} axis 1", drawn("CumSum", (dtype, shape), constants=(np.array(1),))
    yield "CumSum f32 axis 0", drawn("CumSum", ("f32", shape), constants=(np.array(0),))
    yield "CumSum i64 line", drawn("CumSum", ("i64", (columns,)), constants=(np.array(0),))
    heads, length = (2, 4, rows // 2, 32), columns // 8
    for equation, left, right in (
        ("bij,bjk->bik", (4, rows // 4, length), (4, length, 64)),
        ("bhid,bhjd->bhij", heads, heads),
        ("bhij,bhjd->bhid", (2, 4, rows // 2, rows // 2), heads),
        ("i,j->ij", (rows,), (columns,)),
        ("bnd,de->bne", (2, rows // 2, length), (length, 64)),
        ("bhwc,hkc->bhwk", (4, rows // 4, 8, 32), (rows // 4, 16, 32)),
        ("ij,j->i", shape, (columns,)),
    ):
        yield (
            f"Einsum f32 {equation}",
            drawn("Einsum", ("f32", left), ("f32", right), attributes={"equation": equation}),
        )
    for equation in ("ij->ji", "ij->i", "ij->"):
        yield f"Einsum f32 {equation}", drawn("Einsum", ("f32", shape), attributes={"equation": equation})


def _functions(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    for name in (
        "Log", "Cos", "Cosh", "Acosh", "Atanh", "Reciprocal", "Ceil", "Round", "Softplus", "Softsign", "HardSwish",
        "HardSigmoid", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "Mish", "LogSoftmax", "Hardmax", "Shrink",
    ):  # fmt: skip
        low, high = {"Log": (0.1, 4), "Acosh": (1, 4), "Atanh": (-0.9, 0.9), "Reciprocal": (0.5, 4)}.get(name, (-4, 4))
        yield f"{name} f32", drawn(name, ("f32", shape, low, high), opset=22 if name == "Mish" else 18)
    for how in ("none", "tanh"):
        yield f"Gelu f32 {how}", drawn("Gelu", ("f32", shape), attributes={"approximate": how}, opset=20)
    yield "PRelu f32 channels", drawn("PRelu", ("f32", image), constants=(draw("f32", (image[1], 1, 1)),))
    for name in ("Exp", "Tanh", "Sigmoid", "Sqrt", "Relu", "Softmax", "Erf", "Abs", "Neg", "Floor"):
        low = 0 if name == "Sqrt" else -4
        yield f"{name} f16", drawn(name, ("f16", shape, low))
    for name in ("Exp", "Tanh", "Sqrt", "Sigmoid", "Log", "Abs", "Floor", "Softmax", "Sin", "Relu", "Round"):
        low = 0.1 if name in ("Sqrt", "Log") else -4
        yield f"{name} f64", drawn(name, ("f64", shape, low))
    for dtype in ("i64", "i32", "i8"):
        yield f"Abs {dtype}", drawn("Abs", (dtype, shape))
        yield f"Sign {dtype}", drawn("Sign", (dtype, shape))
    for dtype in ("i64", "i32", "i8", "u32", "u8", "f16", "f64"):
        bounds = (np.array(1, draw(dtype, ()).dtype), np.array(3, draw(dtype, ()).dtype))
        yield f"Clip {dtype}", drawn("Clip", (dtype, shape), constants=bounds)
    for dtype in ("f32", "f16", "f64"):
        for name in ("IsInf", "IsNaN"):
            yield f"{name} {dtype}", drawn(name, (dtype, shape), opset=20)
    for target in ("FLOAT", "INT64", "BOOL", "UINT8", "FLOAT16", "DOUBLE"):
        for dtype in ("i64", "bool", "f64", "i8", "u64"):
            yield (
                f"Cast {dtype} {target.lower()}",
                drawn("Cast", (dtype, shape), attributes={"to": getattr(TensorProto, target)}),
            )
    for dtype in ("f32", "f64"):
        yield f"Cast {dtype} uint64", drawn("Cast", (dtype, shape, 0), attributes={"to": TensorProto.UINT64})
    yield "Sign u32", drawn("Sign", ("u32", shape))
    yield "Range i64", drawn("Range", constants=(np.array(0), np.array(shape[0] * 64), np.array(1)))
    yield "Bernoulli f32", drawn("Bernoulli", ("f32", shape, 0, 1), attributes={"seed": 1.0})
    yield "RandomNormalLike f32", drawn("RandomNormalLike", ("f32", shape), attributes={"seed": 1.0})
    yield "Det f32", drawn("Det", ("f32", (shape[0], 4, 4)), opset=22)


def _of_two(size: str) -> Cases:
    shape, row, column = SIZES[size], SIZES[size][1:], (SIZES[size][0], 1)
    for dtype in ("f32", "f16", "f64", "i64", "i32", "u8", "i8"):
        for name in ("Sub", "Div", "Min", "Max"):
            if (dtype in ("u8", "i8") and name in ("Sub", "Div")) or (dtype == "i8" and name == "Min"):
                continue
            yield f"{name} {dtype} column", drawn(name, (dtype, shape, 1, 4), (dtype, column, 1, 4))
    for name in ("Less", "LessOrEqual", "GreaterOrEqual", "Equal"):
        for dtype in ("f32", "i64", "f64", "i32"):
            yield f"{name} {dtype} scalar", drawn(name, (dtype, shape), constants=(draw(dtype, ()),))
    yield "Equal bool", drawn("Equal", ("bool", shape), ("bool", shape))
    for name in ("Or", "Xor"):
        yield f"{name} bool row", drawn(name, ("bool", shape), ("bool", row))
    for dtype in ("u8", "u32", "u64"):
        yield f"BitShift {dtype}", drawn("BitShift", (dtype, shape), (dtype, shape), attributes={"direction": "RIGHT"})
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in ("i32", "u8", "i64"):
            yield f"{name} {dtype}", drawn(name, (dtype, shape), (dtype, shape))
    for dtype in ("i32", "u32", "u8"):
        yield f"BitwiseNot {dtype}", drawn("BitwiseNot", (dtype, shape))
    yield "Mod f32 fmod", drawn("Mod", ("f32", shape), constants=(np.float32(1.5).reshape(()),), attributes={"fmod": 1})
    yield "Mod i32", drawn("Mod", ("i32", shape), ("i32", shape, 1, 9))
    yield "Pow i64", drawn("Pow", ("i64", shape), constants=(np.array(2),))
    for exponent in (2, 0.5, 3):
        yield f"Pow f32 {exponent}", drawn("Pow", ("f32", shape, 0.1), constants=(np.float32(exponent).reshape(()),))
    yield "Sum f32 of 3", drawn("Sum", *[("f32", shape)] * 3)
    yield "Mean f32 of 3", drawn("Mean", *[("f32", shape)] * 3)
    heads = (1, 8, SIZES[size][0] // 2, SIZES[size][1] // 8)
    for dtype in ("f32", "f16"):
        mask = ("bool", (1, 1, *heads[2:]))
        yield f"Where {dtype} mask", drawn("Where", mask, (dtype, heads), constants=(draw(dtype, ()),))
        yield f"Where {dtype} fill", drawn("Where", mask, (dtype, ()), (dtype, heads))
    yield "Where i64 row", drawn("Where", ("bool", shape), ("i64", row), constants=(np.array(-100),))


def _normalised(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    channels = image[1:2]
    pool: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    for dtype in ("f32", "f16", "f64"):
        ones, some = draw(dtype, channels, 1, 2), draw(dtype, channels)
        constants = (some, some, some, ones)
        yield f"BatchNormalization {dtype}", drawn("BatchNormalization", (dtype, image), constants=constants)
        yield f"LpNormalization {dtype}", drawn("LpNormalization", (dtype, shape), opset=22)
        yield f"MaxPool {dtype}", drawn("MaxPool", (dtype, image), attributes=pool)
        if dtype == "f64":  # of which ONNX Runtime has no others
            continue
        yield f"InstanceNormalization {dtype}", drawn("InstanceNormalization", (dtype, image), constants=(some, some))
        yield f"GlobalAveragePool {dtype}", drawn("GlobalAveragePool", (dtype, image))
        padded = {**pool, "count_include_pad": 1}
        yield f"AveragePool {dtype}", drawn("AveragePool", (dtype, image), attributes=padded)
    yield "MaxPool f32 indices", drawn("MaxPool", ("f32", image), attributes=pool, outputs=2)
    yield "MaxPool f32 line", drawn("MaxPool", ("f32", (1, *shape)), attributes={"kernel_shape": [3], "strides": [2]})
    yield "LpPool f32", drawn("LpPool", ("f32", image), attributes=pool)
    yield "GlobalLpPool f32", drawn("GlobalLpPool", ("f32", image))
    yield "GlobalMaxPool f32", drawn("GlobalMaxPool", ("f32", image))
    yield "LRN f32", drawn("LRN", ("f32", image), attributes={"size": 5})
    yield "MeanVarianceNormalization f32", drawn("MeanVarianceNormalization", ("f32", image))


def _signals(size: str) -> Cases:
    rows, columns = SIZES[size]
    for inner in (256, 400, 500):
        frames = (1, rows, inner, 1)
        for dtype in ("f32", "f64"):
            yield (
                f"DFT {dtype} {inner}",
                drawn("DFT", (dtype, frames), constants=(None, np.array(2)), attributes={"onesided": 1}, opset=20),
            )
    yield (
        "DFT f32 inverse",
        drawn("DFT", ("f32", (1, rows, 256, 2)), constants=(None, np.array(2)), attributes={"inverse": 1}, opset=20),
    )
    mel = (np.array(40), np.array(512), np.array(16000), np.float32(20).reshape(()), np.float32(8000).reshape(()))
    yield "MelWeightMatrix", drawn("MelWeightMatrix", constants=mel)
    yield "HannWindow", drawn("HannWindow", constants=(np.array(columns),))


def _quantised(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    one = np.float32(0.02).reshape(())
    many = draw("f32", (image[1],), 0.01, 0.05)
    for kind, zero in (("u8", np.uint8(128)), ("i8", np.int8(0))):
        point = zero.reshape(())
        points = np.full(image[1], zero)
        yield f"QuantizeLinear {kind}", drawn("QuantizeLinear", ("f32", shape), constants=(one, point))
        yield f"DequantizeLinear {kind}", drawn("DequantizeLinear", (kind, shape, -99, 99), constants=(one, point))
        axis = {"attributes": {"axis": 1}}
        yield (
            f"QuantizeLinear {kind} channels",
            drawn("QuantizeLinear", ("f32", image), constants=(many, points), **axis),
        )
        yield (
            f"DequantizeLinear {kind} channels",
            drawn("DequantizeLinear", (kind, image), constants=(many, points), **axis),
        )
    yield "DynamicQuantizeLinear f32", drawn("DynamicQuantizeLinear", ("f32", shape), outputs=3)
    yield (
        "MatMulInteger",
        drawn(
            "MatMulInteger", ("u8", (shape[0], 256), 0, 255), constants=(draw("i8", (256, 64)), np.array(3, np.uint8))
        ),
    )
