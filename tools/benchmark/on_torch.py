"""ONNX models as functions of torch tensors: the operators of the models that are measured on GPUs, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from clgraph.errors import UnsupportedError

Operator = Callable[[Any, list[Any], dict[str, Any]], Any]
"""Computes a node from torch itself, its inputs (tensors, or ``None``) and its attributes."""


def to_torch(model: onnx.ModelProto, torch: Any, *, device: str, half: bool) -> Callable[..., list[Any]]:
    """Return a function of the graph's inputs, in their order, that computes its outputs.

    Weights lie on *device*, of four axes as channels last, with *half* in half precision, as inputs must. Small
    integers (shapes, axes) are tuples.

    Raises:
        UnsupportedError: The model has an operator that is not among those measured.
    """
    graph = model.graph
    if unknown := unserved(model):
        raise UnsupportedError(f"{unknown[0]} is not written for the comparison with torch")
    constants: dict[str, Any] = {
        t.name: _weight(numpy_helper.to_array(t), torch, device, half) for t in graph.initializer
    }
    steps = [(n, {a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in graph.node]
    for node, attributes in steps:
        if node.op_type == "Constant":
            constants[node.output[0]] = _weight(numpy_helper.to_array(attributes["value"]), torch, device, half)
    steps = [(n, a) for n, a in steps if n.op_type != "Constant"]
    names = [v.name for v in graph.input if v.name not in constants]

    def run(*inputs: Any) -> list[Any]:
        values = constants | dict(zip(names, inputs, strict=True))
        for node, attributes in steps:
            read = [values[name] if name else None for name in node.input]
            found = OPERATORS[node.op_type](torch, read, attributes)
            values[node.output[0]] = found
        return [values[v.name] for v in graph.output]

    return run


def unserved(model: onnx.ModelProto) -> list[str]:
    """Return the operators of a model that are not among those measured."""
    return sorted({n.op_type for n in model.graph.node} - OPERATORS.keys())


def _weight(array: Any, torch: Any, device: str, half: bool) -> Any:
    if array.dtype == np.int64 and array.ndim <= 1:
        return tuple(array.tolist()) if array.ndim else int(array)
    tensor = torch.from_numpy(np.array(array)).to(device)
    if half and tensor.is_floating_point():
        tensor = tensor.clamp(-65504, 65504).half()  # masks are as low as float32 goes
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def _ints(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _pads(attributes: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return the pads that both sides have, and what torch's ``pad`` has to add (last axis first)."""
    pads = list(attributes.get("pads", (0, 0, 0, 0)))
    before, after = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    if before == after:
        return before, []
    return [0] * len(before), [p for pair in reversed(list(zip(before, after, strict=True))) for p in pair]


def _conv(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    pads, more = _pads(a)
    source = torch.nn.functional.pad(x[0], more) if more else x[0]
    ones = [1] * len(pads)
    bias = x[2] if len(x) > 2 else None
    strides, dilations = list(a.get("strides", ones)), list(a.get("dilations", ones))
    return torch.nn.functional.conv2d(source, x[1], bias, strides, pads, dilations, a.get("group", 1))


def _max_pool(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    pads, more = _pads(a)
    source = torch.nn.functional.pad(x[0], more, value=float("-inf")) if more else x[0]
    return torch.nn.functional.max_pool2d(source, list(a["kernel_shape"]), list(a["strides"]), pads)


def _gemm(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    left, right = (x[0].T if a.get("transA") else x[0]), (x[1].T if a.get("transB") else x[1])
    product = torch.matmul(left, right) * a.get("alpha", 1.0)
    return product + a.get("beta", 1.0) * x[2] if len(x) > 2 else product


def _batch_normalization(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    return torch.nn.functional.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a.get("epsilon", 1e-5))


def _gather(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    axis, where = a.get("axis", 0), x[1]
    if isinstance(where, int):
        return x[0].select(axis, where)
    found = x[0].index_select(axis, where.reshape(-1))
    return found.reshape(*x[0].shape[:axis], *where.shape, *x[0].shape[axis + 1 :])


def _mean(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    axes = _ints(x[1]) if len(x) > 1 else list(a["axes"])
    return x[0].mean(axes, keepdim=bool(a.get("keepdims", 1)))


def _unsqueeze(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    found = x[0]
    for axis in sorted(_ints(x[1]) if len(x) > 1 else a["axes"]):
        found = found.unsqueeze(axis)
    return found


def _reshape(torch: Any, x: list[Any], a: dict[str, Any]) -> Any:
    sizes = [x[0].shape[i] if s == 0 else s for i, s in enumerate(_ints(x[1]))]
    return x[0].reshape(sizes)


OPERATORS: dict[str, Operator] = {
    "Constant": lambda t, x, a: None,
    "Conv": _conv,
    "MaxPool": _max_pool,
    "GlobalAveragePool": lambda t, x, a: x[0].mean((2, 3), keepdim=True),
    "AveragePool": lambda t, x, a: t.nn.functional.avg_pool2d(
        x[0], list(a["kernel_shape"]), list(a.get("strides", (1, 1)))
    ),
    "BatchNormalization": _batch_normalization,
    "Gemm": _gemm,
    "MatMul": lambda t, x, a: t.matmul(x[0], x[1]),
    "Relu": lambda t, x, a: t.relu(x[0]),
    "Erf": lambda t, x, a: t.erf(x[0]),
    "Sqrt": lambda t, x, a: t.sqrt(x[0]),
    "Tanh": lambda t, x, a: t.tanh(x[0]),
    "Softmax": lambda t, x, a: t.softmax(x[0], a.get("axis", -1)),
    "Add": lambda t, x, a: x[0] + x[1],
    "Sub": lambda t, x, a: x[0] - x[1],
    "Mul": lambda t, x, a: x[0] * x[1],
    "Div": lambda t, x, a: x[0] / x[1],
    "Pow": lambda t, x, a: t.pow(x[0], x[1]),
    "Sum": lambda t, x, a: sum(x[1:], x[0]),
    "Gather": _gather,
    "ReduceMean": _mean,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": lambda t, x, a: x[0].flatten(a.get("axis", 1)),
    "Transpose": lambda t, x, a: x[0].permute(list(a["perm"])),
    "Cast": lambda t, x, a: x[0].to(t.get_default_dtype()),
    "Dropout": lambda t, x, a: x[0],
    "Identity": lambda t, x, a: x[0],
}
"""By ONNX's names. The models cast masks alone, to torch's default type."""
