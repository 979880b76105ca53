"""Models of one operator each, in the element types that models use, on small and on large tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

OPSET = 18
SIZES = {"small": (8, 512), "large": (1024, 2048)}
"""Rows and columns of most tensors: 16 KB and 8 MB of float32."""

IMAGES = {"small": (1, 16, 24, 24), "large": (1, 64, 160, 160)}

TYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
}


@dataclass(frozen=True)
class OperatorCase:
    """A node, its inputs and its constants, which follow them.

    Attributes:
        outputs: Of the node; the type of each is inferred.
        opset: Of the model.
    """

    op_type: str
    inputs: tuple[Array, ...]
    constants: tuple[Array | None, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = OPSET

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """Return a model of the node, and its inputs."""
        feeds = {f"x{i}": array for i, array in enumerate(self.inputs)}
        held = {f"c{i}": array for i, array in enumerate(self.constants)}
        names = [*feeds, *(name if array is not None else "" for name, array in held.items())]
        outputs = [f"y{i}" for i in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op_type, names, outputs, name="node", **self.attributes)],
            "operator",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for name, a in feeds.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in held.items() if array is not None],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        for made, found in zip(graph.output, inferred.graph.output, strict=True):
            made.CopyFrom(found)
        return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8), feeds


def _draw(dtype: str, shape: Sequence[int], low: float = -4, high: float = 4) -> Array:
    rng, kind = np.random.default_rng(0), np.dtype(TYPES[dtype])
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    low = max(low, 0) if kind.kind == "u" else low
    made = rng.integers(int(low), int(high) + 1, shape) if kind.kind in "iu" else rng.uniform(low, high, shape)
    return made.astype(kind)


Cases = Iterator[tuple[str, Callable[[], OperatorCase]]]


def _elementwise(size: str) -> Cases:
    shape, row = SIZES[size], SIZES[size][1:]
    for dtype in ("f32", "f16", "f64", "i64", "i32"):
        yield f"Add {dtype}", lambda d=dtype: OperatorCase("Add", (_draw(d, shape), _draw(d, shape)))
        yield f"Mul {dtype} row", lambda d=dtype: OperatorCase("Mul", (_draw(d, shape), _draw(d, row)))
    for dtype in ("f32", "i64", "i32", "u8"):
        yield f"Greater {dtype}", lambda d=dtype: OperatorCase("Greater", (_draw(d, shape), _draw(d, shape)))
        yield (
            f"Where {dtype}",
            lambda d=dtype: OperatorCase("Where", (_draw("bool", shape), _draw(d, shape), _draw(d, shape))),
        )
    for dtype in ("i64", "i32"):
        yield (
            f"Equal {dtype} one-hot",
            lambda d=dtype: OperatorCase("Equal", (_draw(d, (shape[0], 1)),), (np.arange(shape[1]).astype(TYPES[d]),)),
        )
    yield "And bool", lambda: OperatorCase("And", (_draw("bool", shape), _draw("bool", shape)))
    yield "Not bool", lambda: OperatorCase("Not", (_draw("bool", shape),))
    for source, target in (
        ("f32", "f16"), ("f16", "f32"), ("f32", "i64"), ("i64", "f32"), ("i32", "f32"), ("bool", "f32"),
        ("f32", "bool"), ("u8", "f32"), ("f32", "u8"), ("i64", "i32"), ("i32", "i64"),
    ):  # fmt: skip
        code = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[target]))
        yield (
            f"Cast {source} {target}",
            lambda s=source, c=code: OperatorCase("Cast", (_draw(s, shape),), attributes={"to": c}),
        )
    for name in ("Sqrt", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Floor", "Sin"):
        low = 0 if name == "Sqrt" else -4
        yield f"{name} f32", lambda n=name, lo=low: OperatorCase(n, (_draw("f32", shape, lo),))
    yield "Neg i64", lambda: OperatorCase("Neg", (_draw("i64", shape),))
    yield "Pow f32", lambda: OperatorCase("Pow", (_draw("f32", shape, 0.1),), (np.float32(2.5).reshape(()),))
    yield "Pow f16 i64", lambda: OperatorCase("Pow", (_draw("f16", shape, 0.1),), (np.array(3),))
    yield "Mod i64", lambda: OperatorCase("Mod", (_draw("i64", shape),), (np.array(7),))
    yield "Clip f32", lambda: OperatorCase("Clip", (_draw("f32", shape),), (np.float32(-1), np.float32(1)))


def _reductions(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    for dtype in ("f32", "i64", "f16"):
        for axis in (0, 1):
            yield (
                f"ReduceSum {dtype} axis {axis}",
                lambda d=dtype, a=axis: OperatorCase("ReduceSum", (_draw(d, shape),), (np.array([a]),)),
            )
    yield "ReduceMax f32 all", lambda: OperatorCase("ReduceMax", (_draw("f32", shape),))
    yield "ReduceMean f32 image", lambda: OperatorCase("ReduceMean", (_draw("f32", image),), (np.array([2, 3]),))
    yield "ReduceMean f32 channels", lambda: OperatorCase("ReduceMean", (_draw("f32", image),), (np.array([1]),))
    yield "ArgMax f32 axis 1", lambda: OperatorCase("ArgMax", (_draw("f32", shape),), attributes={"axis": 1})
    yield "ArgMax f32 axis 0", lambda: OperatorCase("ArgMax", (_draw("f32", shape),), attributes={"axis": 0})
    yield (
        "Einsum f32 rows",
        lambda: OperatorCase("Einsum", (_draw("f32", shape),) * 2, attributes={"equation": "ij,ij->i"}),
    )
    yield "Softmax f32", lambda: OperatorCase("Softmax", (_draw("f32", shape),))
    yield "CumSum f32 axis 1", lambda: OperatorCase("CumSum", (_draw("f32", shape),), (np.array(1),))
    yield "CumSum i64 axis 0", lambda: OperatorCase("CumSum", (_draw("i64", shape),), (np.array(0),))


def _moves(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rng = np.random.default_rng(1)
    rows = rng.integers(0, shape[0], 2 * shape[0])
    everywhere = rng.integers(0, shape[1], shape)
    yield "Gather f32 rows", lambda: OperatorCase("Gather", (_draw("f32", shape), rows))
    yield (
        "Gather i64 columns",
        lambda: OperatorCase("Gather", (_draw("i64", shape), everywhere[0]), attributes={"axis": 1}),
    )
    yield (
        "GatherElements f32",
        lambda: OperatorCase("GatherElements", (_draw("f32", shape), everywhere), attributes={"axis": 1}),
    )
    yield "GatherND f32", lambda: OperatorCase("GatherND", (_draw("f32", shape), rows[:, None]))
    yield "ScatterElements f32", lambda: OperatorCase(
        "ScatterElements", (_draw("f32", shape), everywhere[:, ::2], _draw("f32", everywhere[:, ::2].shape)),
        attributes={"axis": 1},
    )  # fmt: skip
    once = rng.permutation(shape[0])[: shape[0] // 2]
    yield (
        "ScatterND f32",
        lambda: OperatorCase("ScatterND", (_draw("f32", shape), once[:, None], _draw("f32", (len(once), shape[1])))),
    )
    for dtype in ("f32", "i64", "u8"):
        yield f"Transpose {dtype}", lambda d=dtype: OperatorCase("Transpose", (_draw(d, shape),))
    yield (
        "Transpose f32 heads",
        lambda: OperatorCase(
            "Transpose", (_draw("f32", (1, shape[0], 8, shape[1] // 8)),), attributes={"perm": [0, 2, 1, 3]}
        ),
    )
    yield (
        "Transpose f32 image",
        lambda: OperatorCase("Transpose", (_draw("f32", image),), attributes={"perm": [0, 2, 3, 1]}),
    )
    for dtype in ("f32", "u8"):
        yield (
            f"Transpose {dtype} pixels",
            lambda d=dtype: OperatorCase(
                "Transpose", (_draw(d, (1, *image[2:], 3)),), attributes={"perm": [0, 3, 1, 2]}
            ),
        )
    yield (
        "Slice f32 columns",
        lambda: OperatorCase(
            "Slice", (_draw("f32", shape),), (np.array([16]), np.array([shape[1] - 16]), np.array([1]))
        ),
    )
    yield (
        "Slice f32 steps",
        lambda: OperatorCase(
            "Slice",
            (_draw("f32", image),),
            (np.array([0, 1]), np.array([1 << 30] * 2), np.array([2, 3]), np.array([2, 2])),
        ),
    )
    for dtype in ("f32", "i64"):
        yield (
            f"Concat {dtype} columns",
            lambda d=dtype: OperatorCase("Concat", (_draw(d, shape), _draw(d, shape)), attributes={"axis": 1}),
        )
    yield (
        "Split f32 columns",
        lambda: OperatorCase("Split", (_draw("f32", shape),), attributes={"axis": 1, "num_outputs": 2}, outputs=2),
    )
    yield "Pad f32 image", lambda: OperatorCase("Pad", (_draw("f32", image),), (np.array([0, 0, 1, 1] * 2),))
    yield (
        "Pad f32 reflect",
        lambda: OperatorCase("Pad", (_draw("f32", image),), (np.array([0, 0, 1, 1] * 2),), {"mode": "reflect"}),
    )
    yield "Tile f32", lambda: OperatorCase("Tile", (_draw("f32", shape),), (np.array([2, 2]),))
    yield "Expand f32", lambda: OperatorCase("Expand", (_draw("f32", shape),), (np.array([2, *shape]),))
    yield (
        "Resize f32 pixels",
        lambda: OperatorCase(
            "Resize", (_draw("f32", (1, *image[2:], 3)),), (None, np.float32([1, 2, 2, 1])), {"mode": "linear"}
        ),
    )
    for mode in ("nearest", "linear", "cubic"):
        yield (
            f"Resize f32 {mode}",
            lambda m=mode: OperatorCase(
                "Resize", (_draw("f32", image),), (None, np.float32([1, 1, 2, 2])), {"mode": m}
            ),
        )
    yield "SpaceToDepth f32", lambda: OperatorCase("SpaceToDepth", (_draw("f32", image),), attributes={"blocksize": 2})
    yield "DepthToSpace f32", lambda: OperatorCase("DepthToSpace", (_draw("f32", image),), attributes={"blocksize": 2})
    yield (
        "OneHot i64",
        lambda: OperatorCase(
            "OneHot", (rng.integers(0, shape[1], shape[0]),), (np.array(shape[1]), np.float32([0, 1]))
        ),
    )


def _searches(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    count = shape[1]
    yield "TopK f32", lambda: OperatorCase("TopK", (_draw("f32", shape),), (np.array([10]),), outputs=2)
    yield "TopK f32 all", lambda: OperatorCase("TopK", (_draw("f32", shape),), (np.array([count]),), outputs=2)
    yield "NonZero f32", lambda: OperatorCase("NonZero", ((_draw("f32", shape) > 3).astype(np.float32),))
    yield "Unique f32", lambda: OperatorCase("Unique", (np.round(_draw("f32", (count,))),))
    corners = np.random.default_rng(2).uniform(0, image[3] / 2, (count, 4)).astype(np.float32)
    boxes = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], 1)
    yield (
        "NonMaxSuppression",
        lambda: OperatorCase(
            "NonMaxSuppression",
            (boxes[None], _draw("f32", (1, 1, count), 0, 1)),
            (np.array([100]), np.float32([0.5]), np.float32([0.2])),
        ),
    )
    regions = boxes[: max(8, count // 32)]
    yield (
        "RoiAlign f32",
        lambda: OperatorCase(
            "RoiAlign",
            (_draw("f32", image), regions, np.zeros(len(regions), np.int64)),
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
            lambda d=dtype, w=window: OperatorCase("STFT", (_draw(d, signal),), (np.array(frame // 2), w)),
        )
    for dtype in ("f32", "f16", "f64"):
        channels, columns = _draw(dtype, image[1:2]), _draw(dtype, shape[1:])
        yield (
            f"GroupNormalization {dtype}",
            lambda d=dtype, c=channels: OperatorCase(
                "GroupNormalization", (_draw(d, image),), (c, c), {"num_groups": 4}, opset=21
            ),
        )
        yield (
            f"LayerNormalization {dtype}",
            lambda d=dtype, c=columns: OperatorCase("LayerNormalization", (_draw(d, shape),), (c, c)),
        )
        yield (
            f"RMSNormalization {dtype}",
            lambda d=dtype, c=columns: OperatorCase("RMSNormalization", (_draw(d, shape),), (c,), opset=23),
        )
    heads = (1, 8, 16 if size == "small" else 128, 64)
    for dtype in ("f32", "f16"):
        for pairs in (0, 1):
            table = rng.uniform(-1, 1, (heads[2], heads[3] // 2)).astype(TYPES[dtype])
            yield (
                f"RotaryEmbedding {dtype}{' pairs' if pairs else ''}",
                lambda d=dtype, t=table, p=pairs: OperatorCase(
                    "RotaryEmbedding",
                    (_draw(d, heads), t, t, np.arange(heads[2])[None]),
                    (),
                    {"interleaved": p},
                    opset=23,
                ),
            )
    for dtype in ("f32", "f16"):
        for name in ("Asin", "Acos", "Atan", "Tan", "Sinh", "Asinh"):
            yield (
                f"{name} {dtype}",
                lambda d=dtype, n=name: OperatorCase(n, (_draw(d, shape, -1, 1),), opset=22),
            )
        yield f"Sign {dtype}", lambda d=dtype: OperatorCase("Sign", (_draw(d, shape),))
    for dtype in ("i32", "i8", "u8"):
        yield (
            f"Resize {dtype} linear",
            lambda d=dtype: OperatorCase(
                "Resize", (_draw(d, image, -99, 99),), (None, np.float32([1, 1, 2, 2])), {"mode": "linear"}
            ),
        )
    for name in ("LogSumExp", "LogSum", "L2"):
        for axis in (0, 1):
            yield (
                f"Reduce{name} i32 axis {axis}",
                lambda n=name, a=axis: OperatorCase(f"Reduce{n}", (_draw("i32", shape, 1, 4),), (np.array([a]),)),
            )
    yield "EyeLike f32", lambda: OperatorCase("EyeLike", (_draw("f32", shape),), opset=22)
    points = rng.uniform(-1.3, 1.3, (1, *image[2:], 2)).astype(np.float32)
    yield (
        "GridSample f32 nearest",
        lambda: OperatorCase(
            "GridSample", (_draw("f32", image), points), (), {"mode": "nearest", "padding_mode": "reflection"}, opset=20
        ),
    )


OPERATORS: dict[str, Callable[[], OperatorCase]] = {
    f"{title} {size}": made
    for size in SIZES
    for group in (_elementwise, _reductions, _moves, _searches, _rarer)
    for title, made in group(size)
}
"""By title: operator, type, what is special, size."""
