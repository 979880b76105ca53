"""Whole models for tests and benchmarks: the architectures that onnx ships, with random weights, and small ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

HEAVY = ("vgg19", "zfnet512")
"""Architectures with hundreds of megabytes of weights and no operator that ``bvlc_alexnet`` has not."""

DRAWN = (1 << 20) + 7
"""How many different numbers a weight has at most, a prime: the largest of AlexNet would take half a second to draw."""

FEW = 4099
"""The same where nothing is computed with the weights."""

HIDDEN = 4096

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light_names() -> list[str]:
    """Return the architectures that the installed onnx package ships."""
    return sorted(p.stem.removeprefix("light_") for p in LIGHT.glob("light_*.onnx"))


def light_model(
    name: str, seed: int = 0, *, logits: bool = True, picture: int = 224, hidden: int = HIDDEN, drawn: int = DRAWN
) -> onnx.ModelProto:
    """Return architecture *name* with random weights in place of its constant ones.

    Kernels of convolutions and matrices are He-scaled, scales and variances of normalizations positive, the last of a
    residual branch small enough that the sums stay near 1.

    Args:
        logits: Make what the last Softmax reads an output too; the probabilities of random weights say little.
        picture: Rows and columns of the input, a multiple of 32. Where the last pooling covers all of what is left of
            224 x 224, it does of these, too. Networks with matrices or reshapes behind other layers take no other.
        hidden: Length of the vectors between the matrices of AlexNet, VGG and ZFNet, of whose weights nine in ten are
            in these matrices.
        drawn: How many different numbers a weight has at most.
    """
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    graph = model.graph
    random = np.random.default_rng(seed)
    shapes = {t.name: tuple(numpy_helper.to_array(t)) for t in graph.initializer if t.data_type == TensorProto.INT64}
    floats = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    made = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in shapes]
    filled = {n.output[0]: shapes[n.input[0]] for n in made}
    nodes = [n for n in graph.node if n.output[0] not in filled]
    read = {name for n in nodes for name in n.input}
    wanted = {name: shape for name, shape in (floats | filled).items() if name in read}
    wanted = {name: tuple(hidden if n == HIDDEN else n for n in shape) for name, shape in wanted.items()}
    kept = [t for t in graph.initializer if t.name in read and t.name not in wanted]
    inputs = [v for v in graph.input if v.name not in shapes and v.name not in floats]
    roles = _roles(graph)
    if picture != 224:
        _fit(inputs, nodes, picture)
    model.ir_version = 8
    del graph.initializer[:], graph.node[:], graph.input[:]
    graph.initializer.extend(kept)
    for weight, shape in wanted.items():  # one at a time: some have a hundred million elements
        tensor = graph.initializer.add(name=weight, data_type=TensorProto.FLOAT, dims=shape)
        tensor.raw_data = _weights(random, *roles.get(weight, ("", 0)), shape, drawn).tobytes()
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    softmax = next((n for n in reversed(nodes) if n.op_type == "Softmax"), None)
    if logits and softmax is not None:
        graph.output.append(helper.make_tensor_value_info(softmax.input[0], TensorProto.FLOAT, None))
    return model


def _fit(inputs: list[onnx.ValueInfoProto], nodes: list[onnx.NodeProto], picture: int) -> None:
    for value in inputs:
        for dim in value.type.tensor_type.shape.dim[2:]:
            dim.dim_value = picture
    for attribute in (a for n in nodes if n.op_type == "AveragePool" for a in n.attribute if a.name == "kernel_shape"):
        if list(attribute.ints) == [224 // 32] * 2:
            attribute.ints[:] = [picture // 32] * 2


def without_repeats(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ResNet-50 with 8 of its 16 blocks, or ShuffleNet with 9: the second of a stage is repeated no more.

    What is left out is of the same operators, attributes and sizes as what stays.
    """
    graph = model.graph
    made = {name: n for n in graph.node for name in n.output}

    def beside(node: onnx.NodeProto) -> str:
        """Return what the block that *node* ends adds to what it computes, where that is the result of another."""
        end = made.get(node.input[0]) if node.op_type == "Relu" else None
        shortcut = end.input[1] if end is not None and end.op_type == "Sum" else ""
        return shortcut if shortcut and made[shortcut].op_type == "Relu" else ""

    same: dict[str, str] = {}
    for node in graph.node:
        before = beside(node)
        if before and beside(made[before]):
            same[node.output[0]] = same.get(before, before)
        node.input[:] = [same.get(name, name) for name in node.input]
    needed = {v.name for v in graph.output}
    for i in reversed(range(len(graph.node))):
        if needed.isdisjoint(graph.node[i].output):
            del graph.node[i]
        else:
            needed.update(graph.node[i].input)
    for i in reversed(range(len(graph.initializer))):
        if graph.initializer[i].name not in needed:
            del graph.initializer[i]
    return model


def with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """Make the first dimension of the inputs *batch*, let reshapes keep it, and return the model."""
    tensors = {t.name: t for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in tensors:
            value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in model.graph.node:
        if node.op_type == "Reshape" and (shape := tensors.get(node.input[1])) is not None:
            sizes = numpy_helper.to_array(shape)
            kept = np.where((np.arange(sizes.size) == 0) & (sizes == 1), 0, sizes)
            shape.CopyFrom(numpy_helper.from_array(kept, shape.name))
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    return model


def image(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    """Return a random input, normal around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def small_model(channels: int = 8, size: int | str = 10, seed: int = 0) -> onnx.ModelProto:
    """Return a convolution with bias, relu, max-pooling and a residual convolution: every hot path, in milliseconds."""
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        array = random.standard_normal(shape) / math.sqrt(math.prod(shape[1:]) or 1)
        return numpy_helper.from_array(array.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "first", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu"),
        helper.make_node("MaxPool", ["r0"], ["p0"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["c1"], "second", kernel_shape=[1, 1]),
        helper.make_node("Add", ["c1", "p0"], ["s0"], "residual"),
        helper.make_node("Relu", ["s0"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weights("w0", channels, 3, 3, 3), weights("b0", channels), weights("w1", channels, channels, 1, 1)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _roles(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """Return (operator, input slot) by weight; the operator is ``residual`` where a sum reads the result."""
    readers: dict[str, list[str]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    roles: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        summed = any(r == "Sum" for out in node.output for r in readers.get(out, ()))
        for slot, name in enumerate(node.input):
            roles.setdefault(name, ("residual" if summed else node.op_type, slot))
    return roles


def _weights(
    random: np.random.Generator, op_type: str, slot: int, shape: tuple[int, ...], drawn: int
) -> NDArray[np.float32]:
    match op_type, slot:
        case ("BatchNormalization" | "residual", 4):
            return random.uniform(0.5, 1.5, shape).astype(np.float32)
        case ("BatchNormalization", 1) | ("Mul", _):
            return random.uniform(0.8, 1.2, shape).astype(np.float32)
        case ("residual", 1) if len(shape) == 1:
            return random.uniform(0.2, 0.5, shape).astype(np.float32)
        case _ if len(shape) < 2:
            deviation = 0.1
        case "Gemm", _:
            deviation = math.sqrt(1 / shape[-1])
        case _:
            deviation = math.sqrt(2 / math.prod(shape[1:]))
    values = random.standard_normal(min(math.prod(shape), drawn), np.float32)
    values *= np.float32(deviation)
    return np.resize(values, shape)
