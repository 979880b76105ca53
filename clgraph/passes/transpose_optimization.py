"""Remove explicit transposes. ONNX Runtime's transpose optimizer; clDNN has no pass of the kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.graph.program import Node, Program, Value
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.decompose import scalar
from clgraph.passes.rewriting import apart, bypass, substitute


@dataclass(frozen=True)
class TransposeOptimization(Pass):
    """Apply four rules until none fires.

    * Two transposes in a row are one; a pair that cancels, and one that keeps every axis, are none.
    * A transpose that moves only axes of size 1 past others is a reshape.
    * A transpose sinks below activations and operators with a scalar constant, where it meets the next one.
    * A transpose of the last two axes in front of a matrix product becomes the product's ``transpose_a`` or ``_b``.

    Nodes of different annotations or placements are not merged.
    """

    name: ClassVar[str] = "transpose_optimization"

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        while any_left := sum(_optimize(program, node) for node in program if node in program):
            changes += any_left
        return changes


def _optimize(program: Program, node: Node) -> bool:
    if isinstance(node.primitive, MatMul):
        return _into_product(program, node)
    if not isinstance(node.primitive, Transpose) or node.fused:
        return False
    axes = node.primitive.axes
    if axes == tuple(range(len(axes))):
        return bypass(program, node)
    shape = node.inputs[0].layout.shape
    if [a for a in axes if shape[a] != 1] == [a for a in range(len(axes)) if shape[a] != 1]:
        target = node.output.layout.shape
        substitute(program, [node], Reshape(target, zero_is_zero=0 in target), node.inputs)
        return True
    return _merge(program, node) or _sink(program, node)


def _merge(program: Program, node: Node) -> bool:
    """Let *node* read what the transpose in front of it reads."""
    first = node.inputs[0].producer
    if first is None or first.fused or apart((first, node)) is not None:
        return False
    if not isinstance(first.primitive, Transpose) or not isinstance(node.primitive, Transpose):
        return False
    axes = tuple(first.primitive.axes[a] for a in node.primitive.axes)
    inputs, nodes = first.inputs, [first, node]
    alone = len(first.output.uses) == 1 and not program.is_output(first.output)
    substitute(program, nodes if alone else [node], Transpose(axes), inputs)
    return True


def _sink(program: Program, node: Node) -> bool:
    """Move *node* below the one elementwise operator that reads it, when another transpose follows further down."""
    value = node.output
    if len(value.uses) != 1 or program.is_output(value) or not _meets_another(program, value):
        return False
    reader, slot = next(iter(value.uses))
    if not _keeps_shape(reader, slot) or apart((node, reader)) is not None:
        return False
    inputs = list(reader.inputs)
    inputs[slot] = node.inputs[0]
    moved = program.insert(reader.primitive, inputs, sources=[reader], before=reader)
    again = program.insert(node.primitive, [moved.output], sources=[node], before=reader)
    program.rewire(reader.output, again.output)
    for old, new in ((reader, moved), (node, again)):
        program.erase(old)
        new.name = old.name
    again.output.name, moved.output.name = reader.output.name, value.name
    return True


def _meets_another(program: Program, value: Value) -> bool:
    """Whether operators that a transpose may sink below lead from *value* to another transpose."""
    found = False
    while not found and len(value.uses) == 1 and not program.is_output(value):
        reader, slot = next(iter(value.uses))
        found = isinstance(reader.primitive, Transpose)
        if not found and not _keeps_shape(reader, slot):
            break
        value = reader.output
    return found


def _keeps_shape(reader: Node, slot: int) -> bool:
    """Whether *reader* treats every element alike, wherever it lies."""
    if reader.fused:
        return False
    if isinstance(reader.primitive, Activation):
        return True
    return isinstance(reader.primitive, Eltwise) and scalar(reader.inputs[1 - slot]) is not None


def _into_product(program: Program, node: Node) -> bool:
    """Read transposed what a transpose of the last two axes makes."""
    product = node.primitive
    assert isinstance(product, MatMul)
    for slot, flag in ((0, "transpose_a"), (1, "transpose_b")):
        value = node.inputs[slot]
        made = value.producer
        if made is None or not isinstance(made.primitive, Transpose) or made.fused or node.fused:
            continue
        rank = len(made.primitive.axes)
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        if rank < 2 or made.primitive.axes != swapped or apart((made, node)) is not None:
            continue
        a, b = product.transpose_a, product.transpose_b
        flags = (not a, b) if flag == "transpose_a" else (a, not b)
        inputs = list(node.inputs)
        inputs[slot] = made.inputs[0]
        alone = len(value.uses) == 1 and not program.is_output(value)
        substitute(program, [made, node] if alone else [node], MatMul(*flags), inputs, node)
        return True
    return False
