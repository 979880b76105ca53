from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import OptionError, ProgramError
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.formats.convert_precision import ConvertPrecision, fits
from clgraph.passes.manager import PassManager
from clgraph.passes.placement.insert_transfers import InsertTransfers
from clgraph.passes.placement.partition import Partition
from clgraph.passes.verify_numbers import VerifyNumbers
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, MUL, RELU, Net, element_types, run

HALF = Context({"gpu": DeviceInfo("gpu", "gpu", simd=1)}, precision="f16")


def _net() -> Net:
    net = Net()
    x = net.input("x", (1, 16, 8, 8))
    a = net.conv("a", x, 16, 16, kernel=3)
    net.add("b", RELU, a)
    net.add("c", ADD, "b", a)
    return net


def test_everything_between_inputs_and_outputs_becomes_half() -> None:
    program = _net().program("c", "b")
    run(program, ConvertPrecision(), context=HALF)
    assert [v.layout.dtype for v in program.inputs] == [DType.F32]
    assert [v.layout.dtype for _, v in program.outputs] == [DType.F32] * 2
    assert element_types(program) == {
        "a/reorder": DType.F16,
        "a": DType.F16,
        "b": DType.F16,
        "c": DType.F16,
        "b/reorder": DType.F32,
        "c/reorder": DType.F32,
    }
    assert all(v.constant.dtype == np.float16 for v in program.constants if v.constant is not None)
    assert program.notes["convert_precision"] == "3 nodes store float16"


def test_a_result_made_of_a_result_alone_is_made_of_its_float32() -> None:
    net = _net()
    net.add("d", RELU, "c")
    program = net.program("c", "d")
    run(program, ConvertPrecision(), context=HALF)
    types = element_types(program)
    assert (types["c"], types["d"]) == (DType.F16, DType.F32)
    assert [name for name in types if "reorder" in name] == ["a/reorder", "c/reorder"]
    assert "d: what it reads and makes are results in float32" in program.notes["convert_precision"]
    # A value that the network needs in halves is none.
    other = _net()
    other.add("d", RELU, "c")
    program = other.program("d")
    run(program, ConvertPrecision(), context=HALF)
    assert element_types(program)["d"] == DType.F16


@pytest.mark.parametrize("context", [Context(), Context(precision="auto")])
def test_single_precision_stays_by_default_and_on_a_cpu(context: Context) -> None:
    program = _net().program("c")
    text = str(run(program, Partition(), context=context))
    assert ConvertPrecision().run(program, context) == 0
    assert str(program) == text


def test_kept_nodes_stay_single_and_each_value_is_cast_once() -> None:
    net = _net()
    net.add("d", RELU, "c")
    program = net.program("d")
    run(program, ConvertPrecision(), context=replace(HALF, keep_f32=frozenset({"b*", "c"})))
    kept = element_types(program)
    assert (kept["a"], kept["b"], kept["c"], kept["d"]) == (DType.F16, DType.F32, DType.F32, DType.F16)
    # x, a for b and c together, c for d, the result.
    assert sum("reorder" in name for name in kept) == 4
    assert "b: b* is kept" in program.notes["convert_precision"]


def test_a_name_that_fits_no_node_is_an_error() -> None:
    with pytest.raises(OptionError, match="no node of the program is called 'fc'"):
        ConvertPrecision().run(_net().program("c"), replace(HALF, keep_f32=frozenset({"fc"})))


@pytest.mark.parametrize(
    ("value", "held"), [(65504.0, True), (7e4, False), (1e-12, False), (0.0, True), (np.inf, True)]
)
def test_a_node_whose_constant_is_out_of_range_stays_single(value: float, held: bool) -> None:
    assert fits(np.array(value, np.float32)) == held
    net = Net()
    net.add("y", MUL, net.input("x", (4,)), net.number("k", value))
    program = net.program("y")
    ConvertPrecision().run(program, HALF)
    assert (element_types(program)["y"] == DType.F16) == held


def test_auto_is_half_on_the_gpu_alone_and_halves_cross() -> None:
    net = _net()
    net.add("d", MUL, "c", "b")
    program = net.program("d")
    devices = {"cpu:0": DeviceInfo("cpu:0"), "gpu:0": DeviceInfo("gpu:0", "gpu")}
    context = Context(devices, (("b", "gpu:0"), ("c", "gpu:0")), free=("cpu:0",), precision="auto")
    run(program, Partition(), ConvertPrecision(), InsertTransfers(), context=context)
    found = {n.name: (n.placement, str(n.output.layout.dtype)) for n in program}
    assert found["a"] == found["d"] == ("cpu:0", "f32")
    assert found["b"] == found["c"] == ("gpu:0", "f16")
    assert {v for k, v in found.items() if "transfer" in k} == {("cpu:0", "f16"), ("gpu:0", "f16")}
    assert found["a/reorder"] == ("cpu:0", "f16")
    assert {v for k, v in found.items() if "reorder" in k} == {("cpu:0", "f16"), ("cpu:0", "f32")}
    assert program.notes["convert_precision"] == "2 nodes store float16; 2 on other devices than GPUs store float32"


def test_what_becomes_an_integer_stays_single() -> None:
    net = _net()
    net.add("whole", Reorder(DType.I32), "b")
    program = net.program("whole", "c")
    ConvertPrecision().run(program, HALF)
    assert (element_types(program)["b"], element_types(program)["c"]) == (DType.F32, DType.F16)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_auto_on_a_gpu_leaves_functions_of_a_wide_range_in_single() -> None:
    net = _net()
    net.add("e", Activation("exp"), "c")
    net.add("p", Eltwise("div"), "e", "c")
    net.add("r", RELU, "p")
    program = net.program("r")
    run(program, ConvertPrecision(), context=Context({"gpu:0": DeviceInfo("gpu:0", "gpu")}, precision="auto"))
    kept = element_types(program)
    assert [kept[n] for n in "acepr"] == [DType.F16, DType.F16, DType.F32, DType.F32, DType.F16]


def test_a_node_that_nothing_serves_in_half_stays_single() -> None:
    program = _net().program("c")
    context = replace(HALF, denied=frozenset(n for n in IMPLEMENTATIONS if n.startswith("activation.")))
    ConvertPrecision().run(program, context)
    assert element_types(program)["b"] == DType.F32
    assert "b: no kernel serves it in float16" in program.notes["convert_precision"]


def test_on_a_cpu_products_alone_read_halves() -> None:
    net = Net()
    net.data("w", 40, 20)
    net.add("large", Activation("linear", 2.0), net.input("x", (3, 40)))
    net.add("a", MatMul(), "large", "w")
    net.constant("beyond", np.eye(20, dtype=np.float32) * np.float32(1e6))
    net.add("b", MatMul(), "a", "beyond")
    net.data("v", 20, 20)
    net.add("c", MatMul(), "b", "v")
    program = run(net.program("c"), ConvertPrecision(), context=Context(precision="f16", keep_f32=frozenset({"c"})))
    assert set(element_types(program).values()) == {DType.F32}
    assert [program[n].inputs[1].layout.dtype for n in "abc"] == [DType.F16, DType.F32, DType.F32]
    assert program.notes["convert_precision"] == "0 nodes store float16; 1 products on CPUs read matrices of float16"


class Coarse(Pass):
    """Says that it rounds, and doubles a result."""

    name = "coarse"
    rounds = True

    def run(self, program, context) -> int:
        made = program.insert(Activation("linear", 2.0), [program.outputs[0][1]], sources=[program["c"]])
        program.outputs = [(program.outputs[0][0], made.output)]
        return 1


def test_verification_takes_the_rounding_for_what_it_is_and_nothing_more() -> None:
    program = _net().program("c")
    watcher = VerifyNumbers(HALF)
    PassManager([Partition(), ConvertPrecision()], [watcher]).run(program, HALF)
    with pytest.raises(ProgramError, match="coarse changes output"):
        PassManager([Coarse()], [watcher]).run(program, HALF)
