"""Joint choice of the products that are computed from integers, and the rewriting of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.passes.base import Context
from clgraph.passes.formats.format_search import Factor, minimise
from clgraph.passes.quantization.byte_makers import Makers, adds, byte_makers, made_by, rounds, spread_roundings
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

_FORCED = 1.0
"""Seconds that a kernel saves which a user asks for: more than anything else here takes."""


def use_integers(program: Program, context: Context) -> tuple[int, list[str]]:
    """Compute products from integers where that is estimated faster; return how many, and what is to be said."""
    found: dict[Node, _Candidate] = {}
    reasons: dict[str, str] = {}
    spread_roundings(program, context)
    for node in program:
        product = integer_product(node)
        offer = _offer(context, product) if isinstance(product, IntegerProduct) else product
        if isinstance(offer, _Candidate):
            found[node] = offer
        elif offer is not None:
            reasons[node.name] = offer
    makers = byte_makers(program, context, byte_type(context.device(next(iter(found)))) if found else None)
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
    sums = _window_sums(context, product)
    if isinstance(sums, str):
        return sums
    if forced:
        return _Candidate(product, _FORCED, "")
    floats: Query[Primitive] = context.query(product.node)
    if _narrow(context, q.device):
        floats, q = narrowed(floats), product.query(context, DType.F16)
        offered = [p for p in proposals(context, product.node, q) if not p.implementation.general]
        if not offered:
            return refusals_of(context, q)
    elif (rounding := _rounding(product.node, q)) is not None:
        rounded = q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=rounding.dtype),))
        made = proposals(context, product.node, replace(rounded, fused=(*q.fused, Fused(rounding))))
        offered = [p for p in made if not p.implementation.general] or offered
    others = proposals(context, product.node, floats)
    name, seconds = offered[0].implementation.name, offered[0].seconds + sums
    gain = others[0].seconds - seconds if others else _FORCED
    slower = f"{name} saves {gain:.1g} s, less than rounding its input and widening its result take"
    if gain <= 0:
        slower = f"{name} would take {-gain:.1g} s longer"
    return _Candidate(product, gain, slower)


def _window_sums(context: Context, product: IntegerProduct) -> float | str:
    """Return the seconds of what the shift of the weights adds, or why nothing but a general kernel makes it."""
    if not product.shift:
        return 0.0
    q, forced = product.window_sums(context), product.node.name in context.forced
    offered = [p for p in proposals(context, product.node, q) if forced or not p.implementation.general]
    return offered[0].seconds if offered else refusals_of(context, q)


def _rounding(node: Node, q: Query[Primitive]) -> StaticQuantize | None:
    """Return what rounds the result of *node* to bytes, at most an activation behind it, where something does."""
    value = node.output
    if len(value.readers) == 1 and not rounds(value.readers[0].output):
        value = value.readers[0].output if isinstance(value.readers[0].primitive, Activation) else value
    steps = [s for r in value.readers if rounds(r.output) and (s := steps_of(r.output))]
    dtype = byte_type(q.device)
    return StaticQuantize(steps[0].scale, steps[0].zero(dtype), dtype) if steps else None


def _narrow(context: Context, device: DeviceInfo) -> bool:
    """Whether convert_precision will let operators on *device* store float16."""
    return device.kind == "gpu" if context.precision == "auto" else context.precision == "f16" and device.kind != "cpu"


def _cheapest(program: Program, context: Context, found: Mapping[Node, _Candidate], makers: Makers) -> set[Node]:
    """Return the products whose computation from integers makes the time of all, and of what stands around, least."""
    index = {node: i for i, node in enumerate(found)}
    factors = [Factor((i,), np.array([found[node].gain, 0.0])) for node, i in index.items()]
    passed = makers.sources(found)
    for x in dict.fromkeys(c.product.x for c in found.values()):
        readers = [n for n in found if found[n].product.x is x]
        device, source = context.device(readers[0]), x.producer.inputs[0] if rounds(x) and x.producer else None
        seconds = x.layout.count / (BANDWIDTH * device.bytes_per_second)
        between = device.launch_seconds + (3 if _narrow(context, device) else 5) * seconds
        others = [
            n for n in x.readers if not (n in found or n in makers.moved or isinstance(n.primitive, Eltwise | OnSteps))
        ]
        widened = between if rounds(x) and (others or program.is_output(x)) else 0.0
        maker = makers.of(x, found)
        # What a graph input is rounded by is a launch in any case.
        rounded = 0.0 if source is not None and source.producer is None else between
        scope = tuple(index[n] for n in (*([maker] if maker is not None else []), *readers))
        table = np.full((2,) * len(scope), rounded + widened)
        if maker is not None:
            table[1] = widened - (1 if _narrow(context, device) else 3) * seconds
            table[(1, *(0,) * len(readers))] = 0.0
            if x in passed:
                # There are bytes in any case: each product of floats reads what widens them.
                table[1] += between - widened
                table[(1,) * len(scope)] += widened - between
            table[(0, *(0,) * len(readers))] = 0.0
        else:
            table[(0,) * len(scope)] = 0.0
        factors.append(Factor(scope, table))
    values = minimise([2] * len(found), factors, [0] * len(found)).values if found else ()
    return {node for node, i in index.items() if values[i]}


def _added_bytes(node: Node, operand: Value, scale: float, zero: int) -> DequantizeAdd:
    """Return the sum *node* with the bytes of *operand*, in the order of *node*'s where they are what that adds."""
    p, slot = node.primitive, node.inputs.index(operand)
    if isinstance(p, QuantizedSum) and np.float32(p.scales[slot]) == np.float32(scale):
        return DequantizeAdd(scale, zero, p, slot == 0)
    return DequantizeAdd(scale, zero)


class _Rewriting:
    """Puts the products of integers into a program, and bytes between them."""

    def __init__(
        self, program: Program, context: Context, products: Mapping[Node, IntegerProduct], makers: Makers
    ) -> None:
        self._program, self._context, self._products, self._makers = program, context, products, makers
        self._chosen = set(products)
        self._read: dict[Node, Value] = {}
        self._bytes: dict[Value, Value] = {}
        self._first: set[tuple[Node, int]] = set()
        self._added: set[tuple[Node, Value]] = set()
        self._widened: list[Node] = []

    def run(self) -> None:
        values = dict.fromkeys(p.x for p in self._products.values())
        values |= dict.fromkeys(n.output for n in self._program if rounds(n.output) or n in self._makers.moved)
        self._wanted = self._all_wanted()
        order = {v: self._program.position(v.producer) for v in values if v.producer is not None}
        for value in sorted(order, key=lambda v: order[v]):
            self._round(value)
        for node, product in self._products.items():
            x = self._read[node]
            primitive: Primitive = product.on(x.layout.dtype)
            inputs = product.inputs(self._program, self._context, x)
            if product.shift:
                terms = (product.shifted_by(self._program, x), inputs)
                inputs = [self._program.insert(primitive, t, sources=[node], before=node).output for t in terms]
                primitive = Eltwise("add")
            substitute(self._program, [node], primitive, inputs, node)
        for made in (*self._widened, *(v.producer for v in reversed(values))):
            if made is not None and made in self._program:
                drop(self._program, made)

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
