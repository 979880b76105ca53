"""Casts of arrays against onnx.reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference.ops.op_cast import cast_to

from clgraph.core.conversion import ROUND_MODES, SATURATED, converted
from clgraph.core.dtype import DType
from tests.support.narrow import NARROW, every_code, numbers_beside


def same_bits(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_floats_become_narrow_types_as_the_reference_says(dtype):
    for source in (DType.F32, DType.F16, DType.BF16):
        with np.errstate(over="ignore"):
            x = numbers_beside(dtype).astype(source.numpy)
        for saturate in (True, False):
            for mode in ROUND_MODES:
                found = converted(x, dtype, saturate=saturate, round_mode=mode)
                with np.errstate(all="ignore"):
                    if source is DType.F32 or dtype not in SATURATED:  # the clip of bfloat16 there is one of bfloat16s
                        code = helper.np_dtype_to_tensor_dtype(dtype.numpy)
                        same_bits(found, cast_to(x, code, saturate, mode))
                    same_bits(found, converted(x.astype(np.float32), dtype, saturate=saturate, round_mode=mode))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_types_become_others_without_loss(dtype):
    codes = every_code(dtype)
    for target in (DType.F64, DType.F32):
        found = converted(codes, target)
        with np.errstate(invalid="ignore"):  # of NaNs, on some CPUs
            np.testing.assert_array_equal(found, codes.astype(target.numpy))
        back = converted(found, dtype, saturate=False)
        number = ~np.isnan(found)
        if dtype.name[0] in "BF" and dtype is not DType.F8E8M0:
            same_bits(back[number], codes[number])


def test_a_result_is_a_new_array():
    x = np.ones(3, np.float32)
    assert not np.may_share_memory(converted(x, DType.F32), x)
