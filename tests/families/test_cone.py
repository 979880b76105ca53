"""The layers that are bound again for a member: those that sizes go into, as few as possible."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import BindingError
from clgraph.families.cone import Bindings, Cone, beginning
from clgraph.families.rules import Guards
from clgraph.graph.node import Value
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.fill import Fill
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


def squares(places: int) -> Bindings:
    """Return values of ``[places][places]``: zeros and ones scaled, and numbers that differ."""
    t = Topology()
    side = t.add("side", ShapeOf(), t.input("x", ("n", "m")))
    two, row = t.constant("two", np.full(1, 2, np.float32)), t.constant("row", np.arange(2, dtype=np.float32))
    for name, made in (
        ("zeros", t.add("f", Fill(0.0, DType.F32), side)),
        ("ones", t.add("e", Expand((), ("shape",)), two, side)),
    ):
        t.output(name, t.add(name, Eltwise("mul"), made, two))
        t.output(f"{name}16", t.add(f"{name}16", Reorder(DType.F16), name))
    rows = t.add("rows", Expand((1 << 14, 1 << 13, 2)), row)
    t.output("differ", t.add("differ", Eltwise("add"), rows, t.add("cast", Reorder(DType.F32), side)))
    constants = {n: Value(n, Layout.of(a), constant=a) for n, a in t.constants.items()}
    found = beginning([("x", layout(places, places))], constants, {})
    found.bind(t.layers)
    return found


def test_one_value_at_all_places_takes_the_memory_of_one() -> None:
    """What attention adds to its scores takes 4 TB here."""
    found = squares(1 << 20)
    for name, value in (("zeros", 0), ("ones", 4), ("zeros16", 0), ("ones16", 4)):
        for array in (found.array(name), found.widened(name)):
            assert array.shape == (1 << 20, 1 << 20)
            assert set(array.strides) == {0}
            assert array[-1, -1] == value
    assert found.array("ones16").dtype == np.float16
    assert found.widened("ones16").dtype == np.float32
    everywhere = ("ones", (1 << 20, 1 << 20), np.full(1, 4, np.float32))
    Guards((), (), (), merged=(("ones", "ones"),), uniform=(everywhere,)).check(found)
    with pytest.raises(BindingError, match="no longer 'zeros'"):
        Guards((), (), (), merged=(("ones", "zeros"),)).check(found)


def test_what_is_large_and_differs_is_left_to_a_compilation_of_its_own() -> None:
    with pytest.raises(BindingError, match="what sizes make of node 'differ' takes 1073741824 bytes"):
        squares(3).array("differ")
