"""Models of one operator each, in the element types that models use, on small and on large tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from tools.benchmark.operator_cases import TYPES, Cases, OperatorCase, draw
from tools.benchmark.operator_more import cases_of_more
from tools.benchmark.operator_moves import cases_of_moves
from tools.benchmark.operator_numbers import cases_of_numbers
from tools.benchmark.operator_shapes import cases_of_shapes
from tools.benchmark.operator_tables import cases_of_tables

SIZES = {"small": (8, 512), "large": (1024, 2048)}
"""Rows and columns of most tensors: 16 KB and 8 MB of float32."""

IMAGES = {"small": (1, 16, 24, 24), "large": (1, 64, 160, 160)}


def _elementwise(size: str) -> Cases:
    shape, row = SIZES[size], SIZES[size][1:]
    for dtype in ("f32", "f16", "f64", "i64", "i32"):
        yield f"Add {dtype}", lambda d=dtype: OperatorCase("Add", (draw(d, shape), draw(d, shape)))
        yield f"Mul {dtype} row", lambda d=dtype: OperatorCase("Mul", (draw(d, shape), draw(d, row)))
    for dtype in ("f32", "i64", "i32", "u8"):
        yield f"Greater {dtype}", lambda d=dtype: OperatorCase("Greater", (draw(d, shape), draw(d, shape)))
        yield (
            f"Where {dtype}",
            lambda d=dtype: OperatorCase("Where", (draw("bool", shape), draw(d, shape), draw(d, shape))),
        )
    for dtype in ("i64", "i32"):
        yield (
            f"Equal {dtype} one-hot",
            lambda d=dtype: OperatorCase("Equal", (draw(d, (shape[0], 1)),), (np.arange(shape[1]).astype(TYPES[d]),)),
        )
    yield "And bool", lambda: OperatorCase("And", (draw("bool", shape), draw("bool", shape)))
    yield "Not bool", lambda: OperatorCase("Not", (draw("bool", shape),))
    for source, target in (
        ("f32", "f16"), ("f16", "f32"), ("f32", "i64"), ("i64", "f32"), ("i32", "f32"), ("bool", "f32"),
        ("f32", "bool"), ("u8", "f32"), ("f32", "u8"), ("i64", "i32"), ("i32", "i64"),
    ):  # fmt: skip
        code = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[target]))
        yield (
            f"Cast {source} {target}",
            lambda s=source, c=code: OperatorCase("Cast", (draw(s, shape),), attributes={"to": c}),
        )
    for name in ("Sqrt", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Floor", "Sin"):
        low = 0 if name == "Sqrt" else -4
        yield f"{name} f32", lambda n=name, lo=low: OperatorCase(n, (draw("f32", shape, lo),))
    yield "Neg i64", lambda: OperatorCase("Neg", (draw("i64", shape),))
    yield "Pow f32", lambda: OperatorCase("Pow", (draw("f32", shape, 0.1),), (np.float32(2.5).reshape(()),))
    yield "Pow f16 i64", lambda: OperatorCase("Pow", (draw("f16", shape, 0.1),), (np.array(3),))
    yield "Mod i64", lambda: OperatorCase("Mod", (draw("i64", shape),), (np.array(7),))
    yield "Clip f32", lambda: OperatorCase("Clip", (draw("f32", shape),), (np.float32(-1), np.float32(1)))


def _reductions(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    for dtype in ("f32", "i64", "f16"):
        for axis in (0, 1):
            yield (
                f"ReduceSum {dtype} axis {axis}",
                lambda d=dtype, a=axis: OperatorCase("ReduceSum", (draw(d, shape),), (np.array([a]),)),
            )
    yield "ReduceMax f32 all", lambda: OperatorCase("ReduceMax", (draw("f32", shape),))
    yield "ReduceMean f32 image", lambda: OperatorCase("ReduceMean", (draw("f32", image),), (np.array([2, 3]),))
    yield "ReduceMean f32 channels", lambda: OperatorCase("ReduceMean", (draw("f32", image),), (np.array([1]),))
    yield "ArgMax f32 axis 1", lambda: OperatorCase("ArgMax", (draw("f32", shape),), attributes={"axis": 1})
    yield "ArgMax f32 axis 0", lambda: OperatorCase("ArgMax", (draw("f32", shape),), attributes={"axis": 0})
    yield (
        "Einsum f32 rows",
        lambda: OperatorCase("Einsum", (draw("f32", shape),) * 2, attributes={"equation": "ij,ij->i"}),
    )
    yield "Softmax f32", lambda: OperatorCase("Softmax", (draw("f32", shape),))
    yield "CumSum f32 axis 1", lambda: OperatorCase("CumSum", (draw("f32", shape),), (np.array(1),))
    yield "CumSum i64 axis 0", lambda: OperatorCase("CumSum", (draw("i64", shape),), (np.array(0),))


def _moves(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rng = np.random.default_rng(1)
    rows = rng.integers(0, shape[0], 2 * shape[0])
    everywhere = rng.integers(0, shape[1], shape)
    yield "Gather f32 rows", lambda: OperatorCase("Gather", (draw("f32", shape), rows))
    yield (
        "Gather i64 columns",
        lambda: OperatorCase("Gather", (draw("i64", shape), everywhere[0]), attributes={"axis": 1}),
    )
    yield (
        "GatherElements f32",
        lambda: OperatorCase("GatherElements", (draw("f32", shape), everywhere), attributes={"axis": 1}),
    )
    yield "GatherND f32", lambda: OperatorCase("GatherND", (draw("f32", shape), rows[:, None]))
    yield "ScatterElements f32", lambda: OperatorCase(
        "ScatterElements", (draw("f32", shape), everywhere[:, ::2], draw("f32", everywhere[:, ::2].shape)),
        attributes={"axis": 1},
    )  # fmt: skip
    once = rng.permutation(shape[0])[: shape[0] // 2]
    yield (
        "ScatterND f32",
        lambda: OperatorCase("ScatterND", (draw("f32", shape), once[:, None], draw("f32", (len(once), shape[1])))),
    )
    for dtype in ("f32", "i64", "u8"):
        yield f"Transpose {dtype}", lambda d=dtype: OperatorCase("Transpose", (draw(d, shape),))
    yield (
        "Transpose f32 heads",
        lambda: OperatorCase(
            "Transpose", (draw("f32", (1, shape[0], 8, shape[1] // 8)),), attributes={"perm": [0, 2, 1, 3]}
        ),
    )
    yield (
        "Transpose f32 image",
        lambda: OperatorCase("Transpose", (draw("f32", image),), attributes={"perm": [0, 2, 3, 1]}),
    )
    for dtype in ("f32", "u8"):
        yield (
            f"Transpose {dtype} pixels",
            lambda d=dtype: OperatorCase(
                "Transpose", (draw(d, (1, *image[2:], 3)),), attributes={"perm": [0, 3, 1, 2]}
            ),
        )
    yield (
        "Slice f32 columns",
        lambda: OperatorCase(
            "Slice", (draw("f32", shape),), (np.array([16]), np.array([shape[1] - 16]), np.array([1]))
        ),
    )
    yield (
        "Slice f32 steps",
        lambda: OperatorCase(
            "Slice",
            (draw("f32", image),),
            (np.array([0, 1]), np.array([1 << 30] * 2), np.array([2, 3]), np.array([2, 2])),
        ),
    )
    for dtype in ("f32", "i64"):
        yield (
            f"Concat {dtype} columns",
            lambda d=dtype: OperatorCase("Concat", (draw(d, shape), draw(d, shape)), attributes={"axis": 1}),
        )
    yield (
        "Split f32 columns",
        lambda: OperatorCase("Split", (draw("f32", shape),), attributes={"axis": 1, "num_outputs": 2}, outputs=2),
    )
    yield "Pad f32 image", lambda: OperatorCase("Pad", (draw("f32", image),), (np.array([0, 0, 1, 1] * 2),))
    yield (
        "Pad f32 reflect",
        lambda: OperatorCase("Pad", (draw("f32", image),), (np.array([0, 0, 1, 1] * 2),), {"mode": "reflect"}),
    )
    yield "Tile f32", lambda: OperatorCase("Tile", (draw("f32", shape),), (np.array([2, 2]),))
    yield "Expand f32", lambda: OperatorCase("Expand", (draw("f32", shape),), (np.array([2, *shape]),))
    yield (
        "Resize f32 pixels",
        lambda: OperatorCase(
            "Resize", (draw("f32", (1, *image[2:], 3)),), (None, np.float32([1, 2, 2, 1])), {"mode": "linear"}
        ),
    )
    for mode in ("nearest", "linear", "cubic"):
        yield (
            f"Resize f32 {mode}",
            lambda m=mode: OperatorCase("Resize", (draw("f32", image),), (None, np.float32([1, 1, 2, 2])), {"mode": m}),
        )
    yield "SpaceToDepth f32", lambda: OperatorCase("SpaceToDepth", (draw("f32", image),), attributes={"blocksize": 2})
    yield "DepthToSpace f32", lambda: OperatorCase("DepthToSpace", (draw("f32", image),), attributes={"blocksize": 2})
    yield (
        "OneHot i64",
        lambda: OperatorCase(
            "OneHot", (rng.integers(0, shape[1], shape[0]),), (np.array(shape[1]), np.float32([0, 1]))
        ),
    )


def _searches(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    count = shape[1]
    yield "TopK f32", lambda: OperatorCase("TopK", (draw("f32", shape),), (np.array([10]),), outputs=2)
    yield "TopK f32 all", lambda: OperatorCase("TopK", (draw("f32", shape),), (np.array([count]),), outputs=2)
    yield "NonZero f32", lambda: OperatorCase("NonZero", ((draw("f32", shape) > 3).astype(np.float32),))
    yield "Unique f32", lambda: OperatorCase("Unique", (np.round(draw("f32", (count,))),))
    corners = np.random.default_rng(2).uniform(0, image[3] / 2, (count, 4)).astype(np.float32)
    boxes = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], 1)
    yield (
        "NonMaxSuppression",
        lambda: OperatorCase(
            "NonMaxSuppression",
            (boxes[None], draw("f32", (1, 1, count), 0, 1)),
            (np.array([100]), np.float32([0.5]), np.float32([0.2])),
        ),
    )
    regions = boxes[: max(8, count // 32)]
    yield (
        "RoiAlign f32",
        lambda: OperatorCase(
            "RoiAlign",
            (draw("f32", image), regions, np.zeros(len(regions), np.int64)),
            attributes={"output_height": 7, "output_width": 7, "sampling_ratio": 2},
        ),
    )


def _rarer(size: str) -> Cases:
    """Yield what few models have, in types in which it took many times as long as it had to."""
    shape, image, rng = SIZES[size], IMAGES[size], np.random.default_rng(3)
    signal, frame = ((1, 4096, 1), 128) if size == "small" else ((4, 1 << 17, 1), 512)
    for dtype in ("f32", "f64"):
        window = np.hanning(frame).astype(TYPES[dtype])
        yield (
            f"STFT {dtype}",
            lambda d=dtype, w=window: OperatorCase("STFT", (draw(d, signal),), (np.array(frame // 2), w)),
        )
    for dtype in ("f32", "f16", "f64"):
        channels, columns = draw(dtype, image[1:2]), draw(dtype, shape[1:])
        yield (
            f"GroupNormalization {dtype}",
            lambda d=dtype, c=channels: OperatorCase(
                "GroupNormalization", (draw(d, image),), (c, c), {"num_groups": 4}, opset=21
            ),
        )
        yield (
            f"LayerNormalization {dtype}",
            lambda d=dtype, c=columns: OperatorCase("LayerNormalization", (draw(d, shape),), (c, c)),
        )
        yield (
            f"RMSNormalization {dtype}",
            lambda d=dtype, c=columns: OperatorCase("RMSNormalization", (draw(d, shape),), (c,), opset=23),
        )
    heads = (1, 8, 16 if size == "small" else 128, 64)
    for dtype in ("f32", "f16"):
        for pairs in (0, 1):
            table = rng.uniform(-1, 1, (heads[2], heads[3] // 2)).astype(TYPES[dtype])
            yield (
                f"RotaryEmbedding {dtype}{' pairs' if pairs else ''}",
                lambda d=dtype, t=table, p=pairs: OperatorCase(
                    "RotaryEmbedding",
                    (draw(d, heads), t, t, np.arange(heads[2])[None]),
                    (),
                    {"interleaved": p},
                    opset=23,
                ),
            )
    for dtype in ("f32", "f16"):
        for name in ("Asin", "Acos", "Atan", "Tan", "Sinh", "Asinh"):
            yield (
                f"{name} {dtype}",
                lambda d=dtype, n=name: OperatorCase(n, (draw(d, shape, -1, 1),), opset=22),
            )
        yield f"Sign {dtype}", lambda d=dtype: OperatorCase("Sign", (draw(d, shape),))
    for dtype in ("i32", "i8", "u8"):
        yield (
            f"Resize {dtype} linear",
            lambda d=dtype: OperatorCase(
                "Resize", (draw(d, image, -99, 99),), (None, np.float32([1, 1, 2, 2])), {"mode": "linear"}
            ),
        )
    for name in ("LogSumExp", "LogSum", "L2"):
        for axis in (0, 1):
            yield (
                f"Reduce{name} i32 axis {axis}",
                lambda n=name, a=axis: OperatorCase(f"Reduce{n}", (draw("i32", shape, 1, 4),), (np.array([a]),)),
            )
    yield "EyeLike f32", lambda: OperatorCase("EyeLike", (draw("f32", shape),), opset=22)
    points = rng.uniform(-1.3, 1.3, (1, *image[2:], 2)).astype(np.float32)
    yield (
        "GridSample f32 nearest",
        lambda: OperatorCase(
            "GridSample", (draw("f32", image), points), (), {"mode": "nearest", "padding_mode": "reflection"}, opset=20
        ),
    )


GROUPS = (
    *(_elementwise, _reductions, _moves, _searches, _rarer),
    *(cases_of_shapes, cases_of_tables, cases_of_moves, cases_of_numbers, cases_of_more),
)

OPERATORS: dict[str, Callable[[], OperatorCase]] = {
    f"{title} {size}": made for size in SIZES for group in GROUPS for title, made in group(size)
}
"""By title: operator, type, what is special, size."""
