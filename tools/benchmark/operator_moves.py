"""Models of one operator that moves, finds or counts elements, in what users' models have beside the first table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.benchmark.operator_cases import Cases, draw, drawn

SIZES = {"small": (8, 512), "large": (1024, 2048)}

IMAGES = {"small": (1, 16, 24, 24), "large": (1, 64, 160, 160)}


def cases_of_moves(size: str) -> Cases:
    """Yield each case by its title."""
    yield from _indexed(size)
    yield from _copied(size)
    yield from _pixels(size)
    yield from _found(size)


def _indexed(size: str) -> Cases:
    (rows, columns), rng = SIZES[size], np.random.default_rng(7)
    shape, half = (rows, columns), (rows, columns // 2)
    everywhere, lines = rng.integers(0, columns, half), rng.integers(0, rows, (rows // 2, columns))
    few = rng.integers(0, rows, (rows // 2, 1))
    for how in ("none", "add", "max"):
        options: dict[str, Any] = {"attributes": {"reduction": how}}
        some = ("f32", (rows // 2, columns))
        yield f"ScatterND f32 {how} rows", drawn("ScatterND", ("f32", shape), few, some, **options)
        points = np.stack([rng.integers(0, n, columns) for n in shape], 1)
        yield f"ScatterND i64 {how} points", drawn("ScatterND", ("i64", shape), points, ("i64", (columns,)), **options)
        options = {"attributes": {"reduction": how, "axis": 0}}
        yield (
            f"ScatterElements f32 {how} axis 0",
            drawn("ScatterElements", ("f32", shape), lines, ("f32", lines.shape), **options),
        )
    yield (
        "ScatterElements i64 axis 1",
        drawn("ScatterElements", ("i64", shape), everywhere, ("i64", half), attributes={"axis": 1}),
    )
    for dtype in ("f32", "f16", "i64", "u8"):
        yield f"GatherElements {dtype} axis 0", drawn("GatherElements", (dtype, shape), lines, attributes={"axis": 0})
        yield f"Gather {dtype} words", drawn("Gather", (dtype, (1000, 64)), rng.integers(0, 1000, half[::-1][:1]))
    yield "GatherElements i64 axis 1", drawn("GatherElements", ("i64", shape), everywhere, attributes={"axis": 1})
    yield (
        "GatherND f32 batch",
        drawn(
            "GatherND",
            ("f32", (rows, columns // 8, 8)),
            everywhere[:, :, None] % (columns // 8),
            attributes={"batch_dims": 1},
        ),
    )
    yield "Gather f32 one column", drawn("Gather", ("f32", shape), constants=(np.array(3),), attributes={"axis": 1})
    yield (
        "Gather f32 first row",
        drawn("Gather", ("f32", (8, rows, columns // 8)), constants=(np.array(0),), attributes={"axis": 1}),
    )
    for dtype in ("f32", "i64", "bool"):
        yield f"Trilu {dtype}", drawn("Trilu", (dtype, shape), attributes={"upper": 0})
    for axis, dtype in ((-1, "f32"), (0, "f32"), (-1, "i64")):
        values = draw(dtype, (2,))
        hot = rng.integers(0, 64, (rows * 4,))
        yield (
            f"OneHot {dtype} axis {axis}",
            drawn("OneHot", hot, constants=(np.array(64), values), attributes={"axis": axis}),
        )
    keep = rng.random(columns) < 0.5
    yield "Compress f32 columns", drawn("Compress", ("f32", shape), keep, attributes={"axis": 1})
    yield "Compress f32 rows", drawn("Compress", ("f32", shape), rng.random(rows) < 0.5, attributes={"axis": 0})
    lengths = rng.integers(1, rows + 1, 16)
    yield "ReverseSequence f32", drawn("ReverseSequence", ("f32", (rows, 16, columns // 16)), lengths)


def _copied(size: str) -> Cases:
    shape, image = SIZES[size], IMAGES[size]
    rows, columns = shape
    for dtype in ("f16", "i64", "bool"):
        stack = (4, rows // 4, columns)
        yield f"Transpose {dtype} stack", drawn("Transpose", (dtype, stack), attributes={"perm": [0, 2, 1]})
        yield (
            f"Transpose {dtype} heads",
            drawn("Transpose", (dtype, (1, rows, 8, columns // 8)), attributes={"perm": [0, 2, 1, 3]}),
        )
    windows = (1, image[2] // 8, 8, image[3] // 8, 8, image[1])
    yield "Transpose f32 windows", drawn("Transpose", ("f32", windows), attributes={"perm": [0, 1, 3, 2, 4, 5]})
    yield "Transpose f32 reverse", drawn("Transpose", ("f32", image))
    for dtype in ("f32", "f16", "i64", "u8"):
        ends = (np.array([1, 4]), np.array([rows - 1, columns - 4]), np.array([0, 1]))
        yield f"Slice {dtype} inside", drawn("Slice", (dtype, shape), constants=ends)
    back = (np.array([-1]), np.array([-(1 << 40)]), np.array([1]), np.array([-1]))
    yield "Slice f32 backwards", drawn("Slice", ("f32", shape), constants=back)
    for dtype in ("f16", "u8", "i32"):
        yield f"Concat {dtype} columns", drawn("Concat", *[(dtype, shape)] * 3, attributes={"axis": 1})
    yield "Concat f32 channels", drawn("Concat", *[("f32", image)] * 4, attributes={"axis": 1})
    yield "Concat f32 rows", drawn("Concat", *[("f32", shape)] * 3, attributes={"axis": 0})
    for axis, dtype in ((1, "i64"), (1, "f16"), (0, "f32")):
        yield (
            f"Split {dtype} axis {axis}",
            drawn("Split", (dtype, shape), attributes={"axis": axis, "num_outputs": 4}, outputs=4),
        )
    yield "Split f32 channels", drawn("Split", ("f32", image), attributes={"axis": 1, "num_outputs": 2}, outputs=2)
    for mode, dtype in (("edge", "f32"), ("wrap", "f32"), ("constant", "i64"), ("constant", "u8"), ("reflect", "f64")):
        pads = (np.array([0, 0, 2, 3] * 2),)
        yield f"Pad {dtype} {mode}", drawn("Pad", (dtype, image), constants=pads, attributes={"mode": mode}, opset=19)
    yield "Pad f32 row", drawn("Pad", ("f32", shape), constants=(np.array([0, 0, 0, 5]), np.float32(1)))
    yield "Pad f32 crop", drawn("Pad", ("f32", image), constants=(np.array([0, 0, -1, -2] * 2),))
    for dtype in ("i64", "bool", "f16"):
        yield f"Expand {dtype} rows", drawn("Expand", (dtype, (1, columns)), constants=(np.array(shape),))
        yield f"Expand {dtype} columns", drawn("Expand", (dtype, (rows, 1)), constants=(np.array(shape),))
        yield f"Tile {dtype}", drawn("Tile", (dtype, (rows, columns // 4)), constants=(np.array([1, 4]),))
    for dtype in ("f32", "u8"):
        lines = (rows * 16, 3)
        yield f"Tile {dtype} short rows", drawn("Tile", (dtype, lines), constants=(np.array([1, 4]),))
        yield f"Concat {dtype} short rows", drawn("Concat", (dtype, lines), (dtype, lines), attributes={"axis": 1})
    yield "Identity f32", drawn("Identity", ("f32", shape))
    yield "Reshape f32", drawn("Reshape", ("f32", shape), constants=(np.array([columns, rows]),))
    yield (
        "CenterCropPad f32",
        drawn("CenterCropPad", ("f32", image), constants=(np.array(image[2:]) - 3,), attributes={"axes": [2, 3]}),
    )


def _pixels(size: str) -> Cases:
    image, rng = IMAGES[size], np.random.default_rng(8)
    channels, height, width = image[1:]
    for dtype in ("f32", "f16", "u8"):
        for mode in ("DCR", "CRD"):
            yield (
                f"DepthToSpace {dtype} {mode}",
                drawn("DepthToSpace", (dtype, image), attributes={"blocksize": 4, "mode": mode}),
            )
    half = np.float32([1, 1, 0.5, 0.5])
    for mode, more in (
        ("linear", {"coordinate_transformation_mode": "align_corners"}),
        ("linear", {"antialias": 1}),
        ("cubic", {"antialias": 1}),
        ("cubic", {"cubic_coeff_a": -0.5}),
        ("nearest", {"nearest_mode": "ceil"}),
        ("linear", {"coordinate_transformation_mode": "pytorch_half_pixel"}),
    ):
        title = f"Resize f32 halved {mode} {next(iter(more))}{' corners' if 'align_corners' in more.values() else ''}"
        yield title, drawn("Resize", ("f32", image), constants=(None, half), attributes={"mode": mode, **more})
    for dtype, mode in (("f16", "nearest"), ("f16", "linear"), ("i32", "nearest"), ("i8", "nearest"), ("u8", "linear")):
        sizes = (None, None, np.array([1, channels, height * 3 // 2, width * 5 // 4]))
        yield (
            f"Resize {dtype} {mode} sizes",
            drawn("Resize", (dtype, image), constants=sizes, attributes={"mode": mode}),
        )
    points = rng.uniform(-1.2, 1.2, (1, height, width, 2)).astype(np.float32)
    for mode, padding, aligned in (
        ("linear", "zeros", 0), ("linear", "border", 1), ("cubic", "zeros", 0), ("nearest", "zeros", 0),
    ):  # fmt: skip
        options = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
        yield (
            f"GridSample f32 {mode} {padding}",
            drawn("GridSample", ("f32", image), points, attributes=options, opset=20),
        )
    yield "AffineGrid f32", drawn("AffineGrid", ("f32", (1, 2, 3)), constants=(np.array(image),), opset=20)
    patches = (1, channels * 9, (height - 2) * (width - 2))
    yield "Col2Im f32 overlapping", drawn("Col2Im", ("f32", patches), constants=(np.array(image[2:]), np.array([3, 3])))
    pooled = draw("f32", (1, channels, height // 2, width // 2))
    places = (np.arange(pooled.size) * 4).reshape(pooled.shape)
    yield (
        "MaxUnpool f32",
        drawn("MaxUnpool", pooled, places, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    )
    corners = rng.uniform(0, width / 2, (32, 2)).astype(np.float32)
    regions = np.concatenate([corners, corners + rng.uniform(1, width / 2, (32, 2)).astype(np.float32)], 1)
    for mode, ratio in (("avg", 0), ("max", 2), ("avg", 1)):
        options = {"output_height": 7, "output_width": 7, "sampling_ratio": ratio, "mode": mode, "spatial_scale": 0.5}
        yield (
            f"RoiAlign f32 {mode} {ratio}",
            drawn("RoiAlign", ("f32", image), regions, np.zeros(32, np.int64), attributes=options),
        )
    numbered = np.concatenate([np.zeros((32, 1), np.float32), regions], 1)
    yield "MaxRoiPool f32", drawn("MaxRoiPool", ("f32", image), numbered, attributes={"pooled_shape": [7, 7]})


def _found(size: str) -> Cases:
    shape, rng = SIZES[size], np.random.default_rng(9)
    for best, axis in ((1, 1), (5, 1), (5, 0), (100, 1)):
        yield (
            f"TopK f32 {best} axis {axis}",
            drawn(
                "TopK",
                ("f32", shape),
                constants=(np.array([min(best, shape[axis])]),),
                attributes={"axis": axis},
                outputs=2,
            ),
        )
    for dtype in ("i64", "i32", "f64"):
        yield f"TopK {dtype}", drawn("TopK", (dtype, shape, -999, 999), constants=(np.array([10]),), outputs=2)
    yield (
        "TopK f32 least",
        drawn("TopK", ("f32", shape), constants=(np.array([10]),), attributes={"largest": 0}, outputs=2),
    )
    line = (shape[1] * 4,)
    yield "TopK f32 line", drawn("TopK", ("f32", line), constants=(np.array([100]),), outputs=2)
    yield "Unique i64", drawn("Unique", ("i64", line, -99, 99), outputs=4)
    yield "NonZero bool", drawn("NonZero", ("bool", shape))
    yield "NonZero i64", drawn("NonZero", ("i64", shape, 0, 1))
    for dtype in ("f32", "i32", "f64"):
        for name in ("ArgMax", "ArgMin"):
            for axis in (0, 1):
                options = {"axis": axis, "keepdims": 0, "select_last_index": int(name == "ArgMin")}
                yield f"{name} {dtype} last of axis {axis}", drawn(name, (dtype, shape), attributes=options)
    for count, classes in ((20, 1), (10, 5), (100, 1), (shape[1], 20)):
        low = rng.uniform(0, 600, (1, count, 2)).astype(np.float32)
        boxes = np.concatenate([low, low + rng.uniform(1, 80, (1, count, 2)).astype(np.float32)], 2)
        limits = (np.array([20]), np.float32([0.5]), np.float32([0.3]))
        yield (
            f"NonMaxSuppression {count} of {classes}",
            drawn("NonMaxSuppression", boxes, ("f32", (1, classes, count), 0, 1), constants=limits),
        )
