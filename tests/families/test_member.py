"""The nodes of a member: what is inferred of one holds for others only where they read the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.errors import BindingError
from clgraph.families.member import MemberRecipe
from clgraph.families.rules import Guards, Rule
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from tests.support.programs import RELU, Net

NOTHING = Guards((), (), (), ())


def recipe(*shapes: tuple[int, ...]) -> MemberRecipe:
    """Return how members of a program are made that rectifies each of its inputs, of these *shapes*."""
    net = Net()
    results = [net.add(f"r{i}", RELU, net.input(f"x{i}", shape)) for i, shape in enumerate(shapes)]
    program = net.program(*results)
    return MemberRecipe(program, tuple(Rule(node, known=(None,)) for node in program), NOTHING, {})


def test_nodes_that_are_alike_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe((3, 8), (3, 8), (3, 4))
    calls: list[Primitive] = []
    infer = Activation.infer
    monkeypatch.setattr(Activation, "infer", lambda self, inputs: calls.append(self) or infer(self, inputs))
    program, _ = made.member([(5, 8), (5, 8), (5, 4)], {})
    assert [v.layout.shape for _, v in program.outputs] == [(5, 8), (5, 8), (5, 4)]
    assert len(calls) == 2


def test_nodes_that_read_other_sizes_are_inferred_apart() -> None:
    """The representative's were equal by chance."""
    program, _ = recipe((3, 8), (3, 8)).member([(5, 8), (7, 8)], {})
    assert [v.layout.shape for _, v in program.outputs] == [(5, 8), (7, 8)]


def test_results_have_the_formats_that_each_node_has() -> None:
    made = recipe((3, 20, 4, 5), (3, 20, 4, 5))
    last = list(made.program)[1].output
    last.layout = last.layout.with_format(feature_blocked(4))
    program, _ = made.member([(2, 20, 7, 9)] * 2, {})
    assert [v.layout.format.is_plain for _, v in program.outputs] == [True, False]
    assert {v.layout.shape for _, v in program.outputs} == {(2, 20, 7, 9)}


def test_results_have_their_built_names_where_guards_ask_for_them() -> None:
    made = recipe((3, 8), (3, 8))
    named = tuple(Rule(node, known=((f"built{i}", DType.F32),)) for i, node in enumerate(made.program))
    of = replace(made, rules=named, guards=Guards((), (("n", ("built1",), ((1, 8),)),), (), ()))
    _, bindings = of.member([(5, 8), (1, 8)], {})
    assert bindings.shape("built1") == (1, 8)
    assert "built0" not in bindings.values
    _, bindings = of.member([(5, 8), (1, 8)], {}, all_names=True)
    assert bindings.shape("built0") == (5, 8)
    with pytest.raises(BindingError, match="'n'"):
        of.member([(5, 8), (7, 8)], {})
