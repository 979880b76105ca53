"""Products of one row and one column: which become products of elements and a sum, and that the results stay."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.matmul import MatMul
from clgraph.passes.base import Context
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import run_reference
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run

CPU = {"cpu": DeviceInfo("cpu", "cpu")}


@pytest.fixture(autouse=True)
def least(monkeypatch):
    monkeypatch.setattr("clgraph.passes.patterns.dot_product.LEAST", 256)


def product(a, b, p=None, dtype=np.float32, bias=None) -> Net:
    net = Net()
    added = [] if bias is None else [net.input("c", bias, dtype)]
    net.add("y", p or MatMul(), net.input("a", a, dtype), net.input("b", b, dtype), *added)
    return net


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ((1, 300), (300, 1), MatMul()),
        ((2, 1, 300), (300, 1), MatMul()),
        ((1, 300), (3, 1, 300), MatMul(transpose_b=True)),
        ((2, 1, 300, 1), (3, 300, 1), MatMul(transpose_a=True)),
    ],
)
@pytest.mark.parametrize("bias", [None, (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_a_product_of_one_row_and_one_column_is_a_sum(a, b, p, bias, dtype, rng) -> None:
    program = product(a, b, p, dtype, bias).program("y")
    feeds = {x.name: rng.standard_normal(x.layout.shape).astype(dtype) for x in program.inputs}
    (want,) = run_reference(program, feeds).values()
    program = run(program, Decompose(), context=Context(devices=CPU))
    kinds = [n.primitive.kind for n in program if n.primitive.kind != "transpose"]
    assert kinds == ["eltwise", "reduce", *["eltwise"] * (bias is not None)]
    (got,) = run_reference(program, feeds).values()
    # Both add up 300 products of numbers below 6, and a bias: (K + 1) u sum |ab|, twice.
    np.testing.assert_allclose(got, want, rtol=0, atol=301 * 300 * 36 * np.finfo(dtype).eps)


def test_others_stay() -> None:
    nets = [
        product((1, 255), (255, 1)),
        product((2, 300), (300, 1)),
        product((1, 300), (300, 2)),
        product((300,), (300, 1)),
        product((1, 300), (300, 1), dtype=DType.F16),
    ]
    for net in nets:
        assert [n.name for n in run(net.program("y"), Decompose(), context=Context(devices=CPU))] == ["y"]
    gpu = Context(devices={"gpu": DeviceInfo("gpu", "gpu")})
    assert [n.name for n in run(product((1, 300), (300, 1)).program("y"), Decompose(), context=gpu)] == ["y"]
