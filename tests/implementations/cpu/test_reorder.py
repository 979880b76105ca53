"""Movers between formats: every element where it belongs, zeros everywhere else."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.reorder import BlockFsv16, CopyFsv16, PackBlocks, UnblockFsv16
from clgraph.implementations.cpu.reorder_bytes import BlockBytes, UnblockBytes
from clgraph.ops.reorder import Reorder
from clgraph.selector.query import DeviceInfo, Query
from tests.support.run_tiles import any_halo, run_tiles

pytestmark = pytest.mark.opencl

PACKED = [
    Format((0, 1, 2, 3), ((1, 16), (0, 32))),
    Format((0, 1, 2, 3), ((1, 16), (0, 16))),
    Format((0, 1, 2, 3), ((1, 16), (0, 64))),
    Format((0, 1, 2, 3), ((0, 32),)),
    Format((0, 1, 3, 2), ((3, 64),)),
    Format((0, 1), ((0, 64),)),
    Format((1, 0), ((1, 64),)),
    Format((0, 2, 1), ((2, 64),)),
    Format((0,), ((0, 16),)),
]


def move(engine, implementation, x, source, target, in_halo=(), out_halo=(), misalign=0):
    """A mover copies bits: the result is the input, exactly."""
    primitive = Reorder(DType.F32, target, out_halo)
    layout = Layout(DType.F32, x.shape, source, in_halo)
    q = Query(primitive, (layout,), primitive.infer([layout]), engine.info, 1)
    np.testing.assert_array_equal(run_tiles(engine, implementation, q, [x], misalign), x)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("seed", range(12))
def test_blocking_unblocking_and_new_halos_keep_every_element(engine, rank, seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 71)), *(int(s) for s in rng.integers(1, 40, rank - 2)))
    x = rng.standard_normal(shape).astype(np.float32)
    plain, blocked = Format.plain(rank), feature_blocked(rank)
    move(engine, BlockFsv16, x, plain, blocked, any_halo(rng, rank), any_halo(rng, rank), seed)
    move(engine, UnblockFsv16, x, blocked, plain, any_halo(rng, rank))
    move(engine, CopyFsv16, x, blocked, blocked, any_halo(rng, rank), any_halo(rng, rank))


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("seed", range(8))
def test_bytes_are_blocked_and_unblocked_to_the_last_pixel_and_channel(engine, rank, seed):
    rng = np.random.default_rng(seed)
    channels = (3, 16, 37, 1, 48, 20, 15, 64)[seed]
    shape = (int(rng.integers(1, 3)), channels, *(int(s) for s in rng.integers(1, 40, rank - 2)))
    plain, blocked = Format.plain(rank), feature_blocked(rank)
    for dtype in (DType.U8, DType.I8):
        x = rng.integers(dtype.bounds[0], dtype.bounds[1] + 1, shape).astype(dtype.numpy)
        for implementation, source, target in ((BlockBytes, plain, blocked), (UnblockBytes, blocked, plain)):
            primitive, layout = Reorder(dtype, target), Layout(dtype, shape, source)
            q = Query(primitive, (layout,), primitive.infer([layout]), engine.info, 1)
            np.testing.assert_array_equal(run_tiles(engine, implementation, q, [x], seed % 3), x)


@pytest.mark.parametrize("format", PACKED, ids=str)
@pytest.mark.parametrize("sizes", [(70, 33, 3, 2), (64, 32, 1, 5), (1, 5, 7, 130)])
def test_packing_fills_every_block(engine, rng, format, sizes):
    x = rng.standard_normal(sizes[: format.rank]).astype(np.float32)
    move(engine, PackBlocks, x, Format.plain(format.rank), format, misalign=5)


def test_what_no_mover_packs_is_refused():
    layout = Layout(DType.F32, (2, 3, 4, 5, 6))
    for target in (Format((0, 1, 2, 3, 4), ((1, 16),)), Format((4, 3, 2, 1, 0))):
        primitive = Reorder(DType.F32, target)
        q = Query(primitive, (layout,), primitive.infer([layout]), DeviceInfo(), 1)
        assert all(i.refusal(q) for i in (BlockFsv16, UnblockFsv16, CopyFsv16, PackBlocks))
