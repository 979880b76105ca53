# needs: scikit-learn pandas skl2onnx --no-deps: scikit-onnxruntime
"""Use exported models as steps of scikit-learn's pipelines again, which are cloned and pickled."""

import pickle

import numpy as np
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skonnxrt.sklapi import OnnxTransformer

x, y = load_iris(return_X_y=True)
x = x.astype(np.float32)
first = make_pipeline(StandardScaler(), PCA(2)).fit(x)
step = OnnxTransformer(to_onnx(first, x[:1]).SerializeToString())
print(np.round(np.asarray(step.fit(x).transform(x[:3]), np.float64), 4).tolist())
whole = make_pipeline(clone(step), LogisticRegression(max_iter=200)).fit(x, y)
print(whole.predict(x[::15]).tolist(), round(whole.score(x, y), 3))
print(np.round(cross_val_score(whole, x, y, cv=3), 3).tolist())
fresh = pickle.loads(pickle.dumps(OnnxTransformer(to_onnx(whole[-1], x[:1, :2]).SerializeToString())))
print(fresh.fit().transform(np.asarray(step.transform(x[:4]), np.float32)).round(3).to_dict("list"))
