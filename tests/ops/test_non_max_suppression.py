"""Suppression against ONNX Runtime, with more candidates than are compared at once; its kernel."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.box_suppression import BLOCKS, BoxSuppression
from clgraph.ops.non_max_suppression import NonMaxSuppression
from clgraph.selector.choose import candidates
from clgraph.selector.query import Query
from tests.support.check_op import run_raw
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.oracle import expected
from tests.support.run_tiles import run_tiles

NAMES = ["boxes", "scores", "limit", "overlap", "least"]


def detections(rng, count, centered, images=2, classes=3):
    low, sides = rng.uniform(0, 10, (images, count, 2)), rng.uniform(0.1, 3, (images, count, 2))
    boxes = np.concatenate([low, sides if centered else low + sides], axis=2).astype(np.float32)
    return boxes, rng.permutation(images * classes * count).reshape(images, classes, count).astype(np.float32)


def numbers(limit, overlap, least):
    return [np.array([limit]), np.array([overlap], np.float32), np.array([least], np.float32)]


def rows(*inputs, centered=False, most=None):
    return NonMaxSuppression().reference(*BoxSuppression(centered, most).reference(*inputs))[0]


def source_of(boxes, scores, inputs, *, centered=0, fed=()):
    """Return a model of the operator whose inputs, but those of the names *fed*, perhaps with shapes, are constants."""
    node = helper.make_node("NonMaxSuppression", NAMES, ["kept"], center_point_box=centered)
    declared = [("boxes", FLOAT, boxes.shape), ("scores", FLOAT, scores.shape)]
    shapes = fed if isinstance(fed, dict) else {name: [1] for name in fed}
    declared += [(name, INT if name == "limit" else FLOAT, shape) for name, shape in shapes.items()]
    constants = {name: array for name, array in zip(NAMES[2:], inputs, strict=True) if name not in fed}
    return model(graph([node], declared, [("kept", INT, None)], **constants))


@pytest.mark.parametrize("least", [-1.0, 8.5, 100.0])
def test_rows_of_one_class_alone_are_onnxruntimes(least, rng):
    boxes, scores = detections(rng, 40, centered=False, images=1, classes=1)
    inputs = numbers(9, 0.1, least)
    want = expected(source_of(boxes, scores, inputs), {"boxes": boxes, "scores": scores})["kept"]
    assert len(want) == {-1.0: 9, 8.5: 9, 100.0: 0}[least]
    np.testing.assert_array_equal(rows(boxes, scores, *inputs, most=9), want)


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize(("count", "limit", "overlap"), [(1, 3, 0.5), (40, 5, 0.0), (3 * BLOCKS[1] + 7, 1000, 0.3)])
def test_the_boxes_kept_are_onnxruntimes(count, limit, overlap, centered, rng):
    boxes, scores = detections(rng, count, centered)
    inputs = numbers(limit, overlap, 2.0)
    want = expected(source_of(boxes, scores, inputs, centered=centered), {"boxes": boxes, "scores": scores})["kept"]
    np.testing.assert_array_equal(rows(boxes, scores, *inputs, centered=bool(centered), most=limit), want)
    np.testing.assert_array_equal(rows(boxes, scores, *inputs, centered=bool(centered)), want)


@pytest.mark.opencl
def test_no_limit_keeps_nothing(device):
    boxes, scores = np.array([[[0, 0, 1, 1]]], np.float32), np.ones((1, 1, 1), np.float32)
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["kept"])
    declared = [("boxes", FLOAT, boxes.shape), ("scores", FLOAT, scores.shape)]
    made = clgraph.compile(model(graph([node], declared, [("kept", INT, None)])), device=device)
    assert made.run({"boxes": boxes, "scores": scores})["kept"].shape == (0, 3)


@pytest.mark.opencl
@pytest.mark.parametrize("fed", [(), ("limit", "least")])
def test_a_model_keeps_the_boxes_that_onnxruntime_keeps(fed, device, rng):
    boxes, scores = detections(rng, 60, 0)
    inputs = numbers(7, 0.3, 200.0)
    given = dict(zip(NAMES[2:], inputs, strict=True))
    feeds = {"boxes": boxes, "scores": scores} | {name: given[name] for name in fed}
    source = source_of(boxes, scores, inputs, fed=fed)
    got = clgraph.compile(source, device=device).run(feeds)["kept"]
    np.testing.assert_array_equal(got, expected(source, feeds)["kept"])


@pytest.mark.opencl
@pytest.mark.parametrize("fed", [(), ("limit", "overlap", "least")])
def test_of_several_limits_the_first_counts_as_in_onnxruntime(fed, device, rng):
    boxes, scores = detections(rng, 60, 0)
    inputs = [np.array([7, 1]), np.array([[0.3, 0.0]], np.float32), np.array([200.0, 0.0, 500.0], np.float32)]
    given = dict(zip(NAMES[2:], inputs, strict=True))
    feeds = {"boxes": boxes, "scores": scores} | {name: given[name] for name in fed}
    source = source_of(boxes, scores, inputs, fed={name: given[name].shape for name in fed})
    got = clgraph.compile(source, device=device).run(feeds)["kept"]
    np.testing.assert_array_equal(got, expected(source, feeds)["kept"])


@pytest.mark.parametrize("empty", NAMES[2:])
def test_limits_without_an_element_are_refused(empty, rng):
    boxes, scores = detections(rng, 6, 0)
    given = dict(zip(NAMES[2:], numbers(7, 0.3, 200.0), strict=True))
    given[empty] = given[empty][:0]
    with pytest.raises(ShapeError, match="one of them is empty"):
        load_onnx(source_of(boxes, scores, list(given.values()))).build()


def kernel_agrees(engine, inputs, centered=False, most=None):
    primitive, layouts = BoxSuppression(centered, most), tuple(Layout.of(a) for a in inputs)
    query = Query(primitive, layouts, primitive.infer(layouts), engine.info, 1)
    (want,) = primitive.reference(*inputs)
    for made in (made for made in candidates(query) if made.refusal(query) is None):
        got = run_raw(engine, made, query, inputs)[0] if made.general else run_tiles(engine, made, query, inputs)
        np.testing.assert_array_equal(got.reshape(want.shape), want, made.name)
    return want


@pytest.mark.opencl
@pytest.mark.parametrize("centered", [False, True])
def test_the_kernel_keeps_what_the_reference_keeps(centered, engine, rng):
    # One box; rows of kept ones that are no whole vectors; limits below and above what there is.
    for count, most, limit, overlap, least in (
        (1, None, 5, 0.5, -1), (40, None, 40, 0.2, -1), (150, 33, 33, 0.0, 5), (150, None, 17, 1.0, 5),
        (9, 4, 0, 0.5, 0), (300, 100, 100, 0.4, 1e9), (300, 100, -3, 0.4, 0), (300, 16, 1 << 40, 0.4, 0),
    ):  # fmt: skip
        boxes, scores = detections(rng, count, centered)
        kernel_agrees(engine, [boxes, scores, *numbers(limit, overlap, least)], centered, most)


@pytest.mark.opencl
def test_equal_scores_odd_numbers_and_boxes_without_area_are_the_references(engine, rng):
    boxes, scores = detections(rng, 64, False)
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    for put_in in ((), (boxes,), (scores,), (boxes, scores)):
        given = [boxes.copy(), rng.integers(-1, 3, scores.shape).astype(np.float32)]
        for array, wanted in zip(given, (boxes, scores), strict=True):
            if any(wanted is one for one in put_in):
                places = rng.random(array.shape) < 0.2
                array[places] = rng.choice(np.array(odd, np.float32), array.shape)[places]
        given[0][:, :5, 2:] = given[0][:, :5, :2]
        for least in (-np.inf, 0.0):
            with np.errstate(all="ignore"):
                want = kernel_agrees(engine, [*given, *numbers(50, 0.1, least)])
            assert (want >= 0).any()


@pytest.mark.opencl
def test_an_overlap_of_just_the_limit_suppresses_nothing(engine):
    # A third of the union: shared 1, together 3. As float32 the share times 3 is exactly 1, or a bit more.
    boxes = np.array([[[0, 0, 1, 2], [0, 1, 1, 3]]], np.float32)
    scores = np.ones((1, 1, 2), np.float32)
    for share, kept in ((1 / 3, 2), (np.nextafter(np.float32(1 / 3), np.float32(0)), 1)):
        assert (kernel_agrees(engine, [boxes, scores, *numbers(5, share, 0)]) >= 0).sum() == kept
