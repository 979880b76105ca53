# needs: celery huey
"""Predict in tasks: Huey's workers and Celery's, threads that share one session."""

import numpy as np
import onnxruntime as ort
from celery import Celery
from celery.contrib.testing.worker import start_worker
from huey import MemoryHuey
from onnx import TensorProto, helper, numpy_helper

weights = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"])]
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 8), ("y", 5)))
graph = helper.make_graph(nodes, "scores", [x], [y], [numpy_helper.from_array(weights, "w")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = ort.InferenceSession(model.SerializeToString())
huey, app = MemoryHuey(), Celery("scores", broker="memory://", backend="cache+memory://")
rows = np.sin(np.arange(16.0)).reshape(2, 8).tolist()


def predicted(rows):
    return session.run(["y"], {"x": np.asarray(rows, np.float32)})[0].tolist()


def show(name, scores):
    print(name, *(f"{v:.4f}" for v in np.ravel(scores)))


task = huey.task()(predicted)
consumer = huey.create_consumer(workers=3, worker_type="thread")
consumer.start()
for result in [task(rows) for _ in range(6)]:
    show("huey", result(blocking=True, timeout=60))
consumer.stop(graceful=True)
task = app.task(predicted)
with start_worker(app, pool="threads", perform_ping_check=False, concurrency=2):
    for result in [task.delay(rows) for _ in range(4)]:
        show("celery", result.get(timeout=60))
