"""Representatives that do not fit a device, families of which there would be many, and sizes that must be equal."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.families.families import Families
from clgraph.families.notes import NOTE
from clgraph.graph.topology import Topology
from tests.support import graphs
from tests.support.graphs import FLOAT, INT
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl


def test_a_representative_that_no_device_holds_gives_way_to_a_smaller_one(device: str) -> None:
    """A batch of 13 volumes of 320 x 448 x 192 takes more than a device allocates at once."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((2, 8, 3, 3, 3)).astype(np.float32)
    source = open_model(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=[1] * 6)],
        {"x": (FLOAT, ("n", 2, "d", "h", "w0")), "w": (FLOAT, weights.shape)},
    )
    model = clgraph.compile(source, device)
    x = random.standard_normal((2, 2, 5, 6, 7)).astype(np.float32)
    whole = clgraph.compile(source, device, shapes={"x": x.shape}).run({"x": x, "w": weights})["y"]
    # Two sums of 2 * 27 products each, rounded as often, whatever the order.
    largest = float(np.abs(weights).sum(axis=(0, 2, 3, 4)).max() * np.abs(x).max())
    np.testing.assert_allclose(model.run({"x": x, "w": weights})["y"], whole, rtol=0, atol=2 * 54 * 2.0**-24 * largest)
    assert model.program.notes[NOTE].startswith("bound")


def test_an_axis_as_long_as_the_first_batch_that_is_tried_leaves_a_family(device: str) -> None:
    source = open_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, ("n", 13)), "w": (FLOAT, (13, 17))}
    )
    model = clgraph.compile(source, device)
    model.run({"x": np.ones((5, 13), np.float32), "w": np.ones((13, 17), np.float32)})
    assert model.program.notes[NOTE].startswith("bound")


def test_what_is_asked_for_is_built_only_where_there_is_no_family(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    original = Topology.build
    monkeypatch.setattr(
        Topology, "build", lambda self, shapes, *given: (built.append(shapes), original(self, shapes, *given))[1]
    )
    asked = {"x": (2, 3)}
    for to, family in (([-1], True), ([6], False)):
        nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
        model = clgraph.compile(open_model(nodes, {"x": (FLOAT, ("n", "m"))}, {"to": np.array(to)}), device)
        built.clear()
        model.run({"x": np.zeros((2, 3), np.float32)})
        assert built
        assert (asked not in built) == family


def test_families_are_bounded_where_every_shape_has_its_own(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the batch can be free, because the weights fit one height and width; 4 pairs of them are tried."""
    monkeypatch.setattr("clgraph.families.families.MOST_FAMILIES", 2)
    monkeypatch.setattr("clgraph.families.families.MOST_REFUSALS", 2)
    made: list[Families] = []
    original = Families.find
    monkeypatch.setattr(Families, "find", lambda self, *given: (made.append(self), original(self, *given))[1])
    nodes = [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    source = open_model(nodes, {"x": (FLOAT, ("n", "h", "w"))}, {"to": np.array([-1, 24])})
    model = clgraph.compile(source, device)
    for height, width in ((2, 12), (3, 8), (4, 6), (6, 4), (2, 12)):
        x = np.random.default_rng(0).standard_normal((3, height, width)).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], np.maximum(x.reshape(-1, 24), 0))
    assert len(made[0]._families) <= 2
    assert len(made[0]._refusals) <= 2


def test_equal_sizes_of_inputs_may_have_different_names(device: str) -> None:
    """Exporters of PyTorch name each input's sizes apart: a graph's nodes, and which graph each one belongs to."""
    nodes = [
        helper.make_node("Unsqueeze", ["of", "last"], ["column"]),
        helper.make_node("Expand", ["column", "columns"], ["places"]),
        helper.make_node("ScatterElements", ["sums", "places", "x"], ["y"], axis=0, reduction="add"),
    ]
    given = {"last": np.array([1]), "columns": np.array([1, 4]), "sums": np.zeros((2, 4), np.float32)}
    inputs = [("x", FLOAT, ("s77", 4)), ("of", INT, ("s2",))]
    source = graphs.model(graphs.graph(nodes, inputs, [("y", FLOAT, (2, 4))], **given))
    model = clgraph.compile(source, device)
    for n in (2, 9, 40):
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        y = model.run({"x": x, "of": np.arange(n) % 2})["y"]
        np.testing.assert_array_equal(y, [x[::2].sum(0), x[1::2].sum(0)])
        assert model.program.notes[NOTE].startswith("bound")


def test_what_attention_adds_to_its_scores_is_made_for_no_witness(device: str) -> None:
    """PyTorch's ``baddbmm`` adds zeros: 36 GiB of them for a witness of 128 x 384 places."""
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["q"]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        helper.make_node("Shape", ["q"], ["of_q"]),
        helper.make_node("Split", ["of_q"], ["heads", "_", "places"], axis=0, num_outputs=3),
        helper.make_node("Concat", ["heads", "places", "places"], ["square"], axis=0),
        helper.make_node("ConstantOfShape", ["square"], ["empty"]),
        helper.make_node("Mul", ["empty", "beta"], ["nothing"]),
        helper.make_node("MatMul", ["k", "q"], ["scores"]),
        helper.make_node("Add", ["scores", "nothing"], ["y"]),
    ]
    constants = {"rows": np.array([0, 0, -1]), "beta": np.zeros(1, np.float32)}
    model = clgraph.compile(open_model(nodes, {"x": (FLOAT, (4, 3, "h", "w"))}, constants), device)
    for size in ((5, 6), (4, 9)):
        x = np.random.default_rng(0).integers(-8, 8, (4, 3, *size)).astype(np.float32)
        q = x.reshape(4, 3, -1)
        np.testing.assert_array_equal(model.run({"x": x})["y"], q.transpose(0, 2, 1) @ q)
        assert model.program.notes[NOTE].startswith("bound")


def test_attention_to_more_keys_than_kernels_serve_is_compiled_apart(device: str) -> None:
    """The general kernel, which a member would have left, takes ten times as long as products and a softmax."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    shapes = {"q": (FLOAT, (1, "n", 4)), "k": (FLOAT, (1, 4, "m")), "v": (FLOAT, (1, "m", 4))}
    model = clgraph.compile(open_model(nodes, shapes), device)
    for keys, kernels in ((70, 1), (40000, 3)):
        random = np.random.default_rng(keys)
        feeds = {n: random.standard_normal(s).astype(np.float32) for n, s in (("q", (1, 40, 4)), ("v", (1, keys, 4)))}
        feeds["k"] = feeds["v"].transpose(0, 2, 1).copy()
        weights = np.exp(feeds["q"] @ feeds["k"])
        wanted = weights @ feeds["v"] / weights.sum(-1, keepdims=True)
        np.testing.assert_allclose(model.run(feeds)["y"], wanted, rtol=1e-3, atol=1e-4)
        assert sum(not n.in_place for n in model.program) == kernels
        assert model.program.notes[NOTE].startswith("bound" if kernels == 1 else "compiled whole")
