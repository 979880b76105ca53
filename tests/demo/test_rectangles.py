from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.demo.rectangles import Rectangle, connected, convex_hull, mean_inside, smallest_rectangle

MASKS = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).random((seed % 7 + 1, seed // 7 % 9 + 1)) < 0.4
)


def _parts(mask: np.ndarray) -> list[set[tuple[int, int]]]:
    """The parts of *mask* by flooding, pixel by pixel."""
    left = {(int(y), int(x)) for y, x in np.argwhere(mask)}
    parts = []
    while left:
        part, edge = set(), {next(iter(left))}
        while edge:
            y, x = edge.pop()
            part.add((y, x))
            left.discard((y, x))
            edge |= {(y + a, x + b) for a in (-1, 0, 1) for b in (-1, 0, 1)} & left
        parts.append(part)
    return parts


@settings(max_examples=200, deadline=None)
@given(MASKS)
def test_parts_of_a_mask_are_those_of_flooding(mask: np.ndarray) -> None:
    boxes = sorted((*p.min(0), *p.max(0)) for p in connected(mask))
    expected = [
        (min(x for _, x in p), min(y for y, _ in p), max(x for _, x in p) + 1, max(y for y, _ in p) + 1)
        for p in _parts(mask)
    ]
    assert boxes == sorted(expected)


def test_runs_that_touch_at_a_corner_hang_together_and_u_shapes_do() -> None:
    diagonal = np.eye(4, dtype=bool)
    assert len(connected(diagonal)) == 1
    u = np.array([[1, 0, 1], [1, 0, 1], [1, 1, 1]], bool)
    assert len(connected(u)) == 1
    assert len(connected(u[:2])) == 2
    assert connected(np.zeros((3, 3), bool)) == []


def test_the_hull_leaves_out_what_is_inside_and_on_the_edges() -> None:
    points = np.array([[0, 0], [4, 0], [4, 3], [0, 3], [2, 1], [2, 0], [1, 2]], float)
    assert sorted(map(tuple, convex_hull(points))) == [(0, 0), (0, 3), (4, 0), (4, 3)]


@pytest.mark.parametrize("degrees", [0, 7, 30, 45, 60, 89, 90, 135])
def test_the_smallest_rectangle_of_turned_corners_is_the_rectangle(degrees: float) -> None:
    angle = math.radians(degrees)
    given_one = Rectangle((50.0, 40.0), (math.cos(angle), math.sin(angle)), 30.0, 8.0)
    corners = given_one.corners()
    inside = (corners[0] + corners[2]) / 2 + 0.1 * (corners - corners.mean(0))
    found = smallest_rectangle(np.concatenate([corners, inside]))
    # Coordinates of about 50 carry errors of some ulps, 50 * 2.2e-16 each.
    assert sorted((found.width, found.height)) == pytest.approx([8, 30], abs=1e-12)
    assert found.center == pytest.approx((50, 40), abs=1e-12)
    assert np.allclose(found.corners(), corners, atol=1e-11) or degrees in (45, 90, 135)


@pytest.mark.parametrize("degrees", [-40, -10, 0, 10, 40])
def test_corners_of_a_level_line_begin_at_its_upper_left(degrees: float) -> None:
    angle = math.radians(degrees)
    corners = Rectangle((0.0, 0.0), (math.cos(angle), math.sin(angle)), 20.0, 4.0).corners()
    along = corners[1] - corners[0]
    down = corners[3] - corners[0]
    assert np.linalg.norm(along) == pytest.approx(20)
    assert math.degrees(math.atan2(along[1], along[0])) == pytest.approx(degrees)
    assert np.linalg.norm(down) == pytest.approx(4)
    assert down[1] > 0


def test_a_rectangle_grows_on_every_side() -> None:
    corners = Rectangle((5.0, 5.0), (1.0, 0.0), 4.0, 2.0).grown(1.5).corners()
    assert corners.tolist() == [[1.5, 2.5], [8.5, 2.5], [8.5, 7.5], [1.5, 7.5]]


def test_the_mean_is_of_the_pixels_inside_alone() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    level = Rectangle((3.0, 2.0), (1.0, 0.0), 2.0, 2.0)
    assert mean_inside(values, level) == values[1:3, 2:4].mean()
    across = Rectangle((6.0, 4.0), (1.0, 0.0), 4.0, 2.0)
    assert mean_inside(values, across) == values[3:, 4:].mean()
    assert mean_inside(values, Rectangle((-9.0, 2.0), (1.0, 0.0), 2.0, 2.0)) == 0
    half = Rectangle((3.0, 2.0), (math.sqrt(0.5), math.sqrt(0.5)), 2 * math.sqrt(2), 2 * math.sqrt(2))
    # The diamond with corners 2 away from (3, 2) holds the twelve pixels whose middles are no farther in |x| + |y|.
    y, x = np.mgrid[:4, :6] + 0.5
    inside = np.abs(x - 3) + np.abs(y - 2) <= 2
    assert mean_inside(values, half) == pytest.approx(values[inside].mean())
