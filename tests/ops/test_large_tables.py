"""Operators of ai.onnx.ml on more elements than are worth a loop: the same as of few."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.label_encoder import LabelEncoder, whole_labels
from clgraph.ops.support_vector_classifier import SupportVectorClassifier, _of_pairs
from clgraph.ops.support_vector_regressor import SupportVectorRegressor
from clgraph.ops.tf_idf_vectorizer import TfIdfVectorizer
from clgraph.ops.zip_map import ZipMap

LIMITS = np.iinfo(np.int64)

KEYS = [
    (tuple(range(-3, 40)), np.int64),
    ((7, -2, 7, 9, 2, 11), np.int64),
    ((LIMITS.min, 5, LIMITS.max, -1), np.int64),
    ((1 << 40, -(1 << 40), 0), np.int64),
    ((0.5, -1.25, float("nan"), 0.5, float("inf"), -0.0, 3.0), np.float32),
    ((0.0, 3.0, -2.0, 7.0, 3.0), np.float32),
    ((16777216.0, 16777214.0, 16777215.0), np.float32),
    ((16777213.0, 16777214.0, 16777215.0), np.float32),
    ((-16777215.0, -16777214.0), np.float64),
    ((0.1, -float("inf"), 1e300, 2.0), np.float64),
]


@pytest.mark.parametrize(("keys", "dtype"), KEYS, ids=str)
@pytest.mark.parametrize("of", [None, DType.F32, DType.I64], ids=str)
def test_many_labels_are_those_of_few(keys, dtype, of):
    rng = np.random.default_rng(0)
    others = (
        [LIMITS.min, LIMITS.max, -1, 0, 41, 1 << 40]
        if dtype == np.int64
        else [np.nan, np.inf, -np.inf, -0.0, 0.25, 6.5, 8.0, 1e-30, 2.0**24, 2.0**24 + 2, -(2.0**24), 2.0**53]
    )
    x = rng.choice(np.array([*keys, *others], dtype), (9, 40))
    values = tuple(f"label {i}" if of is None else i + 5 for i in range(len(keys)))
    encoder = LabelEncoder(keys, values, "none" if of is None else -3, of)
    (found,) = encoder.reference(x)
    few = np.concatenate([encoder.reference(row)[0] for row in x.reshape(-1, 12)]).reshape(x.shape)
    assert found.dtype == few.dtype
    np.testing.assert_array_equal(found, few)
    near = of is not None and max(keys) - min(keys) <= 16 * len(keys) and all(key % 1 == 0 for key in keys)
    near = near and (dtype == np.int64 or max(keys) < 1 << 24)  # from where on floats are no neighbours
    layers = whole_labels(encoder)
    assert (layers is not None) == near
    if layers is not None:
        labels, table = layers
        (on_device,) = labels.reference(x, table)
        assert on_device.dtype == few.dtype
        np.testing.assert_array_equal(on_device, few)


@pytest.mark.opencl
@pytest.mark.parametrize("of", [np.int64, np.float32, np.float64], ids=str)
def test_labels_of_numbers_near_each_other_are_picked_by_the_device(of: type, device: str) -> None:
    x = np.array([[1, -2, 3, 0, 9, -9, 1 << 40]], of)
    x = x if of is np.int64 else np.append(x, np.array([[1.5, np.nan, np.inf, -np.inf, -0.0, -3]], of), 1)
    keys = numpy_helper.from_array(np.array([3, -2, 0, 1], of))
    for dtype in (np.float32, np.int64, np.int64 if of is np.float32 else np.float64):
        tensors = {
            "keys_tensor": keys,
            "values_tensor": numpy_helper.from_array(np.array([5, 6, 7, 8], dtype)),
            "default_tensor": numpy_helper.from_array(np.array([-1], dtype)),
        }
        node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **tensors)
        types = {name: helper.np_dtype_to_tensor_dtype(np.dtype(found)) for name, found in (("x", of), ("y", dtype))}
        given, made = (helper.make_tensor_value_info(name, code, ["n", None]) for name, code in types.items())
        sets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4)]
        model = helper.make_model(helper.make_graph([node], "g", [given], [made]), opset_imports=sets, ir_version=9)
        with clgraph.compile(model, device) as compiled:
            assert "on the host" not in " ".join(compiled.notes)
            for rows in (1, 4):
                fed = np.repeat(x, rows, 0)
                wanted = [[{3: 5, -2: 6, 0: 7, 1: 8}.get(number, -1) for number in row] for row in fed.tolist()]
                np.testing.assert_array_equal(compiled.run({"x": fed})["y"], np.array(wanted, dtype))


@pytest.mark.parametrize("count", [1, 2, 5, 6])
@pytest.mark.parametrize("twice", [False, True])
def test_maps_of_many_rows_are_those_of_few(count, twice):
    labels = ("d", "b", "c", "a", "f", "e")[:count]
    of = ZipMap((*labels, labels[0]) if twice else labels)
    x = np.random.default_rng(0).standard_normal((40, len(of.labels))).astype(np.float32)
    (found,) = of.reference(x)
    few = [each for row in x for each in of.reference(row)[0]]
    wanted = [dict(zip(of.labels, row, strict=True)) for row in x.tolist()]
    assert list(found) == few == wanted
    assert [list(each) for each in found] == [list(each) for each in few] == [sorted(labels)] * 40


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
    of = SupportVectorClassifier("LINEAR", (), (2, 4, 3), rho, (), 3)
    for found, wanted in zip(of.reference(x, vectors, _of_pairs(weights, (2, 4, 3))), (best, scores), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


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


@pytest.mark.parametrize("kind", ["numbers", "strings", "far apart", "many"])
@pytest.mark.parametrize(("lengths", "skips"), [((1, 1), 5), ((1, 3), 0), ((2, 4), 2), ((3, 3), 40)], ids=str)
def test_grams_of_any_items_are_counted(kind, lengths, skips):
    rng = np.random.default_rng(4)
    items = {
        "numbers": [*range(6)],
        "strings": ["", "a", "aa", "é", "b c", "a "],
        "far apart": [LIMITS.min, -1, 0, 7, 1 << 40, LIMITS.max],
        "many": [*range(300)],
    }[kind]
    few = items[:-2]  # of the last two no n-gram begins
    grams = {n: {tuple(few[i] for i in rng.integers(0, len(few), n)) for _ in range(120)} for n in (1, 2, 3, 4)}
    pool = [gram for n in (1, 2, 3, 4) for gram in sorted(grams[n])]
    pool.insert(len(grams[1]), pool[0])  # one twice: the first counts
    starts = np.cumsum([0, len(grams[1]) + 1, 2 * len(grams[2]), 3 * len(grams[3])])
    columns = tuple(rng.permutation(len(pool)).tolist())
    flat = tuple(item for gram in pool for item in gram)
    of = TfIdfVectorizer("TF", lengths, skips, flat, tuple(starts.tolist()), columns)
    for shape in ((5, 23), (23,), (2, 2), (3, 1), (0, 4), (2, 0)):
        dtype = object if kind == "strings" else np.int64
        x = np.array([items[i] for i in rng.integers(0, len(items), int(np.prod(shape)))], dtype).reshape(shape)
        rows = np.atleast_2d(x).tolist()
        wanted = np.zeros((len(rows), len(pool)), np.float32)
        column_of = dict(reversed([*zip(pool, columns, strict=True)]))
        for row, counts in zip(rows, wanted, strict=True):
            for n in range(lengths[0], lengths[1] + 1):
                for d in range(1, 2 if n == 1 else skips + 2):
                    for i in range(len(row) - (n - 1) * d):
                        if (gram := tuple(row[i : i + (n - 1) * d + 1 : d])) in column_of:
                            counts[column_of[gram]] += 1
        np.testing.assert_array_equal(np.atleast_2d(of.reference(x)[0]), wanted)


def test_grams_of_an_empty_pool_are_none():
    of = TfIdfVectorizer("TF", (1, 2), 1, (), (0,), ())
    for x in (np.array(["a", "b"], object), np.arange(6).reshape(2, 3)):
        assert of.reference(x)[0].shape == (*x.shape[:-1], 0)
