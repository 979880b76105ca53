"""Joint choice of the products that are computed from integers, and the rewriting of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Dequantize
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.passes.base import Context
from clgraph.passes.formats.format_search import Factor, minimise
from clgraph.passes.quantization.byte_tables import ByteTable, byte_tables
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.quantization.integer_products import (
    BANDWIDTH,
    IntegerProduct,
    Steps,
    byte_type,
    integer_product,
    narrowed,
    steps_of,
)
from clgraph.passes.rewriting import read_outside, substitute
from clgraph.passes.selection import proposals, refusals_of
from clgraph.selector.query import DeviceInfo, Query

_PIXELS = 4
"""The rank of pictures."""
_FORCED = 1.0
"""Seconds that a kernel saves which a user asks for: more than anything else here takes."""


def use_integers(program: Program, context: Context) -> tuple[int, list[str]]:
    """Compute products from integers where that is estimated faster; return how many, and what is to be said."""
    found: dict[Node, _Candidate] = {}
    reasons: dict[str, str] = {}
    for node in program:
        product = integer_product(node)
        offer = _offer(context, product) if isinstance(product, IntegerProduct) else product
        if isinstance(offer, _Candidate):
            found[node] = offer
        elif offer is not None:
            reasons[node.name] = offer
    tables = byte_tables(program) if found and byte_type(context.device(next(iter(found)))) == DType.U8 else {}
    makers = _Makers(program, tables)
    chosen = _cheapest(program, context, found, makers)
    reasons |= {node.name: offer.slower for node, offer in found.items() if node not in chosen}
    if chosen:
        _Rewriting(program, context, {n: found[n].product for n in found if n in chosen}, makers).run()
    if not found and not reasons:
        return 0, []
    lines = [f"{len(chosen)} products from integers"]
    for reason, count in Counter(reasons.values()).items():
        names = ", ".join(n for n, r in reasons.items() if r == reason)
        lines.append(f"{names} stay{'s' * (count == 1)} in floats: {reason}")
    return len(chosen), lines


@frozen
class _Candidate:
    """A product that integers can make.

    Attributes:
        gain: The seconds that they save, without what stands around it.
        slower: Why floats make it, if they do.
    """

    product: IntegerProduct
    gain: float
    slower: str


def _offer(context: Context, product: IntegerProduct) -> _Candidate | str:
    """Return the candidate, or why nothing on its device makes it from integers but a general kernel."""
    q, forced = product.query(context), product.node.name in context.forced
    offered = [p for p in proposals(context, product.node, q) if forced or not p.implementation.general]
    if not offered:
        return refusals_of(context, q)
    if forced:
        return _Candidate(product, _FORCED, "")
    floats: Query[Primitive] = context.query(product.node)
    if _narrow(context, q.device):
        floats, q = narrowed(floats), product.query(context, DType.F16)
        offered = [p for p in proposals(context, product.node, q) if not p.implementation.general]
        if not offered:
            return refusals_of(context, q)
    others = proposals(context, product.node, floats)
    name, seconds = offered[0].implementation.name, offered[0].seconds
    gain = others[0].seconds - seconds if others else _FORCED
    slower = f"{name} saves {gain:.1g} s, less than rounding its input and widening its result take"
    if gain <= 0:
        slower = f"{name} would take {-gain:.1g} s longer"
    return _Candidate(product, gain, slower)


def _narrow(context: Context, device: DeviceInfo) -> bool:
    """Whether convert_precision will let operators on *device* store float16."""
    return device.kind == "gpu" if context.precision == "auto" else context.precision == "f16" and device.kind != "cpu"


def _cheapest(program: Program, context: Context, found: Mapping[Node, _Candidate], makers: _Makers) -> set[Node]:
    """Return the products whose computation from integers makes the time of all, and of what stands around, least."""
    index = {node: i for i, node in enumerate(found)}
    factors = [Factor((i,), np.array([found[node].gain, 0.0])) for node, i in index.items()]
    for x in dict.fromkeys(c.product.x for c in found.values()):
        readers = [n for n in found if found[n].product.x is x]
        device, source = context.device(readers[0]), x.producer.inputs[0] if _rounds(x) and x.producer else None
        seconds = x.layout.count / (BANDWIDTH * device.bytes_per_second)
        between = device.launch_seconds + (3 if _narrow(context, device) else 5) * seconds
        others = [n for n in x.readers if n not in found and not isinstance(n.primitive, Eltwise)]
        widened = between if _rounds(x) and (others or program.is_output(x)) else 0.0
        maker = makers.of(x, found)
        # What a graph input is rounded by is a launch in any case.
        rounded = 0.0 if source is not None and source.producer is None else between
        scope = tuple(index[n] for n in (*([maker] if maker is not None else []), *readers))
        table = np.full((2,) * len(scope), rounded + widened)
        if maker is not None:
            table[1] = widened - (1 if _narrow(context, device) else 3) * seconds
            table[(1, *(0,) * len(readers))] = 0.0
            table[(0, *(0,) * len(readers))] = 0.0
        else:
            table[(0,) * len(scope)] = 0.0
        factors.append(Factor(scope, table))
    values = minimise([2] * len(found), factors, [0] * len(found)).values if found else ()
    return {node for node, i in index.items() if values[i]}


def _rounds(value: Value) -> bool:
    p = None if value.producer is None or value.producer.fused else value.producer.primitive
    return isinstance(p, Activation) and p.function == "fake_quantize"


def made_by(program: Program, value: Value, chosen: Container[Node]) -> Node | None:
    """Return the product of *chosen* behind which all is fused that makes *value*."""
    node = value.producer
    while node is not None and node not in chosen:
        first = node.inputs[0] if node.inputs else None
        if isinstance(node.primitive, Eltwise):
            sides = [v for v in node.inputs if v.layout == node.output.layout and v.producer is not None]
            first = max(sides, key=lambda v: program.position(v.producer), default=None)  # type: ignore[arg-type]
        elif not isinstance(node.primitive, Activation | DequantizeAdd):
            return None
        if first is None or node.fused or read_outside(program, first, [node]) is not None:
            return None
        node = first.producer
    return node


@frozen(eq=False)
class _Makers:
    """Says which product is at the origin of bytes.

    Attributes:
        tables: Values whose bytes are looked up by those of others.
    """

    program: Program
    tables: Mapping[Value, ByteTable]

    def of(self, value: Value, chosen: Container[Node]) -> Node | None:
        """Return the product of *chosen* that makes the bytes of *value*, or what one pass over bytes makes them of."""
        while _rounds(value):
            if value in self.tables:
                value = self.tables[value].root
                continue
            before = self.passed_over(value, chosen)
            if before is None:
                assert value.producer is not None
                return made_by(self.program, value.producer.inputs[0], chosen)
            value = before
        return None

    def passed_over(self, value: Value, chosen: Container[Node]) -> Value | None:
        """Return the rounded value of which an elementwise operator makes *value* in a pass of its own over blocks.

        ``None`` where a product of *chosen* takes the operator, and for what has no pixels: there is no such pass then.
        """
        made = value.producer
        node = made.inputs[0].producer if made is not None else None
        if node is None or node.fused or not isinstance(node.primitive, Eltwise) or not node.output.has_one_use:
            return None
        if value.layout.rank != _PIXELS or made_by(self.program, node.output, chosen) is not None:
            return None
        return next((v for v in node.inputs if v.layout == node.output.layout and _rounds(v)), None)


class _Rewriting:
    """Puts the products of integers into a program, and bytes between them."""

    def __init__(
        self, program: Program, context: Context, products: Mapping[Node, IntegerProduct], makers: _Makers
    ) -> None:
        self._program, self._context, self._products, self._makers = program, context, products, makers
        self._chosen = set(products)
        self._read: dict[Node, Value] = {}
        self._bytes: dict[Value, Value] = {}

    def run(self) -> None:
        values = dict.fromkeys(p.x for p in self._products.values())
        values |= dict.fromkeys(n.output for n in self._program if _rounds(n.output))
        self._wanted = self._all_wanted()
        order = {v: self._program.position(v.producer) for v in values if v.producer is not None}
        for value in sorted(order, key=lambda v: order[v]):
            self._round(value)
        for node, product in self._products.items():
            inputs = product.inputs(self._program, self._context, self._read[node])
            substitute(self._program, [node], product.on(inputs[0].layout.dtype), inputs, node)
        for value in reversed(values):
            if value.producer is not None and value.producer in self._program:
                drop(self._program, value.producer)

    def _all_wanted(self) -> set[Value]:
        """Return the values whose bytes are read, directly or to make others."""
        tables, left = self._makers.tables, list(dict.fromkeys(p.x for p in self._products.values()))
        for value, table in tables.items():
            if table.last and self._makers.of(value, self._chosen) is not None:
                left.append(value)
        wanted: set[Value] = set()
        while left:
            value = left.pop()
            if value in wanted or not _rounds(value):
                continue
            wanted.add(value)
            if value in tables:
                left.append(tables[value].root)
            elif (before := self._makers.passed_over(value, self._chosen)) and self._makers.of(before, self._chosen):
                left.append(before)
        return wanted

    def _round(self, value: Value) -> None:
        """Let the products and sums that read *value* read bytes."""
        program, steps, made = self._program, steps_of(value), value.producer
        assert steps is not None
        assert made is not None
        products = [n for n in value.readers if n in self._products and self._products[n].x is value]
        sums = [s for n in value.readers if (s := self._sum(n, value))] if _rounds(value) else []
        alone = len(sums) < len(value.readers) or made_by(program, made.inputs[0], self._chosen) is None
        if not products and value not in self._wanted and alone:
            return
        source = made.inputs[0] if _rounds(value) else value
        type_of = {node: byte_type(self._context.device(node)) for node in (*products, *(s[0] for s in sums))}
        bytes_: dict[DType, Value] = {}
        for dtype in dict.fromkeys(type_of.values()) or (byte_type(self._context.device(made)),):
            table = self._makers.tables.get(value)
            if table is not None and table.root in self._bytes:
                entries = program.constant(f"{made.name}/entries", table.entries)
                bytes_[dtype] = program.insert(
                    ByteLookup(), [self._bytes[table.root], entries], sources=[made], before=made
                ).output
            else:
                rounding = StaticQuantize(steps.scale, steps.zero(dtype), dtype)
                bytes_[dtype] = program.insert(rounding, [source], sources=[made]).output
        self._bytes[value] = next(iter(bytes_.values()))
        self._read |= {node: bytes_[type_of[node]] for node in products}
        for node, operand, factor in sums:
            other = next(v for v in node.inputs if v is not operand)
            added = bytes_[type_of[node]]
            addition = DequantizeAdd(steps.scale * factor, steps.zero(added.layout.dtype))
            substitute(program, [node], addition, [other, added], node)
            if operand is not value and operand.producer is not None:
                program.erase(operand.producer)
        if _rounds(value):
            self._widen(value, next(iter(bytes_.values())), steps, products)

    def _sum(self, reader: Node, value: Value) -> tuple[Node, Value, float] | None:
        """Return the sum of *value*, or of a multiple of it, with what a product makes: node, operand and factor."""
        p, operand, factor = reader.primitive, value, 1.0
        if isinstance(p, Activation) and p.function == "linear" and p.beta == 0 and p.alpha > 0 and not reader.fused:
            if not reader.output.has_one_use or self._program.is_output(reader.output):
                return None
            (reader,), operand, factor = reader.output.readers, reader.output, p.alpha
        return (reader, operand, factor) if self._is_sum(reader, operand) else None

    def _is_sum(self, node: Node, value: Value) -> bool:
        """Whether *node* adds *value* to what a product of integers makes."""
        if node.primitive != Eltwise("add") or node.fused or node.inputs[0] is node.inputs[1]:
            return False
        other = next(v for v in node.inputs if v is not value)
        alone = read_outside(self._program, other, [node]) is None
        return alone and other.layout == node.output.layout and self._last_product(other)

    def _last_product(self, value: Value) -> bool:
        made = value.producer
        return made is not None and (made in self._chosen or made_by(self._program, value, self._chosen) is not None)

    def _passes_over(self, node: Node, value: Value) -> bool:
        """Whether *node* makes bytes of those of *value* in one pass."""
        rounded = next((n.output for n in node.output.readers if _rounds(n.output)), None)
        return (
            rounded is not None and rounded in self._wanted and self._makers.passed_over(rounded, self._chosen) is value
        )

    def _widen(self, value: Value, bytes_: Value, steps: Steps, products: list[Node]) -> None:
        """Let what else reads *value*, which its maker rounds, read the bytes as floats."""
        program, made = self._program, value.producer
        assert made is not None
        if any(n not in products for n in value.readers) or program.is_output(value):
            scale = program.constant(f"{made.name}/scale", np.array(steps.scale, np.float32))
            dtype = bytes_.layout.dtype
            zero = program.constant(f"{made.name}/zero", np.array(steps.zero(dtype), dtype.numpy))
            floats = program.insert(Dequantize(0), [bytes_, scale, zero], sources=[made])
            others = [u for u in value.uses if u[0] not in products]
            for use in [u for u in others if self._passes_over(u[0], value)]:
                # Of its own: what reads it is fused behind it, and makes bytes.
                own = program.insert(Dequantize(0), [bytes_, scale, zero], sources=[made])
                program.rewire(value, own.output, uses=[use])
                others.remove(use)
            program.rewire(value, floats.output, uses=others)
            program.outputs = [(n, floats.output if v is value else v) for n, v in program.outputs]
