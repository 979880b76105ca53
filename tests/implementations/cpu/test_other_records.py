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
    "../../ops/test_accuracy.py",
    "../../ops/test_cached_attention.py",
    "../../models/test_dynamic_integers.py",
)
WITH_AVX2 = {
    "test_convolution.py": (
        "test_one_spatial_axis_is_one_row",
        "test_blocked_convolutions_agree_with_float64",
        "test_the_first_layer_agrees_with_float64_at_any_alignment",
        "test_depthwise_convolutions_agree_with_float64",
    ),
    "test_convolution_winograd.py": (
        *(f"test_winograd_convolutions_agree_with_float64[pocl-{seed}]" for seed in range(0, 40, 5)),
        "test_the_chosen_blockings_agree_with_float64",
    ),
    "test_last_groups.py": ("test_convolutions_make_the_bits_of_whole_groups",),
    "test_convolution_strassen.py": [f"test_strassen_convolutions_agree_with_float64[pocl-{n}]" for n in (1, 8, 9)],
    "test_quantized_convolution.py": (
        *(f"test_sums_of_bytes_are_exact_and_end_as_they_are_told[pocl-{seed}]" for seed in (0, 1)),
        "test_neighbouring_weights_whose_products_saturate_sixteen_bits_are_added_up_exactly",
        "test_tickets_that_share_a_row_read_their_parts_of_it",
        "test_depthwise_windows_that_are_summed_two_rows_at_a_time_are_exact_to_the_last_row",
    ),
    "../../ops/test_attention.py": ("test_few_keys_and_any_number_of_queries_agree_with_float64[pocl-7]",),
}
FUNCTIONS = (
    "attention_columns",
    "conv_bytes",
    "conv_fsv16",
    "conv_planar",
    "depthwise_bytes",
    "depthwise_fsv16",
    "strassen_fsv16",
    "strassen_sums_fsv16",
    "winograd_fsv16",
    "winograd_input_fsv16",
)
"""What they run: libraries with nothing else take a third of the time to compile."""


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx512", "avx_vnni", "avx2", "avx", "sse2"])
def test_tiles_are_right_without_the_instructions_of_newer_cpus(engine, isa):
    if not engine.info.name.startswith("pocl") or isa not in [record.name for record in of_host()[1:]]:
        pytest.skip(f"kernels are not compiled for {isa} here, or all tests run so")
    check_with(isa, [str(HERE / name) for name in TESTS])


@pytest.mark.opencl
def test_convolutions_attention_and_products_of_bytes_are_right_with_avx2(engine):
    if not engine.info.name.startswith("pocl") or "avx2" not in [record.name for record in of_host()[1:]]:
        pytest.skip("kernels are not compiled for AVX2 here, or all tests run so")
    check_with("avx2", [f"{HERE / file}::{name}" for file, names in WITH_AVX2.items() for name in names], FUNCTIONS)


@pytest.mark.opencl
def test_convolutions_of_bytes_are_right_with_sse2(engine):
    if not engine.info.name.startswith("pocl") or "sse2" not in [record.name for record in of_host()[1:]]:
        pytest.skip("kernels are not compiled for SSE2 here, or all tests run so")
    file = "test_quantized_convolution.py"
    names = (*WITH_AVX2[file], "test_sums_of_known_steps_are_those_of_all_pairs_of_bytes")
    moves = ("test_floats_become_the_bytes_of_the_reference", "test_bytes_are_looked_up_alone_and_behind_roundings")
    tests = [*(f"{HERE / file}::{name}" for name in names), *(f"{HERE / 'test_byte_moves.py'}::{m}" for m in moves)]
    check_with("sse2", tests, ("bytes_fsv16", "conv_bytes", "depthwise_bytes"))


@pytest.mark.opencl
def test_remainders_of_doubles_are_exact_without_fused_products(engine):
    if not engine.info.name.startswith("pocl") or "avx" not in [record.name for record in of_host()[1:]]:
        pytest.skip("kernels are not compiled for AVX here, or all tests run so")
    check_with("avx", [f"{HERE}/test_elements.py::test_remainders_of_floats_are_exact[pocl-f64]"], ("number_elements",))
