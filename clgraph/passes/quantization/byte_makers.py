"""What makes the bytes of a value on known steps; a step of use_integers."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field, replace

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.resize import Resize
from clgraph.ops.static_quantize import DequantizeAdd
from clgraph.passes.base import Context
from clgraph.passes.quantization.byte_tables import ByteTable, byte_tables
from clgraph.passes.quantization.float_groups import hands_on
from clgraph.passes.quantization.integer_products import byte_type
from clgraph.passes.quantization.steps import steps_of
from clgraph.passes.rewriting import apart, read_outside
from clgraph.passes.selection import proposals

_PIXELS = 4
"""The rank of pictures."""


def rounds(value: Value) -> bool:
    """Whether what makes *value* rounds it to 8 bits, and does nothing else."""
    p = None if value.producer is None or value.producer.fused else value.producer.primitive
    return isinstance(p, Activation) and p.function == "fake_quantize"


def adds(node: Node) -> bool:
    """Whether *node* makes the sum of its two inputs, in floats or from steps to steps."""
    return node.primitive == Eltwise("add") or isinstance(node.primitive, QuantizedSum)


def spread_roundings(program: Program, context: Context) -> None:
    """Move roundings in front of what joins or repeats bytes, where a device has a kernel of bytes for that."""
    left = [n for n in program if rounds(n.output)] if any(map(_repeats, program)) else []
    while left:
        node = left.pop()
        made = node.inputs[0].producer
        if made is None or read_outside(program, made.output, [node]) or apart([made, node]) is not None:
            continue
        if any(steps_of(v) is None for v in made.inputs) or not _repeats(made) or not moves_bytes(context, made):
            continue
        steps = steps_of(node.output)
        for slot, value in enumerate(made.inputs):
            if steps_of(value) != steps:
                rounded = program.insert(node.primitive, [value], sources=[node], before=made)
                program.rewire(value, rounded.output, uses=[(made, slot)])
                left.append(rounded)
        program.rewire(node.output, made.output)
        program.erase(node)


def _repeats(node: Node) -> bool:
    grows = isinstance(node.primitive, Resize) and node.output.layout.count >= node.inputs[0].layout.count
    return isinstance(node.primitive, Concat) or (grows and hands_on(node))


def moves_bytes(context: Context, node: Node) -> bool:
    """Whether a kernel of its device makes the bytes of *node*'s result, each of which is one of its inputs'."""
    moves = hands_on(node) or (isinstance(node.primitive, Concat) and not node.fused)
    device = context.device(node)
    if not moves or len(node.outputs) > 1 or node.output.layout.dtype != DType.F32 or byte_type(device) != DType.U8:
        return False
    q = context.query(node)
    inputs, outputs = (tuple(replace(v, dtype=DType.U8) for v in layouts) for layouts in (q.inputs, q.outputs))
    return any(not p.implementation.general for p in proposals(context, node, q.with_layouts(inputs, outputs)))


def made_by(program: Program, value: Value, chosen: Container[Node]) -> Node | None:
    """Return the product of *chosen* behind which all is fused that makes *value*."""
    node = value.producer
    while node is not None and node not in chosen:
        first = node.inputs[0] if node.inputs else None
        if isinstance(node.primitive, Eltwise | OnSteps):
            sides = [v for v in node.inputs if v.layout == node.output.layout and v.producer is not None]
            first = max(sides, key=lambda v: program.position(v.producer), default=None)  # type: ignore[arg-type]  # each has one
        elif not isinstance(node.primitive, Activation | DequantizeAdd):
            return None
        if first is None or node.fused or read_outside(program, first, [node]) is not None:
            return None
        node = first.producer
    return node


@frozen
class BytePass:
    """Elementwise operators that make a rounded value of another one in one pass over blocks.

    Attributes:
        source: The other one.
        steps: The operators from there on, each with the input that it goes on with.
    """

    source: Value
    steps: tuple[tuple[Node, int], ...]


@frozen(eq=False)
class Makers:
    """Says what is at the origin of bytes.

    Attributes:
        tables: Values whose bytes are looked up by those of others.
        moved: Nodes that have a kernel of bytes; the bytes of their results are those of their inputs.
    """

    program: Program
    tables: Mapping[Value, ByteTable]
    moved: frozenset[Node] = field(default_factory=frozenset)

    def of(self, value: Value, chosen: Container[Node]) -> Node | None:
        """Return the product of *chosen* that makes the bytes of *value*, or those that they are made of in passes."""
        while True:
            if value.producer in self.moved:
                *others, value = value.producer.inputs
                if any(self.of(v, chosen) is None for v in others):
                    return None
                continue
            if not rounds(value):
                return None
            if value in self.tables:
                value = self.tables[value].root
                continue
            before = self.passed_over(value, chosen)
            if before is None:
                assert value.producer is not None
                return made_by(self.program, value.producer.inputs[0], chosen)
            value = before.source

    def sources(self, chosen: Container[Node]) -> set[Value]:
        """Return the values whose bytes moves and passes read."""
        found = {v for n in self.moved for v in n.inputs if self.of(n.output, chosen) is not None}
        for node in self.program:
            if not rounds(node.output) or node.output in self.tables or self.of(node.output, chosen) is None:
                continue
            if (path := self.passed_over(node.output, chosen)) is not None:
                found |= {path.source, *(v for _, v in self.added(path, chosen))}
        return found

    def passed_over(self, value: Value, chosen: Container[Node]) -> BytePass | None:
        """Return how elementwise operators make *value* of another rounded one in a pass of their own over blocks.

        ``None`` where a product of *chosen* takes the operators, and for what has no pixels: no such pass is there.
        """
        made = value.producer
        return None if made is None or value.layout.rank != _PIXELS else self._behind(made.inputs[0], chosen)

    def _behind(self, value: Value, chosen: Container[Node]) -> BytePass | None:
        node = value.producer
        if node is None or node.fused or not isinstance(node.primitive, Eltwise | OnSteps | Activation):
            return None
        if not value.has_one_use or self.program.is_output(value) or made_by(self.program, value, chosen) is not None:
            return None
        found: list[BytePass] = []
        for slot, side in enumerate(node.inputs):
            if side.layout != node.output.layout:
                continue
            before = None if rounds(side) and not side.has_one_use else self._behind(side, chosen)
            if before is not None:
                found.append(BytePass(before.source, (*before.steps, (node, slot))))
            elif rounds(side):
                found.append(BytePass(side, ((node, slot),)))
        return max(found, key=lambda f: len(f.steps), default=None)

    def added(self, path: BytePass, chosen: Container[Node]) -> list[tuple[Node, Value]]:
        """Return the sums on *path* with values whose bytes are there, and those values."""
        found = []
        for node, slot in path.steps:
            others = [v for i, v in enumerate(node.inputs) if i != slot]
            if not adds(node) or others[0] is node.inputs[slot]:
                continue
            alike = others[0].layout == node.output.layout and steps_of(others[0]) is not None
            if alike and self.of(others[0], chosen) is not None:
                found.append((node, others[0]))
        return found


def byte_makers(program: Program, context: Context, device_bytes: DType | None) -> Makers:
    """Return what makes bytes of type *device_bytes*; where they are U8 there are tables and kernels that move them."""
    if device_bytes != DType.U8:
        return Makers(program, {})
    moved = frozenset(n for n in program if steps_of(n.output) is not None and moves_bytes(context, n))
    return Makers(program, byte_tables(program), moved)
