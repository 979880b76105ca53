from __future__ import annotations

import math
from typing import Any

import pytest

from clgraph.core.dtype import DType
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_attention import FuseAttention
from clgraph.passes.patterns.decompose import Decompose
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.query import DeviceInfo, Query
from tests.support.fakes import Slow
from tests.support.programs import ADD, Net, primitives, run

pytestmark = pytest.mark.usefixtures("tiled")


@pytest.fixture
def tiled(fakes: None) -> None:
    """Let CPU devices have an implementation of attention that is not the general one."""
    serves = Serves(dtypes=frozenset({DType.F32}))

    class Tiled(Slow):
        @classmethod
        def limits(cls, q: Query[Any]) -> str | None:
            return None if q.device.kind == "cpu" else "requires a CPU"

    implements(Attention, name="attention.rows", serves=serves)(Tiled)


BATCH, ROWS, KEYS, DEPTH, WIDTH = (2, 3), 5, 7, 4, 6


def spelled(
    *,
    bias: tuple[int, ...] | None = None,
    scaled: bool = True,
    swapped: bool = False,
    by_key: bool = False,
    **more: Any,
) -> tuple[Net, str]:
    """Return the attention that an exporter writes, of graph inputs q, k and v, and its result."""
    net = Net()
    q, v = net.input("q", (*BATCH, ROWS, DEPTH)), net.input("v", more.get("values", (*BATCH, KEYS, WIDTH)))
    k = net.input("k", (*BATCH, KEYS, DEPTH) if by_key else (*BATCH, DEPTH, KEYS))
    scores = net.add("scores", MatMul(transpose_b=by_key), q, k)
    if scaled:
        scores = net.add("scaled", Eltwise("div"), scores, net.number("root", math.sqrt(DEPTH)))
    if bias is not None:
        mask = net.input("mask", bias)
        scores = net.add("masked", ADD, *((mask, scores) if swapped else (scores, mask)))
    weights = net.add("weights", Softmax(more.get("axes", (3,))), scores)
    y = net.add("y", MatMul(), weights, v)
    if more.get("outside"):
        net.output(more["outside"])
    return net, y


def fused(net: Net, y: str, context: Context | None = None) -> Program:
    return run(net.program(y), Decompose(), FuseAttention(), context=context)


@pytest.mark.parametrize("bias", [None, (2, 1, 1, 7), (7,), (5, 1), (2, 3, 5, 7)])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("by_key", [False, True])
def test_attention_becomes_one_node(bias: tuple[int, ...] | None, swapped: bool, by_key: bool) -> None:
    program = fused(*spelled(bias=bias, swapped=swapped, by_key=by_key))
    assert primitives(program) == [Attention(0.5, by_key)]
    names = [v.name for v in next(iter(program)).inputs]
    assert names == ["q", "k", "v", *(["mask"] if bias else [])]


def test_attention_without_a_factor() -> None:
    assert primitives(fused(*spelled(scaled=False))) == [Attention(1.0)]


@pytest.mark.parametrize("inside", ["scores", "scaled", "weights"])
def test_what_is_read_elsewhere_keeps_attention_apart(inside: str) -> None:
    program = fused(*spelled(outside=inside))
    assert Attention(0.5) not in primitives(program)
    assert f"{inside} is an output" in program.notes["fuse_attention"]


def test_a_bias_that_enlarges_the_scores_keeps_attention_apart() -> None:
    net = Net()
    q, k, v = (net.input(n, s) for n, s in (("q", (1, 5, 4)), ("k", (1, 4, 7)), ("v", (2, 7, 6))))
    masked = net.add("masked", ADD, net.add("scores", MatMul(), q, k), net.input("mask", (2, 1, 7)))
    y = net.add("y", MatMul(), net.add("weights", Softmax((2,)), masked), v)
    assert len(primitives(fused(net, y))) == 4


@pytest.mark.parametrize("more", [{"values": (7, 6)}, {"axes": (2,)}])
def test_other_matrices_and_axes_keep_attention_apart(more: dict[str, Any]) -> None:
    assert not any(isinstance(p, Attention) for p in primitives(fused(*spelled(**more))))


def test_a_shift_and_a_function_of_the_scores_keep_attention_apart() -> None:
    for last in (Activation("linear", 0.5, 1.0), Activation("relu"), Activation("linear", 0.0, 0.0)):
        net = Net()
        q, k, v = (net.input(n, s) for n, s in (("q", (5, 4)), ("k", (4, 7)), ("v", (7, 6))))
        weights = net.add("weights", Softmax((1,)), net.add("last", last, net.add("scores", MatMul(), q, k)))
        program = fused(net, net.add("y", MatMul(), weights, v))
        assert not any(isinstance(p, Attention) for p in primitives(program)), last


def test_a_device_with_the_general_kernel_only_runs_the_parts() -> None:
    context = Context({"gpu": DeviceInfo("gpu", "gpu")})
    program = fused(*spelled(), context)
    assert not any(isinstance(p, Attention) for p in primitives(program))
    assert "only its general kernel" in program.notes["fuse_attention"]
    denied = Context(denied=frozenset({"attention.rows"}))
    assert not any(isinstance(p, Attention) for p in primitives(fused(*spelled(), denied)))


def test_nodes_between_the_products_and_others_stay() -> None:
    net, y = spelled()
    back = net.add("back", Transpose((0, 2, 1, 3)), y)
    assert primitives(fused(net, back)) == [Attention(0.5), Transpose((0, 2, 1, 3))]
