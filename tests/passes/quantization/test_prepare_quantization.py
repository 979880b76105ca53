from __future__ import annotations

import re

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import IntegerMatMul
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.quantization.prepare_quantization import PrepareQuantization
from tests.support.onnx_case import reference_outputs
from tests.support.programs import RELU, Net, run, run_until

SCALE = 0.05
MAXIMUM = Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))


class Quantised(Net):
    """A net with groups of Quantize and Dequantize."""

    def __init__(self, dtype: DType = DType.U8, zero: int = 100) -> None:
        super().__init__()
        self.dtype = dtype
        self.number("scale", SCALE)
        self.constant("zero", np.array(zero, dtype.numpy))
        self.input("x", (1, 3, 4, 4))

    def quantize(self, name: str, x: str, scale: str = "scale", zero: str = "zero") -> str:
        return self.add(name, Quantize(0, dtype=self.dtype), x, scale, zero)

    def dequantize(self, name: str, x: str, scale: str = "scale", zero: str = "zero") -> str:
        return self.add(name, Dequantize(0), x, scale, zero)

    def made(self, *outputs: str) -> list[str]:
        program = run(self.program(*outputs), PrepareQuantization())
        self.notes = program.notes.get("prepare_quantization", "")
        return [n.primitive.kind for n in program]


@pytest.mark.parametrize(("dtype", "zero", "low"), [(DType.U8, 100, -100.0), (DType.I8, 3, -131.0)])
def test_a_group_of_8_bits_becomes_one_activation(dtype: DType, zero: int, low: float) -> None:
    net = Quantised(dtype, zero)
    net.dequantize("d", net.quantize("q", net.add("r", RELU, "x")))
    program = run(net.program("d"), PrepareQuantization())
    assert [n.primitive for n in program] == [RELU, Activation("fake_quantize", float(np.float32(SCALE)), low)]
    assert program.notes["prepare_quantization"].startswith("1 quantize")


@pytest.mark.parametrize(("dtype", "zero"), [(DType.U16, 40000), (DType.I16, -3)])
def test_a_group_of_16_bits_becomes_one_activation_with_the_same_bits(dtype: DType, zero: int) -> None:
    net = Quantised(dtype, zero)
    net.dequantize("d", net.quantize("q", "x"))
    program = run(net.program("d"), PrepareQuantization())
    (node,) = program
    # Halves, and what saturates at either end.
    scale, offset = np.float32(SCALE), np.array(zero, dtype.numpy)
    x = (np.arange(-140001, 140000, 7) / 2 * scale).astype(np.float32)
    (integers,) = Quantize(0, dtype=dtype).reference(x, scale, offset)
    (steps,) = node.primitive.reference(x)
    np.testing.assert_array_equal(steps, Dequantize(0).reference(integers, scale, offset)[0])


def test_integers_that_are_bounded_are_bounded_before_they_are_rounded() -> None:
    net = Quantised()
    net.dequantize("d", net.add("bounded", Activation("clip", 90.0, 127.0), net.quantize("q", "x")))
    program = run(net.program("d"), PrepareQuantization())
    assert [n.primitive.kind for n in program] == ["activation", "activation"]
    x = (np.arange(-700, 701) / 2 * np.float32(SCALE)).astype(np.float32)
    (integers,) = Quantize(0, dtype=DType.U8).reference(x, np.float32(SCALE), np.uint8(100))
    want = Dequantize(0).reference(integers.clip(90, 127), np.float32(SCALE), np.uint8(100))[0]
    first, last = program
    np.testing.assert_array_equal(last.primitive.reference(*first.primitive.reference(x))[0], want)


def test_every_reader_of_the_integers_reads_the_one_activation() -> None:
    net = Quantised()
    net.quantize("q", "x")
    for name in "ab":
        net.add(f"r{name}", RELU, net.dequantize(name, "q"))
    net.dequantize("c", "q")
    assert net.made("ra", "rb", "c") == ["activation", "activation", "activation"]


def test_integers_that_are_read_with_several_scales_are_rounded_once_and_scaled() -> None:
    net = Quantised()
    net.number("one", 1.0)
    net.quantize("q", "x", "one")
    net.dequantize("whole", "q", "one")
    net.dequantize("scaled", "q")
    program = run(net.program("whole", "scaled"), PrepareQuantization())
    scale = float(np.float32(SCALE))
    assert [n.primitive for n in program] == [
        Activation("fake_quantize", 1.0, -100.0),
        Activation("linear", scale),
    ]
    assert [n.name for n in program] == ["whole", "scaled"]


@pytest.mark.parametrize("mover", [MAXIMUM, Transpose((0, 2, 3, 1))])
def test_what_hands_on_integers_hands_on_floats(mover) -> None:
    net = Quantised()
    net.dequantize("d", net.add("moved", mover, net.quantize("q", "x")))
    assert net.made("d") == ["activation", mover.kind]


def test_what_hands_on_integers_to_several_readers_hands_on_floats() -> None:
    net = Quantised()
    net.add("moved", MAXIMUM, net.quantize("q", "x"))
    ends = [net.add(f"r{name}", RELU, net.dequantize(name, "moved")) for name in "ab"]
    assert net.made(*ends) == ["activation", MAXIMUM.kind, "activation", "activation"]


def test_integers_that_are_joined_are_joined_as_floats() -> None:
    """As TFLite's converters write it: a concatenation of integers of one scale."""
    net = Quantised()
    first, second = net.quantize("a", "x"), net.quantize("b", net.add("r", RELU, "x"))
    net.dequantize("d", net.add("c", Concat(1), first, second, first))
    assert net.made("d", net.dequantize("beside", first)) == ["activation", "activation", "activation", "concat"]
    # What was no rounding just now is joined as it is.
    net = Quantised()
    net.dequantize("d", net.add("c", Concat(1), net.quantize("a", "x"), net.input("bytes", (1, 3, 4, 4), DType.U8)))
    assert net.made("d") == ["quantize", "concat", "dequantize"]


def test_integers_that_are_handed_on_to_readers_of_several_scales_stay() -> None:
    net = Quantised()
    net.add("moved", MAXIMUM, net.quantize("q", "x"))
    ends = [net.dequantize("a", "moved"), net.dequantize("b", "moved", net.number("other", 0.5))]
    assert "quantize" in net.made(*ends)


@pytest.mark.parametrize("k", [40, 600])
def test_dynamically_quantised_products_are_floats_from_end_to_end(k: int) -> None:
    net = Net()
    rng = np.random.default_rng(k)
    net.add("q", DynamicQuantize(), net.input("x", (3, k)), outputs=("q", "s", "z"))
    net.constant(
        "w", rng.integers(-255 if k > 40 else -90, 128, (k, 5)).astype(np.int16).clip(-128, 127).astype(np.int8)
    )
    net.constant("w_zero", np.array(100 if k > 40 else 0, np.int8))
    net.add("f", Reorder(DType.F32), net.add("y", IntegerMatMul(), "q", "w", "z", "w_zero"))
    net.add("scaled", Eltwise("mul"), "f", "s")
    before = net.program("scaled")
    assert {"quantize", "dequantize"} <= {n.primitive.kind for n in before}
    program = run(before, PrepareQuantization())
    kinds = {n.primitive.kind for n in program}
    assert kinds <= {"matmul", "eltwise", "activation", "reduce", "slice"}, kinds
    assert ("slice" in kinds) == (k > 40)


def test_the_least_element_of_what_is_never_negative_is_not_looked_for() -> None:
    six, below = Activation("clip", 0.0, 6.0), Activation("clip", -1.0, 6.0)
    average = Pooling("average", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))
    swish = Activation("hard_swish", 1 / 6, 0.5)
    cases = [([RELU], True), ([six, Transpose((0, 2, 3, 1)), average], True), ([], False), ([below], False)]
    cases += [([MAXIMUM], False), ([RELU, swish], False), ([Activation("neg")], False)]
    for chain, sure in cases:
        net = Net()
        at = net.input("x", (1, 4, 6, 6))
        for i, p in enumerate(chain):
            at = net.add(f"p{i}", p, at)
        net.add("q", DynamicQuantize(), at, outputs=("q", "s", "z"))
        program = run_until(net.program("q", "s", "z"), PrepareQuantization.name)
        reduced = {n.primitive.function for n in program if isinstance(n.primitive, Reduce)}
        assert reduced == ({"max"} if sure else {"max", "min"}), chain


def test_products_whose_roundings_stand_in_front_of_reshapes_are_spread() -> None:
    """As ONNX Runtime's preparation writes products with a bias: what is behind the last reshape finds the product."""
    net = Quantised()
    flat = net.add("flat", Reshape((12, 4)), net.dequantize("a", net.quantize("a_q", "x")))
    product = net.add("product", MatMul(), net.dequantize("f", net.quantize("f_q", flat)), net.data("w", 4, 6))
    back = net.add("back", Reshape((1, 3, 4, 6)), net.dequantize("b", net.quantize("b_q", product)))
    net.dequantize("c", net.quantize("c_q", net.add("r", RELU, back)))
    program = run(net.program("c"), PrepareQuantization())
    assert [n.primitive.kind for n in program] == ["activation", "matmul", *["activation"] * 3]
    assert program["b"].output.layout.shape == (1, 3, 4, 6)
    assert [n.name for n in program["product"].output.readers] == ["b"]


def test_what_is_reshaped_is_rounded_once_for_all_that_read_it() -> None:
    """As ONNX Runtime writes QGemm and QLinearAdd of one tensor: the products of the first are spread, too."""
    net = Quantised()
    normal = net.add("normal", RELU, "x")
    flat = net.add("flat", Reshape((12, 4)), normal)
    for name in "ab":
        rounded = net.dequantize(f"{name}_f", net.quantize(f"{name}_q", flat))
        net.add(name, Reshape((1, 3, 4, 6)), net.add(f"{name}_y", MatMul(), rounded, net.data(f"{name}_w", 4, 6)))
    net.add("beside", RELU, net.dequantize("x_f", net.quantize("x_q", normal)))
    program = run(net.program("a", "b", "beside"), PrepareQuantization())
    assert [n.primitive.kind for n in program] == ["activation", "activation", "matmul", "matmul", "activation"]
    rounded, *readers = list(program)[1:]
    assert all(n.inputs[0] is rounded.output for n in readers)
    # One of the readers rounds to other steps: each rounds for itself, behind the reshape.
    net = Quantised()
    flat = net.add("flat", Reshape((12, 4)), "x")
    net.dequantize("a", net.quantize("a_q", flat))
    net.dequantize("b", net.quantize("b_q", flat, other := net.number("other", 0.5)), other)
    assert net.made("a", "b") == ["reshape", "activation", "activation"]


def _output(net: Quantised) -> list[str]:
    return [net.dequantize("d", net.quantize("q", "x")), "q"]


def _four(net: Quantised) -> list[str]:
    net.constant("narrow", np.array(5, DType.I4.numpy))
    net.add("q", Quantize(0, dtype=DType.I4), "x", "scale", "narrow")
    return [net.dequantize("d", "q", zero="narrow")]


def _other_scale(net: Quantised) -> list[str]:
    return [net.dequantize("d", net.quantize("q", "x"), net.number("other", 0.5))]


def _along_an_axis(net: Quantised) -> list[str]:
    net.constant("scales", np.array([1, 2, 3], np.float32))
    net.constant("zeros", np.array([1, 2, 3], np.uint8))
    net.add("q", Quantize(1), "x", "scales", "zeros")
    return [net.add("d", Dequantize(1), "q", "scales", "zeros")]


def _computed(net: Quantised) -> list[str]:
    net.input("now", ())
    return [net.dequantize("d", net.quantize("q", "x", "now"), "now")]


def _summed(net: Quantised) -> list[str]:
    average = Pooling("average", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))
    net.add("floats", average, net.dequantize("d", net.quantize("q", "x")))
    return ["floats", net.add("whole", RELU, "q")]


def _divided_in_halves(net: Quantised) -> list[str]:
    net.add("q", Quantize(0, precision=DType.F16), "x", "scale", "zero")
    return [net.dequantize("d", net.add("bounded", Activation("clip", 10.0, 200.0), "q"))]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_divided_in_halves, "rounded quotients of f16"),
        (_output, "q makes integers: q is an output of the graph"),
        (_four, "no 8 or 16 bits"),
        (_other_scale, "another scale"),
        (_along_an_axis, "not one number each"),
        (_computed, "known and finite"),
        (_summed, r"whole \(activation\) reads them"),
    ],
)
def test_integers_that_are_needed_stay_and_a_note_says_why(make, reason: str) -> None:
    net = Quantised()
    assert "quantize" in net.made(*make(net))
    assert re.search(reason, net.notes), net.notes


@pytest.mark.parametrize("order", [QuantizedSum, QuantizedProduct])
def test_sums_and_products_between_integers_are_of_bytes(order) -> None:
    for scales, zeros, pairs in (((SCALE,) * 3, (100,) * 3, True), ((SCALE, SCALE, 1.0), (100,) * 3, False)):
        net = Quantised(DType.U8, 100)
        net.input("i", (1, 3, 4, 4), DType.U8)
        net.input("j", (3, 1, 1), DType.U8)
        both = [net.dequantize("d", "i"), net.dequantize("e", "j")]
        net.quantize("q", net.add("s", order(scales, zeros), *both))
        assert net.made("q") == (["quantized_pair"] if pairs else ["dequantize", "dequantize", order.kind, "quantize"])


@pytest.mark.parametrize(("dtype", "zero"), [(DType.U8, 100), (DType.I8, -3)])
def test_activations_between_integers_are_a_table(dtype: DType, zero: int) -> None:
    net = Quantised(dtype, zero)
    net.input("i", (1, 3, 4, 4), dtype)
    net.quantize("q", net.add("s", Activation("sigmoid"), net.add("n", RELU, net.dequantize("d", "i"))))
    assert net.made("q") == ["byte_lookup"]
    net = Quantised(dtype, zero)
    net.input("i", (1, 3, 4, 4), dtype)
    net.quantize("q", net.add("s", RELU, net.dequantize("d", "i")))
    assert "byte_lookup" not in net.made("q", "s")


def test_parts_of_a_concat_are_looked_up_and_those_on_its_steps_taken_as_they_are() -> None:
    net = Quantised()
    net.number("other", 0.07)
    for name in ("p", "q"):
        net.input(name, (1, 3, 4, 4), DType.U8)
    net.add("c", Concat(1), net.dequantize("dp", "p"), net.dequantize("dq", "q", "other"), net.dequantize("e", "p"))
    program = net.program(net.quantize("y", "c"))
    p, q = (np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4) * np.uint8(5) + np.uint8(k) for k in (0, 3))
    feeds = {"x": np.zeros((1, 3, 4, 4), np.float32), "p": p, "q": q}
    (want,) = reference_outputs(program, feeds)
    run(program, PrepareQuantization())
    assert [n.primitive.kind for n in program] == ["byte_lookup", "concat"]
    (got,) = reference_outputs(program, feeds)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.uint8


def test_a_concat_that_others_read_is_rounded_whole() -> None:
    net = Quantised()
    net.input("p", (1, 3, 4, 4), DType.U8)
    net.add("c", Concat(1), net.dequantize("d", "p"), "x")
    assert net.made(net.quantize("y", "c")) == ["dequantize", "concat", "quantize"]
    net = Quantised()
    net.input("p", (1, 3, 4, 4), DType.U8)
    net.add("c", Concat(1), net.dequantize("d", "p"), "d")
    assert net.made(net.quantize("y", "c"), "c") == ["dequantize", "concat", "quantize"]


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
def test_maxima_of_bytes_leave_channels_last(dtype: DType) -> None:
    net = Quantised()
    net.input("p", (2, 5, 6, 3), dtype)
    window = Pooling("max", (3, 2), (2, 1), (1, 2), ((1, 1), (0, 1)))
    net.add("y", Transpose((0, 2, 3, 1)), net.add("m", window, net.add("t", Transpose((0, 3, 1, 2)), "p")))
    program = net.program("y")
    p = np.random.default_rng(0).integers(0, 100, (2, 5, 6, 3)).astype(dtype.numpy)
    feeds = {"x": np.zeros((1, 3, 4, 4), np.float32), "p": p}
    (want,) = reference_outputs(program, feeds)
    run(program, PrepareQuantization())
    assert [n.primitive.kind for n in program] == ["reshape", "pooling", "reshape"]
    np.testing.assert_array_equal(reference_outputs(program, feeds)[0], want)


def test_maxima_between_other_transposes_keep_them() -> None:
    for first, last in (((0, 2, 3, 1), (0, 2, 3, 1)), ((0, 3, 1, 2), (0, 3, 1, 2))):
        net = Quantised()
        net.input("p", (2, 5, 6, 3), DType.U8)
        net.add("y", Transpose(last), net.add("m", MAXIMUM, net.add("t", Transpose(first), "p")))
        assert net.made("y") == ["transpose", "pooling", "transpose"]


def test_means_of_bytes_sum_the_bytes() -> None:
    def means(axes: tuple[int, ...], *outputs: str) -> list[str]:
        net = Quantised(zero=128)
        net.input("p", (2, 5, 6, 3), DType.U8)
        net.add("y", Reduce("mean", axes), net.dequantize("d", "p"))
        program = net.program("y", *outputs)
        p = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 3)).astype(np.uint8)
        feeds = {"x": np.zeros((1, 3, 4, 4), np.float32), "p": p}
        want = reference_outputs(program, feeds)
        run(program, PrepareQuantization())
        # Each of at most 30 floats of up to 128 * SCALE, and each of their sums, is rounded.
        np.testing.assert_allclose(reference_outputs(program, feeds)[0], want[0], atol=30 * 2**-24 * 128 * SCALE)
        return [n.primitive.kind for n in program]

    assert means((2, 3)) == means((1, 2)) == ["byte_mean"]
    assert means((1, 3)) == ["dequantize", "reduce"]
    assert means((2, 3), "d") == ["dequantize", "reduce"]
