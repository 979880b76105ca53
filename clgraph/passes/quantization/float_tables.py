"""Chains of floats between roundings to 8 bits as tables of bytes; a step of use_integers."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.byte_lookup import ENTRIES, ByteLookup
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.passes.base import Context
from clgraph.passes.quantization.byte_makers import rounds
from clgraph.passes.quantization.byte_tables import ByteTable, byte_tables
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.quantization.integer_products import byte_type, listed_seconds
from clgraph.passes.quantization.steps import given_bytes, steps_of
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

ROUNDING = 2
"""Operations of a list in whose time a product of floats rounds its result. Zen 5, MobileNetV2: 1.1 to 2.2."""


def look_up_floats(program: Program, context: Context) -> int:
    """Let rounded floats that depend on one rounded value alone be looked up by its bytes; return how many are.

    The products around them stay in floats. This is done where the operations between are estimated to take longer
    than rounding to bytes, looking up and widening.
    """
    bytes_: dict[Value, Value] = {}
    tables = {v: t for v, t in byte_tables(program).items() if t.last and rounds(v)}
    found = {v: t for v, t in tables.items() if _pays(program, context, v, t)}
    for value, table in found.items():
        made, steps, root = value.producer, steps_of(value), table.root
        assert made is not None
        assert steps is not None
        if root not in bytes_:
            bytes_[root] = _bytes_of(program, root)
        entries = program.constant(f"{made.name}/entries", table.entries)
        looked_up = program.insert(ByteLookup(), [bytes_[root], entries], sources=[made], before=made).output
        scale = program.constant(f"{made.name}/scale", np.array(steps.scale, np.float32))
        zero = program.constant(f"{made.name}/zero", np.array(steps.zero(DType.U8), np.uint8))
        floats = program.insert(Dequantize(0), [looked_up, scale, zero], sources=[made], before=made)
        program.rewire(value, floats.output)
        program.outputs = [(n, floats.output if v is value else v) for n, v in program.outputs]
    for value in reversed(found):
        if value.producer is not None and value.producer in program:
            drop(program, value.producer)
    return len(found)


def _bytes_of(program: Program, root: Value) -> Value:
    """Return the bytes of *root*, which is rounded or made of them."""
    given, made, steps = given_bytes(root, DType.U8), root.producer, steps_of(root)
    assert made is not None
    assert steps is not None
    if given is not None:
        return given
    rounding = StaticQuantize(steps.scale, steps.zero(DType.U8), DType.U8)
    return program.insert(rounding, made.inputs[:1], sources=[made], before=made).output


def _pays(program: Program, context: Context, value: Value, table: ByteTable) -> bool:
    """Whether a table is there and faster than the operations between its root and *value*."""
    made, root, y = value.producer, table.root, value.layout
    assert made is not None
    device = context.device(made)
    if byte_type(device) != DType.U8 or not (rounds(root) or given_bytes(root, DType.U8) is not None):
        return False
    between = _between(value, root)
    operations = sum(ROUNDING if rounds(node.output) else 1 for node in between) + ROUNDING * rounds(root)
    narrow, entries = Layout(DType.U8, y.shape), Layout(DType.U8, (ENTRIES,))
    number, zero = Layout(DType.F32, ()), Layout(DType.U8, ())
    steps = steps_of(value)
    assert steps is not None
    parts: list[tuple[Primitive, tuple[Layout, ...]]] = [
        (ByteLookup(), (narrow, entries)),
        (Dequantize(0), (narrow, number, zero)),
    ]
    if rounds(root):
        parts.insert(0, (StaticQuantize(steps.scale, 0, DType.U8), (root.layout,)))
    seconds = 0.0
    for primitive, inputs in parts:
        constant = frozenset(range(1, len(inputs)))
        q = Query(primitive, inputs, primitive.infer(inputs), device, len(inputs), constant=constant)
        offered = [p for p in proposals(context, made, q) if not p.implementation.general]
        if not offered:
            return False
        seconds += offered[0].seconds
    return seconds < listed_seconds(device, y, operations)


def _between(value: Value, root: Value) -> list[Node]:
    """Return the nodes that make *value* of *root*."""
    found: dict[Node, None] = {}
    left = [value]
    while left:
        made = left.pop().producer
        if made is None or made in found:
            continue
        found[made] = None
        left += [v for v in made.inputs if v is not root and v.constant is None]
    return list(found)
