"""Support vector machines on CPU devices: scores of doubles, votes and probabilities of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.support_vector_classifier import SupportVectorClassifier, _of_pairs
from clgraph.ops.support_vector_regressor import SupportVectorRegressor
from clgraph.ops.support_vectors import KERNELS, packed
from clgraph.runtime.engine import Engine
from tests.support.check_op import Draw, check_op

Array = NDArray[Any]
pytestmark = pytest.mark.opencl

FED: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: rng.standard_normal(shape) * 100,
    "far": lambda rng, shape: rng.standard_normal(shape) + 30,
}
"""Rows near the vectors, far from all, and far in one direction, where squares are larger than their differences."""

GAMMA, ADDED = 0.1, 0.25


def parameters(function: str, degree: float) -> tuple[float, float, float]:
    return GAMMA / (100 if function == "SIGMOID" else 1), ADDED, degree


def drawn(count: int, features: int, pairs: int) -> tuple[Array, Array]:
    """Return vectors and weights as a model has them: floats, as doubles."""
    rng = np.random.default_rng(count)
    made = rng.standard_normal((count, features)), rng.standard_normal((pairs, count))
    return made[0].astype(np.float32).astype(np.float64), made[1].astype(np.float32).astype(np.float64)


def size_of(function: str, degree: float, features: int, count: int, rho: Array) -> Any:
    """Return the scale of errors, in units of 2^-24: of the results, and of what doubles round.

    Sums of doubles are off by as many 2^-53 as they have terms, on both sides, of the sum of absolute values; kernels
    by 16 more, and by what their argument is off by times their slope.
    """

    def scale(x: Array, vectors: Array, weights: Array, _: Array) -> Array:
        gamma, added, _ = parameters(function, degree)
        product = np.abs(x) @ np.abs(vectors).T
        squares = (np.linalg.norm(x, axis=1)[:, None] + np.linalg.norm(vectors, axis=1)) ** 2
        argument = gamma * product + added
        kernel = {
            "LINEAR": product,
            "POLY": max(degree, 1) * argument**degree,
            "RBF": 1 + gamma * squares,
            "SIGMOID": 1 + argument,
        }[function]
        sums = kernel @ np.abs(weights).T + np.abs(rho)
        # Each side rounds to float once, half an ulp.
        return np.asarray(2 * sums.max() * 2.0**-29 * (features + count + 32) + sums * 0)

    return scale


def run(engine: Engine, of: Any, rows: int, vectors: Array, weights: Array, **more: Any) -> None:
    constants = vectors, weights, packed(vectors, weights.reshape(-1, len(vectors)))

    def kept(array: Array) -> Draw:
        return lambda rng, shape: array

    assert check_op(
        engine,
        of,
        (rows, vectors.shape[1]),
        *(a.shape for a in constants),
        dtype=[more.pop("dtype", DType.F32), DType.F64, DType.F64, DType.F32],
        constant=range(1, 4),
        draw={slot: kept(array) for slot, array in enumerate(constants, 1)},
        **{"families": FED, **more},
    )


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize(
    ("function", "degree"),
    [("LINEAR", 3.0), ("RBF", 3.0), ("SIGMOID", 3.0), *(("POLY", d) for d in (1.0, 2.0, 3.0, 4.0))],
)
def test_numbers_are_those_of_the_reference(engine: Engine, function: str, degree: float, dtype: DType) -> None:
    for rows, count, features in ((1, 3, 4), (70, 17, 5), (5, 16, 1), (10, 35, 130)):
        vectors, weights = drawn(count, features, 1)
        of = SupportVectorRegressor(function, parameters(function, degree), 0.375)
        scale = size_of(function, degree, features, count, np.array([0.375]))
        # Beside what doubles are off by, both sides are rounded to float, half an ulp each.
        run(engine, of, rows, vectors, weights[0], ulps=1, scale=_with_result(of, scale), dtype=dtype)


def _with_result(of: Any, scale: Any, output: int = 0) -> Any:
    def whole(*arrays: Array) -> Array:
        result = np.abs(of.reference(*arrays)[output].astype(np.float64))
        return np.asarray(2 * result + scale(*arrays).reshape(-1, 1))

    return whole


def test_what_stands_behind_the_last_vector_adds_nothing(engine: Engine) -> None:
    """The power of its product, 0, is infinite."""
    positive: dict[str, Draw] = {"positive": lambda rng, shape: rng.uniform(0.5, 1, shape)}
    vectors = np.random.default_rng(0).uniform(0.5, 1, (11, 3)).astype(np.float32).astype(np.float64)
    of = SupportVectorRegressor("POLY", (0.5, 0.0, -1.0), 0.375)
    # A kernel is off by its argument's 5 x 2^-53 and 16 more, a sum by 13 more of its terms, which are all positive.
    scale = _with_result(of, lambda x, v, w, p: np.float64(2.0**-29 * 64 * 11 / (0.5 * 3 / 4)))
    run(engine, of, 9, vectors, np.ones(11), families=positive, ulps=1, scale=scale)


@pytest.mark.parametrize("function", KERNELS)
def test_signs_are_those_of_the_reference(engine: Engine, function: str) -> None:
    vectors, weights = drawn(11, 3, 1)
    run(
        engine,
        SupportVectorRegressor(function, parameters(function, 3.0), 0.375, one_class=True),
        9,
        vectors,
        weights[0],
    )


@pytest.mark.parametrize("function", KERNELS)
@pytest.mark.parametrize("held", [(4, 5), (3, 1, 7), (2, 3, 2, 4, 1, 2, 3, 2)], ids=len)
def test_pairs_vote_as_in_the_reference(engine: Engine, held: tuple[int, ...], function: str) -> None:
    classes, count = len(held), sum(held)
    pairs = classes * (classes - 1) // 2
    vectors, weights = drawn(count, 4, classes - 1)
    weights = weights if classes == 2 else _of_pairs(weights, held)
    rho = np.random.default_rng(0).standard_normal(pairs)
    for rows in (1, 6, 33):
        of = SupportVectorClassifier(function, parameters(function, 2.0), held, tuple(rho.tolist()), (), classes)
        scale = size_of(function, 2.0, 4, count, rho)

        def both(x: Array, v: Array, w: Array, p: Array, of: Any = of, scale: Any = scale) -> Array:
            return np.asarray(2 * np.abs(of.reference(x, v, w)[1]).max() + scale(x, v, w, p).max())

        run(engine, of, rows, vectors, weights, ulps=1, scale=both)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("held", [(4, 5), (3, 1, 7)], ids=len)
@pytest.mark.parametrize("probable", [False, True])
def test_scores_are_transformed_in_doubles(
    engine: Engine, held: tuple[int, ...], transform: str, probable: bool
) -> None:
    classes = len(held)
    pairs = classes * (classes - 1) // 2
    vectors, weights = drawn(sum(held), 4, classes - 1)
    weights = weights if classes == 2 else _of_pairs(weights, held)
    rho = np.random.default_rng(0).standard_normal(pairs).tolist()
    probabilities = (*[-1.5] * pairs, *rho) if probable else ()
    of = SupportVectorClassifier("RBF", (0.1, 0.0, 3.0), held, tuple(rho), probabilities, classes, False, transform)
    most = float(np.abs(weights).sum(1).max() + np.abs(rho).max() + 1)
    # Scores are below the sum of weights, probabilities and transforms below 1, both rounded once on each side. What
    # doubles are off by, times their steps, is far less: each step shrinks it.
    run(engine, of, 9, vectors, weights, ulps=1, scale=lambda *arrays: np.array(2 * most))


def model_of(operator: str, **attributes: Any) -> Any:
    outputs = ["y"] if operator == "SVMRegressor" else ["label", "y"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "g", [x], made), opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("classes", "transform", "where"),
    [(2, "NONE", "rows"), (8, "NONE", "rows"), (9, "NONE", "host"), (3, "PROBIT", "host")],
)
def test_few_classes_are_told_by_the_device(device: str, classes: int, transform: str, where: str) -> None:
    pairs, rng = classes * (classes - 1) // 2, np.random.default_rng(0)
    model = model_of(
        "SVMClassifier",
        support_vectors=rng.standard_normal(classes * 2).astype(np.float32).tolist(),
        vectors_per_class=[1] * classes,
        coefficients=[0.5] * (classes * (classes - 1)),
        rho=[0.25] * pairs,
        kernel_type="RBF",
        kernel_params=[0.5, 0.0, 3.0],
        classlabels_ints=list(range(classes)),
        post_transform=transform,
    )
    with clgraph.compile(model, device, config={"device_class": "cpu"}) as compiled:
        y = compiled.run({"x": np.zeros((0, 2), np.float32)})["y"]
        assert y.shape == (0, 2 if classes == 2 else pairs)
        compiled.run({"x": np.ones((3, 2), np.float32)})
        assert (
            f"support_vector_classifier.{where}" in (text := str(compiled.explain())) or f"placement   {where}" in text
        )
