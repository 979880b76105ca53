# needs: scikit-learn skl2onnx joblib leafparity
"""Prove that a tree in ONNX is the one it was made of, by both runtimes on inputs where they may differ."""

import contextlib
import io
import os
import sys
import tempfile

import joblib
import numpy as np
import onnx
from leafparity import cli
from skl2onnx import to_onnx
from sklearn.tree import DecisionTreeRegressor

os.chdir(tempfile.mkdtemp())
random = np.random.default_rng(0)
x = random.standard_normal((300, 5)).astype(np.float32)
tree = DecisionTreeRegressor(max_depth=5, random_state=0).fit(x, x[:, 0] * 2 + np.sin(x[:, 1]))
joblib.dump(tree, "tree.joblib")
onnx.save(to_onnx(tree, x[:1]), "tree.onnx")
sys.argv = ["leafparity", "check", "tree.joblib", "tree.onnx"]
with contextlib.redirect_stdout(io.StringIO()) as told:
    print(cli.main(), file=sys.stderr)
print(*(line for line in told.getvalue().splitlines() if not line.startswith("Completed in")), sep="\n")
