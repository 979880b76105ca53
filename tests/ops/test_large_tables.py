"""Operators of ai.onnx.ml on more elements than are worth a loop: the same as of few."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.label_encoder import LabelEncoder
from clgraph.ops.support_vector_classifier import SupportVectorClassifier
from clgraph.ops.support_vector_regressor import SupportVectorRegressor
from clgraph.ops.tf_idf_vectorizer import TfIdfVectorizer

LIMITS = np.iinfo(np.int64)

KEYS = [
    (tuple(range(-3, 40)), np.int64),
    ((7, -2, 7, 9, 2, 11), np.int64),
    ((LIMITS.min, 5, LIMITS.max, -1), np.int64),
    ((1 << 40, -(1 << 40), 0), np.int64),
    ((0.5, -1.25, float("nan"), 0.5, float("inf"), -0.0, 3.0), np.float32),
    ((0.0, 3.0, -2.0, 7.0, 3.0), np.float32),
    ((16777216.0, 16777214.0, 16777215.0), np.float64),
    ((0.1, -float("inf"), 1e300, 2.0), np.float64),
]


@pytest.mark.parametrize(("keys", "dtype"), KEYS, ids=str)
@pytest.mark.parametrize("of", [None, DType.F32, DType.I64], ids=str)
def test_many_labels_are_those_of_few(keys, dtype, of):
    rng = np.random.default_rng(0)
    others = (
        [LIMITS.min, LIMITS.max, -1, 0, 41, 1 << 40]
        if dtype == np.int64
        else [np.nan, np.inf, -np.inf, -0.0, 0.25, 6.5, 8.0, 1e-30, 2.0**53]
    )
    x = rng.choice(np.array([*keys, *others], dtype), (9, 40))
    values = tuple(f"label {i}" if of is None else i + 5 for i in range(len(keys)))
    encoder = LabelEncoder(keys, values, "none" if of is None else -3, of)
    (found,) = encoder.reference(x)
    few = np.concatenate([encoder.reference(row)[0] for row in x.reshape(-1, 12)]).reshape(x.shape)
    assert found.dtype == few.dtype
    np.testing.assert_array_equal(found, few)


@pytest.mark.parametrize("function", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors_of_many_rows_are_those_of_few(function):
    rng = np.random.default_rng(1)
    x, vectors = rng.uniform(-1, 1, (1500, 5)).astype(np.float32), rng.uniform(-1, 1, (60, 5)).astype(np.float32)
    regressor = SupportVectorRegressor(function, (0.3, 0.5, 3.0), 0.25)
    classifier = SupportVectorClassifier(
        function, (0.3, 0.5, 2.0), (10, 30, 5, 15), tuple(rng.uniform(-1, 1, 6)), (), 4
    )
    for of, weights in ((regressor, rng.uniform(-1, 1, 60)), (classifier, rng.uniform(-1, 1, (3, 60)))):
        found = of.reference(x, vectors, weights)
        few = [of.reference(row[None], vectors, weights) for row in x]
        for array, rows in zip(found, zip(*few, strict=True), strict=True):
            np.testing.assert_allclose(array, np.concatenate(rows), rtol=1e-6, atol=1e-6)


def test_scores_of_pairs_are_votes_of_each_class_against_each_other():
    rng = np.random.default_rng(2)
    x, vectors, weights = rng.uniform(-1, 1, (40, 3)), rng.uniform(-1, 1, (9, 3)), rng.uniform(-1, 1, (2, 9))
    rho, starts, kernels = (0.1, -0.2, 0.3), (0, 2, 6, 9), x @ vectors.T
    best, scores = SupportVectorClassifier("LINEAR", (), (2, 4, 3), rho, (), 3).reference(x, vectors, weights)
    votes = np.zeros((40, 3))
    for pair, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        mine, others = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        score = kernels[:, mine] @ weights[j - 1, mine] + kernels[:, others] @ weights[i, others] + rho[pair]
        np.testing.assert_allclose(scores[:, pair], score, rtol=1e-5, atol=1e-6)
        votes[:, i] += score > 0
        votes[:, j] += score <= 0
    np.testing.assert_array_equal(best, votes.argmax(1))


def test_grams_are_counted_at_every_distance():
    x = np.random.default_rng(3).integers(0, 4, (3, 50))
    pool, columns = (0, 1, 2, 0, 1, 3, 3, 1, 2, 0), (4, 0, 3, 1, 2)
    of = TfIdfVectorizer("TFIDF", (1, 2), 2, pool[:2] + pool[2:8], (0, 2), columns, (1.0, 2.0, 3.0, 4.0, 5.0))
    (found,) = of.reference(x)
    wanted = np.zeros((3, 5), np.float32)
    for row, counts in zip(x.tolist(), wanted, strict=True):
        for key, column, weight in zip((0, 1), columns, (1.0, 2.0), strict=False):
            counts[column] = weight * row.count(key)
        for pair, column, weight in zip(((2, 0), (1, 3), (3, 1)), columns[2:], (3.0, 4.0, 5.0), strict=True):
            counts[column] = weight * sum((row[i], row[i + d]) == pair for d in (1, 2, 3) for i in range(50 - d))
    np.testing.assert_array_equal(found, wanted)
