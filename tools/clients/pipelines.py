# needs: scikit-learn skl2onnx
"""Pipelines of scikit-learn in ONNX: texts to classes, gaps filled from neighbours, forests, support vectors."""

import numpy as np
import onnxruntime as ort
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

rows, classes = load_iris(return_X_y=True)
rows = rows.astype(np.float32)
gaps = rows[::10].copy()
gaps[[1, 4], [2, 0]] = np.nan


def run(model, fed):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: fed})


print(run(to_onnx(KNNImputer().fit(rows), rows[:1]), gaps)[0][[1, 4]].tolist())
for kind in (
    RandomForestClassifier(10, random_state=0),
    HistGradientBoostingClassifier(max_iter=5, random_state=0),
    MLPClassifier(random_state=0, max_iter=30),
    SVC(probability=True, random_state=0),
):
    labels, shares = run(to_onnx(kind.fit(rows, classes), rows[:1]), rows[::30])
    print(type(kind).__name__, labels.tolist(), [[round(float(v), 4) for v in s.values()] for s in shares])
texts = np.array([["a quick brown fox"], ["the lazy dog sleeps"], ["foxes jump, dogs sleep"]])
pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), token_pattern="[a-z]+"), LogisticRegression())
pipeline.fit(texts.ravel(), [0, 1, 0])
options = {TfidfVectorizer: {"tokenexp": "[a-z]+", "locale": "C"}, LogisticRegression: {"zipmap": False}}
model = convert_sklearn(pipeline, initial_types=[("texts", StringTensorType([None, 1]))], options=options)
print([found.tolist() for found in run(model, texts)])
