"""General kernels on tensors whose axes lie in another order, as GPUs are offered them."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.core.layout import Layout
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.split import Split
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op

X = (2, 6, 5, 7)
CONVOLUTION = Convolution((1, 1), (1, 1), ((1, 1), (0, 1)))
CASES = {
    "concat.ref": (Concat(1), [X, (2, 3, 5, 7)], 0),
    "split.ref": (Split(1, (2, 4)), [X], 0),
    "resize.ref": (Resize("linear", "half_pixel", "floor", scales=(1, 1, 2, 1.5)), [X], 16),
    "reduce.ref": (Reduce("sum", (2, 3)), [X], 35),
    "convolution.gpu_tiled": (CONVOLUTION, [X, (9, 6, 3, 2)], 37),
}


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("name", CASES)
def test_axes_in_another_order_are_read_and_written(name, dtype, gpu_engine):
    primitive, shapes, ulps = CASES[name]
    # Sums of so many terms, none of which is larger than this.
    most = lambda *x: np.full((), np.abs(x[0]).max() * (np.abs(x[1]).max() if name[:4] == "conv" else 1))  # noqa: E731
    count = 36 if name[:4] == "conv" else 35 if name[:6] == "reduce" else 4
    found = check_op(
        gpu_engine, primitive, *shapes, ulps=ulps, scale=lambda *x: most(*x) * count, dtype=dtype, only=[name]
    )
    assert name in found


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_is_offered_byxf_and_a_cpu_is_not(name):
    primitive, shapes, _ = CASES[name]
    inputs = tuple(Layout(DType.F32, s) for s in shapes)
    bound = primitive.bind(inputs, [None] * len(inputs)).primitive
    for kind in ("gpu", "cpu"):
        device = DeviceInfo(f"{kind}:0", kind)
        q = Query(bound, inputs, tuple(bound.infer(inputs)), device, len(inputs))
        offered = {formats.inputs[0] for formats in IMPLEMENTATIONS[name].formats(q)}
        assert offered == ({Format.plain(4), channels_last(4)} if kind == "gpu" else {Format.plain(4)})
