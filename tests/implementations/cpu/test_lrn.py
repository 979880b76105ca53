"""Local response normalisation of blocked tensors against float64."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.lrn import LrnFsv16
from clgraph.ops.lrn import Lrn
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list


@pytest.mark.opencl
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.3])
@pytest.mark.parametrize("seed", range(12))
def test_windows_across_blocks_agree_with_float64(engine, beta, seed):
    rng = np.random.default_rng(seed)
    shape = (
        int(rng.integers(1, 3)),
        int(rng.integers(1, 70)),
        *(int(s) for s in rng.integers(1, 40, 1 + seed % 3 % 2)),
    )
    arrays = [(4 * rng.standard_normal(shape)).astype(np.float32)]
    if seed % 4 == 1:
        arrays[0].flat[:: 61 + seed] = np.nan
    p = Lrn(int((1, 2, 3, 5, 8, 17, 31, 32)[seed % 8]), 0.9, beta, float(rng.uniform(0.5, 2)))
    fused, slope = post_list(("", "relu", "add hard_swish")[seed % 3], shape, arrays, rng)
    # The sum, the power and the division as the kernel states them; the list rounds a few times more.
    bound = slope * (beta * (p.size + 3) + 18 + 8)
    given = {"arity": 1, "fused": fused, "size": np.float64(8 if fused else 0), "out_halo": any_halo(rng, len(shape))}
    check_tiles(engine, LrnFsv16, p, arrays, bound, **given)


def test_wide_windows_and_plain_tensors_are_refused_with_the_reason():
    layout = Layout.of(np.zeros((1, 40, 4, 4), np.float32))
    q = pose(DeviceInfo(), LrnFsv16, Lrn(33), [layout], arity=1)
    assert "at most 32 channels" in str(LrnFsv16.refusal(q))
    q = pose(DeviceInfo(), LrnFsv16, Lrn(5), [layout], arity=1)
    assert LrnFsv16.refusal(q) is None
    assert "the input in" in str(LrnFsv16.refusal(q.with_layouts((layout,), q.outputs)))
