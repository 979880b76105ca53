from __future__ import annotations

import pytest

from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.noted_extreme import NotedExtreme, NoteExtreme
from clgraph.ops.reduce import Reduce
from clgraph.passes.base import Context
from clgraph.passes.fusing.note_extremes import NoteExtremes
from clgraph.selector.query import DeviceInfo
from tests.support.programs import RELU, Net, run_until

CPU = Context({"null": DeviceInfo(kind="cpu")})


@pytest.fixture(autouse=True)
def fakes():
    """Notes are asked of the real implementations."""


def _program(net: Net, value: str):
    net.add("q", DynamicQuantize(), value, outputs=("q", "s", "z"))
    return net.program("q", "s")


def _functions(program, kind):
    return [n.primitive.function for n in program if isinstance(n.primitive, kind)]


def test_what_makes_a_tensor_notes_its_extremes():
    net = Net()
    made = net.conv("conv", net.input("x", (1, 32, 40, 40)), 32, 48, 3)
    program = run_until(_program(net, made), NoteExtremes.name, CPU)
    noting = [f.primitive for f in program["conv"].fused]
    assert noting == [NoteExtreme("max"), NoteExtreme("min")]
    assert _functions(program, NotedExtreme) == ["max", "min"]
    assert all(n.inputs[0].layout.shape == (1, 1) for n in program if isinstance(n.primitive, Reduce))
    assert "q/reduce" in program.notes[NoteExtremes.name]


def test_what_is_never_negative_has_one_note():
    net = Net()
    made = net.add("relu", RELU, net.conv("conv", net.input("x", (1, 32, 40, 40)), 32, 48, 3))
    program = run_until(_program(net, made), NoteExtremes.name, CPU)
    assert _functions(program, NotedExtreme) == ["max"]


@pytest.mark.parametrize("why", ["an input", "small", "a GPU"])
def test_what_nobody_can_note_is_reduced(why):
    net = Net()
    side = 2 if why == "small" else 40
    x = net.input("x", (1, 32, side, side))
    value = x if why == "an input" else net.conv("conv", x, 32, 48, 3)
    context = Context({"null": DeviceInfo(kind="gpu")}) if why == "a GPU" else CPU
    program = run_until(_program(net, value), NoteExtremes.name, context)
    assert not _functions(program, NotedExtreme)
    assert all(not isinstance(f.primitive, NoteExtreme) for n in program for f in n.fused)


def test_a_concat_that_copies_its_parts_notes_both_extremes():
    net = Net()
    parts = [net.input(f"x{i}", (1, channels, 73)) for i, channels in enumerate((512, 1, 1))]
    program = run_until(_program(net, net.concat("joined", *parts)), NoteExtremes.name, CPU)
    assert [f.primitive for f in program["joined"].fused] == [NoteExtreme("max"), NoteExtreme("min")]
    assert len(program["joined"].inputs) == 5
