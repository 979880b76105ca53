"""What stages pass on has the sizes that the shapes of their inputs tell, and later stages are bound by them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.graph.topology import Topology
from clgraph.model.stages.sizes import fits, passed_on
from clgraph.model.stages.split import split
from clgraph.ops.non_max_suppression import NonMaxSuppression
from clgraph.ops.non_zero import NonZero
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.oracle import expected

WIDE, NARROW = 8, 5
RNG = np.random.default_rng(0)
MADE, READ = (RNG.standard_normal(shape).astype(np.float32) for shape in ((6, WIDE), (WIDE, NARROW)))


def counted(most: int):
    """Return a model of rows, of which the first stage makes *most*, and the second reads as many as they tell."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "most"], ["cut"]),
        helper.make_node("MatMul", ["cut", "made"], ["rows"]),
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["count"], to=INT),
        helper.make_node("Reshape", ["count", "one"], ["end"]),
        helper.make_node("Slice", ["rows", "zero", "end"], ["some"]),
        helper.make_node("MatMul", ["some", "read"], ["y"]),
    ]
    given = {"zero": np.array([0]), "one": np.array([1]), "most": np.array([most]), "made": MADE, "read": READ}
    return model(graph(nodes, [("x", FLOAT, ["n", 6])], [("y", FLOAT, [None, NARROW])], **given))


@pytest.mark.opencl
@pytest.mark.parametrize("most", [1 << 40, 12])
def test_a_stage_behind_data_is_bound_and_sizes_that_were_taken_for_constant_are_no_error(device, most, monkeypatch):
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", 0.0)
    source = counted(most)
    made = clgraph.compile(source, device=device)
    for n, count in ((20, 6), (30, 7), (9, 5), (40, 9)):
        x = RNG.uniform(0, 1, (n, 6)).astype(np.float32)
        x[0, 0] = count + 0.5
        # Sums of 6 and of 8 products of numbers near 1, one of them up to 10.
        np.testing.assert_allclose(made.run({"x": x})["y"], expected(source, {"x": x})["y"], atol=1e-4)
        note = made.explain().notes["stage 2: family"]
        assert note.startswith("bound in" if most > 12 else "compiled whole: "), note
    read = {stage.topology.inputs["rows"].shape for stage in made.stages if "rows" in stage.topology.inputs}
    assert read == ({("n", WIDE)} if most > 12 else {(12, WIDE), None})


def test_sizes_that_vary_alike_have_one_name() -> None:
    from clgraph.frontend.onnx_loader import load_onnx

    pieces = split(load_onnx(counted(1 << 40)))
    known = passed_on(pieces)
    assert {name: s.shape for name, s in known.items()} == {"rows": ("n", WIDE), "end": (1,)}
    rows, turned = known["rows"], np.zeros((WIDE, 3))
    assert fits({"rows": rows}, {"rows": np.zeros((4, WIDE))})
    assert not fits({"rows": rows}, {"rows": turned})
    assert not fits({"rows": rows}, {"rows": np.zeros(WIDE)})
    assert not fits({"a": rows, "b": rows}, {"a": np.zeros((4, WIDE)), "b": np.zeros((5, WIDE))})


def picked():
    """Return a model that finds what is above a threshold in a matrix, and halves the numbers there."""
    nodes = [
        helper.make_node("Greater", ["x", "least"], ["above"]),
        helper.make_node("NonZero", ["above"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["found"]),
        helper.make_node("Mul", ["found", "half"], ["y"]),
    ]
    given = {"least": np.float32(0.5), "half": np.float32(0.5)}
    return model(graph(nodes, [("x", FLOAT, [30, 4])], [("y", FLOAT, [None])], **given))


@pytest.mark.opencl
def test_a_stage_behind_the_places_in_a_matrix_is_bound(device, monkeypatch) -> None:
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", 0.0)
    made = clgraph.compile(picked(), device=device)
    for scale in (0.6, 1.0, 2.0, 0.4):
        x = RNG.uniform(0, scale, (30, 4)).astype(np.float32)
        np.testing.assert_array_equal(made.run({"x": x})["y"], x[x > 0.5] / 2)
        if scale > 0.5:
            note = made.explain().notes["stage 2: family"]
            assert note.startswith("bound in"), note


def test_ranks_tell_a_part_of_the_shapes_that_elements_decide() -> None:
    t = Topology()
    x, boxes = t.input("x", (4, "n", 3)), t.input("boxes", None)
    t.output("y", t.add("places", NonZero(), x))
    t.output("z", t.add("of_any", NonZero(), boxes))
    t.output("w", t.add("kept", NonMaxSuppression(), boxes))
    known = passed_on(split(t))
    assert {s.name: (s.dtype, s.shape) for s in known.values()} == {
        "places": (DType.I64, (3, "places.1")),
        "kept": (DType.I64, ("kept.0", 3)),
    }
    assert fits({"places": known["places"]}, {"places": np.zeros((3, 7))})
    assert NonZero().outline([0]) == (DType.I64, (1, None))
