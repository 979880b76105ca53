"""Where the results of an operator are others than ONNX Runtime's, and why ONNX has them so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

WINDOWS = {"BlackmanWindow", "HammingWindow", "HannWindow"}

OTHERWISE = {
    "MaxUnpool": "indices are those of the natural size, as ONNX's own case has it; onnxruntime's those of the output",
    "Sign": "what is not a number has none, as in NumPy; onnxruntime says 0",
    "Clip": "an end that is not given bounds nothing, as in ONNX's reference; onnxruntime makes infinities finite",
    "Softplus": "of a half above 88.7 it is the half; onnxruntime's exponential is infinite",
    "MeanVarianceNormalization": "1e-9 keeps a variance of 0 from dividing by it, as ONNX's expansion has it",
}
"""Operators whose results are ONNX's and not ONNX Runtime's."""
SHARED = {
    "AffineGrid": "the only pixel of an axis whose corners are aligned is at -1; onnxruntime's at 0",
    "ArgMax": "what is not a number is the greatest, as in NumPy; onnxruntime passes over it",
    "ArgMin": "what is not a number is the least, as in NumPy; onnxruntime passes over it",
    "ConvTranspose": "SAME makes as many as the strides say; onnxruntime no more than windows reach",
    "Hardmax": "what is not a number is the greatest, as in NumPy; onnxruntime passes over it",
    "MatMulInteger": "of no products it is 0; onnxruntime writes nothing",
    "Pow": "integers wrap; onnxruntime's powers of them are doubles, which it converts where they do not fit",
    "QLinearMatMul": "of no products it is the zero point; onnxruntime's is 0",
    **dict.fromkeys(
        ("ReduceL1", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        "integers wrap; onnxruntime's sums and products of them are those of floats",
    ),
    "Unique": "what is not a number is there once, as in NumPy; onnxruntime's each of them",
}
"""Operators whose finite results are those of ONNX's references, of one operator, and not ONNX Runtime's."""
STRANGE = {
    "Attention": "a row of which all is masked is 0, whatever its values are; onnxruntime multiplies them by 0",
    "ScatterElements": "what is not a number stays, as in ONNX's reference of ScatterND; by the order in its peers'",
}
"""Operators whose results are others than ONNX Runtime's where one of the two is not finite."""
GENERATORS = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform")
GENERATORS += ("RandomUniformLike",)
OTHERWISE |= dict.fromkeys(GENERATORS, "ONNX leaves the generator of numbers open")
FLATTENING = ("Hardmax", "LogSoftmax", "Softmax")


def flattened(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Return *model* with the flattening of operators before opset 13 spelled out in that, as ONNX's references do not.

    Args:
        shapes: Those of its outputs.
    """
    if all(o.domain or o.version >= 13 for o in model.opset_import):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    for node in model.graph.node:
        shape = shapes.get(node.output[0]) if node.op_type in FLATTENING else None
        if shape is None:
            found.graph.node.append(node)
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        rows, made, sizes = (f"{node.output[0]}/{part}" for part in ("rows", "made", "shape"))
        for opset in found.opset_import:
            opset.version = opset.version if opset.domain else 13
        found.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), sizes))
        found.graph.node.extend(
            (
                helper.make_node("Flatten", node.input, [rows], axis=axis),
                helper.make_node(node.op_type, [rows], [made], axis=1),
                helper.make_node("Reshape", [made, sizes], node.output),
            )
        )
    return found
