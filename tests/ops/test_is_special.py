"""IsNaN and IsInf."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.is_special import IsSpecial
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

QUESTIONS = (
    IsSpecial(nan=True),
    IsSpecial(negative=True, positive=True),
    IsSpecial(negative=True),
    IsSpecial(positive=True),
    IsSpecial(),
)
EDGES = (0.0, 5e-324, 1e-310, 1.0, 65504.0, 3.38e38, 1.7e308, np.inf, np.nan)


def _specials(rng, shape):
    return np.resize(np.array([*EDGES, *(-v for v in EDGES)]), shape)


@pytest.mark.parametrize("opset", [13, 20])
def test_tests_agree_with_onnxruntime(opset, rng):
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            x = _specials(rng, (3, 7)).astype(dtype)
        agree("IsNaN", [x], opset=opset)
        for negative in (0, 1):
            for positive in (0, 1):
                agree("IsInf", [x], opset=opset, detect_negative=negative, detect_positive=positive)


@pytest.mark.parametrize("dtype", [DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ], ids=str)
def test_the_host_tests_every_number_of_eight_bits(dtype):
    x = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    exact = x.astype(np.float32)
    for question, want in ((IsSpecial(nan=True), np.isnan(exact)), (IsSpecial(positive=True), exact == np.inf)):
        topology = clgraph.Topology()
        topology.input("x", x.shape, dtype)
        topology.output("y", topology.add("special", question, "x"))
        np.testing.assert_array_equal(clgraph.compile(topology, "host").run({"x": x})["y"], want)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16, DType.F64], ids=str)
def test_every_implementation_tests_the_bits(engine, dtype):
    families = {
        "edges": _specials,
        "normal": lambda rng, shape: rng.standard_normal(shape),
        "some": lambda rng, shape: np.where(
            rng.random(shape) < 0.1, np.inf, np.where(rng.random(shape) < 0.1, np.nan, 1)
        ),
    }
    for question in QUESTIONS:
        with np.errstate(over="ignore"):
            found = check_op(engine, question, (3, 700), dtype=dtype, families=families)
        assert set(found.values()) == {0.0}


def test_what_is_no_question_is_refused():
    with pytest.raises(ShapeError, match="floating types"):
        IsSpecial(nan=True).infer([Layout(DType.I32, (3,))])
    with pytest.raises(ShapeError, match="not for both"):
        IsSpecial(nan=True, negative=True).infer([Layout(DType.F32, (3,))])
