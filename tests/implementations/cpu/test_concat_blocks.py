"""Concatenation of blocked tensors: copies are exact, wherever an input begins."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.concat_blocks import ConcatFsv16
from clgraph.ops.concat import Concat
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(40))
def test_parts_of_any_channels_are_joined_exactly(engine, seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    channels = (24,) * 4 if seed == 0 else tuple(int(c) for c in rng.integers(1, 60, count))
    spatial = tuple(int(s) for s in rng.integers(1, 24, 1 + seed % 5 % 2 if seed % 4 == 3 else 2))
    batch = int(rng.integers(1, 3))
    arrays = [rng.standard_normal((batch, c, *spatial)).astype(np.float32) for c in channels]
    if seed % 3 == 0:
        arrays[-1].flat[::7] = np.nan
    arity, out = len(arrays), (batch, sum(channels), *spatial)
    fused, _ = post_list(("", "relu", "add relu", "clip")[seed % 4], out, arrays, rng)
    # An addition is rounded once, everything else is exact.
    check_tiles(engine, ConcatFsv16, Concat(1), arrays, 1, arity=arity, fused=fused, out_halo=any_halo(rng, len(out)))


@pytest.mark.opencl
def test_a_list_is_applied_once_to_a_block_that_two_inputs_share(engine, rng):
    arrays = [rng.standard_normal((1, c, 3, 70)).astype(np.float32) for c in (5, 6, 30)]
    fused, slope = post_list("gate hard_swish", (1, 41, 3, 70), arrays, rng)
    # A product, then a function of three roundings.
    check_tiles(engine, ConcatFsv16, Concat(1), arrays, 8 * slope, arity=3, fused=fused, size=np.float64(4))


def test_other_axes_and_formats_are_refused_with_the_reason():
    layouts = [Layout.of(np.zeros((1, 8, 4, 4), np.float32))] * 2
    q = pose(DeviceInfo(), ConcatFsv16, Concat(2), layouts, arity=2)
    assert "not axis 2" in str(ConcatFsv16.refusal(q))
    q = pose(DeviceInfo(), ConcatFsv16, Concat(1), layouts, arity=2)
    assert ConcatFsv16.refusal(q) is None
    assert "input 1" in str(ConcatFsv16.refusal(q.with_layouts((q.inputs[0], layouts[1]), q.outputs)))
