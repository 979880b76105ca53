"""One ONNX node as a model: what ONNX Runtime says of it, and what the primitives' references say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.program import Program
from tests.support.rounding import bounds, unfolded

IR_VERSION = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}
NEWEST_IR = 10
ONNX_TYPES = {
    np.dtype(helper.tensor_dtype_to_np_dtype(t)): t
    for t in TensorProto.DataType.values()
    if t in range(1, 14) and t != 8
}


def one_node(
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    constant: Sequence[int] = (),
    outputs: int = 1,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model of one node and its feeds.

    Args:
        inputs: Arrays, ``None`` for an absent one; those at the places *constant* are initializers.
    """
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="node", **attributes)
    given = {n: np.asarray(a) for n, a in zip(names, inputs, strict=True) if n}
    feeds = {n: a for n, a in given.items() if int(n[1:]) not in constant}
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info(n, ONNX_TYPES[a.dtype], a.shape) for n, a in feeds.items()],
        [helper.make_empty_tensor_value_info(n) for n in results],
        [numpy_helper.from_array(a, n) for n, a in given.items() if n not in feeds],
    )
    others = [helper.make_opsetid(node.domain, 1)] if node.domain else []
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *others])
    model.ir_version = IR_VERSION.get(opset, NEWEST_IR)
    return model, feeds


def onnxruntime_outputs(
    model: onnx.ModelProto, feeds: Mapping[str, Any], *, optimised: bool = False, int8: bool = False
) -> list[Any]:
    """Return what ONNX Runtime computes: node by node, or *optimised*, and then with *int8* fused as uint8 is."""
    inferred = onnx.shape_inference.infer_shapes(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    if int8:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(inferred.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def reference_outputs(program: Program, feeds: Mapping[str, Any]) -> list[Any]:
    """Run *program* node by node with the references; checks that what is computed has the inferred layouts."""
    known = {id(v): feeds[v.name] for v in program.inputs}
    known |= {id(v): v.constant for v in program.constants}
    for node in program:
        results = node.reference(*(known[id(v)] for v in node.inputs))
        for value, array in zip(node.outputs, results, strict=True):
            assert isinstance(array, np.ndarray), f"{node}: {type(array)}"
            assert (array.shape, array.dtype) == (value.layout.shape, value.layout.dtype.numpy), (
                f"{node}: {array.shape} {array.dtype} is not {value}"
            )
            known[id(value)] = array
    return [known[id(v)] for _, v in program.outputs]


def agree(
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    by_definition: bool = True,
    **more: Any,
) -> Program:
    """Assert that import and references give what ONNX Runtime gives; return the program.

    Both may be as far from exact as float32 makes them: by the bounds of ``tests.support.rounding`` where these know
    every primitive of the program. *rtol* and *atol* hold in any case.

    Args:
        by_definition: ONNX Runtime adds up the products that define the operator, so that the bounds are its, too.
    """
    model, feeds = one_node(op_type, inputs, opset=opset, **more)
    topology = load_onnx(model)
    program = topology.build()
    got, want = reference_outputs(program, feeds), onnxruntime_outputs(model, feeds)
    limits = bounds(unfolded(topology), feeds, winograd=False).values() if by_definition else [None] * len(got)
    for mine, theirs, limit in zip(got, want, limits, strict=True):
        assert mine.shape == theirs.shape, f"{op_type}-{opset}: shape {mine.shape}, ONNX Runtime says {theirs.shape}"
        assert mine.dtype == theirs.dtype, f"{op_type}-{opset}: {mine.dtype}, ONNX Runtime says {theirs.dtype}"
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=f"{op_type}-{opset} {more}")
        if limit is not None and mine.dtype == np.float32:
            with np.errstate(all="ignore"):
                off = np.nan_to_num(np.abs(mine.astype(np.float64) - theirs))
                assert (off <= 2 * limit).all(), f"{op_type}-{opset} {more}: {np.nanmax(off / limit)} of one's bound"
    return program
