"""post_optimize_weights and propagate_constants."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from clgraph.core.packing import pack, unpack
from clgraph.errors import ProgramError
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.reshape import Reshape
from clgraph.passes.base import Context
from clgraph.passes.constants import propagate_constants
from clgraph.passes.constants.propagate_constants import PropagateConstants, share_equal_constants
from clgraph.passes.kernels.post_optimize_weights import PostOptimizeWeights
from clgraph.passes.rewriting import constant_part
from clgraph.passes.selection import in_place
from tests.support.programs import ADD, RELU, Net, run_until


def _net() -> Net:
    net = Net()
    x = net.input("x", (1, 16, 12, 12))
    a = net.conv("a", x, 16, 20)
    b = net.add("b", net.layers[0].primitive, x, "a_w")
    net.add("sum", ADD, a, b)
    return net


def _selected(
    net: Net,
    context: Context | None = None,
    disabled: Sequence[str] = ("merge_equal_nodes", "prepare_primitive_fusing"),
) -> Program:
    return run_until(net.program(net.layers[-1].name), "compile_graph", context, disabled=disabled)


def test_equal_wishes_for_one_constant_share_one_reorder() -> None:
    program = _selected(_net())
    assert PostOptimizeWeights().run(program, Context()) == 2
    a, b = program["a"], program["b"]
    assert a.inputs[1] is b.inputs[1]
    assert str(a.inputs[1].layout.format) == "bs_fs_yx_fsv16_bsv16"
    assert a.inputs[1].producer.origin == ("a",)
    assert a.choice.query.inputs[1] == a.inputs[1].layout


def test_constants_become_what_their_reorders_make_and_the_raw_ones_go() -> None:
    net = _net()
    program = run_until(
        net.program("sum"), "propagate_constants", disabled=["merge_equal_nodes", "prepare_primitive_fusing"]
    )
    (packed,) = program.constants
    assert packed.constant.ndim == 1
    np.testing.assert_array_equal(unpack(packed.constant, packed.layout), net.constants["a_w"])
    assert packed.layout.extents == (32, 16, 1, 1)
    assert "dry run" in program.notes["propagate_constants"]


def test_on_a_device_the_constant_part_is_a_planned_program_of_its_own() -> None:
    seen: list[Program] = []

    def execute(part: Program, feeds):
        assert feeds == {}
        seen.append(part)
        node = next(n for n in part if n.primitive.kind == "reorder")
        results = {}
        for name, value in part.outputs:
            assert value.layout.is_dense_plain
            array = node.inputs[0].constant
            assert value.buffer is node.output.buffer
            results[name] = pack(array, node.output.layout)
        return results

    context = Context(execute=execute, build=lambda part: 0)
    program = _selected(_net())
    PostOptimizeWeights().run(program, context)
    assert PropagateConstants().run(program, context) == 1
    (part,) = seen
    assert part.milestone.name == "PLANNED"
    assert part.arenas["null"].nbytes >= part.outputs[0][1].layout.nbytes
    assert "propagate_constants" not in program.notes
    assert all(n.primitive.kind != "reorder" or n.inputs[0].constant is None for n in program)


def test_the_parts_values_share_memory_as_those_of_the_program_do() -> None:
    """As a target's own pass may let them: the copy of a node that runs nothing reads the copy of one buffer."""
    net = Net()
    net.add("a", RELU, net.data("c", 64, 72))
    net.add("b", Reshape((4608,)), "a")
    net.add("y", RELU, net.add("s", ADD, net.input("x", (4608,)), "b"))
    program = _selected(net, disabled=["fold_constants", "compute_constants", "prepare_primitive_fusing"])
    a, b = program["a"].output, program["b"].output
    a.buffer = b.buffer = shared = Buffer("shared", 20000)
    a.offset = b.offset = 64
    program["b"].choice = in_place(program["b"], Context())
    parts: list[Program] = []

    def execute(part: Program, feeds):
        parts.append(part)
        return {name: np.zeros(v.layout.shape, np.float32) for name, v in part.outputs}

    PropagateConstants().run(program, Context(execute=execute, build=lambda part: 0))
    (part,) = parts
    (_, result), source = part.outputs[0], part["a"].output
    assert result.buffer is source.buffer is not shared
    assert (result.offset, source.offset, source.buffer.nbytes) == (64, 64, 20000)


def test_a_part_that_nothing_writes_is_no_constant() -> None:
    net = Net()
    net.add("b", Reshape((4608,)), net.add("a", RELU, net.data("c", 64, 72)))
    net.add("s", ADD, net.input("x", (4608,)), "b")
    program = _selected(net, disabled=["fold_constants", "compute_constants", "prepare_primitive_fusing"])
    program["b"].choice = in_place(program["b"], Context())
    with pytest.raises(ProgramError, match="b runs nothing, but its values do not lie in one buffer"):
        PropagateConstants().run(program, Context(execute=lambda part, feeds: {}, build=lambda part: 0))


def test_large_constant_parts_go_in_batches_and_each_gives_back_what_it_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []
    packing: list[weakref.ref[Node]] = []
    monkeypatch.setattr(propagate_constants, "release", lambda array: seen.append("raw"))

    def execute(part: Program, feeds):
        seen.append(sum(node() is not None for node in packing))
        return {name: np.zeros(v.layout.shape, np.float32) for name, v in part.outputs}

    net = Net()
    h = net.input("x", (1, 16, 12, 12))
    for i in range(6):
        h = net.conv(f"c{i}", h, 16, 16)
    net.add("sum", RELU, h)
    program = _selected(net)
    PostOptimizeWeights().run(program, Context())
    packing += map(weakref.ref, constant_part(program))
    PropagateConstants(batch_bytes=2000).run(program, Context(execute=execute))
    assert seen == [6, "raw", "raw", 4, "raw", "raw", 2, "raw", "raw"]


def test_equal_constants_become_one() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    data = np.arange(4, dtype=np.float32).reshape(1, 4)
    for name, array in {"p": data, "q": data.copy(), "r": data + 1}.items():
        net.constant(name, array)
    net.add("y", ADD, net.add("b", ADD, net.add("a", ADD, x, "p"), "q"), "r")
    program = net.program("y")
    assert share_equal_constants(program) == 1
    assert [v.name for v in program.constants] == ["p", "r"]


def test_constants_that_differ_in_the_sign_of_a_zero_are_not_equal_and_nan_is_itself() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    zeros = np.array([[0, 1, np.nan, 2]], np.float32)
    for name, array in {"p": zeros, "q": zeros.copy(), "r": zeros * np.float32([[-1, 1, 1, 1]])}.items():
        net.constant(name, array)
    net.add("y", ADD, net.add("b", ADD, net.add("a", ADD, x, "p"), "q"), "r")
    program = net.program("y")
    assert share_equal_constants(program) == 1
    assert [v.name for v in program.constants] == ["p", "r"]


def test_a_constant_output_stays_an_output() -> None:
    net = Net()
    net.input("x", (1, 4))
    net.add("y", RELU, net.data("big", 300, 300))
    program = run_until(net.program("y"), "propagate_constants", disabled=["fold_constants"])
    assert len(program) == 0
    np.testing.assert_array_equal(program.outputs[0][1].constant, np.maximum(net.constants["big"], 0))
