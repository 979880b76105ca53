"""Models of float16 and bfloat16 compute in float32 on CPUs: what is widened, what stays, where values are rounded."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.gather import Gather
from clgraph.ops.is_special import IsSpecial
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.formats.widen_floats import WidenFloats
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, RELU, Net, element_types, run

NARROW = ((np.float16, DType.F16), (ml_dtypes.bfloat16, DType.BF16))


@pytest.mark.parametrize(("numpy", "dtype"), NARROW)
def test_nodes_compute_in_float32_between_inputs_and_outputs_that_stay(numpy, dtype) -> None:
    net, rng = Net(), np.random.default_rng(0)
    x = net.input("x", (3, 40), dtype)
    net.constant("w", rng.standard_normal((40, 70)).astype(numpy))
    net.constant("b", rng.standard_normal(70).astype(numpy))
    net.add("product", MatMul(), x, "w", "b")
    net.add("y", RELU, "product")
    program = run(net.program("y"), WidenFloats())
    assert element_types(program) == {
        "product/reorder": DType.F32,
        "product": DType.F32,
        "y": DType.F32,
        "y/reorder": dtype,
    }
    product = program["product"]
    assert [v.layout.dtype for v in product.inputs] == [DType.F32, dtype, DType.F32]
    assert product.inputs[1].constant is not None
    assert [v.layout.dtype for v in (*program.inputs, program.outputs[0][1])] == [dtype, dtype]
    assert program.notes["widen_floats"] == "2 nodes compute in float32"


def test_moved_weights_and_rows_of_large_tables_stay_narrow() -> None:
    net = Net()
    net.constant("table", np.random.default_rng(1).standard_normal((9000, 64)).astype(np.float16))
    net.input("ids", (2, 3), DType.I64)
    net.add("picked", Gather(0), "table", "ids")
    net.add("turned", Transpose((1, 0)), "table")
    net.add("y", MatMul(), "picked", "turned")
    program = net.program("y")
    WidenFloats().run(program, Context())
    found = element_types(program)
    assert (found["picked"], found["turned"], found["y"]) == (DType.F16, DType.F16, DType.F32)
    assert program["y"].inputs[1] is program["turned"].output
    assert program["y"].inputs[0].layout.dtype == DType.F32


def test_what_only_moves_from_inputs_to_results_stays_narrow() -> None:
    net = Net()
    cache, new = net.input("cache", (3, 40), DType.F16), net.input("new", (3, 2), DType.F16)
    net.add("joined", Concat(1), cache, new)
    net.add("turned", Transpose((1, 0)), "joined")
    net.add("computed", RELU, new)
    net.add("mixed", Concat(1), cache, "computed")
    net.add("read", Transpose((1, 0)), new)
    net.add("y", RELU, "read")
    net.input("places", (3, 2), DType.I64)
    net.add("added", ScatterElements(1, "add"), cache, "places", new)
    found = element_types(run(net.program("turned", "mixed", "y", "added"), WidenFloats()))
    assert {name for name, dtype in found.items() if dtype == DType.F16 and "/" not in name} == {"joined", "turned"}


@pytest.mark.parametrize("primitive", [RELU, ADD])
def test_what_computes_results_of_inputs_alone_stays_narrow_where_a_tile_rounds_in_the_same_pass(primitive) -> None:
    net = Net()
    x = net.input("x", (2, 4), DType.F16)
    net.constant("k", np.arange(4, dtype=np.float16))
    operands = (x,) if primitive is RELU else (x, "k")
    net.add("y", primitive, *operands)
    net.add("read", primitive, *operands)
    net.add("z", Activation("sigmoid"), "read")
    program = run(net.program("y", "z"), WidenFloats())
    found = element_types(program)
    assert (found["y"], found["read"], found["z"]) == (DType.F16, DType.F32, DType.F32)
    assert program["y"].inputs[0].producer is None


def test_other_constants_are_widened_once() -> None:
    net = Net()
    x = net.input("x", (2, 4), DType.F16)
    net.constant("k", np.arange(4, dtype=np.float16))
    net.add("a", ADD, x, "k")
    net.add("b", ADD, "a", "k")
    program = run(net.program("b"), WidenFloats())
    (k,) = program.constants
    assert k.layout.dtype == DType.F32
    assert [n.name for n in program] == ["a/reorder", "a", "b", "b/reorder"]


def test_casts_vanish_but_those_that_round_on_purpose() -> None:
    net = Net()
    x = net.input("x", (2, 4))
    net.add("half", Reorder(DType.F16), x)
    net.add("a", RELU, "half")
    net.add("single", Reorder(DType.F32), "a")
    net.add("b", Activation("sigmoid"), "single")
    net.add("rounded", Reorder(DType.F16), "b")
    net.add("y", Reorder(DType.F32), "rounded")
    program = run(net.program("y"), WidenFloats())
    assert [n.name for n in program] == ["a", "b", "rounded", "y"]
    assert element_types(program)["rounded"] == DType.F16


def test_what_becomes_an_integer_is_rounded_before() -> None:
    net = Net()
    net.add("a", Activation("linear", 1.0, 0.4999), net.input("x", (4,), DType.F16))
    net.add("y", Reorder(DType.I32), "a")
    program = run(net.program("y"), WidenFloats())
    assert program["y"].inputs[0].layout.dtype == DType.F16
    assert element_types(program)["a"] == DType.F32


def test_what_is_asked_whether_it_is_infinite_is_rounded_before() -> None:
    net = Net()
    net.add("a", Activation("linear", 4.0), net.input("x", (4,), DType.F16))
    net.add("y", IsSpecial(positive=True), "a")
    net.add("z", IsSpecial(nan=True), "x")
    program = run(net.program("y", "z"), WidenFloats())
    assert element_types(program)["a"] == DType.F32
    assert [program[name].inputs[0].layout.dtype for name in ("y", "z")] == [DType.F16] * 2


def test_what_nothing_serves_in_float32_stays() -> None:
    net = Net()
    net.add("a", RELU, net.input("x", (4,), DType.F16))
    net.add("b", Activation("sigmoid"), "a")
    net.add("y", RELU, "b")
    program = net.program("y")
    denied = frozenset({"activation.rows", "activation.fsv16"})
    forced = Context(denied=denied | {"activation.slow", "activation.any", "activation.elements"})
    assert WidenFloats().run(program, forced) == 0
    assert set(element_types(program).values()) == {DType.F16}


@pytest.mark.parametrize("beside", [{}, {"null": DeviceInfo()}])
def test_models_that_may_run_on_a_gpu_stay_as_they_are(beside) -> None:
    net = Net()
    net.add("y", RELU, net.input("x", (4,), DType.F16))
    program = net.program("y")
    text = str(program)
    assert WidenFloats().run(program, Context({**beside, "gpu": DeviceInfo("gpu", "gpu")})) == 0
    assert str(program) == text


def test_the_host_beside_a_cpu_changes_nothing() -> None:
    net = Net()
    net.add("x_0", RELU, net.input("x", (4,), DType.F16))
    net.add("y", RELU, "x_0")
    devices = {"null": DeviceInfo(), "host": DeviceInfo("host", "host")}
    assert WidenFloats().run(net.program("y"), Context(devices)) == 2
