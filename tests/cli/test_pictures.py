"""Pictures into a model and out of it, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from clgraph.cli.picture_feeds import picture_array
from clgraph.cli.picture_options import PictureOptions
from clgraph.cli.picture_results import as_picture
from clgraph.core.dtype import DType
from clgraph.errors import InputError
from clgraph.graph.signature import Signature

Command = Callable[..., tuple[int, str, str]]


def _picture(width: int = 6, height: int = 4) -> Image.Image:
    pixels = np.arange(width * height * 3, dtype=np.uint8).reshape(height, width, 3)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 4, 6), "nchw"),
        ((1, 4, 6, 3), "nhwc"),
        ((3, 4, 6), "chw"),
        ((4, 6, 3), "hwc"),
        ((None, 3, None, None), "nchw"),
        (("n", "h", "w", 3), "nhwc"),
    ],
)
def test_the_axes_are_guessed_by_where_the_channels_are(shape: tuple[int, ...], expected: str) -> None:
    array, how = picture_array(_picture(), Signature("x", DType.F32, shape), None, PictureOptions())
    assert f" {expected} " in how
    pixels = np.asarray(_picture())
    axes = {"h": 0, "w": 1, "c": 2}
    plain = array[0] if "n" in expected else array
    assert np.array_equal(plain, (pixels.transpose([axes[a] for a in expected if a != "n"]) / 255).astype(np.float32))


def test_values_are_as_the_options_say() -> None:
    signature = Signature("x", DType.F32, (1, 3, 4, 6))
    options = PictureOptions("nchw", "bgr", (1.0, 2.0, 3.0), (2.0, 4.0, 8.0))
    array, how = picture_array(_picture(), signature, None, options)
    red, green, blue = np.asarray(_picture()).astype(np.float64).transpose(2, 0, 1)
    assert np.allclose(array[0], [(blue - 3) / 8, (green - 2) / 4, (red - 1) / 2])
    assert how == "6x4 as bgr nchw 1x3x4x6 f32, (value - 1,2,3) / 2,4,8"
    small = PictureOptions("nchw", "rgb", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    _, how = picture_array(_picture(), signature, None, small)
    assert how.endswith("for means of 0 to 1, --mean 123.675,116.28,103.53 --scale 58.395,57.12,57.375")
    whole, _ = picture_array(_picture(), Signature("x", DType.U8, (4, 6, 3)), None, PictureOptions())
    assert np.array_equal(whole, np.asarray(_picture()))
    grey, how = picture_array(_picture(), Signature("x", DType.U8, (2, 1, 4, 6)), None, PictureOptions())
    assert np.array_equal(grey[1, 0], np.asarray(_picture().convert("L")))
    assert "grey" in how


def test_a_picture_is_scaled_to_the_input_or_keeps_its_size_where_that_is_open() -> None:
    fixed, _ = picture_array(_picture(), Signature("x", DType.F32, (1, 3, 8, 2)), None, PictureOptions())
    assert fixed.shape == (1, 3, 8, 2)
    opened, _ = picture_array(_picture(), Signature("x", DType.F32, ("n", 3, "h", "w")), None, PictureOptions())
    assert opened.shape == (1, 3, 4, 6)
    given, _ = picture_array(_picture(), Signature("x", DType.F32, ("n", 3, "h", "w")), (1, 3, 5, 5), PictureOptions())
    assert given.shape == (1, 3, 5, 5)


@pytest.mark.parametrize("shape", [(1, 7, 4, 6), (10,), (1, 2, 3, 4, 5)])
def test_an_input_that_no_picture_fits_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="input x"):
        picture_array(_picture(), Signature("x", DType.F32, shape), None, PictureOptions())


def test_arrays_become_pictures() -> None:
    pixels = np.asarray(_picture())
    assert np.array_equal(np.asarray(as_picture(pixels[None], "y")[0]), pixels)
    planar = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
    drawn, how = as_picture(planar, "y")
    assert np.array_equal(np.asarray(drawn), pixels)
    assert how == ", 0 black, 1 white"
    heat, how = as_picture(np.array([[[-2.0, 0.0, 2.0]]]), "y")
    assert np.asarray(heat).tolist() == [[0, 128, 255]]
    assert how == ", -2 black, 2 white"
    with pytest.raises(InputError, match="2x4x4x4 is not a picture"):
        as_picture(np.zeros((2, 4, 4, 4)), "y")


def _negative(path: Path) -> None:
    """A model that turns a picture into its negative, and sums each channel."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Add", ["n", "one"], ["y"]),
        helper.make_node("ReduceMean", ["x"], ["classes"], axes=[2, 3]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 6])]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "classes")]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_run_takes_a_picture_and_writes_one_and_names_classes(clgraph_command: Command, tmp_path: Path) -> None:
    _negative(tmp_path / "negative.onnx")
    picture = Image.new("RGB", (6, 4), (255, 51, 102))
    picture.save(tmp_path / "in.png")
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    outputs = ("--output", "y=out.png", "--output", "all.npz", "--output", "classes=c.npy")
    status, out, err = clgraph_command(
        "run", "negative.onnx", "--device", "host", "--input", "in.png", "--labels", "labels.txt", "--top", 2, *outputs
    )
    assert (status, err) == (0, "")
    assert "input       x: in.png 6x4 as rgb nchw 1x3x4x6 f32, (value - 0) / 255" in out
    assert "y -> out.png, 0 black, 1 white" in out
    assert np.asarray(Image.open(tmp_path / "out.png"))[0, 0].tolist() == [0, 204, 153]
    with np.load(tmp_path / "all.npz") as arrays:
        assert sorted(arrays.files) == ["classes", "y"]
        assert np.array_equal(arrays["classes"], np.load(tmp_path / "c.npy"))
    ranked = [line.split() for line in out.splitlines() if line.endswith(("red", "green", "blue"))]
    assert ranked == [["classes", "0", "1", "red"], ["classes", "2", "0.4", "blue"]]


def test_arrays_come_from_an_npz_by_name(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 10, 10)).astype(np.float32)
    np.savez(tmp_path / "feeds.npz", x=x)
    np.save(tmp_path / "x.npy", x)
    for given, made in (("feeds.npz", "a.npy"), ("x.npy", "b.npy"), ("x=feeds.npz", "c.npy")):
        status, _, err = clgraph_command("run", model, "--device", "host", "--input", given, "--output", made)
        assert (status, err) == (0, "")
    a, b, c = (np.load(tmp_path / f"{n}.npy") for n in "abc")
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)
