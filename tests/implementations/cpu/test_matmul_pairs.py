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
from clgraph.runtime import amx, driver, handles
from clgraph.runtime.instruction_sets import named
from clgraph.runtime.kernels import Kernel
from clgraph.selector.choose import choose
from clgraph.selector.costs import Rates
from clgraph.selector.query import BFLOATS, DeviceInfo
from clgraph.selector.sources import expand
from tests.implementations.cpu.test_matmul_narrow import CASES, problem
from tests.support.features import needs
from tests.support.graphs import FLOAT, graph
from tests.support.graphs import model as model_of
from tests.support.run_tiles import pose, run_tiles

F = np.float32


WHOLE = [
    ((128, 384), (384, 200), False, False, None, ""),
    ((7, 96), (60, 96), False, True, None, ""),
    ((3, 49, 64), (64, 130), False, False, None, ""),
    ((1, 32), (32, 16), False, False, None, ""),
    ((33, 63), (63, 70), False, False, None, ""),
]
"""Of depths that tile registers add at once, with the zero behind an odd one."""


@pytest.mark.opencl
@pytest.mark.parametrize("tiles", [False, True])
def test_products_are_those_of_rounded_rows(engine, tiles):
    needs(engine, "amx_bf16" if tiles else "bf16")
    info = replace(engine.info, features=(engine.info.features | {BFLOATS}) - ({"amx_bf16"} if not tiles else set()))
    for seed, case in enumerate(WHOLE if tiles else [*CASES, *WHOLE]):
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


@pytest.mark.opencl
@pytest.mark.parametrize("rows", [32, 17, 5])
def test_without_tile_registers_the_same_block_is_made_of_pairs(engine, rng, rows):
    """The text compiles for any CPU."""
    cl = driver.load()
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((32, 64), (64, 64)))
    pairs = np.ascontiguousarray(b.reshape(32, 2, 64).transpose(0, 2, 1))
    context = cl.Context([engine.device.handle])
    queue, flags = cl.CommandQueue(context), cl.mem_flags
    held = [cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=v.view(np.uint16)) for v in (a, pairs)]
    out = np.full((32, 64), 7, F)
    made = cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=out)
    program = cl.build(context, engine.device.handle, expand("matmul/micro_pair_tiles.cl", set()), "-cl-std=CL1.2")
    kernel = Kernel(cl, program, "micro_pair_tiles_alone", (*held, made, np.int32(rows), np.int32(32)))
    kernel.launch_after(queue, (1,), (1,))(()).wait()
    cl._enqueue_read_buffer(queue, made, out)
    exact, size = a.astype(float) @ b.astype(float), np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert (np.abs(out - exact) <= 65 * 2.0**-24 * size)[:rows].all()
    assert (out[rows:] == 7).all()


def test_a_system_that_refuses_the_registers_is_told_of(monkeypatch):
    record = replace(named("avx512_bf16"), features=named("avx512_bf16").features | {"amx_bf16"})
    monkeypatch.setattr(handles, "is_wheel", lambda platform: True)
    handle = type("Handle", (), {"platform": None, "version": "PoCL 3.0"})()
    monkeypatch.setattr(amx, "refusal", lambda: "")
    assert "amx_bf16" in handles.features(handle, record)
    monkeypatch.setattr(amx, "refusal", lambda: "the system refuses its registers (Operation not permitted)")
    assert handles.features(handle, record) == record.features - {"amx_bf16"}
    assert any("AMX is not used: the system refuses" in note for note in handles.notes(handle, record))


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
    for gain, tiles, wanted in (
        (0.49, set(), "matmul.narrow"),
        (2.0, set(), "matmul.bf16_pairs"),
        (0.49, {"amx_bf16"}, "matmul.bf16_pairs"),
    ):
        rates = Rates(1.7e11, ((1, 2e10),), gain, amx_products=4.0)
        device = DeviceInfo("pocl:0", features=frozenset({"bf16", "fma", BFLOATS}) | tiles, rates=rates)
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
