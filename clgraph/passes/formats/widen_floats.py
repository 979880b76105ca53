"""Compute float16 and bfloat16 in float32 on CPUs. OpenVINO's CPU plugin and ONNX Runtime do so, too."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import bypass
from clgraph.passes.selection import select, unserved
from clgraph.selector.query import Query

NARROW = frozenset({DType.F16, DType.BF16})
_WEIGHTS = 1
"""The slot of a product whose constant matrix stays as narrow as it is."""

_MOVES = frozenset(
    {
        *("concat", "expand", "gather", "gather_elements", "gather_nd", "max_unpool", "pad", "repeat", "reshape"),
        *("reverse_sequence", "scatter_elements", "scatter_nd", "shuffle", "slice", "split", "tensor_scatter"),
        *("transpose", "where"),
    }
)
"""Kinds that read elements and write the same; scatters where nothing is added up."""

_STORED = frozenset({"is_special"})
"""Kinds that ask what a value is as the model stores it: one that is too large is infinite."""

_ROUNDED = frozenset({"activation", "eltwise", "layer_normalization", "trigonometry"})
"""Kinds with tiles that read narrow elements, compute in float32 and round the results in one pass."""

_SMALL = 1 << 20
"""Bytes of constants that may become twice as many, so that nothing is widened at every run."""


class WidenFloats(Pass):
    """Let operators read and write float32 where the model has float16 or bfloat16, if all devices are CPUs.

    Their tiles compute in float32, and rounding every result costs more than it saves. What is in memory for long stays
    narrow: constant matrices on the right of products, which become floats as they are read; constants that only some
    rows are picked of, as embeddings; caches. So do the inputs and results of the graph, what only moves between them,
    nodes that round because the model casts, those that nothing serves in float32, and those between inputs and results
    of the graph alone that a tile computes in one pass; a value that becomes an integer, or is asked whether it is
    infinite, is rounded before. Counts the nodes that compute in float32 now.
    """

    name: ClassVar[str] = "widen_floats"
    rounds: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> int:
        if not context.on_cpus or not any(map(_narrow, program.values)):
            return 0
        declared = [value.layout.dtype for _, value in program.outputs]
        wide, widened, moved = _Wide(program, context), 0, _moved(program)
        for node in program:
            if node in moved or (node.primitive.kind in _ROUNDED and _alone(program, node) and _served(context, node)):
                continue
            if any(map(_narrow, (*node.inputs, *node.outputs))) or any(v in wide.rounded for v in node.inputs):
                widened += wide.take(node)
        outputs = zip(program.outputs, declared, strict=True)
        program.outputs = [(name, v if v.layout.dtype == d else wide.reordered(v, d)) for (name, v), d in outputs]
        for node in wide.idle:
            bypass(program, node)
        self.note(program, [f"{widened} nodes compute in float32"] if widened else [])
        return widened


def _narrow(value: Value) -> bool:
    return value.layout.dtype in NARROW


def _moved(program: Program) -> set[Node]:
    """Return the nodes that move narrow elements of the graph's inputs and constants to its results alone."""
    nodes, leaving, moved = list(program), set[Node](), set[Node]()
    for node in reversed(nodes):
        moves = node.primitive.kind in _MOVES and getattr(node.primitive, "reduction", "none") == "none"
        if moves and all(r in leaving for v in node.outputs if _narrow(v) for r in v.readers):
            leaving.add(node)
    for node in nodes:
        if node in leaving and all(v.producer is None or v.producer in moved for v in node.inputs if _narrow(v)):
            moved.add(node)
    return moved


def _alone(program: Program, node: Node) -> bool:
    """Whether *node* computes results of the graph, which nothing else reads, of its inputs and constants."""
    results = {value for _, value in program.outputs}
    ends = all(v in results and not v.readers for v in node.outputs)
    return ends and all(v.producer is None for v in node.inputs)


def _served(context: Context, node: Node) -> bool:
    """Whether *node* has more than its general kernel as it is."""
    try:
        return not select(context, node).implementation.general
    except UnsupportedError:
        return False


class _Wide:
    """Values in float32, each made once, and in the type that they had.

    Attributes:
        rounded: Values that are float32 now, with the type that they had.
        idle: Casts from float32 to float32.
    """

    def __init__(self, program: Program, context: Context) -> None:
        self._program, self._context = program, context
        self._made: dict[tuple[Value, DType], Value] = {}
        self._still: set[Value] = set()
        self.rounded: dict[Value, DType] = {}
        self.idle: list[Node] = []

    def take(self, node: Node) -> bool:
        """Let *node* compute in float32, and say whether it does; else give it the types that it had."""
        if isinstance(node.primitive, Reorder):
            self._cast(node, node.primitive)
            return False
        if self._moves_constants(node):
            self._still.update(node.outputs)
            return False
        for kept in self._kept(node):
            if self._widen(node, kept):
                return True
        for slot, value in enumerate(node.inputs):
            if value in self.rounded:
                self._program.rewire(value, self.reordered(value, self.rounded[value]), uses=((node, slot),))
        return False

    def reordered(self, value: Value, dtype: DType, beside: Node | None = None) -> Value:
        """Return *value* in another type; *beside*: a reader of it, where it may be an input of the graph."""
        if (value, dtype) not in self._made:
            if value.constant is not None:
                made = self._program.conversion(value, self._widened(value.constant))
            else:
                source = value.producer or beside
                assert source is not None
                made = self._program.insert(Reorder(dtype), [value], sources=[source]).output
            self._made[value, dtype] = made
        return self._made[value, dtype]

    def _widened(self, array: Array) -> Array:
        return self._context.packed.once(("widened",), [array], lambda: array.astype(np.float32))

    def _cast(self, node: Node, cast: Reorder) -> None:
        """Let a cast between floats pass float32 on, unless casts alone read it: then the model rounds on purpose."""
        (value,), y = node.inputs, node.output
        plain = cast.format is None and not cast.halo
        computed = any(not isinstance(reader.primitive, Reorder) for reader in y.readers)
        if plain and value.layout.dtype == DType.F32 and (value in self.rounded or computed):
            if cast.dtype in NARROW:
                self.rounded[y] = cast.dtype
                node.primitive, y.layout = Reorder(DType.F32), value.layout
            if cast.dtype in (DType.F32, *NARROW):
                self.idle.append(node)
                return
        if value in self.rounded:
            self._program.rewire(value, self.reordered(value, self.rounded[value]), uses=((node, 0),))

    def _moves_constants(self, node: Node) -> bool:
        """Whether *node* picks or moves elements of a constant, which are few or computed beforehand."""
        if not node.inputs:
            return False
        first = node.inputs[0]
        large = first.layout.nbytes > _SMALL
        held = (first.constant is not None and large) or first in self._still
        return held and _narrow(first) and isinstance(node.primitive, Gather | Transpose | Reshape)

    def _kept(self, node: Node) -> tuple[frozenset[int], ...]:
        """Return the sets of inputs that may keep 16 bits, to be tried in order, the largest set first."""
        kept = node.primitive.updates
        if node.primitive.kind in _STORED:
            return ()
        if isinstance(node.primitive, MatMul):
            weights = node.inputs[_WEIGHTS]
            if _narrow(weights) and (weights.constant is not None or weights in self._still):
                return kept | {_WEIGHTS}, kept
        return (kept,)

    def _widen(self, node: Node, kept: frozenset[int]) -> bool:
        """Let *node* read and write float32 but for the inputs *kept*, if something serves that."""
        slots = [slot for slot, v in enumerate(node.inputs) if _narrow(v) and slot not in kept]
        inputs = [_wide(v.layout) if slot in slots else v.layout for slot, v in enumerate(node.inputs)]
        outputs = node.primitive.infer(inputs)
        constant = frozenset(
            slot for slot, v in enumerate(node.inputs) if v.constant is not None or (slot in kept and v in self._still)
        )
        query = Query(node.primitive, tuple(inputs), outputs, self._context.device(node), node.arity, (), constant)
        if unserved(self._context, node, query) is not None:
            return False
        for slot in slots:
            value = node.inputs[slot]
            self._program.rewire(value, self.reordered(value, DType.F32, node), uses=((node, slot),))
        for value, layout in zip(node.outputs, outputs, strict=True):
            if value.layout.dtype != layout.dtype:
                self.rounded[value] = value.layout.dtype
                value.layout = layout
        return True


def _wide(layout: Layout) -> Layout:
    return replace(layout, dtype=DType.F32)
