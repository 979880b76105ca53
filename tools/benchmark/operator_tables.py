"""Models of one operator on tables, labels and texts, on unsigned integers, and on what else few models have."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tools.benchmark.operator_cases import ML, Cases, OperatorCase, draw

ROWS = {"small": 100, "large": 20000}

VOLUMES = {"small": (1, 3, 5, 6, 7), "large": (1, 16, 16, 32, 32)}

IMAGES = {"small": (1, 3, 18, 22), "large": (1, 64, 100, 100)}


def cases_of_tables(size: str) -> Cases:
    """Yield each case by its title."""
    rows, rng = ROWS[size], np.random.default_rng(5)
    yield from _of_numbers(size)
    labels, words = draw("i64", (rows,)), rng.choice(np.array(["a", "bb", "cat", "dog", ""], object), rows)
    table = draw("f32", (rows, 7))
    yield (
        "LabelEncoder i64",
        lambda: OperatorCase(
            "LabelEncoder",
            (labels,),
            (),
            {"keys_int64s": list(range(-3, 100)), "values_int64s": list(range(103))},
            domain=ML,
        ),
    )
    yield "Cast i64 string", lambda: OperatorCase("Cast", (labels,), attributes={"to": TensorProto.STRING})
    wide = draw("i64", (rows,), -99999, 99999)
    yield "Cast i64 string wide", lambda: OperatorCase("Cast", (wide,), attributes={"to": TensorProto.STRING})
    yield "Equal string", lambda: OperatorCase("Equal", (words, words[::-1].copy()), opset=19)
    pool = {"pool_strings": ["a", "bb", "cat", "dog", "a", "bb", "cat", "dog"], "ngram_counts": [0, 4]}
    yield (
        "TfIdfVectorizer",
        lambda: OperatorCase(
            "TfIdfVectorizer",
            (words[: rows // 20 * 20].reshape(-1, 20),),
            (),
            {
                "mode": "TF",
                "min_gram_length": 1,
                "max_gram_length": 2,
                "max_skip_count": 0,
                "ngram_indexes": list(range(6)),
                **pool,
            },
        ),
    )
    vectors = rng.uniform(-1, 1, 420).tolist()
    yield (
        "SVMClassifier",
        lambda: OperatorCase(
            "SVMClassifier",
            (table,),
            (),
            {
                "kernel_type": "RBF",
                "kernel_params": [0.1, 0.5, 3.0],
                "coefficients": vectors[:120],
                "support_vectors": vectors,
                "vectors_per_class": [20, 20, 20],
                "rho": [0.3, 0.2, 0.1],
                "classlabels_ints": [0, 1, 2],
            },
            outputs=2,
            domain=ML,
        ),
    )
    yield (
        "LinearRegressor",
        lambda: OperatorCase(
            "LinearRegressor",
            (table,),
            (),
            {"coefficients": [0.5] * 14, "intercepts": [0.1, 0.2], "targets": 2},
            domain=ML,
        ),
    )
    yield (
        "ArrayFeatureExtractor f32",
        lambda: OperatorCase("ArrayFeatureExtractor", (table, np.array([1, 3])), domain=ML),
    )


def _of_numbers(size: str) -> Cases:
    rows, image, volume = ROWS[size], IMAGES[size], VOLUMES[size]
    for dtype in ("u64", "u32"):
        yield f"Max {dtype}", lambda d=dtype: OperatorCase("Max", (draw(d, (rows, 64)), draw(d, (rows, 64))))
    for dtype in ("u8", "i8", "f64"):
        yield (
            f"MaxPool {dtype} volume",
            lambda d=dtype: OperatorCase(
                "MaxPool", (draw(d, volume, 0, 99),), attributes={"kernel_shape": [3] * 3, "strides": [2] * 3}
            ),
        )
    patches = (1, image[1] * 4, image[2] * image[3] // 4)
    yield (
        "Col2Im f32 steps",
        lambda: OperatorCase(
            "Col2Im", (draw("f32", patches),), (np.array(image[2:]), np.array([2, 2])), {"strides": [2, 2]}
        ),
    )
    yield (
        "Resize u8 nearest",
        lambda: OperatorCase(
            "Resize",
            (draw("u8", image, 0, 99),),
            (None, np.float32([1, 1, 2, 2])),
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        ),
    )
    yield "ReduceSum f64 last 63", lambda: OperatorCase("ReduceSum", (draw("f64", (rows, 63)),), (np.array([-1]),))
    for columns in (1, 4, 10):
        yield (
            f"Gemm f32 {columns} columns",
            lambda n=columns: OperatorCase(
                "Gemm", (draw("f32", (rows, 32)),), (draw("f32", (32, n)), draw("f32", (n,)))
            ),
        )
    yield "ConstantOfShape i64", lambda: OperatorCase("ConstantOfShape", (np.array([rows, 50]),))
