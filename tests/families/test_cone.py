"""The layers that are bound again for a member: those that sizes go into, as few as possible."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import BindingError
from clgraph.families.cone import Bindings, Cone, beginning
from clgraph.graph.node import Value
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.reorder import Reorder
from clgraph.ops.shape import ShapeOf


def scaled() -> Topology:
    """``relu(x) * float(rows of relu(x)) + b``."""
    t = Topology()
    r = t.add("r", Activation("relu"), t.input("x", ("n", 8)))
    rows = t.add("rows", Gather(), t.add("shape", ShapeOf(), r), t.constant("zero", np.array(0)))
    factor = t.add("factor", Reorder(DType.F32), rows)
    t.output("y", t.add("y", Eltwise("add"), t.add("m", Eltwise("mul"), r, factor), t.constant("b", np.ones(8, "f4"))))
    return t


def layout(*shape: int) -> Layout:
    return Layout(DType.F32, shape)


def names(layers: object) -> list[str]:
    return [layer.name for layer in layers]  # type: ignore[attr-defined]  # a tuple of layers


def bound(rows: int) -> Bindings:
    """Return the cone of the factor for so many rows."""
    topology = scaled()
    cone = Cone(topology)
    layers = cone.above([layer for layer in topology.layers if layer.name == "factor"], {"x", "r"})
    constants = {n: Value(n, Layout.of(a), constant=a) for n, a in cone.constants.items()}
    found = beginning([("x", layout(rows, 8)), ("r", layout(rows, 8))], constants, {})
    found.bind(layers)
    return found


def test_nodes_stem_from_their_layer_or_from_what_was_inlined_around_them() -> None:
    cone = Cone(scaled())
    assert cone.layer_of("rows") is cone.layer_of("rows/body/cast")
    assert cone.layer_of("rows/body/cast") is not None
    assert cone.layer_of("other/cast") is None
    assert cone.made_by("m") is cone.layer_of("m")
    assert cone.made_by("m/inner") is cone.layer_of("m")
    assert cone.made_by("b") is None


def test_shapes_and_inputs_that_decide_them_are_sizes() -> None:
    cone = Cone(scaled())
    assert cone.depends("factor")
    assert cone.depends("m")
    assert not cone.depends("b")
    assert not cone.depends("r")
    assert cone.depends("r", deciding=["x"])


def test_layers_are_bound_from_what_is_made_down() -> None:
    topology = scaled()
    layers = {layer.name: layer for layer in topology.layers}
    cone, made = Cone(topology), {"x", "r"}
    assert names(cone.above([layers["factor"]], made)) == ["shape", "rows", "factor"]
    assert made == {"x", "r", "shape", "rows", "factor"}
    assert set(cone.constants) == {"zero"}
    assert names(cone.above([layers["y"]], made)) == ["m", "y"]
    assert names(Cone(topology).above([layers["factor"]], {"x"})) == ["r", "shape", "rows", "factor"]


def test_what_is_wanted_is_bound_although_it_is_made() -> None:
    """The program of the representative makes it, too, but its attributes are asked for."""
    topology = scaled()
    layers = {layer.name: layer for layer in topology.layers}
    assert names(Cone(topology).above([layers["m"]], {"x", "r", "m", "factor"})) == ["m"]


@pytest.mark.parametrize("rows", [3, 70])
def test_constants_are_those_of_the_member(rows: int) -> None:
    found = bound(rows)
    assert found.array("factor") == rows
    assert found.shape("r") == (rows, 8)


def test_what_sizes_do_not_decide_is_refused() -> None:
    found = bound(3)
    with pytest.raises(BindingError, match="'r' is not known for all sizes"):
        found.array("r")
    with pytest.raises(BindingError, match="'other' exists for some sizes only"):
        found.shape("other")
    with pytest.raises(BindingError, match="node 'other' exists for some sizes only"):
        found.primitive("other")


def test_what_is_no_shape_arithmetic_is_computed_by_references() -> None:
    t = Topology()
    root = t.add(
        "root", Activation("sqrt"), t.add("f", Reorder(DType.F32), t.add("s", ShapeOf(), t.input("x", ("n", 9))))
    )
    t.output("y", root)
    found = beginning([("x", layout(4, 9))], {}, {})
    found.bind(t.layers)
    np.testing.assert_array_equal(found.array("root"), np.array([2, 3], np.float32))
