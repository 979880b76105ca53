# needs: spox
"""Results of a graph that spox builds: branches, a loop, sequences, an optional and strings."""

import numpy as np
import onnxruntime as rt
import spox.opset.ai.onnx.v21 as op
from spox import Tensor, argument, build

a, b = argument(Tensor(np.float32, ("n", 3))), argument(Tensor(np.float32, (3,)))
c = op.add(a, b)
positive = op.greater(op.reduce_sum(c, keepdims=0), op.const(np.float32(0)))
(d,) = op.if_(positive, then_branch=lambda: [op.relu(c)], else_branch=lambda: [op.neg(c)])
(squares,) = op.sequence_map(op.split_to_sequence(d, axis=0, keepdims=0), [], body=lambda x: [op.mul(x, x)])
last, sums = op.loop(
    op.const(np.int64(4)),
    v_initial=[c],
    body=lambda i, _, x: [op.const(np.array(True)), op.mul(x, op.const(np.float32(0.5))), op.reduce_sum(x)],
)
outputs = {
    "squares": op.concat_from_sequence(squares, axis=0, new_axis=1),
    "last": last,
    "sums": sums,
    "element": op.optional_get_element(op.optional(c)),
    "texts": op.string_concat(op.const(np.array(["a", "b"])), op.const(np.array(["x"]))),
}
model = build({"a": a, "b": b}, outputs)
session = rt.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
for n in (2, 5):
    feeds = {"a": np.arange(3 * n, dtype=np.float32).reshape(n, 3) - 4, "b": np.ones(3, np.float32)}
    for entry, result in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        print(entry.name, entry.type, entry.shape, result.tolist())
