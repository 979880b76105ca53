"""Bags of embeddings without a loop: sums of as many rows of a table each, as PyTorch's exporter writes EmbeddingBag.

It loops over bags, whose places are a sequence up to the count of the indices ``[bags, length]``. They are the rows of
these, so that one gather and one reduction make all bags.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from clgraph.compilation.makers import Makers
from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.concat import Concat
from clgraph.ops.gather import Gather
from clgraph.ops.loop import Loop
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape, Unsqueeze

_REDUCTIONS = frozenset({"sum", "mean", "max"})
_ANY = "even bags: any"
_END = np.iinfo(np.int64).max
"""The end of a slice that takes all."""


@frozen
class _Bags:
    """What a loop sums.

    Attributes:
        indices, length, table: Names of the indices, of how many of them are a bag, and of the table.
    """

    indices: str
    length: str
    table: str
    rows: Array
    gather: Layer
    function: str


def without_bag_loops(topology: Topology) -> Topology:
    """Return *topology* with bags of one length reduced together; itself where it has none."""
    makers = Makers.of(topology)
    found = {x.name: bags for x in topology.layers if (bags := _bags(makers, x)) is not None}
    if not found or _ANY in topology.names:
        return topology
    made = replace(topology, layers=[], constants=topology.constants | {_ANY: np.array([-1], np.int64)})
    for layer in topology.layers:
        bags = found.get(layer.name)
        if bags is None:
            made.layers.append(layer)
            continue
        made.constants[bags.table] = bags.rows
        made.layers += _together(layer, bags)
    return made.pruned()


def _together(loop: Layer, bags: _Bags) -> list[Layer]:
    steps: list[tuple[str, Any, tuple[str, ...]]] = [
        ("length", Unsqueeze((0,)), (bags.length,)),
        ("shape", Concat(0), (_ANY, f"{loop.name}/length")),
        ("rows", Reshape(reads=("shape",)), (bags.indices, f"{loop.name}/shape")),
        ("picked", bags.gather.primitive, (bags.table, f"{loop.name}/rows")),
    ]
    layers = [Layer(f"{loop.name}/{n}", p, x, (f"{loop.name}/{n}",), loop.origin, loop.annotation) for n, p, x in steps]
    reduce = Reduce(bags.function, (1,), keepdims=False)
    return [*layers, replace(loop, primitive=reduce, inputs=(f"{loop.name}/picked",))]


def _bags(outer: Makers, loop: Layer) -> _Bags | None:
    """Return what *loop* sums where each trip reduces one bag, and the bags are rows of the indices."""
    p: Any = loop.primitive
    if not isinstance(p, Loop) or p.carried or len(p.scanned) != 1 or not (p.counted and p.conditional):
        return None
    inner, (trip, _, *names) = Makers.of(p.body), p.body.inputs
    (_, condition), (_, result) = p.body.outputs
    around = dict(zip(names, loop.inputs[2:], strict=True))
    reduced, picked = inner.find(result, "reduce"), inner.find(result, "reduce", "gather")
    if reduced is None or picked is None or not inner.holds(condition, 1) or not outer.holds(loop.inputs[1], 1):
        return None
    r: Any = reduced.primitive
    if r.function not in _REDUCTIONS or r.keepdims or len(reduced.inputs) != 2 or not inner.holds(reduced.inputs[1], 0):
        return None
    table, part = picked.inputs[0], inner.find(picked.inputs[1], "slice")
    rows, picking = inner.constants.get(table), cast("Gather", picked.primitive)
    if rows is None or outer.constants.get(table, rows) is not rows or table in outer.layers or picking.axis:
        return None
    if part is None or len(part.inputs) != 4 or not inner.holds(part.inputs[3], 0):
        return None
    places = [_of_trip(inner, name, trip) for name in part.inputs[1:3]]
    flat, starts, ends = (around.get(name or "", "") for name in (part.inputs[0], *places))
    found = _rows(outer, loop.inputs[0], flat, starts, ends)
    return None if found is None else _Bags(*found, table, rows, picked, r.function)


def _of_trip(inner: Makers, name: str, trip: str) -> str | None:
    """Return what *name* is the element of whose place is the number of the trip."""
    wide, element = inner.find(name, "unsqueeze"), inner.find(name, "unsqueeze", "gather")
    return element.inputs[0] if wide and element and element.inputs[1] == trip else None


def _rows(outer: Makers, trips: str, flat: str, starts: str, ends: str) -> tuple[str, str] | None:
    """Return names of the indices whose rows are the bags from *starts* to *ends* of *flat*, and of a row's length."""
    reshape, joined, cut = outer.find(flat, "reshape"), outer.find(starts, "concat"), outer.find(ends, "slice")
    if reshape is None or joined is None or cut is None or not outer.holds(reshape.inputs[1], -1):
        return None
    x, (places, *rest) = reshape.inputs[0], joined.inputs
    behind = cut.inputs[0] == starts and outer.holds(cut.inputs[1], 1) and outer.holds(cut.inputs[2], _END)
    each = outer.find(trips, "gather", "shape")
    whole = len(rest) == 1 and outer.find(rest[0], "unsqueeze", "gather", "shape")
    if not behind or each is None or each.inputs[0] != ends or not whole or whole.inputs[0] != flat:
        return None
    spaced = outer.find(places, "sequence")
    if spaced is None or not outer.holds(spaced.inputs[0], 0):
        return None
    count, length = outer.find(spaced.inputs[1], "reduce"), outer.find(spaced.inputs[2], "gather")
    kinds = ("reduce", "gather")
    shapes = [outer.find(name, kind, "shape") for name, kind in zip(spaced.inputs[1:], kinds, strict=True)]
    if count is None or length is None or any(s is None or s.inputs[0] != x for s in shapes):
        return None
    c: Any = count.primitive
    whole_count = c.function == "prod" and not c.keepdims and len(count.inputs) == 1 and not c.axes
    return (x, length.outputs[0]) if whole_count and outer.holds(length.inputs[1], 1) else None
