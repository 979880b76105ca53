"""Images read at any places."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.grid_sample import GridSample
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

SHAPES = [
    ((2, 3, 8, 5), (2, 4, 7, 2)),
    ((1, 2, 4, 8, 3), (1, 2, 3, 5, 3)),
    ((1, 2, 1, 6), (1, 3, 3, 2)),
    ((2, 2, 9), (2, 5, 1)),
]
WAYS = [(padding, corners) for padding in ("zeros", "border", "reflection") for corners in (False, True)]


@pytest.mark.opencl
@pytest.mark.parametrize(("padding", "corners"), WAYS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_mixed_pixels_keep_their_bound(dtype, mode, padding, corners, engine):
    # A place is off by (2 |g| + 2) size 2^-24, up to 8 * 9. Along each of up to 3 axes this moves both shares, as much
    # for linear and by less than 5 times it in all for cubic, of pixels whose signs may differ: 4. A sum of 64: 128.
    ulps = 3 * 8 * 9 * (1 if mode == "linear" else 5) * 4 + 2 * 64
    places = {1: lambda rng, shape: rng.uniform(-1.7, 1.7, shape)}
    for shape, grid in SHAPES:
        x_scale = lambda x, _: np.abs(x).max()  # noqa: E731
        check_op(
            engine, GridSample(mode, padding, corners), shape, grid, ulps=ulps, scale=x_scale, draw=places, dtype=dtype
        )


@pytest.mark.opencl
@pytest.mark.parametrize(("padding", "corners"), WAYS)
def test_the_nearest_pixel_is_exact_where_places_are(padding, corners, engine):
    places = {1: lambda rng, shape: rng.integers(-13, 14, shape) / 8}
    for shape, grid in SHAPES:
        check_op(engine, GridSample("nearest", padding, corners), shape, grid, draw=places)


@pytest.mark.parametrize(("padding", "corners"), WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_reference_agrees_with_onnxruntime(mode, padding, corners, rng):
    x, grid = (rng.standard_normal(s).astype(np.float32) for s in SHAPES[0])
    agree("GridSample", [x, grid], opset=20, mode=mode, padding_mode=padding, align_corners=int(corners))


@pytest.mark.parametrize(("padding", "corners"), WAYS)
def test_places_between_two_pixels_are_rounded_before_a_mirror_folds_them(padding, corners, rng):
    """Half of these places are ties, of pixels beyond the border, too."""
    x = rng.standard_normal((1, 2, 8, 16)).astype(np.float32)
    grid = (rng.integers(-48, 49, (1, 9, 40, 2)) / 16).astype(np.float32)
    agree("GridSample", [x, grid], opset=20, mode="nearest", padding_mode=padding, align_corners=int(corners))


@pytest.mark.opencl
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_no_numbers_leave_the_others_as_they_are(padding, device, rng):
    x, grid = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 8, 5), (2, 5, 9, 2)))
    model, feeds = one_node("GridSample", [x, grid], opset=20, padding_mode=padding)
    with clgraph.compile(model, device=device) as compiled:
        if compiled.device.kind == "cpu":
            assert "grid_sample.rows" in str(compiled.explain())
        want = compiled.run(feeds)["y0"]
        strange = rng.random(grid.shape[:-1]) < 0.3
        grid[strange] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30], (strange.sum(), 2))
        found = compiled.run({**feeds, "x1": grid})["y0"]
    kept = np.broadcast_to(~strange[:, None], want.shape)
    np.testing.assert_array_equal(found[kept], want[kept])


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(1, 2, 6, 5), (1, 2, 4, 3, 5)])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_no_numbers_are_those_of_the_reference(padding, shape, device, rng):
    places = np.array([[[np.nan] * 2, [np.nan, 0.5], [np.inf, 0.5], [-np.inf, np.nan], [1e30, 0.3]]], np.float32)
    grid = np.concatenate([places] + [places[..., :1]] * (len(shape) - 4), axis=-1)
    grid = grid.reshape(1, 1, *(1,) * (len(shape) - 4), *grid.shape[1:])
    for mode in ("linear", "nearest", "cubic")[: 7 - len(shape)]:
        model, feeds = one_node(
            "GridSample",
            [rng.standard_normal(shape).astype(np.float32), grid],
            opset=20,
            mode=mode,
            padding_mode=padding,
        )
        results = []
        for at in (device, "host"):
            with clgraph.compile(model, device=at) as compiled:
                results.append(compiled.run(feeds)["y0"])
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.opencl
@pytest.mark.parametrize(("padding", "corners"), WAYS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_pixels_that_are_not_finite_are_multiplied_by_their_own_shares_alone(mode, padding, corners, device, rng):
    """What is beside the image, and the neighbour of a pixel that a place beyond the border is brought to, is left."""
    shapes = [((2, 2, 6, 7), (2, 6, 20, 2)), ((1, 2, 3, 4, 5), (1, 4, 5, 6, 3))]
    for shape, grid in shapes[: 1 if mode == "cubic" else 2]:
        x = rng.standard_normal(shape).astype(np.float32)
        x[..., 0, 0], x[..., 1, 2] = np.inf, np.nan
        model, feeds = one_node(
            "GridSample",
            [x, rng.uniform(-2, 2, grid).astype(np.float32)],
            opset=20,
            mode=mode,
            padding_mode=padding,
            align_corners=int(corners),
        )
        (want,) = onnxruntime_outputs(model, feeds)
        assert {True, False} == {*np.isfinite(want).ravel().tolist()}
        for at in (device, "host"):
            with clgraph.compile(model, device=at) as compiled:
                np.testing.assert_allclose(compiled.run(feeds)["y0"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op_type", ["GridSample", "DeformConv", "MaxRoiPool"])
@pytest.mark.parametrize("place", [np.nan, np.inf, -np.inf, 1e30])
def test_references_read_some_pixel_at_places_that_are_no_numbers(place, op_type, rng):
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    given = {
        "GridSample": [np.full((1, 3, 3, 2), place, np.float32)],
        "DeformConv": [np.ones((2, 2, 2, 2), np.float32), np.full((1, 8, 3, 3), place, np.float32)],
        "MaxRoiPool": [np.float32([[0, place, 0, 2, place]])],
    }[op_type]
    for padding in ("zeros", "border", "reflection") if op_type == "GridSample" else ("",):
        ways = {"padding_mode": padding} if padding else {}
        ways |= {"pooled_shape": [2, 2]} if op_type == "MaxRoiPool" else {}
        model, feeds = one_node(op_type, [x, *given], opset=20, **ways)
        with np.errstate(all="ignore"), clgraph.compile(model, device="host") as compiled:
            (y,) = compiled.run(feeds).values()
        if padding == "zeros" or op_type == "DeformConv":
            np.testing.assert_array_equal(y, 0)
