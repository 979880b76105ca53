"""Tiles of elements, runs and packed weights, compiled for CPUs with fewer instructions than the one that tests."""

from pathlib import Path

import pytest

from clgraph.runtime.instruction_sets import of_host
from tests.support.instruction_set import check_with

HERE = Path(__file__).parent
TESTS = (
    "test_arg_elements.py",
    "test_block_matmul.py",
    "test_byte_moves.py",
    "test_cumulate_elements.py",
    "test_elements.py",
    "test_eltwise.py",
    "test_matmul_narrow.py",
    "test_move_elements.py",
    "test_pick_elements.py",
    "test_put_elements.py",
    "test_quantized_conv_transpose.py",
    "test_quantized_convolution.py",
    "test_quantized_matmul.py",
    "test_quotients.py",
    "test_reduce_elements.py",
    "../../ops/test_cached_attention.py",
    "../../models/test_dynamic_integers.py",
)


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx512", "avx2", "avx", "sse2"])
def test_tiles_are_right_without_the_instructions_of_newer_cpus(engine, isa):
    if not engine.info.name.startswith("pocl") or isa not in [record.name for record in of_host()[1:]]:
        pytest.skip(f"kernels are not compiled for {isa} here, or all tests run so")
    check_with(isa, [str(HERE / name) for name in TESTS])


@pytest.mark.opencl
def test_products_of_bytes_are_right_with_avx2(engine):
    if not engine.info.name.startswith("pocl") or "avx2" not in [record.name for record in of_host()[1:]]:
        pytest.skip("kernels are not compiled for AVX2 here, or all tests run so")
    names = (
        "depthwise_windows_that_are_summed_two_rows",
        "tickets_that_share_a_row",
        "sums_of_bytes_are_exact and (0-pocl or 1-pocl)",
    )
    check_with("avx2", [str(HERE / "test_quantized_convolution.py"), "-k", " or ".join(f"({n})" for n in names)])
