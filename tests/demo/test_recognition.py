from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from clgraph.demo.recognition import BATCH, batches, crop, directions, is_turned, prepare


def _gradient(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([255 * x / (width - 1), 255 * y / (height - 1), 0 * x], -1)
    return Image.fromarray(pixels.round().astype(np.uint8))


def test_a_level_crop_is_the_part_of_the_picture() -> None:
    picture = _gradient(200, 100)
    corners = np.array([[20, 30], [120, 30], [120, 60], [20, 60]], float)
    # A grey value more or less by rounding in the interpolation.
    assert np.abs(np.asarray(crop(picture, corners)).astype(int) - np.asarray(picture)[30:60, 20:120]).max() <= 1


def test_a_crop_at_an_angle_is_level() -> None:
    picture = Image.new("RGB", (200, 200), "white")
    corners = np.array([[50, 80], [130, 140], [118, 156], [38, 96]], float)
    draw = ImageDraw.Draw(picture)
    draw.polygon([tuple(c) for c in corners], fill="black")
    draw.polygon([(50, 80), (66, 92), (54, 108), (38, 96)], fill="red")
    level = np.asarray(crop(picture, corners)).astype(int)
    assert level.shape == (20, 100, 3)
    assert (level[3:-3, 3:16, 0] > 200).all()
    assert (level[3:-3, 25:-3] < 60).all()


def test_what_is_higher_than_wide_is_laid_on_its_side() -> None:
    picture = _gradient(100, 200)
    corners = np.array([[10, 20], [30, 20], [30, 160], [10, 160]], float)
    laid = np.asarray(crop(picture, corners)).astype(int)
    assert laid.shape == (20, 140, 3)
    assert laid[10, 0, 1] < laid[10, -1, 1]
    assert laid[0, 70, 0] > laid[-1, 70, 0]


def test_batches_hold_lines_of_like_width_and_every_line_once() -> None:
    lines = [Image.new("RGB", (w, 24), "white") for w in (900, 100, 400, 120, 95, 700, 500, 140, 650, 80)]
    seen, columns = [], []
    for part, pixels in batches(lines, most=4):
        assert pixels.shape[:3] == (len(part), 3, 48)
        assert pixels.shape[3] % 32 == 0
        assert pixels.shape[3] >= max(320, max(2 * lines[i].width for i in part))
        for row, i in zip(pixels, part, strict=True):
            assert np.array_equal(row, prepare(lines[i], pixels.shape[3])[0])
            assert (row[..., : 2 * lines[i].width] == 1).all()
            assert not row[..., 2 * lines[i].width :].any()
        seen += part
        columns.append(pixels.shape[3])
    assert sorted(seen) == list(range(10))
    assert columns == sorted(columns)
    assert columns[0] == 320


def test_a_line_of_any_length_fits() -> None:
    ((_, pixels),) = batches([Image.new("RGB", (60000, 20))])
    assert pixels.shape == (1, 3, 48, 4800)
    ((_, pixels),) = batches([Image.new("RGB", (1, 500))])
    assert pixels.shape == (1, 3, 48, 320)


def test_directions_look_at_the_middle_of_a_long_line() -> None:
    line = Image.new("RGB", (960, 48), "black")
    line.paste("white", (384, 0, 576, 48))
    ((part, pixels),) = directions([line])
    assert part == [0]
    assert pixels.shape == (1, 3, 48, 192)
    assert (pixels == 1).all()
    assert [len(p) for p, _ in directions([line] * (BATCH + 1))] == [BATCH, 1]


@pytest.mark.parametrize(("turned", "says"), [(0.95, True), (0.85, False)])
def test_a_line_is_turned_when_the_network_is_sure(turned: float, says: bool) -> None:
    assert is_turned(np.array([1 - turned, turned], np.float32)) is says
