"""MatMulInteger and ConvInteger: products of 8-bit integers in int32."""

import itertools

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.integer_convolution import IntegerConvolution
from clgraph.ops.integer_matmul import EXACT, IntegerMatMul, exact_parts
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

BYTES = {0: lambda rng, s: rng.integers(0, 256, s), 1: lambda rng, s: rng.integers(-128, 128, s)}
ZEROS = {2: lambda rng, s: rng.integers(0, 256, s), 3: lambda rng, s: rng.integers(-128, 128, s)}
TYPES = (DType.U8, DType.I8, DType.U8, DType.I8)
MATRICES = [
    ((5, 7), (7, 3), (), ()),
    ((2, 5, 70), (70, 3), (), (3,)),
    ((2, 5, 7), (2, 7, 3), (2, 5, 1), (2, 1, 3)),
    ((1, 4), (4, 1), (1,), (1,)),
    ((4, 6), (6, 2), (4,), ()),
]


@pytest.mark.opencl
@pytest.mark.parametrize("shapes", MATRICES)
def test_every_product_of_integers_is_exact(shapes, engine):
    check_op(engine, IntegerMatMul(), *shapes, dtype=TYPES, draw=BYTES | ZEROS, families=("normal",))


@pytest.mark.opencl
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("zero", [(), (4,)])
def test_every_convolution_of_integers_is_exact(groups, zero, engine):
    convolution = IntegerConvolution((2, 1), (1, 2), ((1, 0), (2, 1)), groups)
    shapes = ((2, 6, 7, 8), (4, 6 // groups, 3, 2), (), zero)
    check_op(engine, convolution, *shapes, dtype=TYPES, draw=BYTES | ZEROS, families=("normal",))


@pytest.mark.parametrize("constant", [(), (1, 2, 3)])
@pytest.mark.parametrize("types", [*itertools.product((np.uint8, np.int8), repeat=2)])
def test_products_agree_with_onnxruntime(constant, types, rng):
    a = rng.integers(0, 256, (3, 5)).astype(types[0])
    b = rng.integers(-128, 128, (5, 4)).astype(types[1])
    columns = np.arange(4).astype(types[1])
    for zeros in (
        [],
        [types[0](100)],
        [types[0]([3]), types[1](90)],
        [types[0](3), types[1]([90])],
        [types[0](3), columns],
    ):
        inputs = [a, b, *zeros]
        agree("MatMulInteger", inputs, opset=10, constant=[i for i in constant if i < len(inputs)])


@pytest.mark.parametrize("constant", [(), (1, 2, 3)])
def test_convolutions_agree_with_onnxruntime(constant, rng):
    x, w = (rng.integers(0, 256, s).astype(np.uint8) for s in ((1, 4, 6, 5), (6, 2, 3, 3)))
    inputs = [x, w, np.uint8(100), np.uint8(33)]
    agree("ConvInteger", inputs, opset=10, constant=constant, group=2, pads=[1, 2, 0, 1], strides=[2, 1])


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [(), (1,)])
@pytest.mark.parametrize("types", [*itertools.product((np.uint8, np.int8), repeat=2)])
def test_zero_points_that_are_left_out_are_zeros_of_their_operands_types(types, constant, rng):
    for op_type, shapes in (("MatMulInteger", ((3, 12), (12, 2))), ("ConvInteger", ((1, 4, 6, 5), (6, 4, 3, 3)))):
        a, b = (rng.integers(0, 256, s).astype(t) for s, t in zip(shapes, types, strict=True))
        for zeros in ([], [types[0](7)], [None, types[1](9)]):
            given = [z.dtype.type(0) for z in (a, b)]
            given = [g if z is None else z for g, z in itertools.zip_longest(given, zeros)]
            results = []
            for inputs in ([a, b, *zeros], [a, b, *given]):
                model, feeds = one_node(op_type, inputs, opset=10, constant=constant)
                results += clgraph.compile(model).run(feeds).values()
            np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("k", [257, 1000])
def test_known_weights_are_cut_until_every_sum_is_exact_in_floats(k, rng):
    weights = rng.integers(-255, 256, (k, 9))
    parts = exact_parts(weights, None)
    assert parts is not None
    assert parts[0][0] == 0
    assert parts[-1][1] == k
    assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
    assert max(np.abs(weights[i:j]).sum(0).max() for i, j in parts) * 255 <= EXACT
    whole = [(0, k)]
    assert (parts == whole) == (np.abs(weights).sum(0).max() * 255 <= EXACT)


def test_a_known_zero_point_in_the_middle_allows_longer_sums():
    weights = np.full((1000, 1), 100)
    assert exact_parts(weights, np.array(0, np.uint8)) == [(0, 500), (500, 1000)]
    assert exact_parts(weights, np.array(0, np.int8)) == [(0, 1000)]
    assert exact_parts(np.full((40000, 1), 255), None) is None


@pytest.mark.opencl
@pytest.mark.parametrize(("k", "node"), [(300, "matmul"), (2000, "add"), (60000, "integer_matmul")])
def test_products_with_constants_are_the_same_however_they_are_computed(k, node, device):
    rng = np.random.default_rng(k)
    a, b = rng.integers(0, 256, (3, k)).astype(np.uint8), rng.integers(-60, 128, (k, 5)).astype(np.int8)
    model, feeds = one_node("MatMulInteger", [a, b, np.uint8(9), np.int8(-3)], opset=10, constant=(1, 2, 3))
    compiled = clgraph.compile(model, device=device)
    assert node in str(compiled.explain())
    np.testing.assert_array_equal(compiled.run(feeds)["y0"], onnxruntime_outputs(model, feeds)[0])


@pytest.mark.opencl
@pytest.mark.parametrize(("k", "node"), [(258, "matmul"), (777, "add"), (9000, "integer_matmul")])
def test_products_of_unknown_matrices_are_exact_at_the_largest_sums(k, node, device):
    # Odd sums of k products of up to 255 and 255: floats hold those of 258.
    a, b = np.full((2, 3, k), 255, np.uint8), np.full((k, 5), -128, np.int8)
    a[:, 1:, 0] -= 1
    model, feeds = one_node("MatMulInteger", [a, b, np.uint8(0), np.int8(127)], opset=10, constant=(2, 3))
    compiled = clgraph.compile(model, device=device)
    assert node in str(compiled.explain())
    np.testing.assert_array_equal(compiled.run(feeds)["y0"], np.matmul(a.astype(int), b.astype(int) - 127))


@pytest.mark.opencl
def test_convolutions_with_constants_are_exact_at_the_largest_sums(device):
    rng = np.random.default_rng(3)
    # As large as floats hold: 9 * 44 products of up to 255 and 160; Winograd's transforms would round them.
    x = rng.integers(0, 256, (1, 44, 28, 28)).astype(np.uint8)
    w = rng.integers(80, 160, (64, 44, 3, 3)).astype(np.uint8)
    model, feeds = one_node("ConvInteger", [x, w], opset=10, constant=(1,), pads=[1, 1, 1, 1])
    compiled = clgraph.compile(model, device=device)
    assert "integer_convolution" not in str(compiled.explain())
    np.testing.assert_array_equal(compiled.run(feeds)["y0"], onnxruntime_outputs(model, feeds)[0])


def test_what_is_no_byte_is_refused():
    whole, zero = Layout(DType.I32, (3, 3)), Layout(DType.U8, ())
    for primitive, shape in ((IntegerMatMul(), (3, 3)), (IntegerConvolution(), (1, 3, 3))):
        x = Layout(whole.dtype, shape)
        with pytest.raises(clgraph.errors.ShapeError, match="i32"):
            primitive.infer([x, x, zero, zero])
