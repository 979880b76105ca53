"""Recurrent layers on one another become one node where that is faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.concat import Concat
from clgraph.ops.matmul import MatMul
from clgraph.ops.recurrent_stack import RecurrentStack
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_recurrent_layers import FuseRecurrentLayers
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, kinds, lines, names, run

LSTM = RecurrentSteps("lstm", 64)


@pytest.fixture(autouse=True)
def fakes():
    """What becomes one node depends on costs: these tests run on the real implementations."""
    return


def layer(net: Net, i: int, x: str, inputs: int, steps: RecurrentSteps = LSTM, bias: bool = True, **given: str) -> str:
    """Add a layer over *x* [tokens, batch, inputs]; return what the one above reads, the name of a reshape."""
    rows = GATES[steps.cell] * steps.hidden
    product = [net.data(f"w{i}", rows, inputs, low=-0.5), *([net.data(f"b{i}", rows)] if bias else [])]
    net.add(f"product{i}", MatMul(transpose_b=True), x, *product)
    read = [net.data(f"r{i}", 1, rows, steps.hidden, low=-0.5), *given.values()]
    outputs = (f"steps{i}", f"last{i}", *([f"cells{i}"] if steps.cell == "lstm" else []))
    net.add(f"steps{i}", replace(steps, present=tuple(given)), f"product{i}", *read, outputs=outputs)
    return net.add(f"x{i}", Reshape((0, -1, steps.hidden), zero_is_zero=False), f"steps{i}")


def two(tokens: int = 60, batch: int = 1, **above) -> Net:
    net = Net()
    x = layer(net, 0, net.input("x", (tokens, batch, 24)), 24)
    layer(net, 1, x, 64, **above)
    return net


def notes(program) -> str:
    return program.notes["fuse_recurrent_layers"]


def test_the_text_before_and_after() -> None:
    program = two().program("x1")
    assert kinds(program) == ["matmul", "recurrent_steps", "reshape"] * 2
    first, last = lines(run(program, FuseRecurrentLayers()))
    assert first.startswith("steps1 f32:bfyx:60x1x1x64, ")
    assert "= recurrent_stack(steps=recurrent_steps(cell=lstm, hidden=64), layers=2, biased=True)(x, w0, " in first
    assert last.startswith("x1 ")
    assert notes(program) == "steps0, steps1: one node"


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("bias", [False, True])
def test_any_number_of_layers_of_any_cell_become_one(cell, bias) -> None:
    net, steps = Net(), RecurrentSteps(cell, 160)
    x, inputs = net.input("x", (60, 1, 24)), 24
    for i in range(4):
        x, inputs = layer(net, i, x, inputs, steps, bias), 160
    (node, _) = run(net.program("x3"), FuseRecurrentLayers(), context=Context({"null": DeviceInfo(workers=4)}))
    assert node.primitive == RecurrentStack(steps, 4, bias)


def test_last_states_are_cut_out_of_those_of_all_layers() -> None:
    program = run(two().program("x1", "last0", "cells1"), FuseRecurrentLayers())
    assert kinds(program) == ["recurrent_stack", "split", "split", "reshape"]
    stack, of_last, of_cells, _ = program
    assert of_last.inputs == (stack.outputs[1],)
    assert [v for _, v in program.outputs][1:] == [of_last.outputs[0], of_cells.outputs[1]]


@pytest.mark.parametrize("order", [("last0", "last1"), ("last1", "last0")])
def test_last_states_that_are_joined_again_are_those_of_all_layers(order) -> None:
    net = two()
    net.concat("all", *order, axis=0)
    program = run(net.program("x1", "all"), FuseRecurrentLayers())
    if order == ("last0", "last1"):
        assert kinds(program) == ["recurrent_stack", "reshape"]
        assert program.outputs[1][1] is program["steps0"].outputs[1]
    else:
        assert kinds(program) == ["recurrent_stack", "split", "reshape", "concat"]


def cuts(net: Net, value: str, where: str) -> list[str]:
    if where == "split":
        net.add(f"{value}_cut", Split(0, (1, 1)), value, outputs=(f"{value}0", f"{value}1"))
    else:
        for i in range(2):
            net.add(f"{value}{i}", Slice((i, 0, 0), (i + 1, 1, 64), (1, 1, 1)), value)
    return [f"{value}0", f"{value}1"]


@pytest.mark.parametrize("where", ["split", "slice", "elsewhere"])
def test_first_states_that_are_parts_of_one_tensor_are_read_whole(where) -> None:
    net = Net()
    x, hidden, cells = (net.input(n, s) for n, s in (("x", (60, 1, 24)), ("h", (2, 1, 64)), ("c", (2, 1, 64))))
    given = [cuts(net, v, "slice" if where == "elsewhere" else where) for v in (hidden, cells)]
    if where == "elsewhere":
        given[0].reverse()
    for i in range(2):
        x = layer(net, i, x, 64 if i else 24, hidden=given[0][i], cell=given[1][i])
    program = run(net.program("x1"), FuseRecurrentLayers())
    stack = program["steps0"]
    assert isinstance(stack.primitive, RecurrentStack)
    if where == "elsewhere":
        assert kinds(program) == ["slice", "slice", "concat", "recurrent_stack", "reshape"]
        assert isinstance(stack.inputs[-2].producer.primitive, Concat)
    else:
        assert kinds(program) == ["recurrent_stack", "reshape"]
    assert stack.inputs[-1].name == "c"


def test_lengths_are_one_for_all_layers() -> None:
    for others, count in (("n", 1), ("m", 0)):
        net = Net()
        x = net.input("x", (60, 1, 24))
        for name in ("n", "m"):
            net.input(name, (1,), DType.I32)
        for i, lengths in enumerate(("n", others)):
            x = layer(net, i, x, 64 if i else 24, lengths=lengths)
        program = net.program("x1")
        assert FuseRecurrentLayers().run(_placed(program), Context()) == 2 * count


def _placed(program):
    for node in program:
        node.placement = "null"
    return program


@pytest.mark.parametrize("read", ["product0", "product1", "steps0", "x0"])
def test_what_is_read_elsewhere_keeps_layers_apart(read) -> None:
    program = run(two().program("x1", read), FuseRecurrentLayers())
    assert names(program) == ["product0", "steps0", "x0", "product1", "steps1", "x1"]


@pytest.mark.parametrize(
    "above",
    [
        {"steps": replace(LSTM, direction="reverse")},
        {"steps": replace(LSTM, clip=1.0)},
        {"steps": replace(LSTM, rounded=True)},
        {"steps": RecurrentSteps("gru", 64)},
        {"bias": False},
    ],
)
def test_layers_that_differ_stay_apart(above) -> None:
    assert "recurrent_stack" not in kinds(run(two(**above).program("x1"), FuseRecurrentLayers()))


def test_what_would_take_longer_stays_apart_with_the_estimates_as_the_reason() -> None:
    for program, workers in ((two().program("x1"), 1), (two(60, 32).program("x1"), 2)):
        run(program, FuseRecurrentLayers(), context=Context({"null": DeviceInfo(workers=workers)}))
        assert "recurrent_stack" not in kinds(program)
        assert notes(program).startswith("steps0, steps1: not one node: it would take ")


def test_a_batch_whose_launches_apart_cost_the_difference_is_one_node() -> None:
    program = two(60, 8).program("x1")
    run(program, FuseRecurrentLayers(), context=Context({"null": DeviceInfo(workers=2)}))
    assert "recurrent_stack" in kinds(program)


def test_a_forced_kernel_and_other_devices_keep_layers_apart() -> None:
    program = run(two().program("x1"), FuseRecurrentLayers(), context=Context(forced={"product1": "matmul.rows"}))
    assert notes(program) == "steps0, steps1: not one node: a kernel is forced on product1"
    gpu = Context({"null": DeviceInfo(kind="gpu")})
    assert notes(run(two().program("x1"), FuseRecurrentLayers(), context=gpu)).endswith(
        "nothing on null serves them as one"
    )


def test_weights_are_joined_once_for_all_programs_of_a_model() -> None:
    context, made = Context(), []
    data = {n: np.zeros(s, np.float32) for n, s in (("w0", (256, 24)), ("w1", (256, 64)), ("r0", (1, 256, 64)))}
    data["r1"] = np.ones((1, 256, 64), np.float32)
    context.packed.register(data.values())
    for _ in range(2):
        net = two()
        net.constants.update(data)
        made.append(run(net.program("x1"), FuseRecurrentLayers(), context=context)["steps0"].inputs[3].constant)
    assert made[0] is made[1]
    np.testing.assert_array_equal(made[0], np.concatenate([data["r0"], data["r1"]]))
