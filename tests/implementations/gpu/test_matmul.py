"""Matrix products for GPUs that read four elements at once, on a device that is treated as one."""

import numpy as np
import pytest

import clgraph.implementations.gpu.matmul as module
from clgraph.implementations.gpu.local_tiles import LocalTile
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from tests.support.check_op import check_op, magnitude
from tests.support.combinations import in_both_types

NAME = "matmul.gpu_vectors"


@pytest.mark.opencl
@pytest.mark.parametrize("by_column", [False, True])
@in_both_types(
    "a,b",
    [
        ((37, 20), (20, 44)),
        ((2, 3, 33, 16), (2, 3, 16, 20)),
        ((3, 5, 36), (36, 68)),
        ((1, 72), (72, 132)),
        ((65, 64), (64, 4)),
        ((4, 1, 8, 12), (5, 12, 8)),
    ],
)
def test_products_are_within_the_bound_of_their_sum(a, b, by_column, dtype, gpu_engine):
    primitive = MatMul(transpose_b=by_column)
    b = (*b[:-2], b[-1], b[-2]) if by_column else b
    # A sum of K products rounds K times.
    found = check_op(gpu_engine, primitive, a, b, ulps=a[-1] + 1, scale=magnitude(primitive), dtype=dtype, only=[NAME])
    assert NAME in found


@pytest.mark.opencl
@pytest.mark.parametrize("bias", [(44,), (37, 1), (37, 44), ()])
def test_bias_and_fused_operations(bias, gpu_engine):
    primitive = MatMul()
    fused = [(Activation("relu"), [], 0), (Eltwise("mul"), [(37, 1)], 0), (Eltwise("add"), [(44,)], 1)]
    scale = lambda a, b, c, m, s: magnitude(primitive)(a, b, c) * np.abs(m) + np.abs(s)  # noqa: E731
    shapes = ((37, 20), (20, 44), bias)
    check_op(gpu_engine, primitive, *shapes, ulps=20 + 3 + 1, scale=scale, fused=fused, only=[NAME])


@pytest.mark.opencl
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (2, 2)])
@pytest.mark.usefixtures("own_classes")
def test_every_tile_makes_the_sums(sizes, by_column, gpu_engine, monkeypatch):
    monkeypatch.setattr(module, "_tile", lambda q: LocalTile(*sizes, 1e-6))
    primitive, b = MatMul(transpose_b=by_column), (132, 20) if by_column else (20, 132)
    check_op(gpu_engine, primitive, (130, 20), b, ulps=21, scale=magnitude(primitive), only=[NAME])
