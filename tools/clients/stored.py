# needs: mlflow-skinny pandas
"""Store a model with MLflow, with options of sessions, and predict with it: arrays, dictionaries, tables."""

import logging
import tempfile
from pathlib import Path

import mlflow
import numpy as np
import onnx
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

logging.disable(logging.WARNING)
weights = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"])]
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 8), ("y", 5)))
graph = helper.make_graph(nodes, "scores", [x], [y], [numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
rows = np.sin(np.arange(24, dtype=np.float32)).reshape(3, 8)
options = {"execution_mode": "sequential", "intra_op_num_threads": 1, "graph_optimization_level": 99}
with tempfile.TemporaryDirectory() as folder:
    for name, given in (("plain", None), ("options", options)):
        path = str(Path(folder, name))
        mlflow.onnx.save_model(model, path, onnx_session_options=given)
        loaded = mlflow.pyfunc.load_model(path)
        for feeds in (rows, {"x": rows}, pd.DataFrame(rows)):
            found = loaded.predict(feeds)
            values = found.to_numpy() if isinstance(found, pd.DataFrame) else found["y"]
            print(name, type(found).__name__, *(f"{v:.4f}" for v in np.ravel(np.stack(values))[:5].astype(float)))
