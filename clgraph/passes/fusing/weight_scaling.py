"""Multiplication and addition of per-channel constants, moved into the weights and the bias of what they follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.mapped import release
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.passes.packed_weights import PackedWeights
from clgraph.passes.rewriting import apart, substitute
from clgraph.selector.post import FLOAT_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]


@frozen
class Scaling:
    """``y * scale + shift`` an output channel, in float64."""

    scale: Vector
    shift: Vector

    def then(self, scale: Vector | float, shift: Vector | float) -> Scaling:
        """Return this followed by another one."""
        return Scaling(self.scale * scale, self.shift * scale + shift)

    @property
    def finite(self) -> bool:
        """Whether all of it is below the largest float32."""
        return all(bool(np.all(np.abs(part) <= FLOAT_MAX)) for part in (self.scale, self.shift))


_NOTHING = Scaling(np.ones(0), np.zeros(0))


def channel_axis(node: Node) -> int | None:
    """Return the axis of the result that output channels lie on, or ``None`` for operators without weights.

    Transposed convolutions take their scaling as post-operations: their weights have the channels of groups apart.
    """
    if isinstance(node.primitive, Convolution):
        return 1
    if isinstance(node.primitive, MatMul) and node.inputs[1].layout.rank > 1 and node.inputs[0].layout.rank > 1:
        return node.output.layout.rank - 1
    return None


def followers(program: Program, node: Node) -> tuple[list[Node], Scaling]:
    """Return the longest chain behind *node* that only scales and shifts its channels, and what it does in all."""
    axis = channel_axis(node)
    chain: list[Node] = []
    value = node.output
    if axis is None or node.fused or not value.has_one_use or not has_plain_weights(node):
        return chain, _NOTHING
    channels = value.layout.shape[axis]
    total = Scaling(np.ones(channels), np.zeros(channels))
    while value.has_one_use and not program.is_output(value):
        reader, slot = next(iter(value.uses))
        step = _step(reader, slot, total, axis)
        if step is None or not step.finite or apart([node, *chain, reader]) is not None:
            break
        chain.append(reader)
        total, value = step, reader.output
    return chain, total


def scale_weights(program: Program, node: Node, chain: Sequence[Node], total: Scaling, packed: PackedWeights) -> Node:
    """Replace *node* and *chain* by one node with new weights and bias, each rounded once from float64.

    They are of the type of the result, which weights may be narrower than.
    """
    weights, channels = node.inputs[1], len(total.scale)
    assert weights.constant is not None
    dtype = node.output.layout.dtype.numpy
    inputs = [node.inputs[0], weights]
    if np.any(total.scale != 1):
        data = weights.constant
        what = ("scale", _spread(node, data), total.scale.tobytes(), node.output.layout.dtype)
        scaled = packed.once(what, [data], lambda: _scaled(node, data, total.scale))
        release(data)
        inputs[1] = constant_of(program, node, "weights", scaled)
    shift = total.shift
    if node.arity > 2:
        bias = node.inputs[2].constant
        assert bias is not None
        shift = shift + np.broadcast_to(bias.reshape(-1), channels) * total.scale
    if node.arity > 2 or np.any(shift != 0):
        inputs.append(constant_of(program, node, "bias", shift.astype(dtype)))
    return substitute(program, [node, *chain], node.primitive, inputs)


def _scaled(node: Node, weights: Array, scale: Vector) -> Array:
    scaled = np.empty(weights.shape, node.output.layout.dtype.numpy)
    np.multiply(weights, scale.reshape(_spread(node, weights)), out=scaled, dtype=np.float64, casting="unsafe")
    return scaled


def constant_of(program: Program, node: Node, what: str, data: Array) -> Value:
    """Return *data* as a new constant, named after *node* and *what*."""
    owned = np.ascontiguousarray(data)
    owned.flags.writeable = False  # kernels may read it where it lies
    return program.constant(f"{node.name}/{what}", owned)


def has_plain_weights(node: Node) -> bool:
    """Whether weights, and the bias if any, are plain constants of floating type."""
    weights = node.inputs[1]
    if weights.constant is None or not weights.layout.is_dense_plain or not weights.layout.dtype.floating:
        return False
    if node.arity < 3:
        return True
    bias = node.inputs[2]
    return bias.constant is not None and bias.layout.count in (1, *bias.layout.shape[-1:])


def _spread(node: Node, weights: Array) -> tuple[int, ...]:
    """Return the shape under which a vector of output channels broadcasts over the weights."""
    if isinstance(node.primitive, MatMul):
        return (-1, 1) if node.primitive.transpose_b else (1, -1)
    return (-1, *(1 for _ in weights.shape[1:]))


def _step(reader: Node, slot: int, total: Scaling, axis: int) -> Scaling | None:
    """Return *total* followed by *reader*, or ``None`` when it does something else to the channels."""
    if reader.fused or reader.output.layout.shape != reader.inputs[slot].layout.shape:
        return None
    if isinstance(reader.primitive, Activation) and reader.primitive.function == "linear":
        return total.then(reader.primitive.alpha, reader.primitive.beta)
    if not isinstance(reader.primitive, Eltwise) or not reader.output.layout.dtype.floating:
        return None
    other = reader.inputs[1 - slot]
    vector = None if other.constant is None else _per_channel(other, axis, reader.output.layout.rank, total)
    function = reader.primitive.function
    if vector is None:
        return None
    if function == "add":
        return total.then(1.0, vector)
    if function == "mul":
        return total.then(vector, 0.0)
    if function == "sub":
        return total.then(1.0, -vector) if slot == 0 else total.then(-1.0, vector)
    return total.then(1 / vector, 0.0) if function == "div" and slot == 0 and np.all(vector != 0) else None


def _per_channel(value: Value, axis: int, rank: int, total: Scaling) -> Vector | None:
    """Return the constant as one number a channel, or ``None`` when it varies along another axis."""
    assert value.constant is not None
    shape = (*(1 for _ in range(rank - value.layout.rank)), *value.layout.shape)
    if any(d != 1 for a, d in enumerate(shape) if a != axis):
        return None
    return np.broadcast_to(value.constant.reshape(-1).astype(np.float64), total.scale.shape)
