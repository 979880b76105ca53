"""Programs that passes rewrite: their results in float64 stay, but for the order in which products are summed."""

from __future__ import annotations

import numpy as np

from clgraph.graph.program import Program
from clgraph.passes.base import Pass
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import Net, run
from tests.support.rounding import U32, bounds

U64 = 2.0**-53


def rewritten(net: Net, *outputs: str, by: Pass) -> Program:
    """Return what a pass makes of *net*, after comparing the first of *outputs* with what it was before.

    Both round, and each is as close to the exact value as the bounds of float32 say, in units of float64: they grow
    with the unit, or faster.
    """
    program, feeds = net.program(*outputs), random_feeds(net.build())
    first = outputs[0]
    before, allowed = run_reference(program, feeds, exact=True)[first], bounds(program, feeds, winograd=False)[first]
    assert allowed is not None, f"no rule says how {first!r} rounds"
    program = run(program, by)
    off = np.abs(run_reference(program, feeds, exact=True)[first] - before)
    assert (off <= 2 * allowed * (U64 / U32)).all(), f"{np.nanmax(off)} apart"
    return program
