"""Rows in the order of the experts that they choose: runs of rows that have one expert, as many for any choice."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composition
from clgraph.ops.activation import Activation
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.slice import Slice
from clgraph.ops.where import Where

_SIZES = (8, 64)
"""Fewest and most rows of a run."""


@frozen
class ExpertRows:
    """Runs of *size* rows; those behind an expert's last row are row 0, and nobody's.

    Attributes:
        runs: How many: at most one an expert is not whole.
        rows: Which row stands at each place ``[runs * size]``.
        experts: Whose the runs are ``[runs]``; those behind all are the last one's.
        places: Where each choice ``[rows * k]`` stands.
    """

    size: int
    runs: int
    rows: str
    experts: str
    places: str


def sizes_of(pairs: int, experts: int) -> tuple[int, int]:
    """Return the rows of a run, about as many as an expert has, and the runs that any choice of *pairs* fits in."""
    size = min(max(1 << (max(pairs // experts, 1).bit_length() - 1), _SIZES[0]), _SIZES[1])
    return size, pairs // size + min(experts, pairs)


def rows_by_expert(c: Composition, chosen: str, experts: int) -> ExpertRows:
    """Return the runs for the experts *chosen* ``[rows, k]``.

    Places are counted in float32, which is exact up to 2^24.
    """
    rows, k = c.layout(chosen).shape
    pairs = rows * k
    size, runs = sizes_of(pairs, experts)

    def number(value: float) -> str:
        return c.constant(np.array(value, np.float32))

    flat = c.add(Reshape((pairs, 1), zero_is_zero=True), chosen)
    same = c.add(Eltwise("equal"), flat, c.constant(np.arange(experts)[None]))
    own = c.add(Where(), same, number(1), number(0))
    ranks = c.add(CumulativeSum(0), own)
    counts = c.add(Slice((pairs - 1,), (pairs,), axes=(0,)), ranks)
    whole = c.add(Activation("ceil"), c.add(Eltwise("mul"), counts, number(1 / size)))
    ends = c.add(CumulativeSum(1), whole)
    starts = c.add(Eltwise("mul"), c.add(Eltwise("sub"), ends, whole), number(size))
    behind = c.add(Eltwise("sub"), c.add(Eltwise("add"), ranks, starts), number(1))
    found = c.add(Reduce("sum", (1,)), c.add(Eltwise("mul"), own, behind))
    places = c.add(Reshape((pairs,), zero_is_zero=True), c.add(Reorder(DType.I64), found))
    none = c.add(Fill(0, DType.I64, (runs * size,)))
    at = c.add(ScatterElements(0), none, places, c.constant(np.repeat(np.arange(rows), k)))
    past = c.add(Eltwise("less_equal"), ends, c.constant(np.arange(runs, dtype=np.float32)[:, None]))
    passed = c.add(Reduce("sum", (1,)), c.add(Where(), past, number(1), number(0)))
    last = c.add(Eltwise("min"), c.add(Reshape((runs,), zero_is_zero=True), passed), number(experts - 1))
    return ExpertRows(size, runs, at, c.add(Reorder(DType.I64), last), places)
