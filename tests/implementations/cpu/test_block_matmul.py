"""Products with weights of few bits against float64, by digits and by floats: every width, block and zero point."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.block_matmul import BlockMatMulRows
from clgraph.implementations.cpu.block_matmul_digits import BlockMatMulDigits, BlockMatMulPairs
from clgraph.network.addresses import LEAST_BYTES, left_at, suits_all
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records, unpacked
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo
from tests.support.features import serves
from tests.support.run_tiles import U32, pose, post_list, run_tiles, wanted

F = np.float32


def problem(rng, bits, block, rows, depth, columns, *, zeros=False, rough=False, bias=False):
    """Return the primitive and its inputs."""
    blocks = -(-depth // block)
    packed = rng.integers(0, 256, (columns, blocks * block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.5, 1.5, (columns, blocks)).astype(F)
    points = rng.integers(0, 1 << bits, (columns, blocks)).astype(np.uint8) if zeros else None
    records = Records(bits, block, zeros).pack(packed, scales, points)
    a = rng.standard_normal((*rows, depth)).astype(F)
    arrays = [a, records, *([rng.standard_normal(columns).astype(F)] if bias else [])]
    return BlockMatMul(columns, depth, bits, block, zeros, rough), arrays


def computed(engine, implementation, primitive, arrays, words="", seed=0):
    """Return the tile's result, float64's, and the sums of magnitudes ``|a| |w|``, ``max |a of the block| |w|``."""
    serves(engine, implementation)
    arity = len(arrays)
    out = (*arrays[0].shape[:-1], primitive.columns)
    arrays = list(arrays)
    fused, slope = post_list(words, out, arrays, np.random.default_rng(seed))
    layouts = [Layout.of(x) for x in arrays]
    q = pose(engine.info, implementation, primitive, layouts, arity=arity, fused=fused, constant=(1,))
    got = run_tiles(engine, implementation, q, arrays)
    with np.errstate(invalid="ignore"):
        return got, wanted(q, arrays), slope, *_sizes(primitive, arrays)


def _sizes(primitive, arrays):
    weights = np.abs(primitive.records.floats(arrays[1], primitive.columns, primitive.depth)).astype(np.float64)
    a = np.abs(arrays[0]).astype(np.float64)
    padded = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -primitive.depth % primitive.block)])
    tops = padded.reshape(*a.shape[:-1], -1, primitive.block).max(-1).repeat(primitive.block, -1)
    return a @ weights, tops[..., : primitive.depth] @ weights


CASES = [
    # bits, block, rows, depth, columns, zero points, bias, list
    (4, 32, (1,), 96, 64, False, False, ""),
    (4, 32, (1,), 80, 70, True, True, "relu"),
    (4, 16, (2, 3), 48, 17, False, True, "add"),
    (4, 128, (5,), 300, 130, True, False, "row"),
    (2, 16, (1,), 40, 33, True, True, ""),
    (2, 64, (7,), 130, 65, False, False, "hard_swish"),
    (8, 32, (1,), 96, 100, False, True, "relu"),
    (8, 256, (4,), 513, 20, True, False, ""),
    (4, 256, (13,), 512, 80, False, True, "add"),
    (8, 16, (6,), 112, 17, True, False, ""),
    (8, 16, (131,), 33, 70, True, True, "add"),
]


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [BlockMatMulDigits, BlockMatMulPairs, BlockMatMulRows])
def test_products_agree_with_float64(engine, implementation):
    for seed, (bits, block, rows, depth, columns, zeros, bias, words) in enumerate(CASES):
        digits = implementation is not BlockMatMulRows
        if bits != 4 and implementation is BlockMatMulPairs:
            continue
        rng = np.random.default_rng(seed)
        primitive, arrays = problem(rng, bits, block, rows, depth, columns, zeros=zeros, bias=bias)
        got, want, slope, size, tops = computed(engine, implementation, primitive, arrays, words, seed)
        # The sums of a block and of the blocks, a rounding of the weight, the bias and a few of the list; digits are
        # off by half a step, 2^-23.99 of a block's largest number, and their scale and float have four roundings.
        blocks = -(-depth // block)
        count = blocks + 6 if digits else block + blocks + 4
        bound = U32 * (count * size + 1.01 * digits * tops) * slope + 8 * U32 * (np.abs(want) + 4)
        worst = np.abs(got - want) / bound
        assert worst.max() <= 1, (bits, block, rows, worst.max())


@pytest.mark.opencl
@pytest.mark.parametrize(("bits", "zeros"), [(4, True), (8, False), (2, False)])
def test_rows_that_read_weights_as_they_lie_have_the_bits_of_one_alone(engine, bits, zeros):
    """Whatever passes they come in: eight rows at once (four without AVX-512), and what is left by fewer."""
    rng = np.random.default_rng(bits)
    primitive, (a, records) = problem(rng, bits, 32, (19,), 96, 70, zeros=zeros)
    alone = [computed(engine, BlockMatMulRows, primitive, [row[None], records])[0] for row in a]
    for rows in range(2, 20 if engine.info.simd >= 16 else 5):
        got, *_ = computed(engine, BlockMatMulRows, primitive, [a[:rows], records])
        np.testing.assert_array_equal(got, np.concatenate(alone[:rows]), f"{rows} rows")


@pytest.mark.opencl
def test_rows_in_digits_have_the_bits_of_one_alone(engine):
    """Whatever passes they come in: three rows at once, four where a block has one sum, in strips of 132."""
    for bits, block, zeros, rough, rows in (
        (4, 32, False, False, 133),
        (4, 32, True, False, 11),
        (8, 16, False, False, 133),
        (2, 64, True, True, 11),
        (4, 128, False, True, 141),
    ):
        rng = np.random.default_rng(bits)
        primitive, (a, records) = problem(rng, bits, block, (rows,), 256, 118, zeros=zeros, rough=rough)
        got, *_ = computed(engine, BlockMatMulDigits, primitive, [a, records])
        alone = [computed(engine, BlockMatMulDigits, primitive, [row[None], records])[0] for row in a]
        np.testing.assert_array_equal(got, np.concatenate(alone), f"{bits} bits, rough {rough}")


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [BlockMatMulDigits, BlockMatMulPairs])
def test_rough_products_are_those_of_rows_rounded_to_eight_bits_a_block(engine, implementation):
    for bits, block, rows in ((4, 32, 1), (4, 128, 17), (8, 16, 9), (2, 32, 8)):
        if bits != 4 and implementation is BlockMatMulPairs:
            continue
        rng = np.random.default_rng(bits)
        primitive, arrays = problem(rng, bits, block, (rows,), 2 * block, 70, rough=True)
        got, *_ = computed(engine, implementation, primitive, arrays)
        a = arrays[0].reshape(rows, 2, block).astype(np.float64)
        step = np.abs(a).max(-1, keepdims=True) / 127
        scaled = a / step
        rounded = np.where(np.abs(scaled % 1 - 0.5) < 1e-4, np.nan, np.floor(scaled + 0.5))
        # Where a number lies between two integers, either is right: none does here.
        read, weights = (rounded * step).reshape(rows, -1), primitive.records.floats(arrays[1], 70, 2 * block)
        want, size = read @ weights.astype(np.float64), np.abs(read) @ np.abs(weights)
        np.testing.assert_array_less(np.abs(got - want), 8 * U32 * size)


@pytest.mark.opencl
def test_sums_of_pairs_hold_the_largest_products(engine):
    """Eight neighbours of 15 times -128, twice each: 30,720, which 16 bits hold."""
    for block in (32, 256):
        packed, scales = np.full((64, block // 2), 255, np.uint8), np.ones((64, 1), F)
        records = Records(4, block, True).pack(packed, scales, np.zeros((64, 1), np.uint8))
        for number in (1.0, -1.0):
            a = np.full((1, block), number, F)
            primitive = BlockMatMul(64, block, 4, block, zeros=True)
            got, want, _, size, tops = computed(engine, BlockMatMulPairs, primitive, [a, records])
            assert (np.abs(got - want) <= U32 * (8 * size + 1.01 * tops)).all()


@pytest.mark.opencl
def test_sums_of_blocks_hold_the_largest_products(engine):
    """One sum of all digits holds 32 weights of -8 times the largest number; more, or zero points, need several."""
    for block, zeros in ((16, False), (32, False), (64, False), (256, False), (32, True)):
        for weight, point in ((0, 15), (255, 0)):
            packed, scales = np.full((64, block // 2), weight, np.uint8), np.ones((64, 1), F)
            points = np.full((64, 1), point, np.uint8) if zeros else None
            records = Records(4, block, zeros).pack(packed, scales, points)
            for number in (1.0, -1.0):
                for rows in (1, 6):
                    a = np.full((rows, block), number, F)
                    primitive = BlockMatMul(64, block, 4, block, zeros=zeros)
                    got, want, _, size, tops = computed(engine, BlockMatMulDigits, primitive, [a, records])
                    assert (np.abs(got - want) <= U32 * (8 * size + 1.01 * tops)).all(), (block, zeros, weight, number)


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [BlockMatMulDigits, BlockMatMulPairs])
def test_blocks_of_extreme_numbers_stay_apart(engine, implementation):
    rng = np.random.default_rng(0)
    primitive, arrays = problem(rng, 4, 32, (6,), 96, 20)
    a = arrays[0]
    a[0, :32] *= 1e30  # beside small blocks
    a[1, :64] *= F(1e-38)  # denormal: counts as zeros
    a[2] = 0
    a[3, 40] = np.nan
    a[4, 70] = -np.inf
    a[5] *= F(2.0**118)  # up to what float32 holds
    got, want, _, size, tops = computed(engine, implementation, primitive, arrays)
    assert np.isnan(got[3:5]).all()
    assert (got[2] == 0).all()
    with np.errstate(over="ignore"):
        bound = U32 * (9 * size + 1.01 * tops) + 8 * U32 * np.abs(want) + 1e-30
    for row in (0, 1):
        assert (np.abs(got[row] - want[row]) <= bound[row]).all()
    held = np.abs(size[5]) < 3e38
    assert held.any()
    assert (np.abs(got[5] - want[5]) <= bound[5])[held].all()


def test_refusals_say_why():
    def reason(implementation, primitive, *shapes, features=("vnni",)):
        layouts = [Layout.of(np.zeros(s, F)) for s in shapes]
        layouts.insert(1, Layout(DType.U8, primitive.records.shape(primitive.columns, primitive.depth)))
        device = DeviceInfo(features=frozenset(features))
        return str(implementation.refusal(pose(device, implementation, primitive, layouts, arity=2, constant=(1,))))

    product = BlockMatMul(64, 64, 4, 32)
    assert reason(BlockMatMulDigits, product, (2, 64)) == "None"
    assert "needs vnni" in reason(BlockMatMulDigits, product, (2, 64), features=())
    assert reason(BlockMatMulPairs, product, (2, 64), features=("byte_pairs",)) == "None"
    assert "not of 8" in reason(BlockMatMulPairs, BlockMatMul(64, 64, 8, 32), (2, 64), features=("byte_pairs",))
    assert "at most 256" in reason(BlockMatMulDigits, BlockMatMul(64, 512, 4, 512), (2, 512))
    assert reason(BlockMatMulRows, product, (129, 64), features=()) == "None"


@pytest.mark.parametrize(
    ("simd", "implementation", "cheaper"),
    [(16, BlockMatMulDigits, {1: True, 16: True, 32: True, 128: True}), (8, BlockMatMulPairs, {1: True, 128: False})],
)
def test_estimates_give_rows_to_bytes_where_these_were_timed_to_be_faster(simd, implementation, cheaper):
    """As timed on one core of Zen 5: 1408 columns of 512 weights, in the cache."""
    device = DeviceInfo(name="pocl:0", simd=simd, workers=1)
    primitive = BlockMatMul(1408, 512, 4, 32)
    weights = Layout(DType.U8, primitive.records.shape(1408, 512))

    def seconds(made, rows):
        layouts = [Layout.of(np.zeros((rows, 512), F)), weights]
        q = pose(device, made, primitive, layouts, arity=2, constant=(1,))
        return made.cost(q) * device.costs.scales.get(made.name, 1.0)

    for rows, less in cheaper.items():
        assert (seconds(implementation, rows) < seconds(BlockMatMulRows, rows)) == less, rows


def test_a_row_is_read_by_what_computes_least_where_memory_is_slow():
    """As timed on one core of Sapphire Rapids: 512 columns of 512 weights in 12.9 us in floats, 9 in digits."""
    device = DeviceInfo(name="pocl:0", simd=16, workers=1, rates=Rates(1.74e11, ((1, 1.47e10),)))
    for rough in (False, True):
        primitive = BlockMatMul(512, 512, 4, 32, rough=rough)
        layouts = [Layout(DType.F32, (1, 512)), Layout(DType.U8, primitive.records.shape(512, 512))]
        digits, floats = (
            made.cost(pose(device, made, primitive, layouts, arity=2, constant=(1,)))
            for made in (BlockMatMulDigits, BlockMatMulRows)
        )
        assert digits < floats, rough


def test_records_hold_what_was_packed():
    rng = np.random.default_rng(0)
    for bits, block, zeros in ((2, 16, True), (4, 32, False), (8, 64, True)):
        packed = rng.integers(0, 256, (70, 2 * block * bits // 8)).astype(np.uint8)
        scales = rng.uniform(0.5, 1.5, (70, 2)).astype(F)
        points = rng.integers(0, 1 << bits, (70, 2)).astype(np.uint8) if zeros else None
        form = Records(bits, block, zeros)
        middle = points if zeros else np.full((70, 2), form.middle)
        centred = unpacked(packed, bits).reshape(70, 2, block).astype(F) - middle[..., None].astype(F)
        want = (centred * scales[..., None]).reshape(70, -1).T
        np.testing.assert_array_equal(form.floats(form.pack(packed, scales, points), 70, 2 * block), want)


def test_kernels_read_records_where_they_are():
    form = Records(4, 32, False)
    made = form.pack(np.zeros((256, 512), np.uint8), np.zeros((256, 32), F))
    assert made.nbytes >= LEAST_BYTES
    address = left_at(made)
    assert address is not None
    assert suits_all(made, address)
