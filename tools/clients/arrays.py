# needs: ndonnx onnx-array-api
"""Compute with arrays that are ONNX graphs: every value that is asked for is a session, fed its own initialisers."""

import ndonnx as ndx
import numpy as np
import onnxruntime as ort
from onnx_array_api.light_api import start
from onnx_array_api.npx import absolute, jit_onnx
from onnx_array_api.ort.ort_tensors import JitOrtTensor, OrtTensor

GIVEN = np.array([-10, 0.5, 1, 5, 0.5])


def without_outliers(a: ndx.Array) -> ndx.Array:
    """Return the mean of the elements between -5 and 5."""
    return ndx.mean(a[(a > -5) & (a < 5)])


print(without_outliers(ndx.asarray(GIVEN)).unwrap_numpy())
x = ndx.argument(shape=("N",), dtype=ndx.float64)
counted = ndx.unique_counts(x)
results = {
    "mean": without_outliers(x),
    "sums": ndx.cumulative_sum(x),
    "sorted": ndx.sort(x, descending=True),
    "values": counted.values,
    "counts": counted.counts,
    "roots": ndx.where(x > 0, ndx.sqrt(ndx.abs(x)), x**2),
}
session = ort.InferenceSession(ndx.build({"x": x}, results).SerializeToString())
for result in session.run(None, {session.get_inputs()[0].name: GIVEN}):
    print(result.dtype, np.round(result, 4).tolist())
texts = ndx.asarray(np.array(["b", "a", "ab"]))
print((texts + "x").unwrap_numpy(), (texts == "a").unwrap_numpy())
days = ndx.asarray(np.array(["2020-01-01", "2021-05-06"], "M8[s]"))
print((days - days[0]).unwrap_numpy())

row = start().vin("X").reshape((-1, 1)).Transpose(perm=[1, 0]).rename("Y").vout().to_onnx()
print(ort.InferenceSession(row.SerializeToString()).run(None, {"X": np.arange(6, dtype=np.float32)}))
compiled = jit_onnx(lambda a, b: absolute(a - b).sum(), JitOrtTensor, target_opsets={"": 18}, ir_version=8)
sides = [
    OrtTensor.from_array(np.array(a, np.float32)) for a in ([[0.1, 0.2], [0.3, 0.4]], [[0.11, 0.22], [0.33, 0.44]])
]
print(np.round(compiled(*sides).numpy(), 4))
