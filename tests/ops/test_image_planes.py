"""Images as planes, resized by taps."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.image_planes import ImagePlanes
from clgraph.ops.image_taps import ResizedAxis, packed, taps
from tests.support.check_op import check_op

BYTES = lambda rng, shape: rng.integers(0, 256, shape)  # noqa: E731


def _taps(size, shape, resize="linear", rule="pillow", start=0, resized=None):
    axes = [ResizedAxis(n, r, start, s) for n, r, s in zip(size, resized or shape, shape, strict=True)]
    return packed(*(taps(axis, resize, rule, reduces=True) for axis in axes))


def _check(engine, size, shape, depth=3, colours=3, padding=0.0, **axes):
    found, weights = _taps(size, shape, **axes), np.random.default_rng(1).standard_normal((colours, depth + 1))
    most, summed = int(found[:2].max()), np.abs(found[2:]).max()
    # A sum over taps of rows, one of columns, one of colours; a pixel's parts are bytes, at most 255 more with padding.
    ulps = 2 * most + 2 * depth + 4
    largest = lambda x, t, c: 510 * max(1.0, summed > 0) * 1.5**2 * np.abs(c).sum()  # noqa: E731
    check_op(
        engine,
        ImagePlanes(shape, padding),
        (2, *size, depth),
        found.shape,
        weights.shape,
        dtype=[DType.U8, DType.F32, DType.F32],
        constant=(1, 2),
        draw={0: BYTES, 1: lambda *_: found, 2: lambda *_: weights},
        families=("normal",),
        ulps=ulps,
        scale=largest,
    )


@pytest.mark.opencl
@pytest.mark.parametrize("depth", [1, 3, 4])
@pytest.mark.parametrize("resize", ["nearest", "linear", "cubic", "area"])
@pytest.mark.parametrize("rule", ["pillow", "opencv"])
def test_every_implementation_is_within_its_bound(rule, resize, depth, engine):
    for size, shape in (
        ((13, 37), (7, 19)),
        ((13, 37), (29, 50)),
        ((5, 3), (2, 1)),
        ((40, 90), (40, 90)),
        ((200, 70), (130, 33)),
    ):
        _check(engine, size, shape, depth, 3 if depth > 1 else 1, resize=resize, rule=rule)


@pytest.mark.opencl
def test_beside_an_image_there_is_padding(engine):
    _check(engine, (20, 30), (40, 41), padding=114.0, start=-7, resized=(25, 20))
    _check(engine, (20, 30), (10, 18), padding=114.0, start=3, resized=(25, 40))


def test_rows_and_columns_of_taps_are_read_as_they_were_written():
    x = np.arange(4 * 5, dtype=np.uint8).reshape(1, 4, 5, 1)
    (y,) = ImagePlanes((4, 5)).reference(x, _taps((4, 5), (4, 5)), np.array([[2, 1]], np.float32))
    np.testing.assert_array_equal(y[0, 0], 2.0 * x[0, :, :, 0] + 1)


def test_what_is_no_image_is_refused():
    found, colours = Layout(DType.F32, (20,)), Layout(DType.F32, (3, 4))
    for x in (Layout(DType.F32, (1, 4, 4, 3)), Layout(DType.U8, (4, 4, 3)), Layout(DType.U8, (1, 4, 4, 5))):
        with pytest.raises(ShapeError, match="images are u8"):
            ImagePlanes((4, 4)).infer([x, found, colours])
    x = Layout(DType.U8, (1, 4, 4, 3))
    with pytest.raises(ShapeError, match="no weights of 3 colours"):
        ImagePlanes((4, 4)).infer([x, found, Layout(DType.F32, (3, 3))])
    with pytest.raises(ShapeError, match="no taps of 4 rows and 6 columns"):
        ImagePlanes((4, 6)).infer([x, found, colours])
