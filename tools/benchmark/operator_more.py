"""Models of one operator in the types, layouts and broadcasts of exported models that the other tables leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tools.benchmark.operator_cases import Cases, draw, drawn

SIZES = {"small": (8, 512), "large": (1024, 2048)}

IMAGES = {"small": (1, 16, 24, 24), "large": (1, 64, 160, 160)}

VOLUMES = {"small": (1, 4, 6, 8, 10), "large": (1, 16, 24, 48, 48)}


def cases_of_more(size: str) -> Cases:
    """Yield each case by its title."""
    yield from _elementwise(size)
    yield from _reduced(size)
    yield from _indexed(size)
    yield from _copied(size)
    yield from _transposed(size)
    yield from _resized(size)
    yield from _found(size)


def _elementwise(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    for dtype in ("f32", "f16"):
        yield f"Add {dtype} channels", drawn("Add", (dtype, image), constants=(draw(dtype, (1, image[1], 1, 1)),))
        yield f"Mul {dtype} scalar", drawn("Mul", (dtype, shape), constants=(draw(dtype, (), 2, 3),))
        yield f"Sub {dtype} of a scalar", drawn("Sub", (dtype, ()), (dtype, shape))
    for name in ("Add", "Mul", "Div"):
        yield f"{name} i64 scalar", drawn(name, ("i64", shape), constants=(np.array(3),))
    for name in ("Log", "Reciprocal", "LeakyRelu", "HardSwish", "HardSigmoid", "Elu", "LogSoftmax", "Softplus"):
        low, high = (0.5, 4) if name in ("Log", "Reciprocal") else (-4, 4)
        yield f"{name} f16", drawn(name, ("f16", shape, low, high))
    for name in ("Sin", "Cos", "Ceil", "Round"):
        yield f"{name} f16", drawn(name, ("f16", shape))
    yield "Gelu f16", drawn("Gelu", ("f16", shape), opset=20)
    for name in ("Neg", "Reciprocal", "Ceil", "Sign", "LogSoftmax", "Cos"):
        yield f"{name} f64", drawn(name, ("f64", shape, 0.5))
    for dtype in ("i32", "i8"):
        yield f"Neg {dtype}", drawn("Neg", (dtype, shape))
    yield "Relu i32", drawn("Relu", ("i32", shape))
    yield "Pow f64", drawn("Pow", ("f64", shape, 0.1), constants=(np.float64(2).reshape(()),))
    yield "Pow i32", drawn("Pow", ("i32", shape), constants=(np.array(2, np.int32),))
    yield "Where f64", drawn("Where", ("bool", shape), ("f64", shape), ("f64", shape))
    for name in ("Greater", "Less", "LessOrEqual"):
        for dtype in ("f16", "u8", "i8"):
            yield f"{name} {dtype} scalar", drawn(name, (dtype, shape), constants=(draw(dtype, (), 2, 2),))
    yield "Greater i64 mask", drawn("Greater", ("i64", (shape[0], 1)), ("i64", (1, shape[1])))
    yield "And bool column", drawn("And", ("bool", shape), ("bool", (shape[0], 1)))
    for source, target in (
        ("i32", "BOOL"), ("i32", "FLOAT16"), ("u8", "FLOAT16"), ("f16", "INT64"), ("f16", "BOOL"), ("f32", "DOUBLE"),
        ("f32", "INT8"), ("f32", "INT32"), ("u8", "INT64"), ("u8", "INT32"), ("bool", "INT32"),
    ):  # fmt: skip
        code = getattr(TensorProto, target)
        yield f"Cast {source} {target.lower()}", drawn("Cast", (source, shape), attributes={"to": code})


def _reduced(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rows, columns = shape
    for name, dtype in (
        ("Max", "f16"), ("Min", "i32"), ("Min", "f64"), ("Prod", "i32"), ("L2", "f64"), ("Mean", "i64"), ("Min", "u8"),
    ):  # fmt: skip
        for axis in (0, 1):
            of = (dtype, shape, 1, 2)
            yield f"Reduce{name} {dtype} axis {axis}", drawn(f"Reduce{name}", of, constants=(np.array([axis]),))
    for name, axes in (("Sum", [0, 2, 3]), ("Max", [2, 3]), ("Mean", [0, 2, 3]), ("Mean", [3]), ("L2", [1])):
        title = f"Reduce{name} f32 axes {' '.join(map(str, axes))}"
        yield title, drawn(f"Reduce{name}", ("f32", image, 1, 2), constants=(np.array(axes),))
    yield "ReduceMean f32 all", drawn("ReduceMean", ("f32", shape), attributes={"keepdims": 0})
    yield "ReduceMean f16 image", drawn("ReduceMean", ("f16", image), constants=(np.array([2, 3]),))
    for axis in (0, 1):
        yield (
            f"ReduceMax bool axis {axis}",
            drawn("ReduceMax", ("bool", shape), constants=(np.array([axis]),), opset=20),
        )
    for dtype in ("u8", "i8"):
        yield f"ArgMax {dtype} axis 1", drawn("ArgMax", (dtype, shape, -99, 99), attributes={"axis": 1})
    yield "ArgMax f32 channels", drawn("ArgMax", ("f32", image), attributes={"axis": 1, "keepdims": 0})
    scores = (1, 8, rows // 2, columns // 16)
    for dtype in ("f32", "f16"):
        yield f"Softmax {dtype} scores", drawn("Softmax", (dtype, scores))
    yield "Softmax f32 classes", drawn("Softmax", ("f32", (rows * 8, 4)))
    yield "Softmax f32 channels", drawn("Softmax", ("f32", (1, 2, *image[2:])), attributes={"axis": 1})
    yield "Softmax f32 line", drawn("Softmax", ("f32", (1, columns * 16)))
    yield "CumSum f32 line", drawn("CumSum", ("f32", (1, columns * 16)), constants=(np.array(1),))
    yield "CumSum i32 mask", drawn("CumSum", ("i32", (rows, 77), 0, 1), constants=(np.array(1),))
    yield "CumSum f32 volume", drawn("CumSum", ("f32", (4, *image[2:])), constants=(np.array(2),))


def _indexed(size: str) -> Cases:
    (rows, columns), rng = SIZES[size], np.random.default_rng(11)
    shape, half = (rows, columns), (rows, columns // 2)
    words = rng.integers(0, 1000, (1, columns // 4))
    for dtype in ("f64", "bool", "i32"):
        yield f"Gather {dtype} words", drawn("Gather", (dtype, (1000, 64)), words)
    yield "Gather f32 words i32", drawn("Gather", ("f32", (1000, 64)), words.astype(np.int32))
    yield "Gather i64 scalar", drawn("Gather", ("i64", (rows,)), constants=(np.array(1),))
    yield (
        "Gather f32 channels",
        drawn("Gather", ("f32", IMAGES[size]), rng.permutation(IMAGES[size][1]), attributes={"axis": 1}),
    )
    yield "Gather f16 columns", drawn("Gather", ("f16", shape), rng.permutation(columns), attributes={"axis": 1})
    points = np.stack([rng.integers(0, n, (columns,)) for n in shape], 1)
    for dtype in ("f32", "i64", "bool"):
        yield f"GatherND {dtype} points", drawn("GatherND", (dtype, shape), points)
    once = rng.permutation(rows)[: rows // 2, None]
    for dtype in ("f16", "i32", "bool", "f64"):
        yield f"ScatterND {dtype} rows", drawn("ScatterND", (dtype, shape), once, (dtype, (rows // 2, columns)))
    cells = rng.permutation(rows * columns // 16)[: rows * columns // 64]
    for dtype in ("u8", "f32"):
        grid, corners = (dtype, (rows, columns // 16, 16)), np.stack(np.divmod(cells, columns // 16), 1)
        yield f"ScatterND {dtype} cells", drawn("ScatterND", grid, corners, (dtype, (len(cells), 16)))
    lines = np.argsort(rng.random(shape), 1)[:, : columns // 2]
    for dtype in ("f16", "bool", "i32", "f64"):
        options: dict[str, Any] = {"attributes": {"axis": 1}}
        yield (
            f"ScatterElements {dtype} axis 1",
            drawn("ScatterElements", (dtype, shape), lines, (dtype, half), **options),
        )
    for dtype in ("f64", "bool"):
        yield f"GatherElements {dtype} axis 1", drawn("GatherElements", (dtype, shape), lines, attributes={"axis": 1})


def _copied(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rows, columns = shape
    for dtype in ("bool", "f64", "i32"):
        ends = (np.array([1, 4]), np.array([rows - 1, columns - 4]), np.array([0, 1]))
        yield f"Slice {dtype} inside", drawn("Slice", (dtype, shape), constants=ends)
    last = (np.array([-1]), np.array([1 << 40]), np.array([1]))
    yield "Slice f32 last token", drawn("Slice", ("f32", (1, *shape)), constants=last)
    for part in (0, 1):
        focus = (np.array([part, part]), np.array([1 << 40] * 2), np.array([2, 3]), np.array([2, 2]))
        yield f"Slice f16 focus {part}", drawn("Slice", ("f16", image), constants=focus)
    for dtype in ("bool", "f64"):
        yield f"Concat {dtype} columns", drawn("Concat", *[(dtype, shape)] * 2, attributes={"axis": 1})
        yield (
            f"Split {dtype} columns",
            drawn("Split", (dtype, shape), attributes={"axis": 1, "num_outputs": 2}, outputs=2),
        )
        yield f"Expand {dtype} stack", drawn("Expand", (dtype, shape), constants=(np.array([2, *shape]),))
    yield "Concat f32 past", drawn("Concat", *[("f32", (1, 8, n, 64)) for n in (rows, 1)], attributes={"axis": 2})
    yield (
        "Split f32 thirds",
        drawn("Split", ("f32", (1, rows, 96 * 3)), attributes={"axis": 2, "num_outputs": 3}, outputs=3),
    )
    yield "Expand f32 groups", drawn("Expand", ("f32", (1, 2, 1, rows, 64)), constants=(np.array([1, 2, 4, rows, 64]),))
    for dtype in ("f64", "i32"):
        yield f"Tile {dtype}", drawn("Tile", (dtype, (rows, columns // 4)), constants=(np.array([2, 4]),))
    for dtype in ("bool", "f16", "i32"):
        yield f"Pad {dtype} constant", drawn("Pad", (dtype, image), constants=(np.array([0, 0, 2, 3] * 2),), opset=19)
    yield (
        "Pad f16 reflect",
        drawn("Pad", ("f16", image), constants=(np.array([0, 0, 1, 1] * 2),), attributes={"mode": "reflect"}),
    )
    volume = (4, 6, rows // 4, columns // 4)
    for mode in ("edge", "reflect"):
        around = (np.array([1, 2, 1, 1] * 2),)
        yield f"Pad f32 {mode} of four axes", drawn("Pad", ("f32", volume), constants=around, attributes={"mode": mode})
    for dtype in ("f16", "i32", "f64"):
        yield f"Trilu {dtype} upper", drawn("Trilu", (dtype, shape), attributes={"upper": 1})
    yield "Range f32", drawn("Range", constants=(np.float32(0), np.float32(rows * 64), np.float32(1)))
    yield "ConstantOfShape f32", drawn("ConstantOfShape", np.array(shape))
    yield "EyeLike i64", drawn("EyeLike", ("i64", shape), opset=22)
    lengths = np.random.default_rng(12).integers(1, rows + 1, 16)
    yield "ReverseSequence i64", drawn("ReverseSequence", ("i64", (rows, 16, columns // 16)), lengths)
    for dtype in ("f16", "u8"):
        yield f"SpaceToDepth {dtype}", drawn("SpaceToDepth", (dtype, image), attributes={"blocksize": 2})
    for name, more in (("Unsqueeze", (np.array([0]),)), ("Flatten", ()), ("Shape", ()), ("Size", ())):
        yield f"{name} f32", drawn(name, ("f32", image), constants=more)


def _transposed(size: str) -> Cases:
    (rows, columns), image = SIZES[size], IMAGES[size]
    channels, height, width = image[1:]
    for title, dtype, shape, perm in (
        ("stack", "f32", (4, rows // 4, columns), [0, 2, 1]),
        ("time first", "f32", (rows, 8, columns // 8), [1, 0, 2]),
        ("heads back", "f32", (1, 8, rows, columns // 8), [0, 2, 1, 3]),
        ("keys", "f32", (1, rows, 8, columns // 8), [0, 2, 3, 1]),
        ("keys", "f16", (1, rows, 8, columns // 8), [0, 2, 3, 1]),
        ("queries keys values", "f32", (1, rows, 3, 4, columns // 16), [2, 0, 3, 1, 4]),
        ("channels last", "f16", image, [0, 2, 3, 1]),
        ("channels first", "f32", (1, height, width, channels), [0, 3, 1, 2]),
        ("channels first", "f16", (1, height, width, channels), [0, 3, 1, 2]),
        ("shuffle", "f32", (1, 2, channels // 2, height, width), [0, 2, 1, 3, 4]),
        ("anchors", "f32", (1, 3, 16, height // 2, width // 2), [0, 1, 3, 4, 2]),
        ("boxes", "f32", (1, 84, rows * 2), [0, 2, 1]),
        ("", "f64", (rows, columns), [1, 0]),
        ("", "i32", (rows, columns), [1, 0]),
    ):  # fmt: skip
        yield f"Transpose {dtype} {title}".rstrip(), drawn("Transpose", (dtype, shape), attributes={"perm": perm})


def _resized(size: str) -> Cases:
    image, volume, rng = IMAGES[size], VOLUMES[size], np.random.default_rng(13)
    channels, height, width = image[1:]
    line = (1, channels, height * width // 4)
    for mode in ("nearest", "linear"):
        twice = (None, np.float32([1, 1, 2]))
        yield f"Resize f32 line {mode}", drawn("Resize", ("f32", line), constants=twice, attributes={"mode": mode})
        twice = (None, np.float32([1, 1, 2, 2, 2]))
        yield f"Resize f32 volume {mode}", drawn("Resize", ("f32", volume), constants=twice, attributes={"mode": mode})
        corners = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        double = (None, np.float32([1, 1, 2, 2]))
        yield f"Resize f16 {mode} asymmetric", drawn("Resize", ("f16", image), constants=double, attributes=corners)
    half = (None, np.float32([1, 1, 0.5, 0.5]))
    yield "Resize f32 halved nearest", drawn("Resize", ("f32", image), constants=half, attributes={"mode": "nearest"})
    yield (
        "Resize u8 halved linear",
        drawn("Resize", ("u8", image, 0, 99), constants=half, attributes={"mode": "linear"}),
    )
    pixels = (None, None, np.array([1, height // 2, width * 2 // 3, 3]))
    for dtype in ("f32", "u8"):
        options: dict[str, Any] = {"constants": pixels, "attributes": {"mode": "linear"}}
        yield f"Resize {dtype} pixels sizes", drawn("Resize", (dtype, (1, height, width, 3), 0, 99), **options)
    yield "Upsample f32", drawn("Upsample", ("f32", image), constants=(np.float32([1, 1, 2, 2]),), opset=9)
    places = rng.uniform(-1.1, 1.1, (1, *volume[2:], 3)).astype(np.float32)
    yield "GridSample f32 volume", drawn("GridSample", ("f32", volume), places, opset=20)
    corners = rng.uniform(0, width / 2, (64, 2)).astype(np.float32)
    regions = np.concatenate([corners, corners + rng.uniform(1, width / 2, (64, 2)).astype(np.float32)], 1)
    for title, rois, side, ratio in (("many", 64, 7, 2), ("masks", 8, 14, 2), ("one", 1, 7, 0)):
        options = {"output_height": side, "output_width": side, "sampling_ratio": ratio, "spatial_scale": 0.25}
        yield (
            f"RoiAlign f32 {title}",
            drawn("RoiAlign", ("f32", image), regions[:rois], np.zeros(rois, np.int64), attributes=options),
        )


def _found(size: str) -> Cases:
    (rows, columns), rng = SIZES[size], np.random.default_rng(14)
    yield "TopK f32 vocabulary", drawn("TopK", ("f32", (1, columns * 16)), constants=(np.array([50]),), outputs=2)
    yield (
        "TopK f32 sorted line",
        drawn("TopK", ("f32", (1, columns * 4)), constants=(np.array([columns * 4]),), outputs=2),
    )
    yield (
        "TopK f32 channels",
        drawn("TopK", ("f32", IMAGES[size]), constants=(np.array([4]),), attributes={"axis": 1}, outputs=2),
    )
    yield (
        "TopK f32 unsorted",
        drawn("TopK", ("f32", (rows, columns)), constants=(np.array([20]),), attributes={"sorted": 0}, outputs=2),
    )
    yield (
        "TopK i64 all",
        drawn("TopK", ("i64", (rows, columns // 4), -999, 999), constants=(np.array([columns // 4]),), outputs=2),
    )
    for dtype in ("i32", "u8"):
        yield f"NonZero {dtype}", drawn("NonZero", (dtype, (rows, columns), 0, 1))
    yield "Compress i64 line", drawn("Compress", ("i64", (columns,)), rng.random(columns) < 0.5, attributes={"axis": 0})
    yield "Unique f32 line", drawn("Unique", ("f32", (columns * 4,)), outputs=1)
    yield "Unique i64 rows", drawn("Unique", ("i64", (rows, 2), 0, 5), attributes={"axis": 0}, outputs=2)
    centres = rng.uniform(0, 600, (2, columns, 2)).astype(np.float32)
    boxes = np.concatenate([centres, rng.uniform(1, 80, (2, columns, 2)).astype(np.float32)], 2)
    limits = (np.array([50]), np.float32([0.6]), np.float32([0.6]))
    yield (
        "NonMaxSuppression centres",
        drawn(
            "NonMaxSuppression",
            boxes,
            ("f32", (2, 4, columns), 0, 1),
            constants=limits,
            attributes={"center_point_box": 1},
        ),
    )
    few = (np.array([10]), np.float32([0.5]), np.float32([0.999]))
    yield "NonMaxSuppression few", drawn("NonMaxSuppression", boxes[:1], ("f32", (1, 1, columns), 0, 1), constants=few)
