from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.concat import Concat
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_siblings import FuseSiblings
from clgraph.passes.memory.prepare_buffer_fusing import PrepareBufferFusing
from clgraph.selector.query import DeviceInfo
from tests.support.fakes import fake_registry
from tests.support.memory import element_bytes, simulate, violations
from tests.support.programs import RELU, Net, compile_all, run
from tests.support.random_nets import joined


def _net(*channels: int, size: int = 8) -> tuple[Net, list[str]]:
    """Return a net with one activation a channel count, on an input each."""
    net = Net()
    return net, [net.add(f"p{i}", RELU, net.input(f"x{i}", (1, c, size, size))) for i, c in enumerate(channels)]


def _in_place(program: Program) -> set[str]:
    return {n.name for n in program if n.in_place}


def check_sharing(program: Program) -> None:
    """Check that every node that runs nothing has its results where its inputs are, by the addresses of elements."""
    for node in program:
        if not node.in_place:
            continue
        sources = [element_bytes(v) for v in node.inputs]
        results = [element_bytes(v) for v in node.outputs]
        for expected, found in zip(node.primitive.reference(*sources), results, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_aligned_parts_of_a_concat_lie_in_its_result() -> None:
    net, parts = _net(16, 4, 32)
    net.add("y", RELU, net.concat("c", *parts))
    program = run(net.program("y"), PrepareBufferFusing())
    assert _in_place(program) == {"c"}
    c = program["c"]
    assert [v.offset for v in c.inputs] == [0, 16 * 256, 20 * 256]
    assert len({id(v.buffer) for v in (*c.inputs, c.output)}) == 1
    assert [str(v.layout) for v in c.inputs][1] == "f32:bfyx:1x4x8x8/3328,64,8,1"


def test_concats_inside_concats_share_the_outermost_buffer() -> None:
    net, parts = _net(16, 16, 16)
    inner = net.concat("inner", parts[0], parts[1])
    net.add("y", RELU, net.concat("outer", inner, parts[2]))
    net.add("z", RELU, inner)
    program = compile_all(net.program("y", "z"), disabled=frozenset({"prepare_primitive_fusing"}))
    assert {"inner", "outer"} <= _in_place(program)
    check_sharing(program)
    assert len({id(v.buffer) for n in ("inner", "outer") for v in program[n].inputs}) == 1


@pytest.mark.parametrize("why", ["input", "output", "constant", "made", "twice", "shared", "alignment"])
def test_a_concat_stays_a_copy_when_a_part_cannot_move(why: str) -> None:
    net, parts = _net(3 if why == "alignment" else 16, 16, size={"alignment": 5, "made": 20}.get(why, 8))
    more = []
    if why == "input":
        parts[1] = net.input("raw", (1, 16, 8, 8))
    elif why == "output":
        more = [parts[1]]
    elif why == "constant":
        parts[1] = net.data("data", 1, 16, 8, 8)
    elif why == "made":
        parts[1] = net.add("made", RELU, net.data("data", 1, 16, 20, 20))
    elif why == "twice":
        parts[1] = parts[0]
    elif why == "shared":
        more = [net.add("w", RELU, net.concat("d", parts[1], net.add("q", RELU, "x0")))]
    net.add("y", RELU, net.concat("c", *parts))
    program = run(net.program("y", *more), PrepareBufferFusing())
    assert len(_in_place(program) & {"c", "d"}) == (1 if why == "shared" else 0)


def test_nothing_that_is_made_of_constants_shares_memory() -> None:
    """It becomes a constant, whose memory no run writes: what is around it copies it, once or in every run."""
    net, (x,) = _net(32, size=16)
    net.add("c", RELU, net.data("data", 1, 32, 16, 16))
    net.add("r", Reshape((32, 256)), "c")
    net.add("s", Split(1, (16, 16)), "c", outputs=("left", "right"))
    net.add("t", Transpose((1, 0, 2, 3)), net.add("again", RELU, "left"))
    inner = net.concat("inner", "right", net.add("more", RELU, "right"))
    net.add("y", RELU, net.concat("outer", x, inner))
    for name in ("r", "t"):
        net.add(f"{name}_y", RELU, name)
    gpu = Context(devices={"null": DeviceInfo(kind="gpu")})
    for context in (Context(), gpu):
        program = run(
            net.program("y", "r_y", "t_y") if context is gpu else net.build(), PrepareBufferFusing(), context=context
        )
        assert _in_place(program) == set()


def test_a_part_with_an_unfilled_block_in_the_middle_stays_a_copy_in_blocks() -> None:
    for channels, expected in (((16, 8), {"c"}), ((8, 16), set())):
        net = Net()
        x = net.input("x", (1, 16, 12, 12))
        joined = net.concat("c", *(net.conv(f"p{i}", x, 16, n) for i, n in enumerate(channels)))
        net.conv("y", joined, 24, 16)
        program = compile_all(net.program("y"))
        blocked = {n.name for n in program if n.name == "c" and n.output.layout.format.blocks}
        assert blocked & _in_place(program) == expected
        check_sharing(program)


def test_the_parts_of_a_split_are_views_and_an_output_is_a_copy() -> None:
    for outputs in (("a", "b"), ("a", "parts1")):
        net, (h,) = _net(32)
        net.add("s", Split(1, (16, 16)), h, outputs=("parts0", "parts1"))
        net.add("a", RELU, "parts0")
        net.add("b", RELU, "parts1")
        program = run(net.program(*outputs), PrepareBufferFusing())
        assert ("s" in _in_place(program)) == (outputs == ("a", "b"))


def test_a_slice_of_one_axis_is_a_view_and_of_two_or_with_steps_is_a_copy() -> None:
    whole = ((0, 0, 0, 0), (1, 32, 8, 8))
    cases = {
        "view": Slice((0, 16, 0, 0), whole[1], (1, 1, 1, 1)),
        "two": Slice((0, 16, 4, 0), whole[1], (1, 1, 1, 1)),
        "steps": Slice(*whole, (1, 2, 1, 1)),
        "unaligned": Slice((0, 0, 0, 3), whole[1], (1, 1, 1, 1)),
    }
    for case, primitive in cases.items():
        net, (h,) = _net(32)
        net.add("y", RELU, net.add("s", primitive, h))
        assert ("s" in _in_place(run(net.program("y"), PrepareBufferFusing()))) == (case == "view")


@pytest.mark.parametrize("kind", ["joins", "cuts"])
@pytest.mark.parametrize("fused", [False, True])
def test_what_applies_an_operation_as_well_is_a_copy(kind: str, fused: bool) -> None:
    net, parts = _net(16, 16)
    made = net.concat("s", *parts) if kind == "joins" else net.add("s", Slice((0,), (8,), axes=(1,)), parts[0])
    net.add("y", RELU, net.add("more", Activation("sigmoid"), made))
    program = net.program("y")
    if fused:
        program.fuse(program["more"], program["s"])
    assert ("s" in _in_place(run(program, PrepareBufferFusing()))) == (not fused)


@pytest.mark.parametrize(("start", "end", "view"), [(0, 16, True), (16, 32, True), (16, 40, True), (0, 20, False)])
def test_a_slice_of_blocks_is_a_view_unless_the_lanes_behind_it_belong_to_others(
    start: int, end: int, view: bool
) -> None:
    net = Net()
    h = net.conv("h", net.input("x", (1, 16, 12, 12)), 16, 40)
    part = net.add("s", Slice((0, start, 0, 0), (1, end, 12, 12), (1, 1, 1, 1)), h)
    net.conv("y", part, end - start, 16)
    program = compile_all(net.program("y"))
    blocked = bool(program["s"].output.layout.format.blocks)
    assert (blocked and "s" in _in_place(program)) == view
    simulate(program, list(program))


def test_a_reshape_of_a_dense_tensor_is_a_view_also_of_an_input_and_to_an_output() -> None:
    net = Net()
    net.add("a", Reshape((4, 8)), net.input("x", (2, 4, 4)))
    net.add("b", Reshape((32,)), net.add("h", RELU, "x"))
    program = compile_all(net.program("a", "b"))
    assert _in_place(program) == {"a", "b"}
    check_sharing(program)


def test_blocks_with_lanes_behind_the_last_channel_are_viewed_only_where_the_lanes_are_there() -> None:
    for before, after, format, view in (
        ((1, 8, 2, 2), (1, 8, 4, 1), feature_blocked(4), True),
        ((1, 8, 1, 1), (1, 8, 1, 1), Format.plain(4), False),
    ):
        net = Net()
        h = net.add("h", Reorder(DType.F32, format), net.input("x", before))
        net.add("seen", Reshape(after) if view else Reorder(DType.F32, feature_blocked(4)), h)
        net.add("y", Reorder(DType.F32, Format.plain(4)), "seen")
        program = net.program("y")
        program["seen"].output.layout = program["seen"].output.layout.with_format(feature_blocked(4))
        run(program, PrepareBufferFusing())
        assert ("seen" in _in_place(program)) == view
        program = compile_all(program)
        simulate(program, list(program))


def test_a_reshape_of_a_part_with_gaps_is_a_copy() -> None:
    net, (h,) = _net(32)
    net.add("s", Slice((0, 0, 4, 0), (1, 32, 8, 8), (1, 1, 1, 1)), h)
    net.add("y", RELU, net.add("flat", Reshape((32, 32)), net.add("k", RELU, "s")))
    net.add("z", RELU, net.add("flat_view", Reshape((32, 32)), "s"))
    program = run(net.program("y", "z"), PrepareBufferFusing())
    assert "s" in _in_place(program) or "flat_view" in _in_place(program)
    check_sharing(program)


@given(joined())
@settings(max_examples=60, deadline=None)
def test_whatever_is_joined_and_cut_lies_where_it_should(case) -> None:
    with fake_registry():
        net, outputs = case
        program = compile_all(net.program(*outputs))
        check_sharing(program)
        simulate(program, list(program))
        assert violations(program, out_of_order=False) == []
        assert all(v.layout.is_dense_plain for _, v in program.outputs)


def test_nothing_shares_a_buffer_across_devices() -> None:
    one, two = DeviceInfo("one"), DeviceInfo("two")
    for other in ("one", "two"):
        net = Net()
        h = net.add("h", RELU, net.input("x", (1, 32, 8, 8)), annotation="one")
        g = net.add("g", Activation("sigmoid"), "x", annotation=other)
        joined = net.add("joined", Concat(1), h, g, annotation="one")
        net.add("y", RELU, net.add("flat", Reshape((1, 64, 64)), joined, annotation=other), annotation=other)
        program = compile_all(
            net.program("y"),
            Context(devices={"one": one, "two": two}),
            disabled=frozenset({"prepare_primitive_fusing"}),
        )
        assert _in_place(program) == {"joined", "flat"}
        assert set(program.arenas) == {"one", other}
        for node in program:
            assert {v.buffer.placement for v in node.outputs} == {node.placement}


GPU = Context({"null": DeviceInfo(kind="gpu", simd=1)})


def _heads(net: Net, x: str, name: str) -> str:
    """Return what a product with *x* makes as [batch, heads, rows, depth], as exporters write it."""
    made = net.add(f"{name}_product", MatMul(), x, net.data(f"{name}_weights", 48, 32))
    return net.add(f"{name}_turned", Transpose((0, 2, 1, 3)), net.add(f"{name}_heads", Reshape((2, 5, 4, 8)), made))


@pytest.mark.parametrize("context", [GPU, Context()], ids=["gpu", "cpu"])
def test_transposes_around_attention_run_nothing(context: Context) -> None:
    net = Net()
    x = net.input("x", (2, 5, 48))
    q, k, v = (_heads(net, x, name) for name in "qkv")
    mixed = net.add("mixed", Attention(0.5, by_key=True), q, k, v)
    flat = net.add("flat", Reshape((2, 5, 32)), net.add("turned", Transpose((0, 2, 1, 3)), mixed))
    net.add("y", MatMul(), flat, net.data("w", 32, 8))
    made = net.program("y") if context is GPU else net.build()
    program = run(made, FuseSiblings(), PrepareBufferFusing(), context=context)
    turned = {f"{name}_{what}" for name in "qkv" for what in ("turned", "heads")}
    assert _in_place(program) >= turned | {"turned", "flat"}
    check_sharing(program)
    assert str(program["turned"].inputs[0].layout) == "f32:bfyx:2x4x5x8/160,8,32,1"


def test_on_a_cpu_other_transposes_are_made() -> None:
    net = Net()
    x = net.input("x", (2, 5, 48))
    mixed = net.add("mixed", Attention(0.5, by_key=True), *(_heads(net, x, name) for name in "qkv"))
    read_twice = net.add("turned", Transpose((0, 2, 1, 3)), mixed)
    net.add("y", RELU, read_twice)
    net.add("z", Attention(1.0, by_key=True), mixed, mixed, mixed)
    net.add("w", RELU, _heads(net, x, "other"))
    assert not _in_place(run(net.build(), PrepareBufferFusing())) & {"turned", "other_turned"}


def test_a_reshape_of_a_part_lies_in_it_where_pitches_describe_it() -> None:
    net = Net()
    made = net.add("made", MatMul(), net.input("x", (6, 48)), net.data("w", 48, 64))
    net.add("cut", Split(1, (32, 32)), made, outputs=["first", "second"])
    first, second = "first", "second"
    net.add("y", MatMul(), net.add("split_rows", Reshape((2, 3, 32)), first), net.data("a", 32, 8))
    net.add("z", MatMul(), net.add("across", Reshape((3, 64)), second), net.data("b", 64, 8))
    program = run(net.program("y", "z"), PrepareBufferFusing(), context=GPU)
    assert _in_place(program) == {"cut", "split_rows"}
    check_sharing(program)
    assert str(program["split_rows"].output.layout) == "f32:bfx:2x3x32/192,64,1"


def test_a_transpose_that_is_an_output_is_made() -> None:
    net = Net()
    x = net.input("x", (6, 48))
    net.add("turned", Transpose((1, 0)), net.add("made", RELU, x))
    net.add("other", Transpose((1, 0)), x)
    program = run(net.program("turned", "other", "made"), PrepareBufferFusing(), context=GPU)
    assert not _in_place(program)


def test_the_transpose_of_a_graph_input_is_read_where_it_lies() -> None:
    net = Net()
    turned = net.add("turned", Transpose((1, 0)), net.input("x", (6, 48)))
    net.add("y", MatMul(), turned, net.data("w", 6, 8))
    program = run(net.program("y"), PrepareBufferFusing(), context=GPU)
    assert _in_place(program) == {"turned"}
    check_sharing(program)
