"""Remove explicit transposes. ONNX Runtime's transpose optimizer; clDNN has no pass of the kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.graph.node import Node, Value
from clgraph.graph.permute import Axes, between, compose, identity, inverse, moves_data
from clgraph.graph.primitive import PRIMITIVES, Permuted, Primitive
from clgraph.graph.program import Program
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.patterns.transpose_search import TransposeSearch
from clgraph.passes.rewriting import apart, bypass, substitute


class TransposeOptimization(Pass):
    """Hold tensors in the orders of axes that leave the fewest transposes, and the smallest.

    First what one node shows: two transposes in a row are one; one that keeps every axis is none, one that moves only
    axes of size 1 a reshape; one of the last two axes in front of a matrix product becomes its ``transpose_a`` or
    ``_b``. Then the three steps of ONNX Runtime's optimizer as one search (``transpose_search``): which tensors can be
    reached from explicit transposes through operators that can be permuted (``Primitive.permuted``); pushing those
    to where they cancel; and of several places the one with the fewest bytes, so that one beside a DequantizeLinear
    or QuantizeLinear stands on the integer side and groups stay whole.

    Never leaves more transposes, or more bytes of them, than there were. Nodes of different annotations or placements
    keep the order between them. ``Program.notes`` has both counts.
    """

    name: ClassVar[str] = "transpose_optimization"

    def run(self, program: Program, context: Context) -> int:
        changes = _simplify(program)
        if not any(isinstance(node.primitive, Transpose) for node in program):
            return changes
        search = TransposeSearch(program)
        chosen = search.solve()
        before, after = search.left({n: options[0] for n, options in search.options.items()}), search.left(chosen)
        what = "{} transposes of {} bytes"
        if after >= before or after[1] > before[1]:
            program.notes[self.name] = f"{what.format(*before)}: nothing better was found"
            return changes
        _Rewrite(program, search, chosen).apply()
        program.notes[self.name] = f"{what.format(*before)}; now {what.format(*after)}"
        return changes + before[0] - after[0] + _simplify(program)

    def describe(self, kind: str) -> str:
        if kind == Transpose.kind:
            return "is what it removes"
        if PRIMITIVES[kind].permuted is Primitive.permuted:
            return "transposes stop at it: it has no permuted()"
        return "transposes may move through it: it has permuted()"


def _simplify(program: Program) -> int:
    """Apply the rules that look at one node until none fires; return how often one did."""
    changes = 0
    while any_left := sum(_optimize(program, node) for node in program if node in program):
        changes += any_left
    return changes


@mutable
class _Rewrite:
    """Puts what was chosen into the program.

    Attributes:
        kept: The value that holds each root, and in which order it does.
        turned: Other orders of it that somebody has asked for.
    """

    program: Program
    search: TransposeSearch
    chosen: Mapping[Node, Permuted]
    kept: dict[Value, tuple[Value, Axes]] = field(default_factory=dict)
    turned: dict[tuple[Value, Axes], Value] = field(default_factory=dict)

    def apply(self) -> None:
        """Replace every node that is computed otherwise, then drop the transposes."""
        replaced: list[tuple[Node, Node | None]] = [(node, None) for node in self.search.transposes]
        for node, option in self.chosen.items():
            inputs = [self.get(v, order, node) for v, order in zip(node.inputs, option.inputs, strict=True)]
            if option is self.search.options[node][0]:
                for slot, value in enumerate(inputs):
                    if value is not node.inputs[slot]:
                        self.program.rewire(node.inputs[slot], value, uses=[(node, slot)])
                continue
            made = self.program.insert(option.primitive, inputs, sources=[node], before=node)
            for old, new, order in zip(node.outputs, made.outputs, option.outputs, strict=True):
                self.kept[old] = (new, order)
            replaced.append((node, made))
        self.program.outputs = [(name, self._result(value)) for name, value in self.program.outputs]
        for node, _ in sorted(replaced, key=lambda pair: -self.program.position(pair[0])):
            self.program.erase(node)
        for node, instead in replaced:
            if instead is not None:
                instead.name = node.name
                for old, new in zip(node.outputs, instead.outputs, strict=True):
                    new.name = old.name

    def get(self, value: Value, order: Axes | None, source: Node) -> Value:
        """Return *value* held in *order*, for *source*."""
        rank = value.layout.rank
        order = identity(rank) if order is None else order
        if value.constant is not None:
            return self._constant(value, order)
        if len(order) > rank:
            whole = self.get(value, None, source)
            wide = (1,) * (len(order) - rank) + whole.layout.shape
            front = self._insert(Reshape(wide, zero_is_zero=True), whole, source)
            return self._turn(front, inverse(order), source)
        root = self.search.root(value)
        kept, made = self.kept.get(root.value, (root.value, identity(root.value.layout.rank)))
        wanted = compose(order, inverse(root.axes))
        if wanted == made:
            return kept
        key = (root.value, wanted)
        if key not in self.turned:
            self.turned[key] = self._turn(kept, between(made, wanted), source)
        return self.turned[key]

    def _constant(self, value: Value, order: Axes) -> Value:
        data = value.constant
        if data is None or order == identity(value.layout.rank):
            return value
        key = (value, order)
        if key not in self.turned:
            wide = data.reshape((1,) * (len(order) - data.ndim) + data.shape)
            self.turned[key] = self.program.constant(value.name, np.ascontiguousarray(wide.transpose(inverse(order))))
        return self.turned[key]

    def _turn(self, value: Value, axes: Axes, source: Node) -> Value:
        shape = value.layout.shape
        if moves_data(shape, axes):
            return self._insert(Transpose(axes), value, source)
        turned = tuple(shape[a] for a in axes)
        return value if turned == shape else self._insert(Reshape(turned, zero_is_zero=True), value, source)

    def _insert(self, primitive: Primitive, value: Value, source: Node) -> Value:
        return self.program.insert(primitive, [value], sources=[source]).output

    def _result(self, value: Value) -> Value:
        """Return an output of the graph: a value that the program makes, where it was one before."""
        if value.producer is None:
            return value
        found = self.get(value, None, value.producer)
        if found.producer is not None:
            return found
        return self._insert(Reshape(found.layout.shape, zero_is_zero=True), found, value.producer)


def _optimize(program: Program, node: Node) -> bool:
    if isinstance(node.primitive, MatMul):
        return _into_product(program, node)
    if not isinstance(node.primitive, Transpose) or node.fused:
        return False
    axes = node.primitive.axes
    if axes == identity(len(axes)):
        return bypass(program, node)
    if not moves_data(node.inputs[0].layout.shape, axes):
        target = node.output.layout.shape
        substitute(program, [node], Reshape(target, zero_is_zero=0 in target), node.inputs)
        return True
    return _merge(program, node)


def _merge(program: Program, node: Node) -> bool:
    """Let *node* read what the transpose in front of it reads."""
    first = node.inputs[0].producer
    if first is None or first.fused or apart((first, node)) is not None:
        return False
    if not isinstance(first.primitive, Transpose) or not isinstance(node.primitive, Transpose):
        return False
    axes = tuple(first.primitive.axes[a] for a in node.primitive.axes)
    inputs, nodes = first.inputs, [first, node]
    alone = first.output.has_one_use and not program.is_output(first.output)
    substitute(program, nodes if alone else [node], Transpose(axes), inputs)
    return True


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
        alone = value.has_one_use and not program.is_output(value)
        substitute(program, [made, node] if alone else [node], MatMul(*flags), inputs, node)
        return True
    return False
