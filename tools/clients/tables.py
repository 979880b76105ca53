# needs: dask distributed pandas pyarrow
"""Predict the rows of a table with Dask: in one thread, in several, in processes, and on a worker of a cluster."""

import dask.dataframe as dd
import numpy as np
import onnxruntime as ort
import pandas as pd
from dask import array
from dask.distributed import Client, LocalCluster
from onnx import TensorProto, helper, numpy_helper

weights = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"])]
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 8), ("y", 5)))
graph = helper.make_graph(nodes, "scores", [x], [y], [numpy_helper.from_array(weights, "w")])
MODEL = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def predicted(table, model):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return pd.DataFrame(session.run(None, {"x": table.to_numpy(np.float32)})[0], columns=list("abcde"))


def show(name, values):
    print(name, *(f"{v:.4f}" for v in np.ravel(values)[::37]))


def main():
    table = pd.DataFrame(np.sin(np.arange(800.0)).reshape(100, 8))
    meta = pd.DataFrame({c: pd.Series(dtype="float32") for c in "abcde"})
    found = dd.from_pandas(table, npartitions=4).map_partitions(predicted, MODEL, meta=meta)
    for scheduler in ("synchronous", "threads", "processes"):
        show(scheduler, found.compute(scheduler=scheduler))
    session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    blocks = array.from_array(table.to_numpy(np.float32), chunks=(25, 8))
    scores = blocks.map_blocks(lambda block: session.run(None, {"x": block})[0], dtype=np.float32, chunks=(25, 5))
    show("blocks", scores.compute(scheduler="threads"))
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster):
        show("cluster", found.compute())


if __name__ == "__main__":
    main()
