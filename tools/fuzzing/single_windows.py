"""Single operators with windows and kernels: convolutions of every form, pooling, regions, maps of places."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tools.fuzzing.making import Making
from tools.fuzzing.single import axis_of, case, filled, index_array, tensor, term

quiet = partial(tensor, strange=())
"""An operand of numbers: Winograd's sums and padded taps make NaN of infinity where others do not."""

CHANNELS = (1, 2, 3, 4, 8, 15, 16, 17, 33)


def window_of(g: Making, rank: int, most: int) -> tuple[list[int], dict[str, Any]]:
    """Return the sizes of a map and the attributes of a window that fits into it."""
    kernel = [int(g.one((1, 1, 2, 3, 3, 5))) for _ in range(rank)]
    dilations = [int(g.one((1, 1, 1, 2, 3))) for _ in kernel]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [g.number(r, r + most) for r in reach]
    more: dict[str, Any] = {"kernel_shape": kernel, "dilations": dilations}
    more["strides"] = [int(g.one((1, 1, 2, 3))) for _ in kernel]
    how = g.one(("pads", "pads", "none", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if how == "pads":
        more["pads"] = [g.number(0, r - 1) for _ in "be" for r in reach]
    elif how != "none":
        more |= {"auto_pad": how} | ({"dilations": [1] * rank} if how.startswith("SAME") else {})
    return sizes, more


@case("Conv")
def convolution(g: Making, name: str) -> None:
    rank = int(g.one((1, 2, 2, 2, 3)))
    sizes, more = window_of(g, rank, 6 if rank == 3 else 18)
    groups = int(g.one((1, 1, 1, 2, 3, 16)))
    each, out = (int(g.one(CHANNELS if groups == 1 else (1, 1, 2, 3))) for _ in "io")
    dtype = g.one((np.float32, np.float32, np.float32, np.float16, np.float64))
    x = quiet(g, (g.number(1, 3), each * groups, *sizes), dtype)
    w = quiet(g, (out * groups, each, *more["kernel_shape"]), dtype, -1, 1)
    bias = [quiet(g, (out * groups,), dtype)] if g.chance(0.6) else []
    g.add(name, x, w, *bias, shape=(), group=groups, **more)


@case("ConvTranspose")
def transposed(g: Making, name: str) -> None:
    rank = int(g.one((1, 2, 2, 3)))
    sizes, more = window_of(g, rank, 4)
    more["strides"] = [g.number(1, 3) for _ in sizes]
    if "auto_pad" in more:
        more = {k: v for k, v in more.items() if k != "auto_pad"}
    if g.chance(0.4):
        most = [max(s, d) - 1 for s, d in zip(more["strides"], more["dilations"], strict=True)]
        more["output_padding"] = [g.number(0, m) for m in most]
    groups = int(g.one((1, 1, 2, 3)))
    each, out = (int(g.one(CHANNELS if groups == 1 else (1, 2, 3))) for _ in "io")
    x = quiet(g, (g.number(1, 2), each * groups, *sizes), np.float32)
    w = quiet(g, (each * groups, out, *more["kernel_shape"]), np.float32, -1, 1)
    bias = [quiet(g, (out * groups,), np.float32)] if g.chance(0.6) else []
    g.add(name, x, w, *bias, shape=(), group=groups, **more)


@case("ConvInteger")
def integers(g: Making, name: str) -> None:
    sizes, more = window_of(g, 2, 10)
    groups = int(g.one((1, 1, 2)))
    each, out = (int(g.one((1, 2, 3, 16, 17))) for _ in "io")
    x = tensor(g, (g.number(1, 2), each * groups, *sizes), np.uint8, 0, 255)
    w = tensor(g, (out * groups, each, *more["kernel_shape"]), np.uint8, 0, 255)
    zeros = [g.constant(np.array(g.number(0, 255), np.uint8)) for _ in range(g.number(0, 2))]
    g.add(name, x, w, *zeros, shape=(), dtype=np.int32, group=groups, **more)


@case("LpPool")
def powers(g: Making, name: str) -> None:
    rank = g.number(1, 3)
    sizes, more = window_of(g, rank, 8)
    x = term(g, (g.number(1, 2), int(g.one((1, 3, 16, 17))), *sizes), np.float32, 0.1, 3)
    g.add(name, x, shape=(), p=g.number(1, 3), **more)


@case("GlobalLpPool")
def whole_powers(g: Making, name: str) -> None:
    x = term(g, (g.number(1, 2), int(g.one((1, 3, 17))), *(g.number(1, 9) for _ in range(g.number(1, 3)))), np.float32)
    g.add(name, x, shape=(), p=g.number(1, 3))


@case("MaxRoiPool")
def regions(g: Making, name: str) -> None:
    n, h, w = g.number(1, 2), g.number(3, 12), g.number(3, 12)
    rows = [[g.number(0, n - 1), g.number(0, w - 2), g.number(0, h - 2), g.number(1, w), g.number(1, h)] for _ in "123"]
    rois = [[b, min(x, u), min(y, v), max(x, u), max(y, v)] for b, x, y, u, v in rows]
    held = g.source((3, 5), np.float32, array=np.float32(rois), keep=False)
    more = {"pooled_shape": [g.number(1, 4), g.number(1, 4)], "spatial_scale": float(g.one((1.0, 0.5)))}
    g.add(name, quiet(g, (n, int(g.one((1, 3, 17))), h, w), np.float32), held, shape=(), **more)


@case("RoiAlign")
def aligned(g: Making, name: str) -> None:
    n, h, w, count = g.number(1, 2), g.number(2, 12), g.number(2, 12), g.number(1, 4)
    ends = np.sort(g.random.uniform(-1, [w + 1, h + 1], (2, count, 2)), 0).transpose(1, 0, 2).reshape(count, 4)
    rois = g.source((count, 4), np.float32, array=ends.astype(np.float32), keep=False)
    batch = np.asarray(g.random.integers(0, n, count)).astype(np.int64)
    held = g.source((count,), np.int64, array=batch, keep=False)
    more = {"output_height": g.number(1, 4), "output_width": g.number(1, 4), "sampling_ratio": g.number(0, 3)}
    more |= {
        "mode": g.one(("avg", "max")),
        "coordinate_transformation_mode": g.one(("half_pixel", "output_half_pixel")),
    }
    g.add(name, quiet(g, (n, int(g.one((1, 3, 17))), h, w), np.float32), rois, held, shape=(), **more)


@case("GridSample")
def sampled(g: Making, name: str) -> None:
    rank = int(g.one((2, 2, 3)))
    n, sizes = g.number(1, 2), [g.number(1, 7) for _ in range(rank)]
    out = [g.number(1, 6) for _ in sizes]
    grid = np.asarray(g.random.uniform(-1.4, 1.4, (n, *out, rank))).astype(np.float32)
    held = g.source(grid.shape, np.float32, array=grid, keep=False)
    modes = ("linear", "nearest", "cubic") if rank == 2 else ("linear", "nearest")
    more = {"mode": g.one(modes), "padding_mode": g.one(("zeros", "border", "reflection"))}
    g.opset = 20
    x = term(g, (n, int(g.one((1, 3, 17))), *sizes), np.float32)
    g.add(name, x, held, shape=(), align_corners=g.number(0, 1), **more)


@case("AffineGrid")
def grid_of(g: Making, name: str) -> None:
    rank, n = g.number(2, 3), g.number(1, 3)
    theta = quiet(g, (n, rank, rank + 1), np.float32)
    g.opset = 20
    sizes = g.integers(n, g.number(1, 3), *(g.number(1, 6) for _ in range(rank)))
    g.add(name, theta, sizes, shape=(), align_corners=g.number(0, 1))


@case("Col2Im")
def images(g: Making, name: str) -> None:
    sizes, more = window_of(g, 2, 6)
    kernel, strides, dilations = more["kernel_shape"], more["strides"], more["dilations"]
    pads = more.get("pads", [0] * 4)
    blocks = 1
    for i, size in enumerate(sizes):
        blocks *= (size + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
    x = term(g, (g.number(1, 2), g.number(1, 3) * kernel[0] * kernel[1], blocks), np.float32)
    more = {"strides": strides, "dilations": dilations, "pads": pads}
    g.add(name, x, g.integers(*sizes), g.integers(*kernel), shape=(), **more)


@case("CenterCropPad")
def centred(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3, 4))
    axes = [int(a) for a in g.random.permutation(len(shape))[: g.number(1, len(shape))]]
    sizes = g.integers(*(g.number(1, shape[a] + 4) for a in axes))
    g.add(name, tensor(g, shape, g.one((np.float32, np.int64, np.uint8))), sizes, shape=(), axes=axes)


@case("Scatter")
def scattered(g: Making, name: str) -> None:
    shape = filled(g, (1, 2))
    axis = axis_of(g, len(shape))
    sizes = tuple(1 if a == axis % len(shape) else d for a, d in enumerate(shape))
    g.opset = 10
    index = index_array(g, sizes, shape[axis])
    g.add(name, tensor(g, shape, np.float32), index, tensor(g, sizes, np.float32), shape=(), axis=axis)


@case("Upsample")
def larger(g: Making, name: str) -> None:
    shape = (g.number(1, 2), int(g.one((1, 3, 17))), g.number(1, 7), g.number(1, 7))
    scales = g.constant(np.float32([1, 1, g.one((1, 2, 3)), g.one((1, 2))]))
    g.opset = 9
    g.add(name, tensor(g, shape, np.float32, strange=()), scales, shape=(), mode=g.one(("nearest", "linear")))
