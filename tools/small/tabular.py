"""Models of tables and texts: scikit-learn's estimators as skl2onnx converts them, boosted trees of other libraries."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tools.small.made import Made, Makers

OPSETS = {"": 18, "ai.onnx.ml": 3}
ROWS = 1, 10
"""Rows that an estimator is given."""

_POSITIVE = ("CategoricalNB", "ComplementNB", "MultinomialNB", "GammaRegressor", "PoissonRegressor", "TweedieRegressor")
_WHOLE = ("CategoricalNB", "OneHotEncoder", "OrdinalEncoder")
_OF_ONE = (
    "CalibratedClassifierCV",
    "MultiOutputClassifier",
    "OneVsOneClassifier",
    "OneVsRestClassifier",
    "RFE",
    "RFECV",
    "SelectFromModel",
)
_TEXTS = ["the cat sat on the mat", "a dog ran in the park", "cats and dogs play", "red blue green"] * 5


def makers() -> Makers:
    """Return what makes each model, as far as the packages are installed."""
    warnings.filterwarnings("ignore")
    found: dict[str, Callable[[], Made]] = {}
    for kind in (_estimators, _pipelines, _boosted):
        try:
            found.update(kind())
        except ImportError as error:
            print(f"left out: {error}")
    return found


def _data() -> tuple[Any, Any, Any]:
    from sklearn.datasets import make_classification

    x, y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
    x = x.astype(np.float32)
    return x, y, x[:, 0] * x[:, 1] + x[:, 2]


def _with_gaps(x: Any) -> Any:
    gaps = x.copy()
    gaps[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    gaps[[0, -1], 2] = np.nan
    return gaps


def _options() -> dict[str, dict[str, Any]]:
    """Return the parameters of classes that need some, or take long without."""
    from sklearn.linear_model import LogisticRegression, Ridge

    several: dict[str, Any] = {"estimators": [("a", LogisticRegression()), ("b", LogisticRegression(C=2))]}
    functions: dict[str, Any] = {"estimators": [("a", Ridge()), ("b", Ridge(2))]}
    few = ("AdaBoost", "Bagging", "ExtraTrees", "GradientBoosting", "RandomForest")
    made: dict[str, dict[str, Any]] = {name: {"estimator": LogisticRegression()} for name in _OF_ONE}
    made |= {f"{name}{kind}": {"n_estimators": 10} for name in few for kind in ("Classifier", "Regressor")}
    return made | {
        "BayesianGaussianMixture": {"n_components": 2},
        "GridSearchCV": {"estimator": LogisticRegression(), "param_grid": {"C": [1, 2]}},
        "HistGradientBoostingClassifier": {"max_iter": 10},
        "HistGradientBoostingRegressor": {"max_iter": 10},
        "IsolationForest": {"n_estimators": 10},
        "KBinsDiscretizer": {"n_bins": 4, "encode": "ordinal"},
        "KernelPCA": {"n_components": 2, "kernel": "rbf"},
        "MLPClassifier": {"hidden_layer_sizes": (16,), "max_iter": 30},
        "MLPRegressor": {"hidden_layer_sizes": (16,), "max_iter": 30},
        "MultiOutputRegressor": {"estimator": Ridge()},
        "NuSVC": {"nu": 0.3},
        "PCA": {"n_components": 2},
        "SVC": {"probability": True},
        "SelectKBest": {"k": 3},
        "StackingClassifier": several,
        "StackingRegressor": functions,
        "TruncatedSVD": {"n_components": 2},
        "VotingRegressor": functions,
    }


def _estimators() -> Iterator[tuple[str, Callable[[], Made]]]:
    from sklearn.utils import all_estimators

    options = _options()
    for name, kind in all_estimators():
        for rows in ROWS:
            yield f"{name}_{rows}", partial(_estimator, name, kind, options.get(name, {}), rows)


def _estimator(name: str, kind: Any, options: dict[str, Any], rows: int) -> Made:
    from skl2onnx import to_onnx
    from sklearn.base import is_regressor

    x, y, target = _data()
    if name in _POSITIVE or name in _WHOLE:
        x = np.abs(x)
    if name in _WHOLE:
        x = (2 * x).astype(np.int64).clip(0, 3)
    if "Imputer" in name:
        x = _with_gaps(x)
    own = kind(**options)
    wanted: Any = y
    if is_regressor(own):
        wanted = np.abs(target) + np.float32(0.1) if name in _POSITIVE else target
    if name.startswith("Multi") and "NB" not in name:
        column = target if is_regressor(own) else (y > 0).astype(np.int64)
        wanted = np.stack([column, column[::-1]], 1)
    own.fit(x, wanted)
    model = to_onnx(own, x[:1], target_opset=OPSETS)
    return model, {model.graph.input[0].name: x[-rows:].copy()}


def _pipelines() -> Iterator[tuple[str, Callable[[], Made]]]:
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.impute import KNNImputer, SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import (
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
        PowerTransformer,
        StandardScaler,
    )

    texts, kinds = np.array(_TEXTS, object), np.array([0, 1, 2, 1] * 5)
    plain = {"tokenexp": "[a-z]+", "locale": "C"}
    words, pairs = (TfidfVectorizer(ngram_range=(1, n), token_pattern="[a-z]+") for n in (1, 2))
    counts = CountVectorizer(binary=True, token_pattern="[a-z]+")
    for name, rows, pipeline in (
        ("words", 1, make_pipeline(words, LogisticRegression())),
        ("words_of_ten", 10, make_pipeline(words, LogisticRegression())),
        ("pairs_of_words", 1, make_pipeline(pairs, LogisticRegression())),
        ("counted_words", 1, make_pipeline(counts, MultinomialNB())),
        ("words_and_counts", 1, make_pipeline(make_union(words, counts), LogisticRegression())),
    ):
        read, options = texts[:rows, None], {TfidfVectorizer: plain, CountVectorizer: plain}
        columns = [("x", StringTensorType([None, 1]))]
        yield name, partial(_pipeline, pipeline, texts, kinds, read, columns, options)
    x, y, _ = _data()
    gaps, columns = _with_gaps(x), [("x", FloatTensorType([None, 6]))]
    for name, data, pipeline in (
        ("scaled", x, make_pipeline(StandardScaler(), PCA(3), LogisticRegression())),
        ("powers", x, make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression())),
        ("power_transform", x, make_pipeline(PowerTransformer(), LogisticRegression())),
        ("filled_by_means", gaps, make_pipeline(SimpleImputer(), LogisticRegression())),
        (
            "filled_by_neighbours",
            gaps,
            make_pipeline(KNNImputer(n_neighbors=2), RandomForestClassifier(10)),
        ),
    ):
        yield name, partial(_pipeline, pipeline, data, y, data[-3:], columns, {})
    names = np.array([["m", "S"], ["f", "C"], ["m", "Q"], ["f", "S"]] * 10, object)
    columns = [("x", StringTensorType([None, 2]))]
    for name, pipeline in (
        ("categories", make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())),
        ("ordered_categories", make_pipeline(OrdinalEncoder(), GradientBoostingClassifier(n_estimators=5))),
    ):
        yield name, partial(_pipeline, pipeline, names, np.array([0, 1, 0, 1] * 10), names[:4], columns, {})


def _pipeline(pipeline: Any, x: Any, y: Any, read: Any, columns: Any, options: dict[Any, Any]) -> Made:
    from skl2onnx import convert_sklearn

    model = convert_sklearn(pipeline.fit(x, y), initial_types=columns, options=options, target_opset=OPSETS)
    return model, {"x": read.copy()}


def _boosted() -> Iterator[tuple[str, Callable[[], Made]]]:
    x, y, target = _data()
    few, two = {"n_estimators": 20}, (y > 0).astype(np.int64)
    try:
        import lightgbm
        from onnxmltools import convert_lightgbm

        trees = {**few, "num_leaves": 7, "verbose": -1}
        for name, labels in (("lightgbm_two", two), ("lightgbm_three", y)):
            yield name, partial(_converted, convert_lightgbm, lightgbm.LGBMClassifier(**trees), x, labels)
        yield "lightgbm_function", partial(_converted, convert_lightgbm, lightgbm.LGBMRegressor(**trees), x, target)
    except ImportError as error:
        print(f"left out: {error}")
    try:
        import xgboost
        from onnxmltools import convert_xgboost

        for name, labels in (("xgboost_two", two), ("xgboost_three", y)):
            yield name, partial(_converted, convert_xgboost, xgboost.XGBClassifier(**few, max_depth=3), x, labels)
        yield "xgboost_function", partial(_converted, convert_xgboost, xgboost.XGBRegressor(**few), x, target)
    except ImportError as error:
        print(f"left out: {error}")
    try:
        import catboost

        options = {"verbose": 0, "allow_writing_files": False}
        yield "catboost_two", partial(_of_catboost, catboost.CatBoostClassifier(20, depth=4, **options), x, two)
        yield "catboost_function", partial(_of_catboost, catboost.CatBoostRegressor(20, depth=4, **options), x, target)
    except ImportError as error:
        print(f"left out: {error}")


def _converted(convert: Any, own: Any, x: Any, y: Any) -> Made:
    from onnxmltools.convert.common.data_types import FloatTensorType

    return convert(own.fit(x, y), initial_types=[("x", FloatTensorType([None, 6]))], target_opset=15), {"x": x[:1]}


def _of_catboost(own: Any, x: Any, y: Any) -> Made:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        own.fit(x, y).save_model(str(path), format="onnx")
        model = onnx.load(path)
    return model, {model.graph.input[0].name: x[:1]}
