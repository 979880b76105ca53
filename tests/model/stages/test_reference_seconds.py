"""References of many calls of NumPy say what they take, so that the host does not go on with what comes again."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.layout import Layout
from clgraph.graph.primitive import REFERENCE_SECONDS, Primitive
from clgraph.ops.box_suppression import BLOCKS, BoxSuppression
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.max_pool_indices import MaxPoolIndices
from clgraph.ops.pooling import Pooling
from clgraph.ops.recurrent_steps import RecurrentSteps
from clgraph.ops.resize import Resize
from clgraph.ops.top_k import TopK
from tests.support.graphs import FLOAT, INT, graph, model

A_MICROSECOND = 10
"""Calls that a reference makes in a microsecond at most: one takes 50 to 150 ns, one of NumPy's ten times as long."""

A_FEW = 100
"""Calls of a reference of a few calls of NumPy, each of which makes more."""

RNG = np.random.default_rng(7)
NUMBERS = [np.array([1000]), np.array([1.0], np.float32), np.array([-1.0], np.float32)]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def places(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


WINDOW = {"kernel": (3, 3, 3), "strides": (1, 1, 1), "dilations": (1, 1, 1), "pads": ((0, 0),) * 3}

CASES: dict[str, tuple[Primitive, tuple[np.ndarray, ...]]] = {
    "box_suppression": (
        BoxSuppression(),
        (RNG.uniform(0, 1, (1, 8 * BLOCKS[0], 4)).astype(np.float32), places(1, 2, 8 * BLOCKS[0]), *NUMBERS),
    ),
    "grid_sample": (GridSample("cubic", "border"), (ones(2, 1, 4, 4), places(2, 3, 3, 2))),
    "recurrent_steps": (
        RecurrentSteps("lstm", 2, "bidirectional"),
        (ones(9, 1, 16), ones(2, 8, 2)),
    ),
    "conv_transpose": (
        ConvTranspose(WINDOW["strides"], WINDOW["dilations"], WINDOW["pads"], (0, 0, 0)),
        (ones(1, 1, 2, 2, 2), ones(1, 1, 3, 3, 3)),
    ),
    "max_pool_indices": (MaxPoolIndices(Pooling("max", **WINDOW)), (ones(1, 1, 4, 4, 4),)),
    "resize": (Resize("cubic", shape=(1, 1, 3, 3), scales=(1.0, 1.0, 0.75, 0.75)), (ones(1, 1, 4, 4),)),
}


def calls(primitive: Primitive, arrays: tuple[np.ndarray, ...]) -> int:
    """Return the calls of Python's and C's functions that the reference makes."""
    count = 0

    def see(frame: object, event: str, what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        primitive.reference(*arrays)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", CASES)
def test_a_reference_of_many_calls_says_so(name) -> None:
    primitive, arrays = CASES[name]
    inputs = [Layout.of(a) for a in arrays]
    seconds = primitive.reference_seconds(inputs, primitive.infer(inputs))
    made = calls(primitive, arrays)
    assert made <= A_FEW + A_MICROSECOND * seconds * 1e6
    assert made > A_FEW + A_MICROSECOND * 4  # as it would have to be without


def test_sorting_takes_longer_than_its_arithmetic() -> None:
    few, many = (TopK(1, k=2).reference_seconds([Layout.of(ones(2, n))], []) for n in (1, 1000))
    assert few < 1.1 * REFERENCE_SECONDS
    assert many > 10 * REFERENCE_SECONDS, "10 comparisons of an element, most of which no processor foresees"


def test_averages_pad_once() -> None:
    made = {f: calls(Pooling(f, **WINDOW), (ones(1, 1, 4, 4, 4),)) for f in ("average", "max")}
    assert made["average"] < made["max"] + A_FEW


@pytest.mark.opencl
def test_suppression_that_comes_again_is_compiled(device) -> None:
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", "limit", "overlap"], ["kept"])]
    declared = [("boxes", FLOAT, [1, "n", 4]), ("scores", FLOAT, [1, 1, "n"])]
    source = model(graph(nodes, declared, [("kept", INT, None)], limit=NUMBERS[0], overlap=NUMBERS[1] / 2))
    corners = RNG.uniform(0, 9, (1, 256, 2)).astype(np.float32)
    feeds = {"boxes": np.concatenate([corners, corners + 1], axis=2), "scores": places(1, 1, 256)}
    suppressing = clgraph.compile(source, device=device)
    first = suppressing.run(feeds)["kept"]
    for _ in range(40):
        np.testing.assert_array_equal(suppressing.run(feeds)["kept"], first)
    assert "on the host" not in suppressing.notes[0]


@pytest.mark.opencl
def test_regions_that_were_found_are_aligned_by_a_program(device) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=FLOAT),
        helper.make_node("Transpose", ["numbers"], ["regions"], perm=[1, 0]),
        helper.make_node("Shape", ["regions"], ["count"], end=1),
        helper.make_node("Expand", ["none", "count"], ["images"]),
        helper.make_node("RoiAlign", ["x", "regions", "images"], ["y"], output_height=2, output_width=2),
    ]
    x = np.zeros((1, 4, 8, 8), np.float32)
    x[0, [1, 3], 2:4, 5] = 1
    source = model(graph(nodes, [("x", FLOAT, x.shape)], [("y", FLOAT, None)], none=np.zeros(1, np.int64)))
    aligning = clgraph.compile(source, device=device)
    assert aligning.run({"x": x})["y"].shape == (4, 4, 2, 2)
    assert "on the host" not in aligning.notes[-1]
