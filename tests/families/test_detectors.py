"""What detectors of objects are made of: grids, pictures padded to multiples, and boxes cut off at a picture's edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.families.notes import NOTE
from tests.support.graphs import FLOAT, INT
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

PICTURE = {"x": (FLOAT, (1, 2, "h", "w"))}
SIDES = ((330, 470), (470, 330), (150, 310), (600, 610))


def agree(model: onnx.ModelProto, device: str, feeds: dict[str, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Run *model* with open sizes on *feeds*, bound to a family, and compare its result."""
    compiled = clgraph.compile(model, device)
    np.testing.assert_array_equal(compiled.run(feeds)["y"], wanted)
    assert compiled.program.notes[NOTE].startswith("bound")


@pytest.mark.parametrize("sides", SIDES)
def test_grids_as_long_as_a_few_cells_have_the_family_of_longer_ones(device: str, sides: tuple[int, int]) -> None:
    """Places of cells of 10 to 40 pixels along a side: of any two widths, one has 11 of some cells, and one more."""
    steps = (10, 12, 16, 18, 20, 26, 32, 36, 40)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["columns"]),
        helper.make_node("GlobalMaxPool", ["x"], ["most"]),
    ]
    for step in steps:
        nodes += [
            helper.make_node("Div", ["columns", f"s{step}"], [f"count{step}"]),
            helper.make_node("Range", ["none", f"count{step}", "one"], [f"numbers{step}"]),
            helper.make_node("Mul", [f"numbers{step}", f"s{step}"], [f"places{step}"]),
        ]
    nodes += [
        helper.make_node("Concat", [f"places{step}" for step in steps], ["places"], axis=0),
        helper.make_node("Cast", ["places"], ["grid"], to=FLOAT),
        helper.make_node("Add", ["most", "grid"], ["y"]),
    ]
    constants = {"axis": np.array(3), "none": np.array(0), "one": np.array(1)} | {f"s{n}": np.array(n) for n in steps}
    grid = np.concatenate([step * np.arange(sides[1] // step, dtype=np.float32) for step in steps])
    model = open_model(nodes, PICTURE, constants)
    agree(model, device, {"x": np.zeros((1, 2, *sides), np.float32)}, np.broadcast_to(grid, (1, 2, 1, grid.size)))


@pytest.mark.parametrize("sides", SIDES)
def test_pictures_are_padded_along_one_side_the_other_or_both(device: str, sides: tuple[int, int]) -> None:
    """The first candidate is padded along its rows alone, the witnesses along both sides."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Sub", ["least", "shape"], ["missing"]),
        helper.make_node("Max", ["missing", "none"], ["behind"]),
        helper.make_node("Concat", ["none", "behind"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("Relu", ["padded"], ["y"]),
    ]
    constants = {"least": np.array([1, 2, 400, 400]), "none": np.zeros(4, np.int64)}
    x = np.random.default_rng(0).standard_normal((1, 2, *sides)).astype(np.float32)
    wanted = np.pad(np.maximum(x, 0), [(0, 0), (0, 0), *((0, max(400 - side, 0)) for side in sides)])
    agree(open_model(nodes, PICTURE, constants), device, {"x": x}, wanted)


@pytest.mark.parametrize("sides", SIDES)
def test_numbers_are_bounded_by_the_size_of_the_member(device: str, sides: tuple[int, int]) -> None:
    """As boxes are by the edges of their picture: the bound is a scalar, which passes make attributes of otherwise."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["columns"]),
        helper.make_node("Cast", ["columns"], ["edge"], to=FLOAT),
        helper.make_node("Relu", ["x"], ["inside"]),
        helper.make_node("Min", ["inside", "edge"], ["y"]),
    ]
    x = 500 * np.random.default_rng(0).standard_normal((1, 2, *sides)).astype(np.float32)
    model = open_model(nodes, PICTURE, {"axis": np.array(3)})
    agree(model, device, {"x": x}, np.clip(x, 0, np.float32(sides[1])))


def test_maps_of_several_sizes_stand_beside_a_fed_number_of_rows(device: str) -> None:
    """As those of a pyramid beside the boxes that were found on it: ``axis 2`` of the maps is no one size."""
    nodes = [
        helper.make_node("GlobalMaxPool", ["large"], ["most"]),
        helper.make_node("GlobalMaxPool", ["small"], ["more"]),
        helper.make_node("Add", ["most", "more"], ["both"]),
        helper.make_node("Reshape", ["both", "flat"], ["row"]),
        helper.make_node("MatMul", ["boxes", "wide"], ["scores"]),
        helper.make_node("Reshape", ["scores", "shape"], ["cut"]),
        helper.make_node("Mul", ["cut", "row"], ["y"]),
    ]
    maps = dict.fromkeys(("large", "small"), (FLOAT, (1, 4, None, None)))
    inputs = {**maps, "boxes": (FLOAT, (None, 3)), "shape": (INT, (3,))}
    constants = {"flat": np.array([4]), "wide": np.ones((3, 44), np.float32)}
    model, random = clgraph.compile(open_model(nodes, inputs, constants), device), np.random.default_rng(0)
    for count in (86, 100):
        feeds = {"large": random.integers(0, 9, (1, 4, 48, 64)), "small": random.integers(0, 9, (1, 4, 24, 32))}
        feeds = {name: a.astype(np.float32) for name, a in feeds.items()}
        feeds["boxes"] = random.integers(0, 9, (count, 3)).astype(np.float32)
        row = feeds["large"].max((0, 2, 3)) + feeds["small"].max((0, 2, 3))
        wanted = feeds["boxes"].sum(1)[:, None, None] * np.ones((count, 11, 1), np.float32) * row
        np.testing.assert_array_equal(model.run({**feeds, "shape": np.array([count, -1, 4])})["y"], wanted)
        assert model.program.notes[NOTE].startswith("bound")
