"""Programs whose batch is computed in parts, one after another, so that what nodes hand on stays in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from math import isqrt

from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where
from clgraph.selector.query import DeviceInfo

PART_SECONDS = 2.0e-4
"""What each part has to save: starting and ending a run twice over."""


def in_parts(program: Program, device: DeviceInfo) -> Program:
    """Return *program* for one of the equal parts of the batch that should be fastest, or as it is.

    Where the batch is large, what a node makes has left the cache when the next one reads it; where it is small, all
    weights are read again for few inputs. Bytes that come from memory for the one and the other decide. Only a
    program BUILT and not yet changed, on a CPU that works on the host's memory, all of whose results are known to be
    computed for each entry of the inputs' first axis apart, is cut.
    """
    if device.kind != "cpu" or "host_memory" not in device.features or not program.inputs:
        return program
    first = program.inputs[0].layout.shape
    sizes = _divisors(first[0])[1:] if first else []
    if not sizes or part_of(program, sizes[-1]) is None:
        return program
    weights = sum(v.layout.nbytes for v in program.constants)
    moved = [_moved(node) / first[0] for node in program]

    def seconds(parts: int) -> float:
        entries = first[0] // parts
        spilt = first[0] * sum(each for each in moved if each * entries > device.costs.cache_bytes)
        again = (parts - 1) * (weights if weights > device.costs.cache_bytes else 0)
        return (spilt + again) / device.bytes_per_second + (parts - 1) * PART_SECONDS

    parts = min((1, *sizes), key=seconds)
    part = part_of(program, parts) if parts > 1 else None
    return program if part is None else part


def _divisors(number: int) -> list[int]:
    """Return all divisors in ascending order; none of 0."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def part_of(program: Program, parts: int) -> Program | None:
    """Return *program* for one of so many equal parts of its inputs along the first axis.

    ``None`` where some result is not known to be the parts' results one behind the other. Inputs whose first axis is
    not that of the first input are the same for all parts.
    """
    entries = program.inputs[0].layout.shape[0]
    made: dict[Value, Value] = {}
    for value in program.inputs:
        shape = value.layout.shape
        cut = bool(shape) and shape[0] == entries
        made[value] = Value(value.name, _cut(value.layout, parts) if cut else value.layout)
    nodes = []
    for node in program:
        try:
            copy = _copied(node, made, parts)
        except (ShapeError, UnsupportedError):
            return None
        if copy is None:
            return None
        nodes.append(copy)
    if not all(v in made and v.layout.shape != made[v].layout.shape for _, v in program.outputs):
        return None
    part = Program([made[v] for v in program.inputs], [(name, made[v]) for name, v in program.outputs], nodes)
    part.batch_slices = parts
    part.notes["batch"] = f"computed in {parts} parts of {entries // parts}, one after another"
    return part


def _copied(node: Node, made: dict[Value, Value], parts: int) -> Node | None:
    """Return *node* on the values of a part, and enter its own; ``None`` where it does not keep the parts apart."""
    inputs = tuple(made.setdefault(v, v) for v in node.inputs)
    cut = [
        new is not old and new.layout.shape != old.layout.shape for new, old in zip(inputs, node.inputs, strict=True)
    ]
    primitive = node.primitive
    if any(cut):
        if not _apart(primitive, [v.layout.shape for v in node.inputs], node.output.layout.shape, cut):
            return None
        if isinstance(primitive, Reshape):
            primitive = replace(primitive, shape=_divided(primitive.shape, parts))
        elif isinstance(primitive, Slice):
            primitive = replace(primitive, ends=_divided(primitive.ends, parts))
    layouts = primitive.infer([v.layout for v in inputs])
    for old, layout in zip(node.outputs, layouts, strict=True):
        wanted = _divided(old.layout.shape, parts) if any(cut) else old.layout.shape
        if layout.shape != wanted:
            return None
        made[old] = Value(old.name, layout)
    outputs = tuple(made[v] for v in node.outputs)
    return Node(node.name, primitive, inputs, outputs, node.arity, origin=node.origin, annotation=node.annotation)


def _cut(layout: Layout, parts: int) -> Layout:
    return layout.with_shape(_divided(layout.shape, parts))


def _divided(shape: Shape, parts: int) -> Shape:
    if not shape or shape[0] % parts:
        raise ShapeError(f"{list(shape)} is not cut into {parts}")
    return (shape[0] // parts, *shape[1:])


def _moved(node: Node) -> float:
    """Return the bytes of activations that *node* reads and writes, 0 for what will be fused."""
    read = [v for v in node.inputs if v.constant is None]
    if len(read) == 1 and isinstance(node.primitive, Activation | BatchNormalization | Eltwise | Reshape):
        return 0.0
    return float(sum(v.layout.nbytes for v in (*read, *node.outputs)))


@singledispatch
def _apart(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    """Whether entry i of the first axis of the result depends on the cut inputs' entries i alone, for shapes uncut."""
    return False


@_apart.register(Activation)
@_apart.register(Eltwise)
@_apart.register(Where)
@_apart.register(Reorder)
def _broadcast(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(len(s) == len(out) if c else len(s) < len(out) or s[0] == 1 for s, c in zip(inputs, cut, strict=True))


@_apart.register(Convolution)
@_apart.register(ConvTranspose)
@_apart.register(Pooling)
@_apart.register(Lrn)
@_apart.register(BatchNormalization)
def _spatial(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return cut[0] and not any(cut[1:])


@_apart.register
def _(primitive: Resize, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return out[0] == inputs[0][0] and primitive.shape is None and not any(cut[1:])


@_apart.register
def _(primitive: LayerNormalization, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    whole = all(len(s) < len(out) or s[0] == 1 for s in inputs[1:])
    return cut[0] and not any(cut[1:]) and primitive.axis % len(out) > 0 and (primitive.channels or whole)


@_apart.register
def _(primitive: Softmax, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(axis % len(out) > 0 for axis in primitive.axes) and not primitive.flatten


@_apart.register
def _(primitive: Reduce, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return 0 not in primitive.reduced(len(inputs[0]))


@_apart.register(Concat)
@_apart.register(Split)
def _along(primitive: Concat | Split, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut) and primitive.axis % len(inputs[0]) > 0


@_apart.register
def _(primitive: Slice, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return (primitive.starts[0], primitive.ends[0], primitive.steps[0]) == (0, inputs[0][0], 1)


@_apart.register
def _(primitive: Pad, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return primitive.pads[0] == (0, 0)


@_apart.register
def _(primitive: Transpose, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return bool(primitive.axes) and primitive.axes[0] == 0


@_apart.register
def _(primitive: Reshape, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(out) > 0


@_apart.register
def _(primitive: Gather, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    axis = primitive.axis % len(inputs[0])
    return (cut == [True, False] and axis > 0) or (cut == [False, True] and axis == 0)


@_apart.register
def _(primitive: MatMul, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    a, b, *bias = inputs
    if any(cut[2:]) or any(len(s) == len(out) and s[0] != 1 for s in bias):
        return False
    if cut[0] and cut[1]:
        return len(a) == len(b) > 2
    one, other, transposed = (a, b, primitive.transpose_a) if cut[0] else (b, a, True)
    alone = len(other) < 3 or len(other) < len(one) or other[0] == 1
    return len(one) == len(out) and alone and (len(one) > 2 or (len(one) == 2 and not transposed))
