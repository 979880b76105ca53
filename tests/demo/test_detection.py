from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from clgraph.demo.detection import IMAGES, find_lines, likely_cores, reading_order, scaled, side_lengths


def _map(height: int, width: int, *boxes: tuple[int, int, int, int]) -> np.ndarray:
    cores = np.full((height, width), 0.05, np.float32)
    for left, top, right, bottom in boxes:
        cores[top:bottom, left:right] = 0.9
    return cores


def _box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], float)


def test_a_core_grows_by_twice_its_area_over_its_outline_and_is_scaled_to_the_picture() -> None:
    (corners,) = find_lines(_map(64, 128, (20, 20, 100, 30)), 256, 128)
    # distance = 2.0 * (80 * 10) / (2 * (80 + 10)), and the picture is twice as large as the map.
    grown = 2.0 * 800 / 180
    assert corners == pytest.approx(2 * _box(20 - grown, 20 - grown, 100 + grown, 30 + grown))


def test_what_is_thin_or_unlikely_is_no_line_and_corners_stay_in_the_picture() -> None:
    cores = _map(64, 128, (10, 10, 60, 12), (0, 40, 50, 50))
    cores[20:30, 10:60] = 0.4
    (corners,) = find_lines(cores, 128, 64)
    assert corners.min() == 0
    assert corners[:, 1].max() < 64
    assert find_lines(np.zeros((32, 32), np.float32), 32, 32) == []


def test_a_line_at_an_angle_is_found_at_that_angle() -> None:
    band = Image.new("L", (300, 200))
    band.paste(255, (60, 90, 240, 104))
    turned = np.asarray(band.rotate(20, Image.Resampling.BILINEAR), np.float32) / 255
    (corners,) = find_lines(turned, 300, 200)
    along = corners[1] - corners[0]
    # Half a pixel over 180 is 0.16 degrees; the outline is jagged by a pixel at each end.
    assert np.degrees(np.arctan2(-along[1], along[0])) == pytest.approx(20, abs=0.7)
    assert side_lengths(corners)[0] > 4 * side_lengths(corners)[1]


@pytest.mark.parametrize("size", [(1, 1), (3, 700), (40, 30), (999, 777), (2500, 2000)])
def test_pictures_of_any_size_become_multiples_of_32(size: tuple[int, int]) -> None:
    pixels = scaled(Image.new("RGB", size, (255, 0, 128)))
    assert pixels.shape[:2] == (1, 3)
    assert not any(side % 32 for side in pixels.shape[2:])
    assert max(pixels.shape[2:]) <= 2016
    # Blue, green, red, each v / 127.5 - 1.
    assert np.allclose(pixels[0, :, 0, 0], [128 / 127.5 - 1, -1, 1], atol=1e-6)


@pytest.mark.parametrize("size", [(5000, 100), (60, 4000)])
def test_a_long_picture_is_read_in_equal_pieces_that_are_put_together_again(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (size[1] // 10 + 1, size[0] // 10 + 1, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize(size)
    seen = []

    def network(pixels: np.ndarray) -> np.ndarray:
        seen.append(pixels.shape)
        return (pixels[:, :1] + 1) / 2

    cores = likely_cores(network, picture, 640)
    assert len(seen) > 2
    assert len(set(seen)) == 1
    assert max(seen[0]) <= 640
    assert np.array_equal(cores, (scaled(picture, 640)[0, 0] + 1) / 2)


@pytest.mark.parametrize("size", [(5000, 100), (60, 4000), (300, 200)])
def test_a_network_of_images_is_fed_the_bytes_that_the_other_is_fed_as_floats(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (size[1] // 10 + 1, size[0] // 10 + 1, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize(size)

    def network(image: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        (pixels,) = replace(IMAGES, size=tuple(wanted.tolist())).reference(image)
        return (pixels[:, :1] + 1) / 2

    cores = likely_cores(network, picture, 640, images=True)
    # Pillow rounds to bytes behind rows and behind columns.
    assert np.abs(cores - (scaled(picture, 640)[0, 0] + 1) / 2).max() <= 1.01 / 255


def test_columns_are_read_one_after_the_other_below_a_title() -> None:
    title = _box(10, 10, 190, 30)
    left = [_box(10, 50 + 20 * i, 90, 62 + 20 * i) for i in range(3)]
    right = [_box(110, 50 + 20 * i, 190, 62 + 20 * i) for i in range(3)]
    footer = _box(60, 150, 140, 162)
    page = [title, *left, *right, footer]
    shuffled = [5, 0, 7, 2, 6, 1, 3, 4]
    order = reading_order([page[i] for i in shuffled])
    assert [shuffled[i] for i in order] == list(range(8))


def test_parts_of_one_row_are_read_from_the_left_and_a_row_that_leans_is_one() -> None:
    row = [_box(100, 12, 190, 26), _box(10, 10, 60, 24), _box(62, 8, 98, 22)]
    assert reading_order(row) == [1, 2, 0]
    assert reading_order([]) == []
    assert reading_order([row[0]]) == [0]
