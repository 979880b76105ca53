"""Loops whose trips are known when they start, run in blocks of trips: strip mining.

What a run tells before the first trip (counters, conditions on them, slices by them) is computed for all trips at once,
or found from the last run. The rest of the body is written out for a block of trips, a program like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.gathered import Gathered
from clgraph.graph.interpret import Blocks, RunBody, compute, interpret
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.refusals import one_line
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.ops.gather import Gather
from clgraph.ops.loop_induction import InductionVariables, induction_variables
from clgraph.ops.loop_trips import LoopBody

BLOCKS = (16, 4, 1)
"""Trips of a block, from the most."""

FEWEST_TRIPS = 8
"""Trips from which a loop runs in blocks: the first run compiles them."""

MOST_TRIPS = 1 << 12
"""Trips up to which all that is known of them is held at once."""

_MOST_LAYERS = 64
"""Of a body: a large one keeps a device busy trip by trip."""

_SMALL = 16
"""Elements of a value, of integers or bools, that may decide about trips."""

_KEPT = 16
"""Runs whose counters are kept."""

_MOST_SHAPES = 256
"""Shapes of which is kept whether carried values keep theirs."""


@frozen
class _Trips:
    """What is known of a run before it starts.

    Attributes:
        count: Of the trips.
        columns: Values of each trip, and constants as often, by name.
        last: Carried values behind the last trip by name.
    """

    count: int
    columns: Mapping[str, Sequence[Array]]
    last: Mapping[str, Array]


class LoopBlocks(Blocks):
    """A loop as blocks of its trips.

    Attributes:
        bodies: The blocks that have been made, by their number of trips.
    """

    def __init__(self, body: LoopBody, counted: bool, conditional: bool, induction: InductionVariables) -> None:
        """Take the *induction* variables of a loop whose first inputs are the trip count and the condition."""
        self._body, self._counted, self._conditional, self._induction = body, counted, conditional, induction
        gone = {*induction.names, *(name for cut in induction.cuts for name in cut.outputs)}
        self._layers = [layer for layer in body.topology.layers if gone.isdisjoint(layer.outputs)]
        nexts = dict(zip(body.carried, body.next, strict=True))
        others = [name for name in body.carried if name not in induction.states]
        self._flowing = tuple(name for name in others if nexts[name] != name)
        wanted = {*(stacked.name for stacked in body.scanned), *(nexts[name] for name in self._flowing)}
        wanted.update(name for layer in self._layers for name in layer.inputs)
        self._rows = tuple(sorted(gone & wanted))
        self._around = tuple(n for n in (*others, *body.around) if n in wanted and n not in self._flowing)
        self._runs: OrderedDict[Hashable, _Trips | str] = OrderedDict()
        self._steady: dict[Hashable, bool] = {}
        self.bodies: dict[int, Topology] = {}

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...] | str:
        """Return the results of the loop, the reason where it has to run trip by trip; *run* runs a block."""
        trips = int(inputs[0].item(0)) if self._counted else None
        if trips is not None and trips < FEWEST_TRIPS:  # few take less than what follows
            return f"{max(trips, 0)} trips are fewer than {FEWEST_TRIPS}"
        start = self._counted + self._conditional
        values = dict(zip((*self._body.carried, *self._body.around), inputs[start:], strict=True))
        if not all(type(a) is np.ndarray for a in values.values()):
            return "it takes other values than tensors"
        known = self._trips_of(values, not self._conditional or bool(np.ravel(inputs[start - 1])[0]), trips)
        if isinstance(known, str):
            return known
        if known.count < FEWEST_TRIPS:
            return f"{known.count} trips are fewer than {FEWEST_TRIPS}"
        try:
            rows = self._rows_of(values, known)
        except Exception as error:  # references may raise of any class
            pass_on(error)
            return f"what its trips cut does not stack: {one_line(error)}"
        state = {name: values[name] for name in self._flowing}
        around = {name: values[name] for name in self._around}
        if not self._is_steady(state, rows, around):
            return "a value that it carries changes its shape or its type"
        columns: list[list[Array]] = [[] for _ in self._body.scanned]
        gathered, start = Gathered("the scanned results"), 0
        for size in BLOCKS:
            while known.count - start >= size:
                cut = {f"{name}/rows": array[start : start + size] for name, array in rows.items()}
                made = run(self._block(size), {**state, **cut, **around})
                state = {name: made[name] for name in self._flowing}
                for i, column in enumerate(columns):
                    column.append(made[f"scanned_{i}"])
                gathered.add(column[-1] for column in columns)
                start += size
        last = {**values, **known.last, **state}
        turned = (column[::-1] if s.reverse else column for column, s in zip(columns, self._body.scanned, strict=True))
        stacks = (np.concatenate(c, s.axis) for c, s in zip(turned, self._body.scanned, strict=True))
        return (*(last[name] for name in self._body.carried), *stacks)

    def _trips_of(self, values: Mapping[str, Array], going: bool, trips: int | None) -> _Trips | str:
        first = {name: values[name] for name in self._induction.trip.inputs if name in values}
        if any(array.size > _SMALL or array.dtype.kind not in "iub" for array in first.values()):
            return "its condition depends on data"
        key = trips, going, tuple((a.shape, a.dtype, a.tobytes()) for a in first.values())
        if key not in self._runs:
            self._runs[key] = self._decided(first, going, trips)
            if len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]

    def _decided(self, first: Mapping[str, Array], going: bool, trips: int | None) -> _Trips | str:
        """Compute what is known of a run, trip by trip."""
        body, induction = self._body, self._induction
        nexts = dict(zip(body.carried, body.next, strict=True))
        feeds, count = dict(first), 0
        columns: dict[str, list[Array]] = {}
        while going and (trips is None or count < trips):
            if count == MOST_TRIPS:
                return f"it makes more than {MOST_TRIPS} trips"
            feeds[body.trip] = np.array(count, np.int64)
            try:
                values = {**induction.trip.constants, **feeds, **interpret(induction.trip, feeds)}
            except ClgraphError as error:
                return f"what it counts with is refused: {one_line(error)}"
            for name, value in values.items():
                columns.setdefault(name, []).append(np.asarray(value))
            going = bool(np.ravel(values[body.goes_on])[0])
            feeds.update([(name, np.asarray(values[nexts[name]])) for name in induction.states])
            count += 1
        return _Trips(count, columns, {name: feeds[name] for name in induction.states})

    def _rows_of(self, values: Mapping[str, Array], known: _Trips) -> dict[str, Array]:
        """Return the values of all trips, stacked; raises where those of some trips have other shapes."""
        found = {name: np.stack(known.columns[name]) for name in self._rows if name in self._induction.names}
        for cut in self._induction.cuts:
            x, places = values[cut.inputs[0]], [known.columns[name] for name in cut.inputs[1:]]
            if isinstance(cut.primitive, Gather) and not places[0][0].ndim:
                picked = cut.primitive.reference(x, np.stack(places[0]))[0]
                found[cut.outputs[0]] = np.ascontiguousarray(np.moveaxis(picked, cut.primitive.axis, 0))
            elif (windows := _windows(cut.primitive, x, places)) is not None:
                found[cut.outputs[0]] = windows
            else:
                pieces = [compute(cut.primitive, [x, *place])[0] for place in zip(*places, strict=True)]
                found[cut.outputs[0]] = np.stack(pieces)
        return found

    def _is_steady(self, state: Mapping[str, Array], rows: Mapping[str, Array], around: Mapping[str, Array]) -> bool:
        """Whether the carried values keep their shapes and types from trip to trip."""
        feeds = {**state, **{f"{name}/rows": a[:1] for name, a in rows.items()}, **around}
        key = tuple((a.shape, a.dtype) for a in feeds.values())
        if key not in self._steady:
            if len(self._steady) == _MOST_SHAPES:
                self._steady.clear()
            block = self._block(1)
            typed = {name: Signature(name, DType.of(a.dtype), a.shape) for name, a in feeds.items()}
            try:
                made = dict(replace(block, inputs=typed).build().outputs)
                kept = all(made[n].layout.shape == a.shape for n, a in state.items())
                self._steady[key] = kept and all(made[n].layout.dtype == DType.of(a.dtype) for n, a in state.items())
            except ClgraphError:
                self._steady[key] = False
        return self._steady[key]

    def _block(self, trips: int) -> Topology:
        """Return the layers of a block; they take and make the carried values, and take those of its trips in rows."""
        if trips in self.bodies:
            return self.bodies[trips]
        body, made = self._body, Topology(op_types=self._body.topology.op_types)
        rows = [f"{name}/rows" for name in self._rows]
        for name in (*self._flowing, *rows, *self._around):
            made.input(name, None, None)
        names = {name: name for name in (*self._flowing, *self._around)}
        names |= {name: made.constant(name, array) for name, array in body.topology.constants.items()}
        names[body.condition] = made.constant(body.condition, np.array(True))
        steady = {*self._around, *body.topology.constants}

        def begin(trip: int) -> None:
            place = made.constant(f"trip_{trip}", np.array(trip, np.int64))
            for name in self._rows:
                names[name] = made.add(f"trip_{trip}/{name}", Gather(0), f"{name}/rows", place)

        body.write(made, self._layers, names, steady, range(trips), begin)
        made.label = f"{trips}_trips_"
        self.bodies[trips] = made.pruned()
        return self.bodies[trips]


def _windows(primitive: Primitive, x: Array, places: Sequence[Sequence[Array]]) -> Array | None:
    """Return what every trip slices of x, stacked, where all slice as much of one axis and nothing across its ends."""
    reads = getattr(primitive, "reads", ())
    if reads[:2] != ("starts", "ends") or any(a.size != 1 for column in places for a in column):
        return None
    columns = {name: np.array([int(a.item()) for a in column]) for name, column in zip(reads, places, strict=True)}
    starts, ends, axes = columns["starts"], columns["ends"], columns.get("axes", np.zeros(1, np.int64))
    counts, axis = ends - starts, int(axes[0])
    if not -x.ndim <= axis < x.ndim or (axes != axis).any() or (columns.get("steps", np.ones(1)) != 1).any():
        return None
    if (counts != counts[0]).any() or counts[0] < 1 or starts.min() < 0 or ends.max() > x.shape[axis]:
        return None
    axis += x.ndim if axis < 0 else 0
    picked = x.take(starts[:, None] + np.arange(counts[0]), axis)
    return np.ascontiguousarray(np.moveaxis(picked, axis, 0))


def blocks_of(body: LoopBody, counted: bool, conditional: bool) -> LoopBlocks | str:
    """Return the blocks of a loop with *body*; where it can only run trip by trip, the reason."""
    if (count := len(body.topology.layers)) > _MOST_LAYERS:
        return f"a body of {count} layers keeps a device busy"
    induction = induction_variables(body)
    return induction if isinstance(induction, str) else LoopBlocks(body, counted, conditional, induction)
