from __future__ import annotations

import gc
import random

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.errors import ProgramError
from clgraph.graph.buffer import Buffer
from clgraph.graph.check import check
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.split import Split
from tests.support.programs import ADD, RELU, Net, lines

EXP = Activation("exp")


def _chain() -> Program:
    net = Net()
    h = net.add("a", RELU, net.input("x", (1, 4)), annotation="cpu", origin=("Relu_0", "Relu_1"))
    net.add("c", ADD, net.add("b", EXP, h), h)
    return net.program("c")


def test_insert_inherits_annotation_placement_and_provenance() -> None:
    program = _chain()
    a, b, _ = program
    a.placement, a.partitioned_by = "pocl:0", "hint"
    made = program.insert(EXP, [a.output], sources=[a, b])
    assert (made.annotation, made.placement, made.partitioned_by) == ("cpu", "pocl:0", "hint")
    assert made.origin == ("Relu_0", "Relu_1", "b")
    assert program.position(made) == 1
    assert a.output.readers[-1] is made


def test_insert_needs_a_source_and_one_annotation() -> None:
    program = _chain()
    a, b, _ = program
    with pytest.raises(ProgramError, match="needs the node it stems from"):
        program.insert(EXP, [a.output], sources=[])
    b.annotation = "gpu"
    with pytest.raises(ProgramError, match=r"a, b carry different annotations \(cpu, gpu\)"):
        program.insert(EXP, [a.output], sources=[a, b])
    b.annotation = None
    a.placement, b.placement = "one", "two"
    with pytest.raises(ProgramError, match="different placements"):
        program.insert(EXP, [a.output], sources=[a, b])


def test_names_of_nodes_stay_unique() -> None:
    program = _chain()
    a = program["a"]
    names = [program.insert(EXP, [a.output], sources=[a]).name for _ in range(3)]
    assert names == ["a/activation", "a/activation_2", "a/activation_3"]


def test_rewire_moves_readers_and_the_output_or_only_some_uses() -> None:
    program = _chain()
    a, b, c = program
    x = program.inputs[0]
    program.rewire(a.output, x, uses=[(c, 1)])
    assert (b.inputs, c.inputs) == ((a.output,), (b.output, x))
    program.rewire(c.output, b.output)
    assert program.outputs == [("c", b.output)]
    program.erase(c)
    check(program)


def test_erase_refuses_what_is_still_read() -> None:
    program = _chain()
    a, _, c = program
    with pytest.raises(ProgramError, match="a cannot be erased: a is still read by b"):
        program.erase(a)
    with pytest.raises(ProgramError, match="still read by the graph's output"):
        program.erase(c)


def test_fuse_behind_appends_operands_and_takes_over_the_result() -> None:
    program = _chain()
    _, b, c = program
    program.fuse(c, b)
    assert lines(program) == [
        'a f32:bf:1x4 = activation(function=relu)(x) "cpu"',
        "c f32:bf:1x4 = activation(function=exp)(a) + eltwise(function=add)(_, a)",
    ]
    assert b.origin == ("b", "c")
    assert (c in program, b in program) == (False, True)
    check(program)
    values = np.array([[-1, 0, 1, 2]], np.float32)
    np.testing.assert_allclose(b.reference(values, values)[0], np.exp(values) + values, rtol=1e-6)


def test_fuse_remembers_the_slot_of_the_running_value() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    net.add("y", Eltwise("sub"), net.add("e", EXP, x), net.add("r", RELU, x))
    program = net.program("y")
    program.fuse(program["y"], program["r"])
    node = program["r"]
    assert [(f.slot, f.operands) for f in node.fused] == [(1, (1,))]
    one, two = np.full((1, 4), 3, np.float32), np.full((1, 4), 5, np.float32)
    np.testing.assert_array_equal(node.reference(one, two)[0], np.full((1, 4), 2))


def test_fuse_in_front_puts_the_steps_before_those_that_are_there() -> None:
    net = Net()
    x = net.input("x", (1, 16, 4, 4))
    scaled = net.add("scaled", Eltwise("mul"), x, net.data("s", 16, 1, 1))
    conv = net.conv("conv", net.add("relu", RELU, scaled), 16, 8)
    program = net.program(conv)
    node = program["conv"]
    inputs = [v.constant for v in node.inputs]
    program.fuse(program["relu"], node)
    program.fuse(program["scaled"], node)
    assert [str(f.primitive) for f in node.fused] == ["eltwise(function=mul)", "activation(function=relu)"]
    assert [f.where for f in node.fused] == ["pre", "pre"]
    assert node.inputs[1].constant is inputs[1]
    check(program)


def test_fuse_refuses_strangers_results_read_elsewhere_and_outputs() -> None:
    program = _chain()
    a, b, c = program
    with pytest.raises(ProgramError, match="neither reads the other's first result"):
        program.fuse(c, Node("z", RELU, (program.inputs[0],), (Value("z", a.output.layout),), 1, origin=("z",)))
    with pytest.raises(ProgramError, match="a is read elsewhere"):
        program.fuse(b, a)
    program.outputs = [*program.outputs, ("b", b.output)]
    with pytest.raises(ProgramError, match="b is read elsewhere"):
        program.fuse(c, b)


def test_positions_are_right_wherever_nodes_come_and_go() -> None:
    program, expected = _chain(), ["a", "b", "c"]
    pick = random.Random(0)
    for i in range(400):
        at = 1 if i < 200 else pick.randrange(1, len(expected))
        program.insert(RELU, [program.inputs[0]], sources=[program["a"]], name=f"n{i}", before=program[expected[at]])
        expected.insert(at, f"n{i}")
        if i % 3 == 0:
            gone = pick.choice([name for name in expected if name.startswith("n")])
            program.erase(program[gone])
            expected.remove(gone)
    assert [node.name for node in program] == expected
    assert [program.position(node) for node in program] == list(range(len(expected)))


def test_membership_and_values_follow_the_edits() -> None:
    program = _chain()
    c = program["c"]
    assert c in program
    program.rewire(c.output, program["b"].output)
    program.erase(c)
    assert c not in program
    assert [v.name for v in program.values] == ["x", "a", "b"]
    with pytest.raises(ProgramError, match="no node 'c'"):
        program["c"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p["b"].inputs[0].unlink(p["b"], 0), "input 0 .* does not list it as a reader"),
        (lambda p: setattr(p["b"].output, "producer", p["a"]), "names another producer"),
        (lambda p: setattr(p["b"], "name", "a"), "two nodes are called a"),
        (lambda p: setattr(p["b"], "origin", ()), "lost its provenance"),
        (lambda p: setattr(p["b"].output, "layout", Layout(p["b"].output.layout.dtype, (2, 4))), "but activation"),
        (lambda p: setattr(p, "milestone", Milestone.PLACED), "no placement at milestone PLACED"),
        (lambda p: setattr(p, "outputs", [("z", Value("z", p["a"].output.layout))]), "nothing in the program makes"),
        (lambda p: p["a"].output.link(p["c"], 0), "which does not read it"),
    ],
)
def test_check_finds_what_is_broken(spoil, message: str) -> None:
    program = _chain()
    check(program)
    spoil(program)
    with pytest.raises(ProgramError, match=message):
        check(program)


def test_the_text_shows_inputs_constants_nodes_and_outputs() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    net.add("cut", Split(1, (1, 3)), net.add("y", ADD, x, net.data("c", 4)), outputs=("left", "right"))
    net.output("first", "left")
    net.output("right")
    assert str(net.build()) == "\n".join(
        [
            "program built",
            "  input x f32:bf:1x4",
            "  const c f32:x:4",
            "  y f32:bf:1x4 = eltwise(function=add)(x, c)",
            "  left f32:bf:1x1, right f32:bf:1x3 = split(axis=1, sizes=1x3)(y)",
            "  output first = left",
            "  output right",
        ]
    )


def parts_alive() -> int:
    return sum(type(o) in (Node, Value, Buffer) for o in gc.get_objects())


def test_a_program_that_nobody_holds_goes_at_once_with_its_nodes_values_and_buffers() -> None:
    """Without a search for cyclic garbage; also what an edit took out."""
    gc.collect()
    gc.disable()
    try:
        before = parts_alive()
        program = _chain()
        a, b, c = program
        program.erase(program.insert(EXP, [a.output], sources=[a]))
        program.fuse(c, b)
        first, second = Buffer("first", 4), Buffer("second", 4)
        first.add_conflict(second)
        a.scratch, b.output.buffer = (first,), second
        assert parts_alive() > before
        del program, a, b, c, first, second
        assert parts_alive() == before
    finally:
        gc.enable()


def test_a_walk_over_a_program_keeps_it_alive() -> None:
    assert [[type(v.producer) for v in node.outputs] for node in _chain()] == 3 * [[Node]]


def test_a_node_that_outlives_its_program_keeps_its_values_and_what_links_them_to_it() -> None:
    program = _chain()
    b = program["b"]
    before = b.inputs, b.outputs, str(b)
    del program
    assert (b.inputs, b.outputs, str(b)) == before
    assert (b.inputs[0].readers, b.output.producer) == ((b,), b)
    assert (b.inputs[0].producer, b.output.readers) == (None, ()), "its neighbours are gone"


def test_programs_may_share_constants() -> None:
    """As the one of a part of a batch does with the whole's."""
    value = Value("w", Layout.of(np.ones((1, 4), np.float32)), constant=np.ones((1, 4), np.float32))
    first, second = (Node(name, RELU, (value,), (Value(name, value.layout),), 1, origin=(name,)) for name in "ab")
    kept, dropped = Program([], [("y", first.output)], [first]), Program([], [("y", second.output)], [second])
    del dropped, second
    assert value.readers == (first,)
    check(kept)
