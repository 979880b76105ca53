from __future__ import annotations

import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.transpose_optimization import TransposeOptimization
from clgraph.passes.patterns.transpose_search import TransposeSearch
from tests.support.channels_last import TO_NCHW, ChannelsLast, random_net
from tests.support.programs import ADD, RELU, Net, primitives, run

THERE, BACK = Transpose((0, 2, 3, 1)), Transpose((0, 3, 1, 2))


def test_an_inverse_pair_cancels_through_activations_and_scalars() -> None:
    net = Net()
    h = net.add("h", RELU, net.input("x", (2, 3, 4, 5)))
    sunk = net.add(
        "scaled", Eltwise("mul"), net.add("e", Activation("exp"), net.add("t", THERE, h)), net.number("c", 3)
    )
    net.add("y", RELU, net.add("back", BACK, sunk))
    program = run(net.program("y"), TransposeOptimization())
    assert [str(p) for p in primitives(program)] == [
        "activation(function=relu)",
        "activation(function=exp)",
        "eltwise(function=mul)",
        "activation(function=relu)",
    ]


def test_two_in_a_row_become_one() -> None:
    net = Net()
    net.add("y", THERE, net.add("t", THERE, net.input("x", (2, 3, 4, 5))))
    assert primitives(run(net.program("y"), TransposeOptimization())) == [BACK]


def test_the_first_of_two_stays_for_another_reader() -> None:
    net = Net()
    t = net.add("t", THERE, net.input("x", (2, 3, 4, 5)))
    net.add("y", THERE, t)
    net.add("z", RELU, t)
    assert primitives(run(net.program("y", "z"), TransposeOptimization())).count(THERE) == 1


def test_one_that_moves_only_axes_of_size_1_is_a_reshape() -> None:
    net = Net()
    net.add("y", BACK, net.input("x", (2, 1, 4, 5)))
    program = run(net.program("y"), TransposeOptimization())
    assert primitives(program) == [BACK]
    net = Net()
    net.add("y", THERE, net.input("x", (2, 1, 4, 5)))
    assert primitives(run(net.program("y"), TransposeOptimization())) == [Reshape((2, 4, 5, 1))]


def test_a_lone_transpose_does_not_sink() -> None:
    net = Net()
    net.add("y", RELU, net.add("t", THERE, net.input("x", (2, 3, 4, 5))))
    assert primitives(run(net.program("y"), TransposeOptimization())) == [THERE, RELU]


def test_a_matrix_product_reads_its_operands_transposed() -> None:
    net = Net()
    a, b = net.input("a", (2, 7, 5)), net.input("b", (2, 6, 7))
    swap = Transpose((0, 2, 1))
    net.add("y", MatMul(), net.add("ta", swap, a), net.add("tb", swap, b))
    assert primitives(run(net.program("y"), TransposeOptimization())) == [MatMul(True, True)]


def test_transposes_of_different_annotations_are_not_merged() -> None:
    net = Net()
    t = net.add("t", THERE, net.input("x", (2, 3, 4, 5)), annotation="a")
    net.add("y", BACK, t, annotation="b")
    assert len(run(net.program("y"), TransposeOptimization())) == 2


def test_two_that_do_not_commute_are_applied_in_their_order() -> None:
    net = Net()
    net.add("y", Transpose((0, 2, 1)), net.add("t", Transpose((1, 0, 2)), net.input("x", (2, 3, 4))))
    assert primitives(run(net.program("y"), TransposeOptimization())) == [Transpose((1, 2, 0))]


def left(program) -> tuple[int, int]:
    """Return how many transposes there are, and how many bytes they write."""
    found = [n for n in program if isinstance(n.primitive, Transpose)]
    return len(found), sum(n.output.layout.nbytes for n in found)


def _optimized(net: ChannelsLast, *outputs: str):
    before = left(net.program(*outputs))
    program = run(net.build(), TransposeOptimization())
    return before, left(program), program


def test_one_transpose_is_left_in_front_of_a_classifier_and_none_behind() -> None:
    net = ChannelsLast(1, 8, 8, 3)
    x = net.block("x", 8)
    for _ in range(3):
        x = net.added(x, net.block(net.block(x, 4), 8))
    before, after, program = _optimized(net, net.classes(net.pool(x), 10))
    assert before[0] == 16
    assert after == (1, 8 * 8 * 3 * 4)
    assert next(iter(program)).primitive == Transpose(TO_NCHW)


def test_one_at_each_end_is_left_of_a_net_from_picture_to_picture() -> None:
    net = ChannelsLast(1, 8, 8, 3)
    skip = net.block("x", 8)
    x = net.larger(net.gate(net.block(net.pool(skip), 8)))
    before, after, _ = _optimized(net, net.softmax(net.block(net.joined(x, skip), 2)))
    assert before[0] == 8
    assert after == (2, 8 * 8 * (3 + 2) * 4)


@pytest.mark.parametrize("what", ["padded", "larger", "gate", "softmax", "scaled", "cut", "joined"])
def test_what_stands_between_two_blocks_is_computed_channels_first(what) -> None:
    net = ChannelsLast(1, 6, 8, 3)
    x = net.block("x", 6)
    arguments = {"cut": (x, 2), "joined": (x, x)}.get(what, (x,))
    made = getattr(net, what)(*arguments)
    made = made[1] if what == "cut" else made
    net.classes(net.block(made, 4), 4)
    before, after, _ = _optimized(net, net.layers[-1].name)
    assert (before[0], after[0]) == (4, 1)


def test_a_constant_of_any_rank_is_turned_once_and_for_all() -> None:
    net = ChannelsLast(1, 6, 8, 3)
    _, after, program = _optimized(net, net.classes(net.block(net.scaled(net.block("x", 6)), 4), 4))
    assert after[0] == 1
    scales = [v for n in program if n.name.startswith("mul") for v in n.inputs if v.constant is not None]
    assert {v.layout.shape for v in scales} == {(1, 6, 1, 1), (1, 1, 6, 1)}


def test_an_operand_of_more_axes_keeps_no_transpose_beside_it() -> None:
    net = Net()
    x, wide = net.input("x", (1, 8, 4, 5)), net.input("wide", (2, 1, 4, 5, 8))
    added = net.add("added", ADD, net.add("there", THERE, net.add("h", RELU, x)), wide)
    mean = net.add("mean", Reduce("mean", (0,), keepdims=False), added)
    net.add("y", RELU, net.add("back", BACK, mean))
    program = run(net.program("y"), TransposeOptimization())
    (turned,) = [n for n in program if isinstance(n.primitive, Transpose)]
    assert turned.inputs[0].name == "wide"
    net.add("z", RELU, "there")
    assert left(run(net.program("y", "z"), TransposeOptimization()))[0] == 2


def test_groups_of_quantized_operators_stay_whole_and_what_is_moved_is_moved_in_8_bits() -> None:
    net = ChannelsLast(1, 8, 8, 4)
    x = net.quantized("x")
    for _ in range(3):
        x = net.quantized(net.block(x, 4))
    before, after, program = _optimized(net, x)
    assert before[0] == 6
    # In front of the first group and behind the last one, between quantizing and dequantizing.
    assert after == (2, 2 * 8 * 8 * 4)
    for node in program:
        if isinstance(node.primitive, Transpose):
            assert node.inputs[0].layout.dtype == DType.I8
            assert isinstance(node.inputs[0].producer.primitive, Quantize)
            assert all(isinstance(r.primitive, Dequantize) for r in node.output.readers)


def test_a_shared_tensor_is_turned_once_for_all_that_want_it_so() -> None:
    net = ChannelsLast(1, 8, 8, 3)
    parts = [net.classes(net.block("x", 4), 4) for _ in range(3)]
    before, after, _ = _optimized(net, *parts)
    assert (before[0], after[0]) == (6, 1)


def test_orders_are_kept_where_annotations_differ() -> None:
    net = ChannelsLast(1, 8, 8, 3)
    middle = net.block("x", 4)
    early = len(net.layers)
    net.block(middle, 4)
    for i, layer in enumerate(net.layers):
        object.__setattr__(layer, "annotation", "early" if i < early else "late")
    before, after, _ = _optimized(net, net.layers[-1].outputs[0])
    assert (before[0], after[0]) == (4, 4)


@pytest.mark.parametrize("seeds", [range(i, i + 50) for i in range(0, 400, 50)], ids=str)
def test_random_nets_never_end_with_more_transposes_or_bytes_and_compute_the_same(seeds) -> None:
    fewer = 0
    for seed in seeds:
        net, outputs = random_net(seed)
        before, after, _ = _optimized(net, *outputs)
        assert after[0] <= before[0], seed
        assert after[1] <= before[1], seed
        fewer += after[0] < before[0]
    assert fewer > len(seeds) // 5


def test_fewer_transposes_are_not_taken_where_they_move_more_bytes() -> None:
    net = Net()
    row = net.add("row", THERE, net.add("h", RELU, net.input("x", (1, 3, 1, 8))))
    column = net.add("column", THERE, net.add("k", RELU, net.input("z", (1, 3, 8, 1))))
    net.add("y", RELU, net.add("table", ADD, row, column))
    program = net.program("y")
    assert left(program) == (2, 2 * 8 * 3 * 4)
    run(program, TransposeOptimization())
    assert left(program) == (2, 2 * 8 * 3 * 4)  # behind the sum there would be one, of 8 * 8 * 3 * 4 bytes
    assert program.notes[TransposeOptimization.name] == "2 transposes of 192 bytes: nothing better was found"


def test_only_what_transposes_can_reach_is_searched() -> None:
    net = Net()
    x = net.input("x", (2, 3, 4, 5))
    turned = net.add("r", RELU, net.add("t", THERE, x))
    far = x
    for i in range(20):
        far = net.add(f"far{i}", RELU, far)
    net.add("z", Reshape((24, 5)), far)
    net.add("y", RELU, net.add("back", BACK, turned))
    search = TransposeSearch(net.program("y", "z"))
    assert [node.name for node in search.options] == ["r", "far0", "y"]
