"""Products of quantised values from their integers: what becomes what, what stays, and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.passes.base import Context
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, RELU, Net, compile_all, kinds, run_until

GPU = DeviceInfo(
    kind="gpu",
    simd=1,
    compute_units=132,
    local_bytes=48 << 10,
    features=frozenset({"nvidia_ptx", "sm75", "sm80"}),
    flops=6e13,
    bytes_per_second=4e12,
    launch_seconds=1e-8,
)
CONTEXT = Context({"null": GPU})
VNNI = Context({"null": DeviceInfo(features=frozenset({"vnni", "byte_pairs", "fma"}))})


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


class Quantised(Net):
    """A net of quantised groups; every scale another one."""

    def __init__(self, dtype: DType = DType.U8) -> None:
        super().__init__()
        self.dtype, self._groups = dtype, 0

    def rounded(self, x: str, zero: int | None = None) -> str:
        """Add Quantize and Dequantize."""
        self._groups += 1
        name = f"{x}_{self._groups}"
        low = int(np.iinfo(self.dtype.numpy).min)
        scale = self.number(f"{name}_scale", 0.02 + 0.003 * self._groups)
        self.constant(f"{name}_zero", np.array(low + 120 if zero is None else zero, self.dtype.numpy))
        made = self.add(f"{name}_q", Quantize(0, dtype=self.dtype), x, scale, f"{name}_zero")
        return self.add(f"{name}_dq", Dequantize(0), made, scale, f"{name}_zero")

    def weights(
        self, name: str, *shape: int, axis: int = 0, low: int = -100, dtype: type = np.int8, zero: int = 0
    ) -> str:
        """Add 8-bit weights with a scale an index of *axis*, and Dequantize."""
        rng = np.random.default_rng(len(name) + shape[0])
        self.constant(f"{name}_i", rng.integers(low, low + 200, shape).astype(dtype))
        self.constant(f"{name}_s", rng.uniform(0.001, 0.002, shape[axis]).astype(np.float32))
        self.constant(f"{name}_z", np.full(shape[axis], zero, dtype))
        return self.add(name, Dequantize(axis), f"{name}_i", f"{name}_s", f"{name}_z")

    def product(self, name: str, x: str, channels: int, out: int, kernel: int = 3, groups: int = 1, **how) -> str:
        pad = (kernel // 2, kernel // 2)
        w = self.weights(f"{name}_w", out, channels // groups, kernel, kernel, **how)
        return self.add(name, Convolution((1, 1), (1, 1), (pad, pad), groups), x, w, self.data(f"{name}_b", out))


def residual(dtype: DType = DType.U8) -> Quantised:
    """Return two blocks of two convolutions with an addition."""
    net = Quantised(dtype)
    x = net.rounded(net.input("x", (1, 32, 8, 8)))
    for block in "ab":
        y = net.rounded(net.add(f"{block}1_relu", RELU, net.product(f"{block}1", x, 32, 32)))
        y = net.rounded(net.product(f"{block}2", y, 32, 32))
        x = net.rounded(net.add(f"{block}_relu", RELU, net.add(f"{block}_sum", ADD, x, y)))
    net.add("end", Activation("sigmoid"), x)
    return net


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
def test_convolutions_read_and_make_bytes_with_the_residual_and_roundings_fused(dtype):
    program = run_until(residual(dtype).program("end"), "prepare_primitive_fusing", CONTEXT)
    assert kinds(program) == ["static_quantize", *["quantized_convolution"] * 4]
    start, a1, a2, b1, b2 = program
    assert all(n.output.layout.dtype == DType.I8 for n in (start, a1, a2, b1))
    assert [type(f.primitive) for f in a1.fused] == [Activation, StaticQuantize]
    assert [type(f.primitive) for f in a2.fused] == [Activation, DequantizeAdd, Activation, StaticQuantize]
    assert a2.inputs[-1] is start.output
    assert b2.inputs[-1] is a2.output
    assert program.notes["use_integers"] == "4 products from integers"


def test_sums_of_known_steps_are_told_which_operand_is_bytes():
    for slot, scale in ((0, 0.026), (1, 0.026), (0, 0.03)):
        net = Quantised()
        x = net.rounded(net.input("x", (1, 32, 8, 8)))
        # On steps of 0.026 and 0.029; the bytes that are read are those of the product that is computed first.
        a, b = net.rounded(net.product("a", x, 32, 32)), net.rounded(net.product("b", x, 32, 32))
        sum_ = QuantizedSum((scale, 0.029, 0.032), (120, 120, 120))
        sum_ = QuantizedSum((0.029, scale, 0.032), (120, 120, 120)) if slot else sum_
        y = net.rounded(net.add("sum", sum_, *((b, a) if slot else (a, b))))
        net.product("end", y, 32, 32)
        program = run_until(net.program("end"), "prepare_primitive_fusing", VNNI)
        (found,) = [f.primitive for n in program for f in n.fused if isinstance(f.primitive, DequantizeAdd)]
        of_steps = (sum_, slot == 0) if scale == 0.026 else ()
        assert found == DequantizeAdd(found.scale, 120, *of_steps)
        assert np.float32(found.scale) == np.float32(0.026)


def test_the_pass_changes_no_result_beyond_roundings():
    # With every check there is: a small net, forced.
    net = Quantised()
    x = net.rounded(net.input("x", (1, 16, 6, 6)))
    y = net.rounded(net.product("c", x, 16, 16))
    net.add("end", ADD, net.rounded(net.product("d", y, 16, 16)), x)
    forced = {"c": "quantized_convolution.ref", "d": "quantized_convolution.ref"}
    run_until(net.program("end"), "prepare_primitive_fusing", replace(CONTEXT, forced=forced))


def test_matrix_products_with_scales_a_column_become_integers_too():
    net = Quantised()
    x = net.rounded(net.input("x", (2, 9, 64)))
    net.add("up", MatMul(), x, net.weights("w", 64, 128, axis=1))
    y = net.rounded(net.add("sum", ADD, net.data("bias", 128), "up"))
    net.add("down", MatMul(transpose_b=True), y, net.weights("v", 64, 128, axis=0))
    program = run_until(net.program("down"), "prepare_primitive_fusing", CONTEXT)
    assert kinds(program) == ["static_quantize", "quantized_matmul", "quantized_matmul"]


def _hard_swish(net: Quantised, x: str) -> str:
    """Add x * clip(x + 3, 0, 6) / 6, each step of it rounded, as exporters spell it."""
    gate = net.rounded(net.add(f"{x}_more", ADD, x, net.number("three", 3.0)))
    gate = net.rounded(net.add(f"{x}_clip", Activation("clip", 0.0, 6.0), gate))
    y = net.rounded(net.add(f"{x}_times", Eltwise("mul"), x, gate))
    return net.rounded(net.add(f"{x}_sixth", Eltwise("div"), y, net.number("six", 6.0)))


def test_a_spelled_out_activation_between_products_is_a_table_of_bytes():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 16, 16))), 32, 32))
    net.product("d", _hard_swish(net, x), 32, 32)
    program = run_until(net.program("d"), "prepare_primitive_fusing", VNNI)
    assert kinds(program) == ["static_quantize", "quantized_convolution", "quantized_convolution"]
    assert [type(f.primitive) for f in program["c"].fused] == [StaticQuantize, ByteLookup]
    x = (np.arange(256, dtype=np.float32) - 120) * _scale(2)
    gate = _rounded(np.clip(_rounded(x + np.float32(3), 3), 0, 6), 4)
    y = _rounded(_rounded(x * gate, 5) / np.float32(6), 6)
    np.testing.assert_array_equal(program["c"].inputs[-1].constant, np.rint(y / _scale(6)) + 120)


def _scale(group: int) -> np.float32:
    return np.float32(0.02 + 0.003 * group)


def _rounded(v: np.ndarray, group: int) -> np.ndarray:
    return (np.clip(np.rint(v / _scale(group)) + 120, 0, 255) - 120).astype(np.float32) * _scale(group)


def test_a_rounded_value_that_is_scaled_by_its_mean_stays_in_bytes():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 16, 16))), 32, 32))
    x = net.rounded(net.add("act", Activation("sigmoid"), x))
    mean = net.add("mean", Reduce("mean", spatial=True), x)
    net.product("d", net.rounded(net.add("gated", Eltwise("mul"), x, mean)), 32, 32)
    program = run_until(net.program("d"), "prepare_primitive_fusing", VNNI)
    made = ["static_quantize", "quantized_convolution", "dequantize", "reduce", "dequantize", "quantized_convolution"]
    assert sorted(kinds(program)) == sorted(made)
    assert [type(f.primitive) for f in program["c"].fused] == [StaticQuantize, ByteLookup]
    assert [type(f.primitive) for f in program["d"].inputs[0].producer.fused] == [Eltwise, StaticQuantize]


def test_a_bias_between_roundings_and_an_activation_stay_behind_their_product():
    net = Quantised()
    x = net.rounded(net.input("x", (1, 64, 64)))
    y = net.rounded(net.add("up", MatMul(), x, net.weights("w", 64, 128, axis=1)))
    y = net.rounded(net.add("biased", ADD, y, net.data("bias", 128)))
    y = net.rounded(net.add("act", Activation("gelu"), y))
    net.add("down", MatMul(), y, net.weights("v", 128, 64, axis=1))
    program = run_until(net.program("down"), "prepare_primitive_fusing", VNNI)
    assert kinds(program) == ["static_quantize", "quantized_matmul", "quantized_matmul"]
    assert [type(f.primitive) for f in program["up"].fused] == [Activation, Eltwise, StaticQuantize, ByteLookup]


def test_functions_of_two_values_are_no_tables():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 16, 16))), 32, 32))
    y = net.rounded(net.product("e", x, 32, 32))
    net.product("d", net.rounded(net.add("both", Eltwise("mul"), x, y)), 32, 32)
    program = run_until(net.program("d"), "use_integers", VNNI)
    assert "byte_lookup" not in kinds(program)


def _fixed(net: Quantised, **how) -> str:
    return net.product("c", net.rounded(net.input("x", (1, 32, 8, 8))), 32, 32, **how)


def _depthwise(net: Quantised) -> str:
    return _fixed(net, groups=32)


def _wide_weights(net: Quantised) -> str:
    return _fixed(net, low=0, dtype=np.uint8)


def _floats(net: Quantised) -> str:
    return net.product("c", net.input("x", (1, 32, 8, 8)), 32, 32)


def _by_input(net: Quantised) -> str:
    x = net.rounded(net.input("x", (9, 64)))
    return net.add("c", MatMul(), x, net.weights("w", 64, 128, axis=0))


def _computed_bias(net: Quantised) -> str:
    x = net.rounded(net.input("x", (1, 32, 8, 8)))
    w = net.weights("w", 32, 32, 1, 1)
    return net.add("c", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), x, w, net.input("b", (32,)))


def _small(net: Quantised) -> str:
    x = net.rounded(net.add("r", Activation("exp"), net.input("x", (1, 16, 4, 4))))
    return net.add("f", Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), net.product("c", x, 16, 16))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_depthwise, "multiples of 16 inputs and of 4 outputs a group"),
        (_wide_weights, "its weights less their zero point are no 8 bits"),
        (_floats, "its input is not of 8 bits with one known scale"),
        (_by_input, "its weights have scales along their inputs"),
        (_computed_bias, "its bias is computed"),
    ],
)
def test_what_stays_in_floats_is_noted_with_the_reason(make, reason):
    net = Quantised()
    program = run_until(net.program(make(net)), "use_integers", CONTEXT)
    assert not {"quantized_convolution", "quantized_matmul", "static_quantize"} & set(kinds(program))
    assert program.notes["use_integers"].startswith("0 products from integers\nc stays in floats: ")
    assert reason in program.notes["use_integers"]


def test_a_small_product_is_not_worth_rounding_for():
    net = Quantised()
    slow = replace(GPU, launch_seconds=6e-6)
    program = run_until(net.program(_small(net)), "use_integers", Context({"null": slow}))
    assert "quantized_convolution" not in kinds(program)
    assert "less than rounding its input and widening its result take" in program.notes["use_integers"]


def test_on_cpus_what_rounds_for_a_product_is_a_step_among_others_and_no_launch():
    net = Quantised()
    x = net.rounded(net.add("r", Activation("exp"), net.input("x", (16, 384))))
    net.add("s", Activation("exp"), net.rounded(net.add("c", MatMul(), x, net.weights("w", 384, 384, axis=1))))
    program = run_until(net.program("s"), "use_integers", VNNI)
    assert program["c"].primitive.kind == "quantized_matmul"


def test_floats_that_are_rounded_take_longer_than_those_of_a_model_that_is_not_quantised():
    net = Quantised()
    x = net.rounded(net.input("x", (1, 32, 40, 40)))
    net.constant("w_i", np.random.default_rng(0).integers(-60, 61, (64, 32, 1, 1)).astype(np.int8))
    w = net.add("w", Dequantize(0), "w_i", net.number("w_s", 0.001))
    c = net.rounded(net.add("c", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), x, w))
    context = Context({"null": DeviceInfo(features=frozenset({"byte_pairs", "fma"}))})
    program = run_until(net.program(net.add("end", Activation("sigmoid"), c)), "use_integers", context)
    assert program["c"].primitive.kind == "quantized_convolution"


def test_a_cpu_is_told_that_no_kernel_is_for_it():
    program = run_until(residual().program("end"), "use_integers", Context())
    assert "quantized_convolution" not in kinds(program)
    assert "is written for gpu devices, not for a cpu" in program.notes["use_integers"]


def test_other_readers_get_the_bytes_as_floats():
    net = Quantised()
    x = net.rounded(net.add("r", RELU, net.product("c", net.rounded(net.input("x", (1, 32, 8, 8))), 32, 32)))
    net.product("d", x, 32, 32)
    net.add("end", Activation("sigmoid"), x)
    program = run_until(net.program("d", "end", x), "prepare_primitive_fusing", CONTEXT)
    made = [n.primitive.kind for n in program]
    assert made.count("dequantize") == 1
    assert program["c"].output.layout.dtype == DType.I8
    dequantize = next(n for n in program if n.primitive.kind == "dequantize")
    assert program.outputs[2][1] is dequantize.output


def test_a_maximum_of_rounded_values_is_rounded_again_behind_it():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 8, 8))), 32, 32))
    pooled = net.add("pool", Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), x)
    net.product("d", pooled, 32, 32)
    program = run_until(net.program("d"), "use_integers", CONTEXT)
    rounding = program["d"].inputs[0].producer
    assert isinstance(rounding.primitive, StaticQuantize)
    assert rounding.primitive.zero == program["d"].primitive.zero
    assert rounding.inputs[0].producer is program["pool"]


@pytest.mark.parametrize("precision", ["f16", "auto"])
def test_float16_leaves_scales_and_biases_as_they_are(precision):
    program = run_until(residual().program("end"), "prepare_primitive_fusing", replace(CONTEXT, precision=precision))
    node = program["a1"]
    assert node.primitive.kind == "quantized_convolution"
    assert [v.layout.dtype for v in node.inputs[:5]] == [DType.I8, DType.I8, DType.I32, DType.F32, DType.F32]
    assert program["b2"].primitive.dtype == DType.F16


def test_a_forced_float_kernel_keeps_its_product_in_floats():
    program = run_until(
        residual().program("end"), "use_integers", replace(CONTEXT, forced={"a1": "convolution.nvidia_f32"})
    )
    assert program["a1"].primitive.kind == "convolution"
    assert program["a2"].primitive.kind == "quantized_convolution"


def test_without_the_pass_or_with_kernels_denied_all_is_floats():
    for context, options in ((CONTEXT, {"disabled": frozenset({"use_integers"})}), (Context(), {})):
        program = compile_all(residual().program("end"), context, **options)
        assert "quantized_convolution" not in kinds(program)
    denied = frozenset({"quantized_convolution.nvidia", "quantized_convolution.gpu_tiled"})
    program = compile_all(residual().program("end"), replace(CONTEXT, denied=denied))
    assert "quantized_convolution" not in kinds(program)
    assert "denied by an option" in program.notes["use_integers"]


def test_gates_sums_and_pictures_of_two_sizes_stay_in_bytes_between_products():
    net = Quantised()
    low = net.rounded(net.product("low", net.rounded(net.input("x", (1, 32, 8, 8))), 32, 24))
    high = net.rounded(net.product("high", net.rounded(net.input("y", (1, 32, 16, 16))), 32, 24))
    gate = net.rounded(net.add("gate", Activation("sigmoid"), net.add("mean", Reduce("mean", spatial=True), high)))
    gated = net.rounded(net.add("gated", Eltwise("mul"), high, gate))
    whole = net.rounded(net.add("whole", ADD, high, gated))
    up = net.add("up", Resize(shape=(1, 24, 16, 16), scales=(1.0, 1.0, 2.0, 2.0)), low)
    both = net.rounded(net.add("both", ADD, up, whole))
    alone = net.add("alone", Resize(nearest="ceil", shape=(1, 24, 16, 16), scales=(1.0, 1.0, 2.0, 2.0)), low)
    joined = net.rounded(net.add("joined", Concat(1), both, up, alone))
    pooled = net.add("pool", Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), joined)
    # A second time on the steps that it lies on.
    steps = f"{joined[:-3]}_scale", f"{joined[:-3]}_zero"
    pooled = net.add("again", Dequantize(0), net.add("again_q", Quantize(0, dtype=net.dtype), pooled, *steps), *steps)
    net.product("d", pooled, 72, 32)
    program = run_until(net.program("d"), "prepare_primitive_fusing", VNNI)
    floats = [n for n in program if n.output.layout.dtype == DType.F32]
    # The mean of the bytes, what becomes of it, and the result.
    assert sorted(n.primitive.kind for n in floats) == ["dequantize", "quantized_convolution", "reduce"]
    one_pass = next(n for n in program if len(n.fused) > 3)
    assert isinstance(one_pass.primitive, Dequantize)
    sums = [QuantizedProduct, Activation, DequantizeAdd, Activation, DequantizeAdd, StaticQuantize, ByteLookup]
    assert [type(f.primitive) for f in one_pass.fused] == sums
    # One for each of the two resized pictures, none for the steps that the maxima lie on already.
    assert kinds(program).count("byte_lookup") == 2
    # What grows is looked up before it does.
    grows = program["joined/concat"].inputs[2].producer
    assert grows.primitive.kind == "resize"
    assert isinstance(grows.inputs[0].producer.primitive, ByteLookup)


def test_transposed_convolutions_of_windows_side_by_side_make_bytes_of_bytes():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 16, 16))), 32, 24))
    grown = net.add("up", ConvTranspose((2, 2)), x, net.weights("up_w", 24, 20, 2, 2, axis=1), net.data("up_b", 20))
    y = net.rounded(net.add("biased", ADD, net.rounded(grown), net.data("bias", 20, 1, 1)))
    net.product("d", y, 20, 32)
    z = net.rounded(net.input("z", (1, 24, 4, 4)))
    net.add("overlap", ConvTranspose((1, 1)), z, net.weights("overlap_w", 24, 24, 2, 2, axis=1))
    program = run_until(net.program("d", "overlap"), "prepare_primitive_fusing", VNNI)
    made = program["up"]
    assert isinstance(made.primitive, QuantizedConvTranspose)
    assert [type(f.primitive) for f in made.fused] == [Activation, Eltwise, StaticQuantize]
    assert program["d"].inputs[0] is made.output
    assert program["overlap"].primitive.kind == "conv_transpose"
    assert "overlap stays in floats: its windows do not lie side by side" in program.notes["use_integers"]


def test_weights_that_are_spelled_as_those_of_another_convolution_keep_their_integers():
    net = Quantised()
    x = net.rounded(net.input("x", (1, 20, 8, 8)))
    net.add("map", ConvTranspose((2, 2)), x, net.weights("map_w", 20, 1, 2, 2, axis=1))
    weights = run_until(net.program("map"), "decompose", VNNI)["map/conv"].inputs[1]
    assert weights.integers.data.shape == (4, 20, 1, 1)
    np.testing.assert_array_equal(weights.constant, weights.integers.data * weights.integers.scale.reshape(-1, 1, 1, 1))
