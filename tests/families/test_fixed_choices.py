"""Ifs whose conditions all members of a family have: the layers of the body are bound one by one, and others stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.families.fixed_choices import with_fixed_choices
from clgraph.families.schema import schemas
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.if_else import IfElse
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.shape import ShapeOf
from clgraph.ops.softmax import Softmax
from tests.support.family_models import numbers
from tests.support.members import compare, compiler

ROWS, COLUMNS = 6, 5


def flattened(kind: str) -> Topology:
    """Return a body that computes *kind* of rows, puts them back in a shape of shape arithmetic, and makes it twice."""
    t = Topology()
    x = t.input("x", None, None)
    flat = t.add("flat", Reshape((-1, COLUMNS)), x)
    y = t.add("y", Activation(kind), flat)
    back = t.add("back", Reshape(reads=("shape",)), y, t.add("shape", ShapeOf(), x))
    t.output("first", t.add("soft", Softmax((2,)), back))
    t.output("again", "soft")
    t.output("same", x)
    return t


def choosing(count: int | None = None) -> Topology:
    """Return a model that is one If over the input ``flag``, or over whether ``flag``, an integer, is *count*."""
    t = Topology()
    x = t.input("x", ("n", "rows", COLUMNS))
    flag = t.input("flag", (1,), DType.BOOL if count is None else DType.I64)
    if count is not None:
        flag = t.add("is", Eltwise("equal"), flag, t.constant("count", np.array([count])))
    made = t.add("if", IfElse(flattened("sigmoid"), flattened("tanh")), flag, x, outputs=("a", "b", "c"))
    t.output("sum", t.add("sum", Eltwise("add"), t.add("twice", Eltwise("add"), made, "b"), "c"))
    t.output("b")
    t.output("c")
    return t


def feeds(shape: Sequence[int], flag: bool | int) -> dict[str, Array]:
    return {"x": numbers(*shape, COLUMNS), "flag": np.array([flag])}


def fixed(topology: Topology, flag: bool | int) -> Topology:
    given = feeds((3, ROWS), flag)
    known = {"flag": given["flag"]}
    schema = next(schemas(list(topology.inputs.values()), [a.shape for a in given.values()], known))
    return with_fixed_choices(topology, schema, known)


@pytest.mark.parametrize("flag", [False, True])
def test_the_body_of_a_known_condition_builds_what_the_if_builds(flag: bool) -> None:
    topology, given = choosing(), feeds((3, ROWS), flag)
    made = fixed(topology, flag)
    assert not any(isinstance(layer.primitive, IfElse) for layer in made.layers)
    shapes, known = {n: a.shape for n, a in given.items()}, {"flag": given["flag"]}
    assert str(made.build(shapes, known)) == str(topology.build(shapes, known))


def test_a_condition_that_a_constant_decides_is_known_too() -> None:
    topology = Topology()
    x = topology.input("x", ("n", "rows", COLUMNS))
    one = topology.constant("one", np.array([1], np.int32))
    always = topology.add("always", Reorder(dtype=DType.BOOL), one)
    made = topology.add("if", IfElse(flattened("sigmoid"), flattened("tanh")), always, x, outputs=("a", "b", "c"))
    topology.output(made)
    schema = next(schemas(list(topology.inputs.values()), [(3, ROWS, COLUMNS)], {}))
    assert not any(isinstance(la.primitive, IfElse) for la in with_fixed_choices(topology, schema, {}).layers)


def test_a_condition_of_a_free_number_is_left() -> None:
    assert any(isinstance(layer.primitive, IfElse) for layer in fixed(choosing(5), 3).layers)
    assert not any(isinstance(layer.primitive, IfElse) for layer in fixed(choosing(5), 1).layers)


@pytest.mark.opencl
@pytest.mark.parametrize("count", [None, 5])
def test_members_are_those_of_the_body_that_the_condition_chooses(device: str, count: int | None) -> None:
    flags = (False, True) if count is None else (3, 5, 4)
    members = [feeds(shape, flag) for shape in ((3, ROWS), (2, 9), (4, 17)) for flag in flags]
    found = compare("choosing", choosing(count), members, device)
    assert not found.wrong
    assert found.bound == len(members)


@pytest.mark.opencl
def test_a_member_binds_the_layers_of_the_body_that_sizes_go_into_alone(device: str) -> None:
    given = feeds((3, ROWS), flag=True)
    shapes, known = {n: a.shape for n, a in given.items()}, {"flag": given["flag"]}
    families = compiler(device, (), whole=False).specialise(choosing(), shapes, known).families
    assert families is not None
    (family,) = (f for f in families.all().values() if not isinstance(f, str))
    bound = [layer.name for rule in family.recipe.rules for layer in rule.before]
    bound += [layer.name for layer in family.recipe.guards.before]
    assert "if" not in bound
    assert not any(name.endswith(("/y", "soft")) for name in bound)
