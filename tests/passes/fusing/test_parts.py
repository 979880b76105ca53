from __future__ import annotations

import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.pooling import Pooling
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from tests.support.programs import RELU, Net, run


@pytest.fixture(autouse=True)
def fakes():
    """What takes an activation is asked of the real implementations."""
    return


def _joined(net: Net) -> str:
    x = net.input("x", (1, 16, 8, 8))
    pooled = net.add("pool", Pooling("average", (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))), x)
    return net.concat("joined", net.conv("conv", x, 16, 24), pooled)


def _names(program) -> list[str]:
    return [n.name for n in program]


def test_activations_behind_a_concat_end_in_what_makes_its_parts() -> None:
    net = Net()
    net.add("tanh", Activation("tanh"), net.add("relu", RELU, _joined(net)))
    program = run(net.program("tanh"), PreparePrimitiveFusing())
    assert sorted(_names(program)) == ["conv", "joined", "pool"]
    for name in ("conv", "pool"):
        assert [f.primitive.function for f in program[name].fused] == ["relu", "tanh"]
    assert [name for name, _ in program.outputs] == ["tanh"]
    assert "relu: in front of joined, on each of its parts" in program.notes["prepare_primitive_fusing"]


@pytest.mark.parametrize("read", ["conv", "pool", "joined", "x"])
def test_a_part_that_is_read_elsewhere_keeps_its_values(read: str) -> None:
    net = Net()
    joined = _joined(net)
    parts = net.concat("outer", "x", joined) if read == "x" else joined
    net.add("relu", RELU, parts)
    program = run(net.program("relu", *([] if read == "x" else [read])), PreparePrimitiveFusing())
    assert not program["conv"].fused
    assert not program["pool"].fused


def test_different_annotations_keep_the_activation() -> None:
    net = Net()
    x = net.input("x", (1, 16, 8, 8))
    joined = net.concat("joined", *(net.conv(c, x, 16, 16, annotation=c) for c in ("a", "b")))
    net.add("relu", RELU, joined, annotation="c")
    program = run(net.program("relu"), PreparePrimitiveFusing())
    assert "relu" in _names(program)
    assert "differ" in program.notes["prepare_primitive_fusing"]
