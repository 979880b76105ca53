"""Video frames as RGB."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.nv12_to_rgb import Nv12ToRgb
from tests.support.check_op import check_op

BYTES = lambda rng, shape: rng.integers(0, 256, shape)  # noqa: E731


@pytest.mark.opencl
@pytest.mark.parametrize("matrix", ["BT.601", "BT.709"])
@pytest.mark.parametrize("span", ["limited", "full"])
def test_every_implementation_gives_the_same_bytes(matrix, span, engine):
    for shapes in (((2, 9, 10),), ((1, 66, 130),), ((2, 6, 10), (2, 3, 5, 2))):
        draw = dict.fromkeys(range(len(shapes)), BYTES)
        check_op(engine, Nv12ToRgb(matrix, span), *shapes, dtype=DType.U8, draw=draw, families=("normal",))


def test_bytes_are_within_one_of_opencvs(rng):
    """OpenCV's factors have three digits: .0005 times 255 of luma and of two chromas, and both round."""
    cv2 = pytest.importorskip("cv2")
    frame = rng.integers(0, 256, (1, 96, 64), np.uint8)
    (found,) = Nv12ToRgb().reference(frame)
    wanted = cv2.cvtColor(frame[0], cv2.COLOR_YUV2RGB_NV12)
    assert np.abs(found[0].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("matrix", ["BT.601", "BT.709"])
def test_greys_and_full_colours_are_what_the_standards_say(matrix):
    red, green, blue = {"BT.601": (0.299, 0.587, 0.114), "BT.709": (0.2126, 0.7152, 0.0722)}[matrix]
    for colour in ((0, 0, 0), (255, 255, 255), (128, 128, 128), (255, 0, 0), (0, 0, 255), (10, 200, 90)):
        r, g, b = colour
        luma = red * r + green * g + blue * b
        cb, cr = (b - luma) / (2 * (1 - blue)), (r - luma) / (2 * (1 - red))
        for span, scale, chroma, offset in (("full", 1, 1, 0), ("limited", 219 / 255, 224 / 255, 16)):
            y = np.full((1, 2, 2), np.clip(round(luma * scale + offset), 0, 255), np.uint8)
            uv = np.clip(np.rint([cb * chroma + 128, cr * chroma + 128]), 0, 255).astype(np.uint8).reshape(1, 1, 1, 2)
            (found,) = Nv12ToRgb(matrix, span).reference(y, uv)
            # Luma and chroma are half a step off, chroma may be cut by half a step more, each times 2.12 at most.
            assert np.abs(found[0, 0, 0].astype(int) - colour).max() <= 0.5 * 1.17 + 2.12 + 0.5


def test_sizes_that_frames_do_not_have_are_refused():
    for shape in ((1, 8, 10), (1, 9, 9), (1, 0, 10), (1, 9, 0)):
        with pytest.raises(ShapeError, match="multiple of 3"):
            Nv12ToRgb().infer([Layout(DType.U8, shape)])
    for luma, chroma in (((1, 5, 4), (1, 2, 2, 2)), ((1, 4, 4), (1, 2, 2, 3)), ((1, 4, 4), (2, 2, 2, 2))):
        with pytest.raises(ShapeError, match="rows / 2"):
            Nv12ToRgb().infer([Layout(DType.U8, luma), Layout(DType.U8, chroma)])
    with pytest.raises(ShapeError, match="u8"):
        Nv12ToRgb().infer([Layout(DType.F32, (1, 9, 10))])
