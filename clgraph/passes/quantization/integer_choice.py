"""Joint choice of the products that are computed from integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused, Node
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.passes.base import Context
from clgraph.passes.factor_graph import Factor, minimise
from clgraph.passes.quantization.byte_bounds import round_bounded, without
from clgraph.passes.quantization.byte_makers import Makers, byte_makers, rounds, spread_roundings
from clgraph.passes.quantization.float_tables import ROUNDING, look_up_floats
from clgraph.passes.quantization.integer_products import (
    BANDWIDTH,
    IntegerProduct,
    byte_type,
    integer_product,
    listed_seconds,
)
from clgraph.passes.quantization.integer_rewriting import Rewriting
from clgraph.passes.quantization.saturation import with_saturation
from clgraph.passes.quantization.steps import given_bytes, steps_of
from clgraph.passes.selection import proposals, refusals_of
from clgraph.selector.query import DeviceInfo, Query

_KEPT = 1 << 21
"""Bytes of a value most of which a core's own cache keeps until they are read. Emerald Rapids, MobileNetV2: 4.8 MB of
floats take a product with AVX2 70 us longer than estimated, and what reads them 150."""
_SHORT = 4
"""Floats of the vectors that ``short_pairs`` are on."""
_FORCED = 1.0
"""Seconds that a kernel saves which a user asks for: more than anything else here takes."""


def use_integers(program: Program, context: Context) -> tuple[int, list[str]]:
    """Compute products from integers where that is estimated faster; return how many, and what is to be said."""
    found: dict[Node, _Candidate] = {}
    reasons: dict[str, str] = {}
    spread_roundings(program, context)
    bounded = round_bounded(program)
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
        Rewriting(program, context, {n: found[n].product for n in found if n in chosen}, makers).run()
    without(program, bounded)
    looked_up = look_up_floats(program, context)
    lines = [f"{looked_up} chains between roundings of floats are tables of bytes"] * bool(looked_up)
    if not found and not reasons:
        return looked_up, lines
    lines.insert(0, f"{len(chosen)} products from integers")
    for reason, count in Counter(reasons.values()).items():
        names = ", ".join(n for n, r in reasons.items() if r == reason)
        lines.append(f"{names} stay{'s' * (count == 1)} in floats: {reason}")
    return len(chosen) + looked_up, lines


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
    floats, behind = context.query(product.node), 0.0
    if _narrow(context, q.device):
        floats, q = _narrowed(floats), product.query(context, DType.F16)
        offered = [p for p in proposals(context, product.node, q) if not p.implementation.general]
        if not offered:
            return refusals_of(context, q)
    elif (rounding := _rounding(product.node, q)) is not None:
        behind = listed_seconds(q.device, q.outputs[0], ROUNDING)
        rounded = q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=rounding.dtype),))
        made = proposals(context, product.node, replace(rounded, fused=(*q.fused, Fused(rounding))))
        offered = [p for p in made if not p.implementation.general] or offered
    others = proposals(context, product.node, floats)
    name, seconds = offered[0].implementation.name, offered[0].seconds
    seconds = with_saturation(q.device, product.primitive, product.weights, seconds) + sums
    gain = others[0].seconds + behind - seconds if others else _FORCED
    slower = f"{name} saves {gain:.1g} s, less than rounding its input and widening its result take"
    if gain <= 0:
        slower = f"{name} would take {-gain:.1g} s longer"
    return _Candidate(product, gain, slower)


def _window_sums(context: Context, product: IntegerProduct) -> float | str:
    """Return the seconds of what the shift of the weights adds, or why nothing but a general kernel makes it."""
    if not product.sums_apart(context.device(product.node)):
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


def _begin(device: DeviceInfo) -> float:
    """Return what another step takes to begin: on CPUs it is a tile step among others, elsewhere a launch."""
    return device.costs.step_seconds if device.kind == "cpu" else device.launch_seconds


def _narrower(device: DeviceInfo) -> bool:
    """Whether products of bytes are on vectors of half the width of those of floats."""
    return "short_pairs" in device.features and device.simd > _SHORT


def _saved_seconds(context: Context, x: Layout, device: DeviceInfo) -> float:
    """Return what is saved where *x* is written and read as bytes, beside what estimates of products know.

    These know the traffic, which is counted again unless products of bytes are on narrower vectors: those of few
    channels take as little as half of their estimates, and the second count makes up for it.
    """
    if not _narrower(device):
        return (1 if _narrow(context, device) else 3) * x.count / (BANDWIDTH * device.bytes_per_second)
    costs = device.costs
    floats, bytes_ = (max(0, x.count * size - _KEPT) for size in (DType.F32.itemsize, 1))
    rate = costs.shared_bytes_per_second or costs.cache_bytes_per_second
    return 2 * (floats - bytes_) / (rate * device.whole.workers)


def _cheapest(program: Program, context: Context, found: Mapping[Node, _Candidate], makers: Makers) -> set[Node]:
    """Return the products whose computation from integers makes the time of all, and of what stands around, least."""
    index = {node: i for i, node in enumerate(found)}
    factors = [Factor((i,), np.array([found[node].gain, 0.0])) for node, i in index.items()]
    passed = makers.sources(found)
    for x in dict.fromkeys(c.product.x for c in found.values()):
        readers = [n for n in found if found[n].product.x is x]
        device, source = context.device(readers[0]), x.producer.inputs[0] if rounds(x) and x.producer else None
        seconds = x.layout.count / (BANDWIDTH * device.bytes_per_second)
        between = _begin(device) + (3 if _narrow(context, device) else 5) * seconds
        others = [
            n for n in x.readers if not (n in found or n in makers.moved or isinstance(n.primitive, Eltwise | OnSteps))
        ]
        given = given_bytes(x, byte_type(device)) is not None
        widened = between if (rounds(x) or given) and (others or program.is_output(x)) else 0.0
        maker = makers.of(x, found)
        # What a graph input is rounded by is a launch in any case.
        rounded = 0.0 if source is not None and source.producer is None else between
        scope = tuple(index[n] for n in (*([maker] if maker is not None else []), *readers))
        table = np.full((2,) * len(scope), rounded + widened)
        if maker is not None:
            table[1] = widened - _saved_seconds(context, x.layout, device)
            table[(1, *(0,) * len(readers))] = 0.0
            if x in passed:
                # There are bytes in any case: each product of floats reads what widens them.
                table[1] += between - widened
                table[(1,) * len(scope)] += widened - between
            table[(0, *(0,) * len(readers))] = 0.0
        elif given:
            # They are there: products of floats alone, and other readers, want them widened.
            table[:], table[(1,) * len(scope)] = between, widened
        else:
            table[(0,) * len(scope)] = 0.0
        factors.append(Factor(scope, table))
    values = minimise([2] * len(found), factors, [0] * len(found)).values if found else ()
    return {node for node, i in index.items() if values[i]}


def _narrowed(q: Query[Primitive]) -> Query[Primitive]:
    """Return the same problem in float16."""
    half = lambda x: replace(x, dtype=DType.F16) if x.dtype == DType.F32 else x  # noqa: E731
    return q.with_layouts(tuple(map(half, q.inputs)), tuple(map(half, q.outputs)))
