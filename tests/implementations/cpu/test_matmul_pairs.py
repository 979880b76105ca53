"""Products of rows and matrices rounded to bfloat16, and on which devices they are refused."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest

import clgraph
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.matmul_pairs import MatMulPairs
from clgraph.ops.matmul import MatMul
from clgraph.selector.choose import choose
from clgraph.selector.costs import Rates
from clgraph.selector.query import BFLOATS, DeviceInfo
from tests.implementations.cpu.test_matmul_narrow import CASES, problem
from tests.support.features import needs
from tests.support.graphs import FLOAT, graph
from tests.support.graphs import model as model_of
from tests.support.run_tiles import pose, run_tiles

F = np.float32


@pytest.mark.opencl
def test_products_are_those_of_rounded_rows(engine):
    needs(engine, "bf16")
    info = replace(engine.info, features=engine.info.features | {BFLOATS})
    for seed, case in enumerate(CASES):
        if case[2]:
            continue  # rows whose columns do not lie side by side
        primitive, arrays, _, _, _ = problem(case, ml_dtypes.bfloat16, seed)
        a, b = arrays[:2]
        q = pose(info, MatMulPairs, primitive, [Layout.of(x) for x in (a, b)], arity=2, constant=(1,))
        got = run_tiles(engine, MatMulPairs, q, [a, b])
        rounded = a.astype(ml_dtypes.bfloat16).astype(float)
        (want,) = primitive.reference(rounded, b.astype(float))
        (size,) = primitive.reference(np.abs(rounded), np.abs(b.astype(float)))
        # Products are exact; every addition of the sum, one more for an odd length, rounds by 2^-24.
        assert (np.abs(got - want) <= 2.0**-24 * (a.shape[-1] + 1) * size).all()


def test_devices_without_the_instruction_or_the_permission_are_refused():
    layouts = [Layout.of(np.zeros((3, 4), F)), Layout.of(np.zeros((4, 5), ml_dtypes.bfloat16))]

    def reason(*features):
        device = DeviceInfo(features=frozenset(features))
        return str(MatMulPairs.refusal(pose(device, MatMulPairs, MatMul(), layouts, arity=2, constant=(1,))))

    assert reason("bf16", BFLOATS) == "None"
    assert "bf16" in reason(BFLOATS)
    assert BFLOATS in reason("bf16")


def test_pairs_are_chosen_where_the_cpu_multiplies_them_faster_than_floats():
    """Sapphire Rapids takes four times as long for vdpbf16ps as for a multiply-add, Zen 4 as long."""
    layouts = [Layout.of(np.zeros((128, 384), F)), Layout.of(np.zeros((384, 384), ml_dtypes.bfloat16))]
    for gain, wanted in ((0.49, "matmul.narrow"), (2.0, "matmul.bf16_pairs")):
        rates = Rates(1.7e11, ((1, 2e10),), gain)
        device = DeviceInfo("pocl:0", features=frozenset({"bf16", "fma", BFLOATS}), rates=rates)
        q = pose(device, MatMulPairs, MatMul(), layouts, arity=2, constant=(1,), packed=False)
        assert choose(q).implementation.name == wanted


@pytest.mark.opencl
def test_a_model_rounds_where_the_option_says_so_and_widens_where_the_cpu_cannot(engine, rng):
    w, x = rng.standard_normal((64, 200)).astype(F), rng.standard_normal((24, 64)).astype(F)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = model_of(graph(nodes, [("x", FLOAT, x.shape)], [("y", FLOAT, None)], w=w))
    made = clgraph.compile(model, engine.info.name, precision="bf16")
    (node,) = [n for n in made.explain().nodes if n.implementation.startswith("matmul")]
    able = "bf16" in engine.info.features
    assert node.implementation == ("matmul.bf16_pairs" if able else "matmul.narrow")
    assert ("no device here multiplies bfloat16" in made.explain().notes["convert_precision"]) == (not able)
    # Each side is rounded by 2^-8 at most (8 bits), which is 2^-16 more for both; then the 64 additions of the sum.
    assert (
        np.abs(made.run({"x": x})["y"] - x.astype(float) @ w)
        <= (2.0**-7 + 2.0**-16 + 65 * 2.0**-24) * (np.abs(x) @ np.abs(w))
    ).all()
