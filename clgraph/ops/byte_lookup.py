"""A function of a byte as a table of its 256 values: what activations of quantised values are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, PostOperation, Primitive, primitive
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

ENTRIES = 256
BYTES = frozenset({DType.I8, DType.U8})


@primitive
@frozen
class ByteLookup(Primitive):
    """``y = table[x]`` by the bits of x. Inputs: x in U8 or I8, a table of 256 U8 or I8, the type of y."""

    kind: ClassVar[str] = "byte_lookup"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, entries = inputs
        if x.dtype not in BYTES or entries.dtype not in BYTES or entries.shape != (ENTRIES,):
            raise ShapeError(f"requires bytes and a table of {ENTRIES} bytes, not {x} and {entries}")
        return (replace(x.plain(), dtype=entries.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, entries = inputs
        return (np.asarray(entries[x.view(np.uint8)]),)

    def as_post(self, slot: int) -> PostOperation | None:
        return None if slot else PostOperation("lookup")


@implements(ByteLookup, name="byte_lookup.ref", serves=Serves(dtypes=BYTES, mixed=True, formats=True), general=True)
class ByteLookupRef(General[ByteLookup]):
    """One work-item an element, axes in any order."""

    orders = True

    @classmethod
    def further_limits(cls, q: Query[ByteLookup]) -> str | None:
        return None if q.own[1].is_dense_plain else "requires the table side by side"

    @classmethod
    def plan(cls, q: Query[ByteLookup]) -> Plan:
        (x, _), (y,) = q.own, q.outputs
        s = space(y.shape, [View.of(y), View.of(x)], [sorted(range(y.rank), key=lambda axis: -y.all_pitches[axis])])
        jit = Jit().define(RANK=len(s.dims))
        numbers = table(s.dims, *s.views)
        return Plan((launch("byte_lookup/byte_lookup_ref", jit, y.count, "in0", "in1", "out0", numbers),))
