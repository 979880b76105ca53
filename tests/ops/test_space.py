"""DepthToSpace and SpaceToDepth."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.space import Shuffle
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("mode", [None, "DCR", "CRD"])
def test_depth_to_space_agrees_with_onnxruntime(mode, rng):
    more = {} if mode is None else {"mode": mode}
    x = rng.standard_normal((2, 12, 3, 2)).astype(np.float32)
    agree("DepthToSpace", [x], opset=13 if mode else 7, blocksize=2, **more)


def test_space_to_depth_agrees_with_onnxruntime(rng):
    agree("SpaceToDepth", [rng.standard_normal((2, 3, 4, 6)).astype(np.float32)], opset=13, blocksize=2)


def test_refuses_blocks_of_nothing():
    with pytest.raises(ShapeError, match="blocks of 0"):
        Shuffle(0).infer([Layout(DType.F32, (1, 4, 2, 2))])


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels_first", [False, True])
def test_every_implementation_copies_exactly(channels_first, dtype, engine):
    check_op(engine, Shuffle(2, False, channels_first), (2, 12, 3, 5), dtype=dtype, families=["normal"])
    check_op(engine, Shuffle(3, True, channels_first), (2, 5, 6, 9), dtype=dtype, families=["normal"])
