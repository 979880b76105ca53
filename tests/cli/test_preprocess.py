"""Images on the command line: ``--preprocess``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

import clgraph
from clgraph.cli.picture_feeds import image_array
from clgraph.cli.preprocess_options import parse_preprocess
from clgraph.errors import InputError, OptionError
from clgraph.ops.preprocess import Preprocess

Command = Callable[..., tuple[int, str, str]]


def test_every_attribute_is_read() -> None:
    text = (
        "image=BGRA,channels=BGR,size=224x192,resize=cubic,rule=opencv,fit=crop,shorter=256,align=corner,padding=114,"
        "mean=124,116,104.5,scale=58,layout=NHWC,batch=yes,matrix=BT.709,range=full"
    )
    (found,) = parse_preprocess([text]).values()
    wanted = Preprocess(
        "BGRA",
        "BGR",
        (224, 192),
        "cubic",
        "opencv",
        "crop",
        256,
        "corner",
        114,
        (124, 116, 104.5),
        (58,),
        "NHWC",
        True,
        "BT.709",
        "full",
    )
    assert found == wanted
    named = parse_preprocess(["a:0:size=fed", "mean=1"])
    assert named == {"a:0": Preprocess(size="fed"), "": Preprocess(mean=1)}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["colour=RGB"], "'colour' is not one of image, channels"),
        (["RGB"], "is not KEY=VALUE"),
        (["size=224"], "size=224 is not ROWSxCOLUMNS or fed"),
        (["size=axb"], "is not ROWSxCOLUMNS or fed"),
        (["mean=1,b"], "mean=1,b is not a number, or one a channel"),
        (["padding=1,2"], "padding=1,2 is not a number"),
        (["batch=perhaps"], "is not yes or no"),
        (["x:mean=1", "x:mean=2"], "given twice"),
        (["dtype=f32"], "'dtype' is not one of"),
    ],
)
def test_what_is_no_such_text_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        parse_preprocess(texts)


def test_values_that_mean_nothing_are_refused() -> None:
    with pytest.raises(OptionError, match="image='YUV' is not one of"):
        parse_preprocess(["image=YUV"])


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 100, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "cat.png")
    return tmp_path / "cat.png"


@pytest.mark.opencl
def test_a_picture_is_run_and_saved_with_the_model(
    clgraph_command: Command, model: Path, picture: Path, tmp_path: Path, device: str
) -> None:
    done = ("--preprocess", "image=BGR,channels=BGR,mean=10,20,30", "--device", device)
    status, out, err = clgraph_command("run", model, "--input", picture, *done, "--output", tmp_path / "y.npy")
    assert (status, err) == (0, "")
    assert "BGR 90x100x3 as it is" in out
    options = Preprocess("BGR", "BGR", mean=[10, 20, 30])
    bgr = np.asarray(Image.open(picture))[:, :, ::-1]
    compiled = clgraph.compile(model, device, preprocess=options)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), next(iter(compiled.run(bgr).values())))
    name = compiled.inputs[0].name
    shape = ("--shape", f"{name}=90,100,3")
    assert clgraph_command("compile", model, *done, *shape, "--output", tmp_path / "m.clg")[0] == 0
    status, out, _ = clgraph_command("run", tmp_path / "m.clg", "--input", picture, "--device", device)
    assert status == 0
    assert "BGR 90x100x3 as it is" in out
    status, out, _ = clgraph_command("bench", model, *done, *shape, "--iterations", 2)
    assert status == 0
    status, out, _ = clgraph_command("estimate", model, *done, *shape)
    assert status == 0
    assert "one by one" in out
    status, out, _ = clgraph_command("bench", model, *done, *shape, "--hint", "throughput", "--time", "0.02")
    assert status == 0
    assert "requests/s" in out


def test_options_that_would_do_nothing_beside_it_are_refused(
    clgraph_command: Command, model: Path, picture: Path
) -> None:
    done = ("--preprocess", "mean=1", "--device", "host")
    for arguments, said in (
        (("run", model, "--input", picture, "--mean", "1", *done), "--mean does nothing"),
        (("compare", model, *done), "--preprocess does nothing here"),
        (("bench", model, "--compare", "onnxruntime", *done), "--preprocess does nothing with --compare"),
        (("bench", model, "--hint", "throughput", "--join", *done), "--join does nothing where images are fed one by"),
    ):
        status, _, err = clgraph_command(*arguments)
        assert status == 2
        assert said in err


@pytest.mark.parametrize("kind", ["RGB", "BGR", "RGBA", "BGRA", "GRAY"])
def test_a_picture_becomes_what_the_input_is_fed(kind: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    found, _ = image_array(Image.fromarray(pixels), "x", Preprocess(kind))
    wanted = Preprocess("RGB").reference(pixels)[0]
    if kind != "GRAY":
        np.testing.assert_array_equal(Preprocess(kind).reference(found)[0], wanted)
    assert found.shape == ((4, 6) if kind == "GRAY" else (4, 6, len(kind)))
    assert image_array(Image.fromarray(pixels), "x", Preprocess(kind, batch=True))[0].shape == (1, *found.shape)
    with pytest.raises(InputError, match=r"which no picture is: give a \.npy file"):
        image_array(Image.fromarray(pixels), "x", Preprocess("NV12"))
