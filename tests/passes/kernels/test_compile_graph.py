from __future__ import annotations

import pytest

from clgraph.errors import OptionError, UnsupportedError
from clgraph.passes.base import Context
from clgraph.passes.formats.prepare_padding import PreparePadding
from clgraph.passes.kernels.compile_graph import CompileGraph
from clgraph.selector.choose import Choice
from tests.support.programs import RELU, Net, compile_all, run_until


def _net() -> Net:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16)
    net.conv("b", net.add("relu", RELU, h), 16, 16, kernel=3)
    return net


def test_a_provisional_choice_for_the_same_problem_stands() -> None:
    program = run_until(_net().program("b"), "add_required_reorders")
    before = {n.name: n.choice for n in program}
    assert CompileGraph().run(program, Context()) == 0
    assert all(n.choice is before[n.name] for n in program)


def test_what_changed_is_chosen_again() -> None:
    program = run_until(_net().program("b"), "add_required_reorders")
    node = program["b"]
    assert isinstance(node.choice, Choice)
    node.choice = Choice(node.choice.query.with_layouts((), ()), node.choice.implementation, 0.0, "stale")
    assert CompileGraph().run(program, Context()) == 0
    assert node.choice.because == "cheapest"


def test_it_may_not_ask_for_more_halo_than_there_is() -> None:
    program = run_until(_net().program("b"), "prepare_padding")
    reorders = len(program)
    program = compile_all(_net().program("b"), disabled=frozenset({PreparePadding.name}))
    assert str(program["b"].choice).startswith("convolution.blocked")
    assert len(program) > reorders


def test_a_forced_implementation_is_chosen_or_the_error_says_why_not() -> None:
    program = compile_all(_net().program("b"), Context(forced={"a": "convolution.slow"}))
    assert str(program["a"].choice) == "convolution.slow (forced)"
    with pytest.raises((OptionError, UnsupportedError), match="'a'"):
        compile_all(_net().program("b"), Context(forced={"a": "pooling.slow"}))
