"""Images as inputs: what Pillow, OpenCV and NumPy make of them, and what is refused."""

import numpy as np
import pytest
from PIL import Image

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import OptionError, ShapeError
from clgraph.ops.image_taps import ResizedAxis, taps
from clgraph.ops.preprocess import Preprocess

PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}
SIZES = [(48, 64), (97, 130), (31, 150), (48, 33), (7, 5), (1, 1), (120, 50)]


@pytest.fixture
def image(rng):
    return rng.integers(0, 256, (48, 64, 3), np.uint8)


def _of(image, /, **options):
    return Preprocess(**options).reference(image)[0]


def _planes(image):
    return np.moveaxis(np.atleast_3d(image).astype(np.float64), 2, 0)[None]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("resize", ["nearest", "linear", "area"])
def test_sizes_are_those_of_pillow(resize, size, image):
    """Pillow rounds to bytes behind each axis: half a step, twice; its weights have 22 bits."""
    wanted = np.asarray(Image.fromarray(image).resize(size[::-1], PILLOW[resize]))
    bound = 0.0 if resize == "nearest" else 1.0 + 2 * 64 * 255 * 2.0**-23
    assert np.abs(_of(image, size=size, resize=resize) - _planes(wanted)).max() <= bound


@pytest.mark.parametrize("size", SIZES)
def test_cubic_sizes_are_those_of_pillow(size, rng):
    """Half a step behind each axis, the first times the weights of the second, of 1.25 in all at most, and grown."""
    image = rng.integers(96, 160, (48, 64, 3), np.uint8)
    wanted = np.asarray(Image.fromarray(image).resize(size[::-1], PILLOW["cubic"]))
    assert np.abs(_of(image, size=size, resize="cubic") - _planes(wanted)).max() <= 0.5 + 0.5 * 1.5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("resize", ["nearest", "linear", "cubic", "area"])
def test_sizes_are_those_of_opencv(resize, size, image):
    """Its weights have 11 bits, 2^-12 off: 255 of two or four of them, along both axes; linear cuts sums twice more."""
    cv2 = pytest.importorskip("cv2")
    flags = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
    wanted = cv2.resize(image, size[::-1], interpolation=flags[resize])
    weights = 255 * 2.0**-12
    shrinks = resize == "area" and size[0] <= 48 and size[1] <= 64
    linear = 0.5 + 0.5 + 4 * weights + 2.0**-5
    bound = {"nearest": 0.0, "linear": linear, "cubic": 0.5 + 2 * 4 * weights * 1.5, "area": linear}[resize]
    bound = 0.5 + 255 * 64 * 2.0**-23 if shrinks else bound
    assert np.abs(_of(image, size=size, resize=resize, rule="opencv") - _planes(wanted)).max() <= bound


def test_what_a_kernel_overshoots_is_no_byte_and_is_cut():
    edge = np.zeros((8, 8, 3), np.uint8)
    edge[:, 4:] = 255
    for rule in ("pillow", "opencv"):
        found = _of(edge, size=(8, 30), resize="cubic", rule=rule)
        assert (found.min(), found.max()) == (0, 255)


@pytest.mark.parametrize(
    ("kind", "colours"), [("RGB", (0, 1, 2)), ("BGR", (2, 1, 0)), ("RGBA", (0, 1, 2)), ("BGRA", (2, 1, 0))]
)
def test_colours_come_in_the_order_of_the_model(kind, colours, rng):
    image = rng.integers(0, 256, (6, 8, len(kind)), np.uint8)
    rgb = image[:, :, colours]
    np.testing.assert_array_equal(_of(image, image=kind), _planes(rgb))
    np.testing.assert_array_equal(_of(image, image=kind, channels="BGR"), _planes(rgb[:, :, ::-1]))
    # Pillow rounds, in 16 bits.
    grey = np.asarray(Image.fromarray(rgb).convert("L"))
    assert np.abs(_of(image, image=kind, channels="GRAY") - _planes(grey)).max() <= 0.5 + 3 * 255 * 2.0**-17


def test_grey_images_become_every_colour(rng):
    image = rng.integers(0, 256, (6, 8), np.uint8)
    np.testing.assert_array_equal(_of(image, image="GRAY"), np.repeat(_planes(image), 3, 1))
    np.testing.assert_array_equal(_of(image, image="GRAY", channels="GRAY"), _planes(image))


def test_mean_and_scale_are_of_the_channels_that_the_model_reads(image):
    mean, scale = [103.5, 116.25, 123.5], np.array([57.0, 57.5, 58.0])
    found = _of(image, channels="BGR", mean=mean, scale=scale)
    wanted = (_planes(image[:, :, ::-1]) - np.reshape(mean, (3, 1, 1))) / scale.reshape(3, 1, 1)
    # Two numbers rounded, their product and the sum, of at most 255 / 57.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * 2.0**-24 * 255 / 57)
    single = _of(image, mean=127.5, scale=127.5)
    np.testing.assert_allclose(single, _planes(image) / 127.5 - 1, rtol=0, atol=4 * 2.0**-24 * 2)


@pytest.mark.parametrize(("given", "size"), [((48, 64), (50, 50)), ((64, 48), (50, 50)), ((30, 31), (33, 65))])
def test_a_letterbox_is_that_of_ultralytics(given, size, rng):
    image = rng.integers(0, 256, (*given, 3), np.uint8)
    ratio = min(size[0] / given[0], size[1] / given[1])
    inner = [round(n * ratio) for n in given]
    left, top = (round((side - n) / 2 - 0.1) for side, n in zip(size[::-1], inner[::-1], strict=True))
    wanted = Image.new("RGB", size[::-1], (114, 114, 114))
    wanted.paste(Image.fromarray(image).resize(inner[::-1], Image.Resampling.BILINEAR), (left, top))
    found = _of(image, size=size, fit="letterbox", padding=114)
    assert np.abs(found - _planes(np.asarray(wanted))).max() <= 1.01
    corner = _of(image, size=size, fit="letterbox", padding=114, align="corner")
    rows, columns = inner
    np.testing.assert_array_equal(corner[:, :, :rows, :columns], found[:, :, top : top + rows, left : left + columns])
    assert (np.delete(np.delete(corner, range(inner[0]), 2), range(inner[1]), 3) == 114).all()


@pytest.mark.parametrize("given", [(300, 400), (401, 300), (260, 256)])
def test_a_crop_is_that_of_torchvision(given, rng):
    image = rng.integers(0, 256, (*given, 3), np.uint8)
    height, width = (int(256 * n / min(given)) for n in given)
    top, left = round((height - 224) / 2), round((width - 224) / 2)
    resized = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
    wanted = resized.crop((left, top, left + 224, top + 224))
    found = _of(image, size=(224, 224), fit="crop", shorter=256)
    assert np.abs(found - _planes(np.asarray(wanted))).max() <= 1.01


def test_a_crop_covers_the_size():
    for given in ((300, 400), (33, 500), (7, 5)):
        image = np.full((*given, 3), 200, np.uint8)
        np.testing.assert_allclose(_of(image, size=(50, 60), fit="crop", padding=1), np.full((1, 3, 50, 60), 200), 1e-6)


def test_what_the_model_reads_may_have_other_layouts_and_types(image):
    wanted = _of(image, size=(20, 30))
    for layout, axes in (("NHWC", (0, 2, 3, 1)), ("CHW", (1, 2, 3)), ("HWC", (2, 3, 1))):
        found = _of(image, size=(20, 30), layout=layout)
        np.testing.assert_array_equal(found.reshape(found.shape[-3:]), wanted.transpose(0, *[a for a in axes if a])[0])
    whole = _of(image, size=(20, 30), dtype=DType.U8)
    assert whole.dtype == np.uint8
    np.testing.assert_array_equal(whole, np.rint(wanted))
    cut = _of(image, size=(20, 30), dtype=DType.U8, mean=100.0)
    np.testing.assert_array_equal(cut, np.rint((wanted - 100).clip(0, 255)))
    assert _of(image, dtype=DType.F16).dtype == np.float16


def test_images_of_a_batch_are_the_same_as_alone(rng):
    images = rng.integers(0, 256, (3, 18, 16), np.uint8)
    for kind in ("GRAY", "NV12"):
        together = _of(images, image=kind, size=(9, 7), batch=True)
        alone = [_of(one, image=kind, size=(9, 7)) for one in images]
        np.testing.assert_array_equal(together, np.concatenate(alone))


def test_frames_in_two_planes_are_those_in_one(rng):
    frame = rng.integers(0, 256, (18, 16), np.uint8)
    one = _of(frame, image="NV12", size=(9, 7), matrix="BT.709", range="full")
    chroma = frame[12:].reshape(6, 8, 2)
    two = Preprocess("NV12_PLANES", size=(9, 7), matrix="BT.709", range="full").reference(frame[:12], chroma)[0]
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("resize", ["nearest", "linear", "cubic", "area"])
@pytest.mark.parametrize("rule", ["pillow", "opencv"])
def test_taps_lie_in_the_image_and_add_up_to_one(rule, resize):
    for size in range(1, 12):
        for resized in (*range(1, 25), 97):
            for reduces in (size >= resized, False):
                axis = ResizedAxis(size, resized, 0, resized)
                first, weights = taps(axis, resize, rule, reduces)
                assert first.min() >= 0
                assert first.max() + weights.shape[1] <= size, (size, resized)
                np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image": "YUV"}, "image='YUV' is not one of RGB, BGR"),
        ({"channels": "RGBA"}, "channels='RGBA' is not one of RGB, BGR, GRAY"),
        ({"resize": "lanczos"}, "resize='lanczos' is not one of nearest"),
        ({"rule": "torch"}, "rule='torch' is not one of pillow, opencv"),
        ({"fit": "pad"}, "fit='pad' is not one of"),
        ({"align": "left"}, "align='left' is not one of"),
        ({"layout": "NCWH"}, "layout='NCWH' is not one of"),
        ({"matrix": "BT.2020"}, "matrix='BT.2020' is not one of BT.601, BT.709"),
        ({"range": "tv"}, "range='tv' is not one of limited, full"),
        ({"size": 224}, r"size=224: want \(rows, columns\)"),
        ({"size": (0, 5)}, "whole numbers above 0"),
        ({"size": (2.5, 5)}, "whole numbers above 0"),
        ({"size": (1, 2, 3)}, r"want \(rows, columns\)"),
        ({"shorter": 256}, "goes with fit crop"),
        ({"shorter": 0, "fit": "crop"}, "goes with fit crop"),
        ({"padding": 256}, "not a value from 0 to 255"),
        ({"padding": float("nan")}, "not a value from 0 to 255"),
        ({"padding": "white"}, "not a value from 0 to 255"),
        ({"mean": [1, 2]}, "one for each of RGB"),
        ({"mean": "a"}, "not a number"),
        ({"scale": 0}, "cannot be 0"),
        ({"scale": float("inf")}, "want a number"),
        ({"mean": [1, 2, 3], "channels": "GRAY"}, "one for each of GRAY"),
        ({"batch": 4}, "neither True nor False"),
        ({"batch": True, "layout": "CHW"}, "has no N"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        Preprocess(**options)


@pytest.mark.parametrize(
    ("options", "shape", "said"),
    [
        ({}, (4, 4), r"the image has the shape \[4, 4\]; RGB has \[rows, columns, 3\]"),
        ({}, (1, 4, 4, 3), r"RGB has \[rows, columns, 3\]"),
        ({}, (4, 4, 4), "has 4 colours, RGB has 3"),
        ({}, (0, 4, 3), r"shape \[0, 4, 3\], and no pixel"),
        ({"batch": True}, (4, 4, 3), r"RGB has \[count, rows, columns, 3\]"),
        ({"image": "GRAY"}, (4, 4, 1), r"GRAY has \[rows, columns\]"),
        ({"image": "NV12"}, (10, 4), "multiple of 3"),
        ({"image": "NV12"}, (9, 5), "even number of columns"),
    ],
)
def test_images_that_are_no_such_are_refused(options, shape, said):
    with pytest.raises(ShapeError, match=said):
        Preprocess(**options).infer([Layout(DType.U8, shape)])


def test_an_image_of_floats_is_refused():
    with pytest.raises(ShapeError, match="an image is uint8, not f32"):
        Preprocess().infer([Layout(DType.F32, (4, 4, 3))])
