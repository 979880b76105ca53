"""Suppression against ONNX Runtime, with more candidates than are compared at once."""

import numpy as np
import pytest
from onnx import helper

from clgraph.ops.non_max_suppression import BLOCKS, NonMaxSuppression
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.oracle import expected


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize(("count", "limit", "overlap"), [(1, 3, 0.5), (40, 5, 0.0), (3 * BLOCKS[1] + 7, 1000, 0.3)])
def test_the_boxes_kept_are_onnxruntimes(count, limit, overlap, centered, rng):
    low, sides = rng.uniform(0, 10, (2, count, 2)), rng.uniform(0.1, 3, (2, count, 2))
    boxes = np.concatenate([low, sides if centered else low + sides], axis=2).astype(np.float32)
    scores = rng.permutation(2 * 3 * count).reshape(2, 3, count).astype(np.float32)
    inputs = [np.array([limit]), np.array([overlap], np.float32), np.array([2.0], np.float32)]
    names = ["boxes", "scores", "limit", "overlap", "least"]
    node = helper.make_node("NonMaxSuppression", names, ["kept"], center_point_box=centered)
    declared = [("boxes", FLOAT, boxes.shape), ("scores", FLOAT, scores.shape)]
    constants = dict(zip(names[2:], inputs, strict=True))
    source = model(graph([node], declared, [("kept", INT, None)], **constants))
    want = expected(source, {"boxes": boxes, "scores": scores})["kept"]
    (got,) = NonMaxSuppression(bool(centered)).reference(boxes, scores, *inputs)
    np.testing.assert_array_equal(got, want)


def test_no_limit_keeps_nothing():
    boxes, scores = np.array([[[0, 0, 1, 1]]], np.float32), np.ones((1, 1, 1), np.float32)
    (got,) = NonMaxSuppression(limited=False, overlapping=False, scored=False).reference(boxes, scores)
    assert got.shape == (0, 3)
