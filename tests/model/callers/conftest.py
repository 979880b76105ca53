"""A model of one product, and a context and a queue that a program made which knows nothing of clgraph."""

import numpy as np
import pytest

import clgraph
from tests.support.callers import COLUMNS, INNER, ROWS
from tests.support.onnx_case import one_node

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")


@pytest.fixture(scope="module")
def handle(engine):
    return next(d for p in cl.get_platforms() for d in p.get_devices() if d == engine.device.handle)


@pytest.fixture(scope="module")
def queue(handle):
    return cl.CommandQueue(cl.Context([handle]))


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((ROWS, INNER)).astype("f"), rng.standard_normal((INNER, COLUMNS)).astype("f")
    model, _ = one_node("MatMul", [x, w], opset=17, constant=(1,))
    return model, x, x @ w


@pytest.fixture(scope="module")
def doubling(queue):
    text = "__kernel void doubled(__global float* x) { x[get_global_id(0)] *= 2; }"
    return cl.Kernel(cl.Program(queue.context, text).build(), "doubled")


@pytest.fixture(scope="module", params=["auto", "gpu"])
def model(request, case, queue):
    return clgraph.compile(case[0], queue=queue, config={"device_class": request.param})
