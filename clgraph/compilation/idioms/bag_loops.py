"""Bags of embeddings that a loop makes: one in each trip, as PyTorch's tracing exporter writes EmbeddingBag.

The places of bags are a sequence up to the count of the indices ``[bags, length]``, so that bags are rows of these.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from clgraph.compilation.idioms.bags import Bags, reduction
from clgraph.compilation.idioms.producers import Producers
from clgraph.graph.layer import Layer
from clgraph.ops.gather import Gather
from clgraph.ops.loop import Loop

_END = np.iinfo(np.int64).max
"""The end of a slice that takes all."""


def bags_of_loop(outer: Producers, loop: Layer) -> Bags | None:
    """Return what *loop* sums where each trip reduces one bag, and the bags are rows of the indices."""
    p: Any = loop.primitive
    if not isinstance(p, Loop) or p.carried or len(p.scanned) != 1 or not (p.counted and p.conditional):
        return None
    inner, (trip, _, *names) = Producers.of(p.body), p.body.inputs
    (_, condition), (_, result) = p.body.outputs
    around = dict(zip(names, loop.inputs[2:], strict=True))
    reduced, picked = inner.find(result, "reduce"), inner.find(result, "reduce", "gather")
    if reduced is None or picked is None or not inner.holds(condition, 1) or not outer.holds(loop.inputs[1], 1):
        return None
    if (function := reduction(inner, reduced, keepdims=False)) is None:
        return None
    table, part = picked.inputs[0], inner.find(picked.inputs[1], "slice")
    entries, gather = inner.constants.get(table), cast("Gather", picked.primitive)
    if entries is None or outer.constants.get(table, entries) is not entries or table in outer.layers or gather.axis:
        return None
    if part is None or len(part.inputs) != 4 or not inner.holds(part.inputs[3], 0):
        return None
    places = [_of_trip(inner, name, trip) for name in part.inputs[1:3]]
    flat, starts, ends = (around.get(name or "", "") for name in (part.inputs[0], *places))
    found = _rows(outer, loop.inputs[0], flat, starts, ends)
    return None if found is None else Bags(loop, loop, *found, function, gather, table, entries)


def _of_trip(inner: Producers, name: str, trip: str) -> str | None:
    """Return what *name* is the element of whose place is the number of the trip."""
    wide, element = inner.find(name, "unsqueeze"), inner.find(name, "unsqueeze", "gather")
    return element.inputs[0] if wide and element and element.inputs[1] == trip else None


def _rows(outer: Producers, trips: str, flat: str, starts: str, ends: str) -> tuple[str, str] | None:
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
