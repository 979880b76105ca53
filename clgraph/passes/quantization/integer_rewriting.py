"""Products of integers put into a program, and bytes between them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.passes.base import Context
from clgraph.passes.quantization.byte_makers import Makers, adds, made_by, rounds
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.quantization.integer_products import IntegerProduct, byte_type
from clgraph.passes.quantization.steps import Steps, given_bytes, steps_of
from clgraph.passes.rewriting import read_outside, substitute


def _added_bytes(node: Node, operand: Value, scale: float, zero: int) -> DequantizeAdd:
    """Return the sum *node* with the bytes of *operand*, in the order of *node*'s where they are what that adds."""
    p, slot = node.primitive, node.inputs.index(operand)
    if isinstance(p, QuantizedSum) and np.float32(p.scales[slot]) == np.float32(scale):
        return DequantizeAdd(scale, zero, p, slot == 0)
    return DequantizeAdd(scale, zero)


class Rewriting:
    """Puts the products of integers into a program, and bytes between them."""

    def __init__(
        self, program: Program, context: Context, products: Mapping[Node, IntegerProduct], makers: Makers
    ) -> None:
        """Put *products*, by their nodes, into *program*."""
        self._program, self._context, self._products, self._makers = program, context, products, makers
        self._chosen = set(products)
        self._read: dict[Node, Value] = {}
        self._bytes: dict[Value, Value] = {}
        self._first: set[tuple[Node, int]] = set()
        self._added: set[tuple[Node, Value]] = set()
        self._widened: list[Node] = []

    def run(self) -> None:
        """Rewrite the program."""
        values = dict.fromkeys(p.x for p in self._products.values())
        values |= dict.fromkeys(n.output for n in self._program if rounds(n.output) or n in self._makers.moved)
        self._round_results()
        self._wanted = self._all_wanted()
        order = {v: self._program.position(v.producer) for v in values if v.producer is not None}
        for value in sorted(order, key=lambda v: order[v]):
            self._round(value)
        for node, product in self._products.items():
            x = self._read[node]
            primitive: Primitive = product.on(x.layout.dtype)
            inputs = product.inputs(self._program, self._context, x)
            if product.sums_apart(self._context.device(node)):
                terms = (product.shifted_by(self._program, x), inputs)
                inputs = [self._program.insert(primitive, t, sources=[node], before=node).output for t in terms]
                primitive = Eltwise("add")
            substitute(self._program, [node], primitive, inputs, node)
        for made in (*self._widened, *(v.producer for v in reversed(values))):
            if made is not None and made in self._program:
                drop(self._program, made)

    def _round_results(self) -> None:
        """Let products round what a Quantize by one known step makes bytes of, which the network returns or moves."""
        for node in tuple(self._program):
            if not isinstance(node.primitive, Quantize) or node.primitive.narrow or node.fused:
                continue
            x, *numbers = node.inputs
            scale, zero = (*(v.constant for v in numbers), np.zeros((), np.uint8))[:2]
            if scale is None or zero is None or scale.size != 1 or zero.size != 1:
                continue
            types = x.layout.dtype, node.output.layout.dtype, byte_type(self._context.device(node))
            if types != (DType.F32, DType.U8, DType.U8) or not x.has_one_use:
                continue
            if made_by(self._program, x, self._chosen) is not None:
                rounding = StaticQuantize(float(scale.item()), int(zero.item()), DType.U8)
                substitute(self._program, [node], rounding, [x], node)

    def _all_wanted(self) -> set[Value]:
        """Return the values whose bytes are read, directly or to make others; note what passes read first and add."""
        makers, left = self._makers, list(dict.fromkeys(p.x for p in self._products.values()))
        for value, table in makers.tables.items():
            if table.last and makers.of(value, self._chosen) is not None:
                left.append(value)
        wanted: set[Value] = set()
        while left:
            value = left.pop()
            if value in wanted:
                continue
            if value.producer in makers.moved and makers.of(value, self._chosen) is not None:
                wanted.add(value)
                left += value.producer.inputs
                continue
            if not rounds(value):
                continue
            wanted.add(value)
            if value in makers.tables:
                left.append(makers.tables[value].root)
            elif (path := makers.passed_over(value, self._chosen)) and makers.of(path.source, self._chosen):
                left.append(path.source)
                self._first.add(path.steps[0])
                if makers.moved:
                    added = makers.added(path, self._chosen)
                    self._added.update(added)
                    left += [v for _, v in added]
        return wanted

    def _round(self, value: Value) -> None:
        """Let the products and sums that read *value* read bytes."""
        program, steps, made = self._program, steps_of(value), value.producer
        assert steps is not None
        assert made is not None
        products = [n for n in value.readers if n in self._products and self._products[n].x is value]
        moved = value in self._wanted and made in self._makers.moved
        sums = [s for n in value.readers if (s := self._sum(n, value))] if rounds(value) or moved else []
        alone = len(sums) < len(value.readers) or made_by(program, made.inputs[0], self._chosen) is None
        if not products and value not in self._wanted and alone:
            return
        source = made.inputs[0] if rounds(value) else value
        parts = [self._bytes.get(v) for v in made.inputs] if moved else [None]
        type_of = {node: byte_type(self._context.device(node)) for node in (*products, *(s[0] for s in sums))}
        bytes_: dict[DType, Value] = {}
        for dtype in dict.fromkeys(type_of.values()) or (byte_type(self._context.device(made)),):
            table = self._makers.tables.get(value)
            if None not in parts:
                inputs = [v for v in parts if v is not None]
                bytes_[dtype] = program.insert(made.primitive, inputs, sources=[made], before=made).output
            elif table is not None and table.root in self._bytes:
                entries = program.constant(f"{made.name}/entries", table.entries)
                bytes_[dtype] = program.insert(
                    ByteLookup(), [self._bytes[table.root], entries], sources=[made], before=made
                ).output
            elif (given := given_bytes(value, dtype)) is not None:
                bytes_[dtype] = given
            else:
                rounding = StaticQuantize(steps.scale, steps.zero(dtype), dtype)
                bytes_[dtype] = program.insert(rounding, [source], sources=[made]).output
        self._bytes[value] = next(iter(bytes_.values()))
        self._read |= {node: bytes_[type_of[node]] for node in products}
        for node, operand, factor in sums:
            other = next(v for v in node.inputs if v is not operand)
            added = bytes_[type_of[node]]
            addition = _added_bytes(node, operand, steps.scale * factor, steps.zero(added.layout.dtype))
            sum_ = substitute(program, [node], addition, [other, added], node)
            if any((node, slot) in self._first for slot in range(2)):
                self._first.add((sum_, 0))
            if operand is not value and operand.producer is not None:
                program.erase(operand.producer)
        if rounds(value) or None not in parts:
            self._widen(value, next(iter(bytes_.values())), steps, products)

    def _sum(self, reader: Node, value: Value) -> tuple[Node, Value, float] | None:
        """Return the sum of *value*, or a multiple of it, with what a product or pass makes: node, operand, factor."""
        if (reader, value) in self._added:
            return reader, value, 1.0
        p, operand, factor = reader.primitive, value, 1.0
        if isinstance(p, Activation) and p.function == "linear" and p.beta == 0 and p.alpha > 0 and not reader.fused:
            if not reader.output.has_one_use or self._program.is_output(reader.output):
                return None
            (reader,), operand, factor = reader.output.readers, reader.output, p.alpha
        return (reader, operand, factor) if self._is_sum(reader, operand) else None

    def _is_sum(self, node: Node, value: Value) -> bool:
        """Whether *node* adds *value* to what a product of integers makes."""
        if not adds(node) or node.fused or node.inputs[0] is node.inputs[1]:
            return False
        other = next(v for v in node.inputs if v is not value)
        alone = read_outside(self._program, other, [node]) is None
        return alone and other.layout == node.output.layout and self._last_product(other)

    def _last_product(self, value: Value) -> bool:
        made = value.producer
        return made is not None and (made in self._chosen or made_by(self._program, value, self._chosen) is not None)

    def _widen(self, value: Value, bytes_: Value, steps: Steps, products: list[Node]) -> None:
        """Let what else reads *value*, whose maker rounds or moves bytes, read the bytes as floats."""
        program, made = self._program, value.producer
        assert made is not None
        if any(n not in products for n in value.readers) or program.is_output(value):
            scale = program.constant(f"{made.name}/scale", np.array(steps.scale, np.float32))
            dtype = bytes_.layout.dtype
            zero = program.constant(f"{made.name}/zero", np.array(steps.zero(dtype), dtype.numpy))
            floats = program.insert(Dequantize(0), [bytes_, scale, zero], sources=[made])
            self._widened.append(floats)
            self._bytes[floats.output] = bytes_
            others = [u for u in value.uses if u[0] not in products]
            for use in [u for u in others if u in self._first]:
                # Of its own: what reads it is fused behind it, and makes bytes.
                own = program.insert(Dequantize(0), [bytes_, scale, zero], sources=[made])
                program.rewire(value, own.output, uses=[use])
                others.remove(use)
                self._widened.append(own)
            program.rewire(value, floats.output, uses=others)
            program.outputs = [(n, floats.output if v is value else v) for n, v in program.outputs]
