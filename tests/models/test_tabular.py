"""Models that skl2onnx writes of scikit-learn's, with their dictionaries, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clgraph
from tests.ops.test_tables import assert_same

pytestmark = pytest.mark.slow


def trained() -> dict[str, Any]:
    """Return models of a dozen kinds by name, each trained on three classes, two, or a function."""
    pytest.importorskip("skl2onnx", reason="skl2onnx and scikit-learn make these models")
    from sklearn import (
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.datasets import make_classification

    x, y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
    x, names, target = x.astype(np.float32), np.array(["a", "b", "c"])[y], x[:, 0] * x[:, 1] + x[:, 2]
    two = (y > 0).astype(np.int64)
    forest, boosted = ensemble.RandomForestClassifier, ensemble.GradientBoostingClassifier
    scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), preprocessing.Normalizer(), svm.SVC())
    kinds = {
        "logistic regression": (linear_model.LogisticRegression(max_iter=300), names),
        "logistic regression of two": (linear_model.LogisticRegression(), two),
        "ridge": (linear_model.Ridge(), target),
        "tree": (tree.DecisionTreeClassifier(max_depth=5), names),
        "forest": (forest(8, max_depth=4, random_state=0), y),
        "forest of two": (forest(8, max_depth=4, random_state=0), two),
        "forest of a function": (ensemble.RandomForestRegressor(8, max_depth=4, random_state=0), target),
        "boosted trees": (boosted(n_estimators=6, random_state=0), y),
        "boosted trees of two": (boosted(n_estimators=6, random_state=0), two),
        "support vectors": (scaled, names),
        "support vectors of a function": (svm.SVR(), target),
        "neighbours": (neighbors.KNeighborsClassifier(), names),
        "naive Bayes": (naive_bayes.GaussianNB(), y),
        "perceptron": (neural_network.MLPClassifier((8,), max_iter=30, random_state=0), y),
    }
    return {"x": x, **{name: model.fit(x, labels) for name, (model, labels) in kinds.items()}}


@pytest.mark.filterwarnings("ignore")
def test_a_dozen_kinds_of_models_give_the_same_labels_and_probabilities() -> None:
    import onnxruntime

    models = trained()
    from skl2onnx import to_onnx

    feeds = {"X": models.pop("x")[:9]}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for model in models.values():
        for zipmap in (True, False) if hasattr(model, "predict_proba") else (None,):
            more = {} if zipmap is None else {"options": {id(model): {"zipmap": zipmap}}}
            file = to_onnx(model, feeds["X"][:1], target_opset={"": 18, "ai.onnx.ml": 3}, **more).SerializeToString()
            wanted = onnxruntime.InferenceSession(file, options).run(None, feeds)
            # Sums over at most 120 neighbours or vectors of values below 10, in floats.
            assert_same(list(clgraph.compile(file, "host").run(feeds).values()), list(wanted), 120 * 10 * 2.0**-24)
