"""Products of values on known steps."""

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.quantized_product import QuantizedProduct
from tests.support.check_op import check_op

PRODUCT = QuantizedProduct((0.5, 0.25, 0.75), (3, 130, 120))
DRAW = {
    0: lambda rng, shape: (rng.integers(0, 256, shape) - 3) * 0.5,
    1: lambda rng, shape: (rng.integers(0, 256, shape) - 130) * 0.25,
}


def _half_a_step(a, b):
    """In units of 2^-24: half of 0.75, and three roundings of steps up to 5,600; the products are exact."""
    return np.full(np.broadcast_shapes(a.shape, b.shape), 0.375 * 2**24 + 3 * 5600 * 0.75)


@pytest.mark.opencl
def test_kernels_that_multiply_floats_are_within_half_a_step(gpu_engine):
    for fused in ((), [(Activation("relu"), [], 0)]):
        check_op(
            gpu_engine,
            PRODUCT,
            (2, 3, 5),
            (3, 1),
            draw=DRAW,
            families=["normal"],
            ulps=1,
            scale=_half_a_step,
            fused=fused,
        )


@pytest.mark.opencl
@pytest.mark.parametrize(("shapes", "name"), [(((2, 19, 5, 7), (19, 1, 1)), "fsv16"), (((3, 70), (70,)), "rows")])
def test_cpus_multiply_whole_vectors_of_floats(engine, shapes, name):
    only = [f"quantized_product.{name}"]
    check_op(engine, PRODUCT, *shapes, draw=DRAW, families=["normal"], ulps=1, scale=_half_a_step, only=only)
