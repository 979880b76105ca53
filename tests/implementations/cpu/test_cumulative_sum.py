"""The tile function of running sums."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.cumulative_sum import CumulativeSumElements, CumulativeSumPlanes
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.selector.query import DeviceInfo, Query
from tests.support.run_tiles import check_tiles


@pytest.mark.opencl
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 5), 0),
        ((2, 9, 16), 1),
        ((2, 19, 3, 37), 1),
        ((3, 40, 200), 1),
        ((3, 7, 55), 1),
        ((2, 5, 600), 1),
        ((4, 4500), 0),
    ],
)
def test_running_sums_agree_with_float64(engine, shape, axis, exclusive, reverse):
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape).astype(np.float32)
    size = CumulativeSum(axis, False, reverse).reference(np.abs(x))[0]
    primitive = CumulativeSum(axis, exclusive, reverse)
    for misalign in (0, 3):
        # A sum of `count` terms, one rounding each.
        check_tiles(engine, CumulativeSumPlanes, primitive, [x], shape[axis], size=size, misalign=misalign)


def test_few_lines_are_summed_up_one_after_the_other() -> None:
    def quicker(shape, axis):
        x = Layout(DType.F32, shape)
        q = Query(CumulativeSum(axis), (x,), (x,), DeviceInfo("cpu", "cpu"), 1)
        return min((CumulativeSumElements, CumulativeSumPlanes), key=lambda way: way.cost(q))

    assert [quicker((20000, 3, 2), 1), quicker((7868, 4), 0)] == [CumulativeSumElements] * 2
    assert quicker((400, 16), 0) is CumulativeSumPlanes
