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


def _joined(net: Net, outside: bool = False):
    """Return a concat in blocks of channels, which is copied and cannot note, of a sum and a convolution."""
    x = net.input("x", (1, 32, 40, 40))
    parts = [net.conv(f"conv{i}", x, 32, 24, 3) for i in range(2)]
    parts.append(net.input("more", (1, 24, 40, 40)) if outside else net.add("relu", RELU, net.conv("c", x, 32, 24, 3)))
    return net.concat("joined", *parts)


def test_what_a_concat_joins_notes_its_extremes_where_that_cannot():
    net = Net()
    program = run_until(_program(net, _joined(net)), NoteExtremes.name, CPU)
    assert not program["joined"].fused
    notes = {n.inputs[0] for n in program if isinstance(n.primitive, NotedExtreme)}
    assert _functions(program, NotedExtreme) == ["max", "min"]
    assert len(notes) == 2
    for name in ("conv0", "conv1", "c"):
        noting = [f for f in program[name].fused if isinstance(f.primitive, NoteExtreme)]
        assert [f.primitive.function for f in noting] == ["max", "min"]
        assert {program[name].inputs[i] for f in noting for i in f.operands} == notes
    order = list(program)
    first = min(order.index(program[n]) for n in ("conv0", "conv1", "c"))
    assert all(order.index(n.producer) < first for n in notes)
    assert all(
        order.index(program["joined"]) < order.index(n) for n in program if isinstance(n.primitive, NotedExtreme)
    )


def test_a_concat_with_a_part_that_nobody_can_note_is_reduced():
    net = Net()
    program = run_until(_program(net, _joined(net, outside=True)), NoteExtremes.name, CPU)
    assert not _functions(program, NotedExtreme)
