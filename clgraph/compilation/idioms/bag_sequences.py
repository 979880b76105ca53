"""Bags of embeddings that a sequence holds: a loop appends each, as torch.export's exporter writes EmbeddingBag.

The places where bags begin are confirmed by numbers: for two choices of open sizes they are those of bags of one length
that make up all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.compilation.idioms.bags import Bags, reduction
from clgraph.compilation.idioms.producers import Producers
from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.if_else import IfElse
from clgraph.ops.loop import Loop

_SIZES = ((3, 5, 7, 11, 13, 17), (17, 13, 11, 7, 5, 3))
"""Sizes that dimensions of the inputs have for it."""


@frozen
class SequenceBags:
    """Bags with the name of their *places*: of where they begin and the last ends."""

    bags: Bags
    places: str


def confirmed(topology: Topology, found: Sequence[SequenceBags]) -> Iterator[Bags]:
    """Yield those of *found* that are of one length and make up all rows, whatever the open sizes."""
    if not found:
        return
    read = dict.fromkeys(name for x in found for name in (x.bags.rows, x.places, x.bags.length))
    small = replace(topology, outputs=[(name, name) for name in read]).pruned()
    declared = {name: x.shape for name, x in small.inputs.items() if x.shape is not None and None not in x.shape}
    names = dict.fromkeys(d for shape in declared.values() for d in shape if isinstance(d, str))
    if len(declared) < len(small.inputs) or len(names) > len(_SIZES[0]):
        return
    programs = []
    for sizes in _SIZES:
        chosen = dict(zip(names, sizes, strict=False))
        shapes = {
            name: tuple(chosen[d] if isinstance(d, str) else d for d in shape if d is not None)
            for name, shape in declared.items()
        }
        try:
            programs.append(dict(small.build(shapes).outputs))
        except ClgraphError:
            return
    for x in found:
        if all(_are_even(values[x.bags.rows], values[x.places], values[x.bags.length]) for values in programs):
            yield x.bags


def _are_even(rows: Any, places: Any, length: Any) -> bool:
    if rows.layout.rank != 2 or places.constant is None or length.constant is None or length.constant.ndim:
        return False
    count, each = rows.layout.shape[0], int(length.constant)
    return each > 0 and count % each == 0 and np.array_equal(places.constant, np.arange(0, count + 1, each))


def bags_of_sequence(topology: Topology, outer: Producers, loop: Layer) -> SequenceBags | None:
    """Return what *loop* sums where each trip appends the sum of one bag to a sequence, of all bags."""
    p: Any = loop.primitive
    if not isinstance(p, Loop) or p.carried != 2 or p.counted or not p.conditional or p.scanned:
        return None
    condition, first, empty, *given = loop.inputs
    inner, (_, _, index, sequence, *names) = Producers.of(p.body), p.body.inputs
    around = dict(zip(names, given, strict=True))
    (_, going), (_, following), (_, made) = p.body.outputs
    begin, more = outer.function(condition, "less"), inner.function(going, "less")
    appended, joined = inner.find(made, "sequence_insert"), _joined(topology, loop)
    if begin is None or more is None or appended is None or joined is None or len(appended.inputs) != 2:
        return None
    starts = outer.find(empty, "sequence_construct")
    counted = (
        outer.holds(first, 0) and outer.holds(begin.inputs[0], 0) and around.get(more.inputs[1]) == begin.inputs[1]
    )
    stepped = more.inputs[0] == following and inner.adds(following, index, 1)
    if starts is None or starts.inputs or not counted or not stepped or appended.inputs[0] != sequence:
        return None
    part = _part(inner, appended.inputs[1], index)
    size, places = outer.find(begin.inputs[1], "size"), outer.find(around.get(part[1] if part else "", ""), "concat")
    if part is None or size is None or places is None or places.inputs[0] != size.inputs[0]:
        return None
    spaced = outer.find(size.inputs[0], "sequence")
    if spaced is None or part[0] not in around:
        return None
    bags = Bags(loop, joined, around[part[0]], spaced.inputs[2], part[2])
    return SequenceBags(bags, places.outputs[0])


def _joined(topology: Topology, loop: Layer) -> Layer | None:
    """Return what joins the sequence that *loop* makes, where nothing else reads what it makes."""
    readers = [x for x in topology.layers if not set(x.inputs).isdisjoint(loop.outputs)]
    if len(readers) != 1 or any(value in loop.outputs for _, value in topology.outputs):
        return None
    p: Any = readers[0].primitive
    along = p.kind == "concat_from_sequence" and p.axis == 0 and not getattr(p, "new_axis", False)
    return readers[0] if along and readers[0].inputs == (loop.outputs[1],) else None


def _part(inner: Producers, row: str, index: str) -> tuple[str, str, str] | None:
    """Return names of the rows and of the places of bags, and the function of the rows between two of them.

    Empty bags, which have a branch of their own, are none of one length.
    """
    branch = inner.layers.get(row)
    if branch is None or not isinstance(branch.primitive, IfElse):
        return None
    equal, body = inner.function(branch.inputs[0], "equal"), branch.primitive.bodies()["else"]
    within, named = Producers.of(body), dict(zip(body.inputs, branch.inputs[1:], strict=True))
    reduced, cut = (within.find(body.outputs[0][1], *kinds) for kinds in (("reduce",), ("reduce", "slice")))
    if equal is None or reduced is None or cut is None or len(cut.inputs) != 3:
        return None
    if (function := reduction(within, reduced, keepdims=True)) is None:
        return None
    rows, *ends = (named.get(name, "") for name in cut.inputs)
    bounds = [inner.find(name, "slice") for name in ends]
    if tuple(ends) != equal.inputs or any(x is None or len(x.inputs) != 3 for x in bounds):
        return None
    places = {x.inputs[0] for x in bounds if x is not None}
    shifts = [inner.shift(name, index) for x in bounds if x is not None for name in x.inputs[1:]]
    return (rows, places.pop(), function) if len(places) == 1 and shifts == [0, 1, 1, 2] else None
