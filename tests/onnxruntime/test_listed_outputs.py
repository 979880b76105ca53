"""A model whose file lists an output several times."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import clgraph.onnxruntime as ours
from tests.support.ort_models import listed_twice

HOST = [("ClgraphExecutionProvider", {"device": "host"})]


@pytest.mark.parametrize(("runtime", "providers"), [(onnxruntime, ["CPUExecutionProvider"]), (ours, HOST)])
def test_an_output_that_a_file_lists_twice_is_returned_twice(runtime, providers) -> None:
    session = runtime.InferenceSession(listed_twice().SerializeToString(), providers=providers)
    assert [o.name for o in session.get_outputs()] == ["y", "x", "y"]
    x = np.array([-1, 2], np.float32)
    for names in (None, ["y", "x", "y"]):
        for _ in range(2):
            assert [r.tolist() for r in session.run(names, {"x": x})] == [[0, 2], [-1, 2], [0, 2]]
    assert [r.tolist() for r in session.run(["y", "y"], {"x": x})] == [[0, 2]] * 2
