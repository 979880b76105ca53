"""Steps of random graphs: If and Loop, over large constants too."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from tools.fuzzing.making import Making, Tensor, step


def _body(g: Making, op: str, x: Tensor, name: str) -> onnx.GraphProto:
    """Return a branch that applies *op* to *x* of the graph around it."""
    out = helper.make_tensor_value_info(f"{name}_out", helper.np_dtype_to_tensor_dtype(x.dtype), None)
    return helper.make_graph([helper.make_node(op, [x.name], [out.name])], name, [], [out])


@step
def branch(g: Making) -> None:
    """Add an If, whose condition is a constant, computed of a large constant, or given."""
    x = g.pick(close="stepped")
    match g.number(0, 2):
        case 0:
            condition = g.source((), np.bool_, keep=False)
        case 1:
            total = g.add("ReduceSum", g.large(), shape=(), keepdims=0)
            condition = g.add("Greater", total, g.constant(np.float32(0)), shape=(), dtype=np.bool_)
        case _:
            given = g.source((g.number(1, 400),))
            total = g.add("ReduceSum", g.add("Relu", given, shape=given.shape), shape=(), keepdims=0)
            condition = g.add("Greater", total, g.constant(np.float32(0.5)), shape=(), dtype=np.bool_)
    name = g.name("if")
    then, other = _body(g, "Relu", x, f"{name}_then"), _body(g, "Neg", x, f"{name}_else")
    g.add("If", condition, shape=x.shape, dtype=x.dtype, then_branch=then, else_branch=other)


@step
def loop(g: Making) -> None:
    """Add a Loop of a few trips over a value that it carries, and one that it reads from around."""
    x = g.large() if g.chance(0.4) else g.pick(close="stepped")
    x = g.add("Relu", x, shape=x.shape)
    around = g.source(x.shape) if g.chance(0.5) else x
    trips = g.constant(np.array(g.number(0, 4), np.int64))
    go = g.constant(np.array(True)) if g.chance(0.5) else None
    name, kind = g.name("loop"), helper.np_dtype_to_tensor_dtype(x.dtype)
    ins = [
        helper.make_tensor_value_info(f"{name}_i", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"{name}_c", TensorProto.BOOL, []),
        helper.make_tensor_value_info(f"{name}_v", kind, x.shape),
    ]
    nodes = [
        helper.make_node("Identity", [f"{name}_c"], [f"{name}_d"]),
        helper.make_node("Add", [f"{name}_v", around.name], [f"{name}_w"]),
        helper.make_node("Neg", [f"{name}_w"], [f"{name}_s"]),
    ]
    scans = g.chance(0.3) and x.count < 1 << 12
    outs = [
        helper.make_tensor_value_info(f"{name}_d", TensorProto.BOOL, []),
        helper.make_tensor_value_info(f"{name}_w", kind, x.shape),
    ]
    if scans:
        outs.append(helper.make_tensor_value_info(f"{name}_s", kind, x.shape))
    body = helper.make_graph(nodes if scans else nodes[:2], name, ins, outs)
    count = onnx.numpy_helper.to_array(g.initializers[-1 if go is None else -2]).item()
    shapes = [x.shape, (count, *x.shape)] if scans else [x.shape]
    g.split("Loop", trips, go, x, shapes=shapes, dtype=x.dtype, body=body)
