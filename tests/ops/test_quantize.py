"""QuantizeLinear and DequantizeLinear."""

import itertools

import numpy as np
import onnx.parser
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.quantize import Quantize
from clgraph.ops.scales import SMALL, WHOLE
from tests.support.check_op import check_op
from tests.support.onnx_case import ONNX_TYPES, agree


def whole_numbers(rng, shape, dtype, most):
    """Draw from -*most* to *most*, or from the least to the largest number of a narrow *dtype*."""
    low, high = dtype.bounds if dtype.name[0] in "IU" else (-7, 7)
    return rng.integers(max(-most, low), min(most, high) + 1, shape).astype(np.int32).astype(dtype.numpy)


@pytest.mark.parametrize("opset", [13, 19, 21])
@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantizing_agrees_with_onnxruntime(dtype, axis, opset, rng):
    x = (rng.standard_normal((2, 3, 4)) * 40).astype(np.float32)
    # A power of two: no quotient is rounded, and halves do occur.
    count = () if axis is None else (x.shape[axis],)
    scale = 2.0 ** rng.integers(-2, 3, count).astype(np.float32)
    x = np.round(x * 4) / 4
    zero = rng.integers(0, 100, count).astype(dtype)
    agree(
        "QuantizeLinear",
        [x, np.asarray(scale, np.float32), np.asarray(zero)],
        opset=opset,
        axis=1 if axis is None else axis,
    )


@pytest.mark.parametrize("opset", [13, 19, 21])
@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_dequantizing_agrees_with_onnxruntime(dtype, axis, opset, rng):
    x = rng.integers(0, 120, (2, 3, 4)).astype(dtype)
    count = () if axis is None else (x.shape[axis],)
    scale = np.asarray(rng.uniform(0.1, 2, count), np.float32)
    zero = np.zeros(count, dtype) if dtype == np.int32 else np.asarray(rng.integers(0, 100, count), dtype)
    agree("DequantizeLinear", [x, scale, zero], opset=opset, axis=1 if axis is None else axis)


@pytest.mark.opencl
@pytest.mark.parametrize(("scales", "zeros"), [((1,), ()), ((), (1,)), ((1, 1), (1,))])
def test_one_scale_and_one_zero_point_fit_in_whatever_shapes(scales, zeros, engine):
    draw = {1: lambda rng, s: np.full(s, 0.25), 2: lambda rng, s: np.full(s, 90)}
    made = check_op(engine, Quantize(1), (2, 3, 5), scales, zeros, dtype=(DType.F32, DType.F32, DType.U8), draw=draw)
    assert "quantize.ref" in made
    draw[0] = lambda rng, s: rng.integers(0, 256, s)
    made = check_op(engine, Dequantize(1), (2, 3, 5), scales, zeros, dtype=(DType.U8, DType.F32, DType.U8), draw=draw)
    assert "dequantize.ref" in made


def one_and_many(dtypes):
    """Parametrise by *dtypes* and by the shape of scales; one for all is slow but for one type of each kind.

    It makes another kernel text, of fewer axes.
    """
    cases = itertools.product(sorted(dtypes, key=str), [(3,), ()])
    slow = lambda dtype, shape: not shape and dtype not in (DType.I8, DType.I4, DType.F8E4M3FN)  # noqa: E731
    return pytest.mark.parametrize(
        ("dtype", "shape"), [pytest.param(*case, marks=pytest.mark.slow if slow(*case) else []) for case in cases]
    )


@pytest.mark.opencl
@one_and_many(SMALL)
def test_every_implementation_quantizes_like_the_reference(dtype, shape, engine):
    scales = {1: lambda rng, s: 2.0 ** rng.integers(-3, 4, s).astype(np.float32)}
    whole = {2: lambda rng, s: whole_numbers(rng, s, dtype, 90)}
    types = (DType.F32, DType.F32, dtype)
    check_op(engine, Quantize(1), (2, 3, 5), shape, shape, dtype=types, draw=scales | whole)
    check_op(engine, Quantize(1, dtype=dtype), (2, 3, 5), shape, dtype=types, draw=scales)


@pytest.mark.opencl
@one_and_many(WHOLE)
def test_every_implementation_dequantizes_like_the_reference(dtype, shape, engine):
    whole = {i: lambda rng, s: whole_numbers(rng, s, dtype, 120) for i in (0, 2)}
    types = (dtype, DType.F32, dtype)
    # Fused operations make another text; they have nothing to do with how integers are read, which is in four ways.
    fused = [(Activation("relu"), (), 0)] if dtype in (DType.I8, DType.I4, DType.F8E4M3FN, DType.I32) else []
    # Of 32 bits, numbers that no float holds; their differences are exact.
    far = {i: lambda rng, s: rng.integers(2**24, 2**24 + 120, s) for i in (0, 2)} if dtype is DType.I32 else whole
    # One rounding of the product, one of the result of the activation.
    check_op(engine, Dequantize(1), (2, 3, 5), shape, shape, dtype=types, draw=far, ulps=1 + bool(fused), fused=fused)
    check_op(engine, Dequantize(1), (2, 3, 5), shape, dtype=types, draw=whole, ulps=1)


BLOCKS = [((4, 7), (4, 3), 1, 3), ((6, 2, 3), (2, 2, 3), 0, 4), ((2, 5), (2, 5), 1, 1)]


@pytest.mark.parametrize(("shape", "blocks", "axis", "block"), BLOCKS)
def test_scales_of_blocks_agree_with_onnxruntime(shape, blocks, axis, block, rng):
    x = np.round(rng.standard_normal(shape) * 40).astype(np.float32)
    scale = (2.0 ** rng.integers(-2, 3, blocks)).astype(np.float32)
    zero = rng.integers(0, 100, blocks).astype(np.uint8)
    agree("QuantizeLinear", [x, scale, zero], opset=21, axis=axis, block_size=block)
    agree(
        "DequantizeLinear",
        [rng.integers(0, 255, shape).astype(np.uint8), scale, zero],
        opset=21,
        axis=axis,
        block_size=block,
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_the_type_may_be_an_attribute_instead_of_a_zero_point(dtype, rng):
    x = np.round(rng.standard_normal((3, 4)) * 40).astype(np.float32)
    agree("QuantizeLinear", [x, np.float32(0.5)], opset=21, output_dtype=ONNX_TYPES[np.dtype(dtype)])


@pytest.mark.opencl
@pytest.mark.parametrize(("shape", "blocks", "axis", "block"), BLOCKS)
def test_every_implementation_reads_scales_of_blocks(shape, blocks, axis, block, engine):
    scales = {1: lambda rng, s: 2.0 ** rng.integers(-3, 4, s).astype(np.float32)}
    whole = {2: lambda rng, s: rng.integers(0, 90, s)}
    check_op(
        engine,
        Quantize(axis, block),
        shape,
        blocks,
        blocks,
        dtype=(DType.F32, DType.F32, DType.U8),
        draw=scales | whole,
    )
    types, whole = (DType.I8, DType.F32, DType.I8), {i: lambda rng, s: rng.integers(-120, 120, s) for i in (0, 2)}
    check_op(engine, Dequantize(axis, block), shape, blocks, blocks, dtype=types, draw=scales | whole)


@pytest.mark.opencl
def test_x_scale_and_result_may_differ_in_their_type(engine):
    scales = {1: lambda rng, s: 2.0 ** rng.integers(-3, 4, s).astype(np.float32)}
    for types in ((DType.F16, DType.F32), (DType.F32, DType.F16), (DType.I32, DType.F32)):
        check_op(engine, Quantize(1, 0, DType.I8), (2, 3, 5), (3,), dtype=types, draw=scales)
    for result in (DType.F16, DType.F32):
        check_op(engine, Dequantize(1, 0, result), (2, 3, 5), (3,), dtype=(DType.I8, DType.F16), draw=scales, ulps=1)


def test_infinities_saturate_and_nan_is_the_smallest_integer():
    x = np.array([np.inf, -np.inf, np.nan, 3e38], np.float32)
    (y,) = Quantize(0, dtype=DType.I8).reference(x, np.float32(0.5), np.int8(7))
    assert y.tolist() == [127, -128, -128, 127]


@pytest.mark.parametrize("shapes", [((2, 3), (2,), (2,)), ((2, 3), (3,), ()), ((2, 3), (1, 3), (1, 3))])
def test_scales_that_do_not_fit_are_refused(shapes):
    types = (DType.F32, DType.F32, DType.U8)
    with pytest.raises(ShapeError):
        Quantize(1).infer([Layout(d, s) for d, s in zip(types, shapes, strict=True)])


@pytest.mark.opencl
@pytest.mark.parametrize("opset", [21, 23])
def test_the_quotient_has_the_type_of_a_scale_of_16_bits_since_operator_set_23(opset: int) -> None:
    """Quotients up to 100, which float16 rounds to 1/16, are halves where float32's are not."""
    x = np.linspace(-30, 30, 999).astype(np.float16)
    text = "g (float16[999] x, float16 s, int8 z) => (int8[999] y) { y = QuantizeLinear(x, s, z) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')
    feeds = {"x": x, "s": np.float16(0.3), "z": np.int8(3)}
    wanted = np.float32(x) / np.float32(feeds["s"])
    wanted = wanted.astype(np.float16) if opset == 23 else wanted
    assert not np.array_equal(np.rint(wanted), np.rint(wanted.astype(np.float16))) or opset == 23
    assert np.array_equal(clgraph.compile(model)(feeds), np.clip(np.rint(wanted) + 3, -128, 127).astype(np.int8))


def test_powers_of_two_as_scales_want_the_type_of_the_result() -> None:
    text = "g (uint8[4] x, float8e8m0 s) => (float[4] y) {{ y = DequantizeLinear{}(x, s) }}"
    made = onnx.parser.parse_model('<ir_version: 13, opset_import: ["": 25]>' + text.format("<output_dtype=1>"))
    x, s = np.arange(4, dtype=np.uint8), np.array(0.25, DType.F8E8M0.numpy)
    assert np.array_equal(clgraph.compile(made, device="host")({"x": x, "s": s}), x * np.float32(0.25))
    made.graph.node[0].ClearField("attribute")
    with pytest.raises(ShapeError, match="output_dtype"):
        clgraph.compile(made, device="host")


@pytest.mark.opencl
@pytest.mark.parametrize("between", ["", "b = Identity(q)", "b = Clip(q, low, high)"])
@pytest.mark.parametrize(
    ("scale", "value", "precision"),
    [("float16", 13722, 0), ("bfloat16", 16051, 0), ("float", 0.35, 10), ("float", 0.35, 16)],
)
def test_a_known_scale_of_16_bits_or_a_precision_holds_in_pairs_too(scale, value, precision, between) -> None:
    """The quotient is rounded to 11 or 8 bits in front of a DequantizeLinear, too, and where integers are bounded.

    Of bfloat16, the bound itself becomes another integer by division. The text of a model has bits of 16-bit floats.
    """
    asked, read = (f"precision={precision}", "b" if between else "q")
    model = onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["": 23]>
        g (float[999] x) => (float[999] y)
        <{scale} s = {{{value}}}, uint8 z = {{3}}, uint8 low = {{1}}, uint8 high = {{100}}>
        {{ q = QuantizeLinear<{asked if precision else "axis=1"}>(x, s, z) {between}
           y = DequantizeLinear<output_dtype=1>({read}, s, z) }}""")
    (s,) = (onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "s")
    dtype = {0: s.dtype, 10: np.dtype(np.float16), 16: DType.BF16.numpy}[precision]
    x = np.linspace(-1, 80, 999, dtype=np.float32)
    quotient = (x.astype(dtype) / s.astype(dtype)).astype(np.float32)
    assert not np.array_equal(np.rint(quotient), np.rint(x / np.float32(s)))
    limits = (1, 100) if "Clip" in between else (0, 255)
    wanted = (np.clip(np.rint(quotient) + 3, *limits) - 3) * np.float32(s)
    assert np.array_equal(clgraph.compile(model)({"x": x}), wanted)
