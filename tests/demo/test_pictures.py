from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clgraph.demo.pictures import draw_text, open_picture
from clgraph.demo.recognition import HEIGHT, LEAST_WIDTH, characters_of, decode, prepare
from clgraph.errors import InputError

CHARACTERS = characters_of("a\nb")


def _columns(*classes: int) -> np.ndarray:
    probabilities = np.full((len(classes), len(CHARACTERS)), 0.1, np.float32)
    probabilities[np.arange(len(classes)), classes] = [0.6 + 0.05 * i for i in range(len(classes))]
    return probabilities


def test_classes_are_the_blank_the_characters_and_a_space() -> None:
    assert CHARACTERS == ["", "a", "b", " "]


def test_runs_of_a_class_count_once_and_blanks_separate() -> None:
    assert decode(_columns(0, 1, 1, 0, 1, 2, 3, 2), CHARACTERS)[0] == "aab b"


def test_the_confidence_is_the_mean_over_the_characters_kept() -> None:
    _, confidence = decode(_columns(0, 1, 1, 2), CHARACTERS)
    assert confidence == pytest.approx((0.65 + 0.75) / 2)


def test_blanks_alone_are_no_text() -> None:
    assert decode(_columns(0, 0), CHARACTERS) == ("", 0.0)


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(InputError, match="4 classes apart, not 3"):
        decode(_columns(1), CHARACTERS[:3])


def test_a_picture_is_scaled_to_the_models_height_and_filled_up() -> None:
    picture = Image.new("RGB", (20, 10), (255, 0, 128))
    x = prepare(picture)
    width = 20 * HEIGHT // 10
    assert x.shape == (1, 3, HEIGHT, LEAST_WIDTH)
    # Blue, green, red, each v / 127.5 - 1.
    assert np.allclose(x[0, :, 5, 5], [128 / 127.5 - 1, -1, 1], atol=1e-6)
    assert not x[..., width:].any()
    assert prepare(Image.new("RGB", (1000, 48))).shape == (1, 3, 48, 1000)


def test_drawn_text_is_dark_on_white_with_a_margin() -> None:
    pixels = np.asarray(draw_text("OpenCL"))
    assert pixels.min() < 50
    assert (pixels[:5] == 255).all()
    assert (pixels[-5:] == 255).all()
    assert pixels.shape[1] > pixels.shape[0]


def test_a_picture_in_grey_or_with_alpha_is_read(tmp_path: Path) -> None:
    for mode in ("L", "RGBA", "P", "1"):
        Image.new(mode, (8, 8)).save(tmp_path / f"{mode}.png")
        assert open_picture(tmp_path / f"{mode}.png").mode == "RGB"


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_in_a_picture_is_white(tmp_path: Path, mode: str) -> None:
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    clear.putpixel((3, 3), (0, 0, 0, 255))
    clear.convert(mode).save(tmp_path / "clear.png")
    pixels = np.asarray(open_picture(tmp_path / "clear.png"))
    assert (pixels[3, 3] == 0).all()
    assert (np.delete(pixels.reshape(64, 3), 3 * 8 + 3, axis=0) == 255).all()


@pytest.mark.parametrize(
    ("text", "said"), [("two\nlines", "more than one line"), ("a \u4f60", "no '\u4f60'"), ("  ", "no text")]
)
def test_text_that_cannot_be_drawn_on_one_line_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        draw_text(text)


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    values = np.array([[0, 256 * 100, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert np.asarray(open_picture(tmp_path / "deep.png"))[0, :, 0].tolist() == [0, 100, 255]
    Image.fromarray(np.array([[-1.0, 0.0, 3.0]], np.float32)).save(tmp_path / "real.tif")
    assert np.asarray(open_picture(tmp_path / "real.tif"))[0, :, 1].tolist() == [0, 64, 255]


def test_a_picture_is_turned_as_the_camera_says(tmp_path: Path) -> None:
    picture = Image.new("RGB", (4, 2), "black")
    picture.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    upright = open_picture(tmp_path / "turned.png")
    assert upright.size == (2, 4)
    assert upright.getpixel((1, 0)) == (255, 255, 255)


@pytest.mark.parametrize("name", ["cut.png", "cut.jpg", "text.png", "empty.png"])
def test_what_is_no_whole_picture_is_refused(tmp_path: Path, name: str) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3)).astype(np.uint8))
    if name.startswith("cut"):
        noise.save(tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:400])
    else:
        (tmp_path / name).write_text("text" if name == "text.png" else "")
    with pytest.raises(InputError, match="is not a picture that can be read"):
        open_picture(tmp_path / name)
    with pytest.raises(InputError, match="is a folder"):
        open_picture(tmp_path)
