"""What NumPy may warn of is computed by the host without a warning, and what it cannot warn of without looking."""

import warnings

import numpy as np
import pytest

import clgraph
from clgraph.graph.topology import Topology
from clgraph.model.stages.model import StagedModel
from clgraph.ops.non_zero import NonZero
from clgraph.ops.tf_idf_vectorizer import TfIdfVectorizer

pytestmark = pytest.mark.opencl


def staged(primitive, dtype, device) -> StagedModel:
    t = Topology()
    t.output("y", t.add("only", primitive, t.input("x", (4,), dtype)))
    model = clgraph.compile(t, device=device)
    assert isinstance(model, StagedModel)
    return model


def test_the_host_computes_without_warnings_of_overflow(device):
    counted = TfIdfVectorizer("TFIDF", (1, 1), 0, (7,), (0,), (0,), (3e38,))
    with staged(counted, np.int64, device) as model, warnings.catch_warnings(action="error"):
        for _ in range(3):
            assert model.run({"x": np.array([7, 7, 7, 1])})["y"].tolist() == [np.inf]


def test_what_cannot_overflow_is_not_watched(device):
    with staged(NonZero(), np.float32, device) as model, warnings.catch_warnings(action="error"):
        assert not model._runner._warns
        for _ in range(3):
            assert model.run({"x": np.float32([0, np.nan, np.inf, 0])})["y"].tolist() == [[1, 2]]
