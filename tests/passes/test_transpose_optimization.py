from __future__ import annotations

from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.transpose_optimization import TransposeOptimization
from tests.support.programs import RELU, Net, primitives, run

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
