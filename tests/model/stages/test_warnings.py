"""What NumPy may warn of is computed by the host without a warning, and what it cannot warn of without looking."""

import warnings

import numpy as np
import pytest

import clgraph
from clgraph.graph.topology import Topology
from clgraph.model.stages.model import StagedModel
from clgraph.ops.box_suppression import BoxSuppression
from clgraph.ops.non_max_suppression import NonMaxSuppression
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


def test_suppressed_boxes_that_are_not_finite_warn_of_nothing(device):
    t = Topology()
    boxes, scores = t.input("boxes", (1, 3, 4), np.float32), t.input("scores", (1, 1, 3), np.float32)
    numbers = [
        t.constant(n, np.array([v])) for n, v in (("most", 3), ("share", np.float32(0.5)), ("least", np.float32(0)))
    ]
    t.output("y", t.add("kept", NonMaxSuppression(), t.add("found", BoxSuppression(), boxes, scores, *numbers)))
    feeds = {"boxes": np.full((1, 3, 4), np.inf, np.float32), "scores": np.ones((1, 1, 3), np.float32)}
    feeds["boxes"][..., :2] = -np.inf
    with clgraph.compile(t, device=device) as model, warnings.catch_warnings(action="error"):
        assert not model._runner._warns
        for _ in range(3):
            model.run(feeds)
    with warnings.catch_warnings(action="error"):
        BoxSuppression().reference(*feeds.values(), *(t.constants[n] for n in ("most", "share", "least")))
