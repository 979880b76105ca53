"""Measuring one candidate on one problem: checked against the reference first, then timed as in a network."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clgraph.core.dtype import is_floating
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.network import Network
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import required_pipeline
from clgraph.passes.selection import Proposal, proposals
from clgraph.selector.query import Query

TOLERANCE = 1e-3
"""Error, relative to the largest value of a result, that rounding may explain; as in ``clgraph.debugging.compare``."""

FEWEST, MOST = 3, 9
"""Profiled runs of a candidate."""

HOPELESS = 8.0
"""Times the cheapest estimate, from where on a candidate is not measured."""

COLD_BYTES, COPIES = 64e6, 24
"""Constants that all copies of a node read together, and its most copies: constants come from memory in a network."""

MakeNetwork = Callable[[Program], Network]


@frozen
class Sample:
    """One implementation on one problem.

    Attributes:
        query: On the layouts that the implementation proposes.
        estimate: By the cost model in force, for the workers it is measured with.
        seconds: Measured; infinity where the results were wrong.
        error: Of the worst result, relative to its largest value.
        failure: Why it could not be measured; empty where it was.
    """

    query: Query[Any]
    implementation: str
    estimate: float
    seconds: float
    error: float = 0.0
    failure: str = ""

    @property
    def right(self) -> bool:
        """Whether it was measured, and its results are those of the reference."""
        return not self.failure and math.isfinite(self.seconds)


def profiled(network: Network, feeds: Mapping[str, Array]) -> Mapping[str, float]:
    """Return the seconds of each node of one run."""
    return network.profile(feeds).by_node()


@dataclass(frozen=True)
class Bench:
    """Measures candidates on one device.

    Attributes:
        context: What the passes look at; without the tuning in force.
        network: Binds a planned program to the device.
        clock: Returns the seconds of each node of one run, by name; replaced in tests.
    """

    context: Context
    network: MakeNetwork
    clock: Callable[[Network, Mapping[str, Array]], Mapping[str, float]] = profiled

    def candidates(self, q: Query[Any]) -> list[Proposal]:
        """Return what implementations propose for *q*, cheapest first.

        General ones count only without others, and what is estimated at many times the cheapest is left out: it
        would take most of the time.
        """
        offered = proposals(replace(self.context, forced={}), _node(q), q)
        special = [p for p in offered if not p.implementation.general] or list(offered)
        return [p for p in special if p.seconds <= HOPELESS * special[0].seconds]

    def expected(self, q: Query[Any]) -> tuple[list[Array], list[Array]]:
        """Return random inputs of *q* and the reference's results."""
        random = np.random.default_rng(0)
        arrays = [_random(random, x) for x in q.inputs]
        with np.errstate(all="ignore"):
            results = _node(q).reference(*arrays)
        return arrays, list(results)

    def measure(self, proposal: Proposal, arrays: Sequence[Array], expected: Sequence[Array]) -> Sample:
        """Return the sample of one candidate on the *arrays*; *expected* are the reference's results."""
        q, name = proposal.query, proposal.implementation.name
        estimate = proposal.implementation.predicted(q)
        try:
            program, names = _program(q, arrays)
            forced = dict.fromkeys(names, name)
            PassManager(required_pipeline()).run(program, replace(self.context, forced=forced))
            network = self.network(program)
            feeds = {f"in{i}": a for i, a in enumerate(arrays) if i not in q.constant}
            results = network.run(feeds)
            error = max(_error(results[f"{names[0]}/{i}"], want) for i, want in enumerate(expected))
            if not error <= TOLERANCE:
                return Sample(q, name, estimate, math.inf, error)
            return Sample(q, name, estimate, self._time(network, feeds, names), error)
        except ClgraphError as failure:
            return Sample(q, name, estimate, math.inf, failure=str(failure).splitlines()[0])

    def _time(self, network: Network, feeds: Mapping[str, Array], names: Sequence[str]) -> float:
        """Return the median over the copies of each one's shortest time; other programs only ever add to it."""
        best = dict.fromkeys(names, math.inf)
        stale = 0
        for run in range(MOST):
            times = self.clock(network, feeds)
            shorter = {n: times[n] for n in names if times[n] < 0.98 * best[n]}
            best.update(shorter)
            stale = 0 if shorter else stale + 1
            if run + 1 >= FEWEST and stale >= 2:
                break
        return statistics.median(best.values())


def _node(q: Query[Any]) -> Node:
    """Return a node with the query *q*, on values without data."""
    inputs = tuple(
        Value(f"in{i}", x, constant=np.empty(0) if i in q.constant else None) for i, x in enumerate(q.inputs)
    )
    outputs = tuple(Value(f"out{i}", x) for i, x in enumerate(q.outputs))
    return Node("node", q.primitive, inputs, outputs, q.arity, q.fused, origin=("node",), placement=q.device.name)


def _program(q: Query[Any], arrays: Sequence[Array]) -> tuple[Program, list[str]]:
    """Return copies of the node with the query *q*, each with its own constants, behind reorders; and their names."""
    plain = [Layout(x.dtype, x.shape) for x in q.inputs]
    moving = [i for i in range(len(arrays)) if i not in q.constant]
    inputs = {i: Value(f"in{i}", plain[i]) for i in moving}
    nodes, read = list[Node](), dict(inputs)
    for i in moving:
        if q.inputs[i] != plain[i]:
            layout = q.inputs[i]
            read[i] = Value(f"moved{i}", layout)
            change = Reorder(layout.dtype, layout.format, layout.halo)
            nodes.append(Node(f"move{i}", change, (inputs[i],), (read[i],), 1, origin=("node",)))
    own = sum(arrays[i].nbytes for i in q.constant)
    copies = max(1, min(COPIES, math.ceil(COLD_BYTES / own))) if own else 1
    names, results = [], []
    for copy in range(copies):
        # Equal constants would be shared: those of the copies are scaled a little.
        scale = 1 - copy / 64
        held = {i: _scaled(arrays[i], scale) for i in q.constant}
        values = tuple(
            Value(f"const{copy}_{i}", plain[i], constant=held[i]) if i in held else read[i] for i in range(len(arrays))
        )
        outputs = tuple(Value(f"copy{copy}/{i}", x) for i, x in enumerate(q.outputs))
        nodes.append(Node(f"copy{copy}", q.primitive, values, outputs, q.arity, q.fused, origin=("node",)))
        names.append(f"copy{copy}")
        results += [(v.name, v) for v in outputs]
    return Program([inputs[i] for i in moving], results, nodes), names


def _scaled(array: Array, scale: float) -> Array:
    return (array * array.dtype.type(scale)).astype(array.dtype) if is_floating(array.dtype) else array


def _random(random: np.random.Generator, layout: Layout) -> Array:
    """Return normal numbers, positive ones for vectors (which may be variances), indices 0 and 1."""
    if not layout.dtype.floating:
        return random.integers(0, 2, layout.shape).astype(layout.dtype.numpy)
    if layout.rank <= 1:
        return random.uniform(0.1, 1.1, layout.shape).astype(layout.dtype.numpy)
    return random.standard_normal(layout.shape, np.float32).astype(layout.dtype.numpy)


def _error(got: Array, want: Array) -> float:
    """Return the worst error relative to the largest finite value; infinity where one is NaN and the other is not.

    Floats that are rounded to bytes may be one step off: a value beside a half falls on either side.
    """
    if got.shape != want.shape or not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return math.inf
    finite = np.isfinite(want)
    if not finite.any():
        return 0.0
    exact = want[finite].astype(np.float64)
    step = float(want.dtype.kind in "iu" and want.dtype.itemsize == 1)
    return max(float(np.abs(got[finite] - exact).max()) - step, 0.0) / (float(np.abs(exact).max()) or 1.0)
