"""Products with packed weights: the general kernel, what is refused, and the option that denies fixed-point numbers."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph import compile
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records
from tests.support.check_op import check_op
from tests.support.onnx_case import one_node, onnxruntime_outputs

F = np.float32


def drawn(primitive):
    """Return how records of *primitive* are drawn."""

    def draw(rng, shape):
        columns = shape[0] * 64
        form = primitive.records
        packed = rng.integers(0, 256, (columns, shape[1] * form.block * form.bits // 8)).astype(np.uint8)
        zeros = rng.integers(0, 1 << form.bits, (columns, shape[1])) if form.zeros else None
        return form.pack(packed, rng.uniform(0.5, 1.5, (columns, shape[1])), zeros)

    return draw


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_kernel_agrees_with_float64(gpu_engine, dtype):
    for p, rows in ((BlockMatMul(70, 144, 4, 32, zeros=True), (2, 3)), (BlockMatMul(20, 32, 2, 16), (1, 1))):
        records = p.records.shape(p.columns, p.depth)

        def size(a, w, bias, p=p):
            return np.abs(a) @ np.abs(p.records.floats(w.astype(np.uint8), p.columns, p.depth)) + np.abs(bias)

        # The sums of a block, of the blocks and of slices, the scale, the weight's own rounding, the bias; panels'
        # weights are rounded to float16, 2^-11.
        bound = p.block + -(-p.depth // p.block) + 8
        panels = {"block_matmul.gpu_panels": p.depth + 8 + 2**13 * (dtype == DType.F16)}
        for name in ("block_matmul.ref", "block_matmul.gpu_columns", "block_matmul.gpu_panels"):
            check_op(
                gpu_engine,
                p,
                *((*rows, p.depth), records, (p.columns,)),
                ulps=panels.get(name, bound),
                scale=size,
                dtype=(dtype, DType.U8, dtype),
                constant=(1, 2),
                draw={1: drawn(p)},
                fused=[(Activation("relu"), (), 0)],
                only=[name],
            )


@pytest.mark.opencl
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_of_models_are_onnxruntimes_by_digits_and_exactly(engine, bits, rng):
    a = rng.standard_normal((32, 256)).astype(F)
    packed = rng.integers(0, 256, (1000, 8, 32 * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, (1000, 8)).astype(F)
    attributes = {"N": 1000, "K": 256, "bits": bits, "block_size": 32, "opset": 17, "domain": "com.microsoft"}
    model, feeds = one_node("MatMulNBits", [a, packed, scales], constant=(1, 2), **attributes)
    (want,) = onnxruntime_outputs(model, feeds)
    weights = Records(bits, 32, False)
    size = np.abs(a) @ np.abs(weights.floats(weights.pack(packed.reshape(1000, -1), scales), 1000, 256))
    for products in ("digits", "exact"):
        made = compile(model, device=engine.info.name, config={"quantised_products": products})
        (got,) = made.run(feeds).values()
        # Each of both sums 256 products in float; a digit is off by 2^-23.99 of a block's largest number, below 5.
        assert (np.abs(got - want) <= 2.0**-24 * (520 * size + 5 * 256 * 0.02 * (1 << bits))).all()
        digits = products == "digits" and "vnni" in engine.info.features and engine.info.simd == 16
        on_cpus = "block_matmul.digits" if digits else "block_matmul.rows"
        (node,) = made.explain().nodes
        assert node.implementation == (on_cpus if engine.info.kind == "cpu" else "block_matmul.gpu_panels")


def test_records_and_rows_that_do_not_fit_are_refused():
    product = BlockMatMul(70, 80, 4, 32)
    good = Layout(DType.U8, product.records.shape(70, 80))
    with pytest.raises(ShapeError, match=r"requires rows of 80 elements, not \[2, 81\]"):
        product.infer([Layout(DType.F32, (2, 81)), good])
    with pytest.raises(ShapeError, match=r"requires records \[2, 3, 1280\] in bytes"):
        product.infer([Layout(DType.F32, (2, 80)), Layout(DType.U8, (2, 3, 1344))])
    with pytest.raises(ShapeError, match="does not broadcast"):
        product.infer([Layout(DType.F32, (2, 80)), good, Layout(DType.F32, (71,))])
