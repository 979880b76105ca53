"""What binding refuses, and how constants come by other formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Halo, Layout
from clgraph.core.packing import pack, unpack
from clgraph.errors import BindingError
from clgraph.families.binding import Packings
from clgraph.families.cone import beginning
from clgraph.families.layouts import Pair, widen_halos
from clgraph.families.rules import Guards, Rule
from clgraph.families.taken import Taken
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.passes.base import Context
from clgraph.passes.selection import in_place
from clgraph.selector.choose import Choice, HostReference
from clgraph.selector.query import Query
from tests.support.programs import RELU, Net

ARRAY = np.random.default_rng(0).standard_normal((48, 20, 3, 3)).astype(np.float32)
NARROW, WIDE = (Format((0, 1, 2, 3), ((1, 16), (0, 16 * n))) for n in (1, 2))


def constant(format: Format) -> Value:
    layout = Layout.of(ARRAY).with_format(format)
    return Value("w", layout, constant=ARRAY if format.is_plain else pack(ARRAY, layout))


@pytest.mark.parametrize("source", [Format.plain(4), WIDE, feature_blocked(4)])
def test_packed_constants_hold_what_they_were_packed_from(source: Format) -> None:
    value = Packings().of(constant(source), NARROW)
    assert value.layout.format == NARROW
    assert value.constant is not None
    np.testing.assert_array_equal(unpack(value.constant, value.layout), ARRAY)
    assert not value.constant.flags.writeable


def test_each_constant_is_packed_once_a_format() -> None:
    packings, first, second = Packings(), constant(WIDE), constant(WIDE)
    assert packings.of(first, NARROW).constant is packings.of(first, NARROW).constant
    assert packings.of(first, NARROW).constant is not packings.of(second, NARROW).constant
    assert packings.of(first, NARROW).constant is not packings.of(first, Format.plain(4)).constant
    assert len(packings.made) == 3


@pytest.mark.parametrize(
    ("guards", "why"),
    [
        (
            Guards((), (("n", ("x",), ((1, 8),)),), (), ()),
            "node 'n': a size of 1 is 3 here and 1 there",
        ),
        (Guards((), (), (("n", Activation("relu")),), ()), "node 'n' is .*tanh.*, which was .*relu.* when it was"),
        (Guards((), (), (), (("c", np.array([4])),)), "the constant 'c' depends on sizes, and was folded"),
        (Guards((), (), (), uniform=(("c", (5,), np.array([4])),)), "the constant 'c' is not 4 everywhere"),
        (Guards((), (), (), uniform=(("c", (1,), np.array([3])),)), "the constant 'c' is .*, or has other axes"),
        (Guards((), (), (), uniform=(("d", (5,), np.array([3])),)), "the constant 'd' is not 3 everywhere"),
    ],
)
def test_what_left_no_trace_must_be_the_same(guards: Guards, why: str) -> None:
    found = beginning([("x", Layout.of(np.zeros((3, 8), "f4")))], {}, {"c": np.array([3, 3]), "d": np.array([3, 4])})
    found.primitives["n"] = Activation("tanh")
    with pytest.raises(BindingError, match=why):
        guards.check(found)


def test_what_is_the_same_for_a_member_passes() -> None:
    found = beginning([("x", Layout.of(np.zeros((3, 8), "f4")))], {}, {"c": np.array([3, 3])})
    found.primitives["n"] = Activation("tanh")
    folded = ("c", np.array([3, 3]))
    Guards((), (("n", ("x",), ((2, 8),)),), (("n", Activation("tanh")),), (folded,)).check(found)
    Guards((), (), (), uniform=(("c", (7,), np.array([3])),)).check(found)


class ReadsAround(HostReference):
    """Reads a row of zeros around its input."""

    name = "reads_around"

    @classmethod
    def halo(cls, q: Query[Any]) -> Mapping[int, Halo]:
        return {0: ((0, 0), (1, 1))}


def pairs_of(program: Program, **choices: type[HostReference] | None) -> list[Pair]:
    """Return the nodes of *program* as a representative's and a member's, of which those named have such choices."""
    context = Context()
    for node in program:
        chosen = choices.get(node.name, HostReference)
        q = context.query(node)
        node.choice = in_place(node, context) if chosen is None else Choice(q, chosen, 0.0, "of a test")
    return [(Taken.of(Rule(node)), node) for node in program]


def test_zeros_that_kernels_read_are_made_by_who_makes_the_value() -> None:
    net = Net()
    a = net.add("a", RELU, net.input("x", (3, 8)))
    program = net.program(net.add("b", RELU, a), net.add("c", RELU, a))
    assert widen_halos(program, Context(), pairs_of(program, b=ReadsAround, c=ReadsAround))[0] == 1
    assert program["a"].output.layout.halo == ((0, 0), (1, 1))
    assert not program["b"].output.layout.halo


def test_zeros_around_what_nobody_pads_are_refused() -> None:
    """An input of the model, a result of it, and what lies in another value's memory."""
    net = Net()
    a = net.add("a", RELU, net.input("x", (3, 8)))
    b = net.add("b", RELU, a)
    program = net.program(net.add("c", RELU, b), a)
    for reader, value, others in (("a", "x", {}), ("b", "a", {}), ("c", "b", {"b": None})):
        with pytest.raises(BindingError, match=f"node {reader!r} reads zeros .* around {value!r}, which has none"):
            widen_halos(program, Context(), pairs_of(program, **{reader: ReadsAround, **others}))


def test_a_problem_into_which_no_size_goes_is_the_one_that_the_representative_has() -> None:
    """As behind a pooling over all pixels: what was derived of it, and its choice with the plan, stay."""
    pairs = {node.name: (taken, node) for taken, node in pairs_of(chain(), c=None)}
    wider = {node.name: node for node in chain(9)}
    device = Context().default
    for name, (taken, node) in pairs.items():
        same, other = taken.query(node, device), taken.query(wider[name], device)
        assert (same is taken.choice.query) == (name != "c")
        assert other is not taken.choice.query
        assert other.inputs[0].shape == (3, 9)


def test_packed_weights_keep_no_node_from_being_taken_over_whole() -> None:
    """They were results of reorders, and no constants, when its implementation was chosen."""
    ((taken, node), *_), device = pairs_of(chain()), Context().default
    choice, rule = taken.choice, replace(taken.rule, constant=frozenset({0}))
    assert not choice.query.constant
    assert Taken.of(rule).query(node, device) is choice.query


def chain(width: int = 8) -> Program:
    net = Net()
    return net.program(net.add("c", RELU, net.add("b", RELU, net.add("a", RELU, net.input("x", (3, width))))))
