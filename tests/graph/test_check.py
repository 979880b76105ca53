"""``check`` finds values that are read and that nothing writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ProgramError
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.check import check
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.reshape import Reshape


@dataclass(frozen=True)
class _Chosen:
    in_place: bool


def _planned() -> Program:
    """Return relu, a reshape in its memory, and relu of that, each value at a place."""
    memory, result = Buffer("a", 24, 0), Buffer("y", 24, 64)
    x = Value("x", Layout(DType.F32, (2, 3)), buffer=Buffer("x", 24, 128))
    a = Value("a", x.layout, buffer=memory)
    b = Value("b", Layout(DType.F32, (6,)), buffer=memory)
    y = Value("y", b.layout, buffer=result)
    nodes = [
        Node(name, primitive, (source,), (made,), 1, choice=_Chosen(name == "b"), origin=(name,), placement="null")
        for name, primitive, source, made in (
            ("a", Activation("relu"), x, a),
            ("b", Reshape((6,)), a, b),
            ("y", Activation("relu"), b, y),
        )
    ]
    program = Program([x], [("y", y)], nodes)
    program.milestone = Milestone.PLANNED
    check(program)
    return program


@pytest.mark.parametrize("milestone", [Milestone.SELECTED, Milestone.PLANNED])
def test_what_runs_nothing_lies_in_the_memory_of_what_it_reads(milestone: Milestone) -> None:
    program = _planned()
    program.milestone = milestone
    program["b"].output.buffer = Buffer("b", 24, 192)
    with pytest.raises(ProgramError, match=r"b runs nothing, but its values do not lie in one buffer: a in .*b in"):
        check(program)


def test_what_runs_nothing_reads_no_constant() -> None:
    program = _planned()
    node = program["b"]
    fixed = Value("c", node.inputs[0].layout, constant=np.zeros((2, 3), np.float32), buffer=node.output.buffer)
    program.rewire(node.inputs[0], fixed)
    with pytest.raises(ProgramError, match="b runs nothing, but c is a constant, which no run writes"):
        check(program)


def test_what_runs_nothing_has_memory_at_all() -> None:
    program = _planned()
    program.milestone = Milestone.SELECTED
    for value in (*program["b"].inputs, program["b"].output):
        value.buffer = None
    with pytest.raises(ProgramError, match="do not lie in one buffer"):
        check(program)


@pytest.mark.parametrize("offset", [-4, 4])
def test_a_value_lies_inside_its_buffer(offset: int) -> None:
    program = _planned()
    program["y"].output.offset = offset
    with pytest.raises(ProgramError, match=f"y: y, 24 bytes at {offset}, lies outside of <buffer y 24 B @64>"):
        check(program)


@pytest.mark.parametrize(("offset", "has_buffer"), [(2, True), (4, False)], ids=["within an element", "of no buffer"])
def test_a_value_lies_at_a_place_of_elements_in_a_buffer(offset: int, has_buffer: bool) -> None:
    program = _planned()
    program.milestone = Milestone.BUILT
    program["y"].output.offset = offset
    if not has_buffer:
        program["y"].output.buffer = None
    with pytest.raises(ProgramError, match=f"y lies {offset} bytes behind the beginning of"):
        check(program)


@pytest.mark.parametrize("offset", [-64, 32, 192, 1 << 30])
@pytest.mark.parametrize("is_scratch", [False, True])
def test_a_buffer_lies_inside_its_arena_at_a_multiple_of_64(offset: int, is_scratch: bool) -> None:
    program = _planned()
    program.arenas = {"": Arena(192, 192, 192)}
    check(program)
    if is_scratch:
        program["y"].scratch = (Buffer("s", 24, offset),)
    else:
        program["y"].output.buffer = Buffer("s", 24, offset)
    with pytest.raises(ProgramError, match=f"buffer s 24 B @{offset}> lies outside of"):
        check(program)
