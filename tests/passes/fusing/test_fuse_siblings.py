from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.graph.program import Program
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.split import Split
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_siblings import FuseSiblings
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.placement.partition import Partition
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import DeviceInfo, Query
from tests.support.fakes import Slow
from tests.support.programs import ADD, RELU, Net, lines, primitives, run

pytestmark = pytest.mark.usefixtures("launched")


@pytest.fixture
def launched(fakes: None) -> None:
    """Let a launch be what convolutions and matrix products cost on devices called null."""

    class Launched(Slow):
        @classmethod
        def limits(cls, q: Query[Any]) -> str | None:
            return None if q.device.name == "null" else "requires null"

        @classmethod
        def cost(cls, q: Query[Any]) -> float:
            return 1e-9

    for kind in (Convolution, MatMul):
        serves = Serves(dtypes=frozenset({DType.F32}), fuses=FUSABLE)
        implements(kind, name=f"{kind.kind}.launched", serves=serves)(type("Launched", (Launched,), {}))


def joined(program: Program, context: Context | None = None) -> Program:
    return run(program, PreparePrimitiveFusing(), FuseSiblings(), context=context)


def convolutions(*outs: int, activation: bool = True, kernel: int = 1) -> Net:
    net = Net()
    x = net.input("x", (2, 8, 5, 7))
    for i, out in enumerate(outs):
        y = net.conv(f"c{i}", x, 8, out, kernel=kernel)
        y = net.add(f"r{i}", RELU, y) if activation else y
        net.conv(f"y{i}", y, out, 4)
    return net


def note(program: Program) -> str:
    return program.notes["fuse_siblings"]


def test_siblings_become_one_node_and_a_split() -> None:
    net = convolutions(16, 32, 16)
    program = joined(net.program("y0", "y1", "y2"))
    made, parted, *_ = text = lines(program)
    assert len(lines(run(net.build(), PreparePrimitiveFusing()))) == 6
    assert len(text) == 5
    how = "strides=1x1, dilations=1x1, pads=((0, 0), (0, 0))"
    fused = "activation(function=relu) @null"
    assert made == f"c0/siblings f32:bfyx:2x64x5x7 = convolution({how})(x, c0/siblings/weights) + {fused}"
    parts = "r0 f32:bfyx:2x16x5x7, r1 f32:bfyx:2x32x5x7, r2 f32:bfyx:2x16x5x7"
    assert parted == f"{parts} = split(axis=1, sizes=16x32x16)(c0/siblings) @null"
    assert next(n.primitive for n in program if isinstance(n.primitive, Split)) == Split(1, (16, 32, 16))
    assert note(program) == "c0, c1, c2: joined"
    joint, split, *_ = program
    assert set(joint.origin) == set(split.origin) == {"c0", "c1", "c2", "r0", "r1", "r2"}


def test_the_odd_one_comes_last() -> None:
    program = joined(convolutions(16, 5, 32, 3).program("y0", "y1", "y2", "y3"))
    assert [p.sizes for p in primitives(program) if isinstance(p, Split)] == [(16, 32, 3)]
    assert "c1: not joined with its siblings: 5 channels are no multiple of 64 bytes" in note(program)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("biases", [(), (0,), (1,), (0, 1, 2)])
def test_queries_keys_and_values_are_one_product(transposed: bool, biases: tuple[int, ...]) -> None:
    net = Net()
    x = net.input("x", (2, 5, 12))
    for i, columns in enumerate((16, 32, 16)):
        w = net.data(f"w{i}", *((columns, 12) if transposed else (12, columns)))
        bias = [net.data(f"b{i}", columns)] if i in biases else []
        made = net.add(f"m{i}", MatMul(transpose_b=transposed), x, w, *bias)
        net.add(f"y{i}", ADD, made, made)
    program = joined(net.program("y0", "y1", "y2"))
    assert primitives(program)[:2] == [MatMul(transpose_b=transposed), Split(2, (16, 32, 16))]
    assert next(iter(program)).arity == (3 if biases else 2)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_number_as_bias_is_every_columns(shape: tuple[int, ...]) -> None:
    net = Net()
    x = net.input("x", (4, 12))
    for i in range(2):
        made = net.add(f"m{i}", MatMul(), x, net.data(f"w{i}", 12, 16), net.data(f"b{i}", *shape))
        net.add(f"y{i}", ADD, made, made)
    program = joined(net.program("y0", "y1"))
    bias = next(iter(program)).inputs[2].constant
    assert bias is not None
    assert bias.shape == (32,)
    assert len(np.unique(bias)) == 2


def test_an_output_of_the_graph_stays_apart() -> None:
    program = joined(convolutions(16, 16).program("r0", "y1"))
    assert "c0: not joined with its siblings: r0 is an output of the graph" in note(program)
    assert not any(isinstance(p, Split) for p in primitives(program))


def test_a_part_of_a_concat_stays_apart() -> None:
    net = Net()
    x = net.input("x", (1, 8, 4, 4))
    a, b = net.conv("a", x, 8, 16), net.conv("b", x, 8, 16)
    net.conv("y", net.concat("c", a, net.conv("d", b, 16, 16)), 32, 4)
    program = joined(net.program("y"))
    assert "a: not joined with its siblings: its result can lie in that of c" in note(program)


def test_what_is_read_with_a_border_stays_apart() -> None:
    net = Net()
    x = net.input("x", (1, 8, 4, 4))
    y, z = (net.conv(f"y{i}", net.conv(f"c{i}", x, 8, 16), 16, 4, kernel=3) for i in range(2))
    program = joined(net.program(y, z))
    assert "c0: not joined with its siblings: y0 reads a border around it" in note(program)


def test_a_residual_stays_where_it_was_fused() -> None:
    net = Net()
    x = net.input("x", (1, 16, 4, 4))
    for i in range(2):
        net.conv(f"y{i}", net.add(f"s{i}", ADD, net.conv(f"c{i}", x, 16, 16), x), 16, 4)
    program = joined(net.program("y0", "y1"))
    assert note(program).count("something with operands or in front of it is fused") == 2


def test_other_activations_kernels_and_groups_are_no_siblings() -> None:
    net = Net()
    x = net.input("x", (1, 16, 8, 8))
    made = [net.conv("plain", x, 16, 16), net.add("relu", RELU, net.conv("c", x, 16, 16))]
    made += [net.conv("wide", x, 16, 16, kernel=3), net.conv("far", x, 16, 16, stride=2)]
    for i, y in enumerate(made):
        net.conv(f"y{i}", y, 16, 4)
    program = joined(net.program(*(f"y{i}" for i in range(4))))
    assert "fuse_siblings" not in program.notes
    assert len(primitives(program)) == 8


def test_annotations_and_placements_are_kept_apart() -> None:
    net = Net()
    x = net.input("x", (1, 8, 4, 4))
    for i, where in enumerate(("first", "first", "second")):
        net.conv(f"y{i}", net.conv(f"c{i}", x, 8, 16, annotation=where), 16, 4)
    devices = {"null": DeviceInfo(), "other": DeviceInfo(name="other")}
    program = joined(net.program("y0", "y1", "y2"), Context(devices))
    assert note(program).splitlines()[-1] == "c0, c1: joined"
    assert "c2: not joined with its siblings: the annotations first and second differ" in note(program)
    net = convolutions(16, 16)
    program = net.program("y0", "y1")
    program["c0"].placement, program["c1"].placement = "null", "other"
    context = Context(devices, free=("null", "other"))
    program = run(program, Partition(), FuseSiblings(), context=context)
    assert "c1: not joined with its siblings: the placements null and other differ" in note(program)


def test_a_forced_kernel_keeps_its_node() -> None:
    program = joined(convolutions(16, 16).program("y0", "y1"), Context(forced={"c1": "convolution.launched"}))
    assert "c1: not joined with its siblings: its kernel is forced" in note(program)
    assert program["c1"]


def test_what_is_no_faster_together_stays_apart() -> None:
    devices = {"other": DeviceInfo(name="other")}
    program = joined(convolutions(16, 16).program("y0", "y1"), Context(devices))
    assert note(program).startswith("c0, c1: not joined: ")
    assert " s together, " in note(program)


def test_weights_are_concatenated_once_for_all_shapes() -> None:
    from clgraph.passes.packed_weights import PackedWeights

    packed = PackedWeights()
    net = Net()
    x = net.input("x", (2, 5, 96))
    for i in range(2):
        made = net.add(f"m{i}", MatMul(), x, net.data(f"w{i}", 96, 32))
        net.add(f"y{i}", ADD, made, made)
    for name in ("y0", "y1"):
        net.output(name)
    packed.register(net.constants.values())
    packed.keeps_steps = True
    context = Context(packed=packed)
    first, second = (next(iter(joined(net.build(), context))).inputs[1].constant for _ in range(2))
    assert first is not None
    assert first is second
