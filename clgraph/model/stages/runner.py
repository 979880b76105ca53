"""Runs a topology that was cut into pieces: compiled ones on the device, what is small or decides shapes on the host.

A piece that can be compiled is run by the primitives' references instead where a run of it costs less arithmetic than
``HOST_OPERATIONS`` and it reads fewer constants than ``HOST_CONSTANTS``: its shapes are others in nearly every run, and
to compile it for them would take longer by far.
"""

from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import mutable
from clgraph.errors import UnsupportedError
from clgraph.graph.host_types import kind_of
from clgraph.graph.interpret import Blocks, ControlFlow, check_kinds, interpret
from clgraph.graph.refusals import one_line
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.stages.handing import array_of, handed_out
from clgraph.model.stages.host_plan import HostPlans
from clgraph.model.stages.preferences import NO_PREFERENCES, Preferences
from clgraph.model.stages.sizes import fits, passed_on
from clgraph.model.stages.split import Piece, split
from clgraph.network.cancelling import Cancellation
from clgraph.network.profile import NodeTime
from clgraph.network.watch import Watcher

HOST_OPERATIONS = 4e6
"""Arithmetic of a piece up to which the host computes it: some milliseconds; see ``docs/decisions``."""

HOST_CONSTANTS = 1 << 20
"""Bytes of constants in a piece up to which the host computes it: the references of products convert them in each run,
a program packs them once.
"""

_log = logging.getLogger(__name__)

MakeModel = Callable[[Topology], Model]
"""Makes an ordinary model of a topology."""

Sizes = Callable[[], Mapping[str, Signature]]
"""Tells types and shapes of values; asked when a piece is compiled behind others."""


class _TooMuch(BaseException):
    """A run costs more than the host is to spend on it: a signal from its middle, which nothing takes for an error."""


@mutable
class StageClock:
    """What a profiled run has found so far: the commands of each piece, each from the run's begin."""

    begin: float
    commands: list[NodeTime] = field(default_factory=list)


@mutable
class Recorder:
    """The models that a run has used, with what each was given, in order."""

    calls: list[tuple[Model, Mapping[str, Any]]] = field(default_factory=list)


StageObserver = StageClock | Recorder | Watcher
"""Who is told of the nodes of a run."""


class PieceRunner:
    """One piece and what it has been compiled to.

    Attributes:
        latest: The model that ran it last, ``None`` where that was the host; then ``on_host`` is true.
        operations: Arithmetic of the last run on the host.
    """

    def __init__(
        self,
        piece: Piece,
        make: MakeModel,
        *,
        always: bool,
        strict: bool,
        tensors: bool,
        preferences: Preferences,
        sizes: Sizes,
    ) -> None:
        """Take a piece.

        Args:
            always: Compile it, whatever its size.
            sizes: Tells what shapes earlier pieces make, as far as they are known.
            strict: Refuse what the host would have to compute.
            tensors: Leave results of the device there.
            preferences: Where its layers are to run; a piece with a device among them is always compiled.
        """
        preferences.check(piece)
        self.piece = piece
        self._make, self._tensors, self._wishes, self._sizes = make, tensors, preferences, sizes
        self._always = always or strict or (piece.compilable and preferences.name_device(piece))
        self._heavy = piece.compilable and sum(a.nbytes for a in piece.topology.constants.values()) > HOST_CONSTANTS
        self._models: dict[tuple[tuple[DType, ...], bool], Model] = {}
        self._bodies: dict[int, StageRunner] = {}
        self._blocks: dict[int, Blocks | str] = {}
        self._most = float("inf")
        self._plans = HostPlans(piece.topology)
        self._strict = strict
        self.latest: Model | None = None
        self.on_host = False
        self.operations = 0.0
        self._reasons: dict[int, str] = {}
        if strict and not piece.compilable:
            refused = [x for x in piece.topology.layers if not isinstance(x.primitive, ControlFlow)]
            if refused:
                names = ", ".join(f"{x.name!r} ({x.primitive.kind})" for x in refused)
                raise UnsupportedError(f"the host has to compute {names}, between stages, and strict refuses it")

    @property
    def models(self) -> tuple[Model, ...]:
        """What is compiled of the piece and of the bodies in it."""
        inner = (m for body in self._bodies.values() for piece in body.pieces for m in piece.models)
        return (*self._models.values(), *inner)

    @property
    def bodies(self) -> Mapping[int, StageRunner]:
        """What has run the bodies of control flow in the piece, by the identity of the topology."""
        return self._bodies

    def bodies_of_layers(self) -> Iterator[tuple[str, str, Topology]]:
        """Yield each body of control flow with the layer's name and its role; blocks of trips of loops, too."""
        for layer in self.piece.topology.layers:
            if isinstance(layer.primitive, ControlFlow):
                yield from ((layer.name, role, body) for role, body in layer.primitive.bodies().items())
                if isinstance(blocks := self._blocks.get(id(layer.primitive)), Blocks):
                    yield from ((layer.name, f"{trips} trips", body) for trips, body in blocks.bodies.items())

    def trip_by_trip(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each layer whose body last ran once a trip, with the reason."""
        for layer in self.piece.topology.layers:
            if reason := self._reasons.get(id(layer.primitive)):
                yield layer.name, reason

    def run(
        self, arrays: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return what the piece makes of *arrays*; raises as :meth:`Cancellation.check`."""
        feeds = {name: arrays[name] for name in self.piece.topology.inputs}
        if cancellation is not None:
            cancellation.check()
        if not self.piece.compilable:
            return self._on_host(feeds, watch, cancellation)
        size = float(sum(getattr(a, "size", 0) for a in feeds.values()))
        if not self._always and not self._heavy and size < self._most:
            try:
                return self._on_host(feeds, watch, cancellation)
            except _TooMuch:
                self._most = size
        return self._on_device(feeds, watch, cancellation)

    def _on_host(
        self, feeds: Mapping[str, Any], watch: StageObserver | None, cancellation: Cancellation | None
    ) -> dict[str, Any]:
        start = time.perf_counter()
        self.operations = 0.0

        def spend(operations: float) -> None:
            self.operations += operations
            if cancellation is not None:
                cancellation.check()
            if self.piece.compilable and self.operations > HOST_OPERATIONS:
                raise _TooMuch

        arrays = {name: array_of(a) for name, a in feeds.items()}
        results, failure = self._by_plan(arrays) if self.piece.compilable else (None, None)
        if results is None:
            execute = functools.partial(self._execute, watch=watch, cancellation=cancellation)
            results = interpret(self.piece.topology, arrays, spend, execute)
            if failure is not None:
                _log.warning(
                    "%s: its plan failed, and its layers are computed without: %s", self.piece.topology.label, failure
                )
        self.latest, self.on_host = None, True
        if isinstance(watch, StageClock) and (self.piece.compilable or not self._bodies):
            end = time.perf_counter()
            watch.commands.append(_host_time(self.piece, start - watch.begin, end - start, self.operations))
        return results

    def _by_plan(self, arrays: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
        """Return the results by a plan, if there is one, and what it raised: ``interpret`` names the layer, or none."""
        plan = self._plans.find(arrays)
        if plan is None:
            return None, None
        try:
            results = plan.run(list(arrays.values()))
        except Exception as error:  # references may raise of any class
            return None, one_line(error)
        self.operations = plan.operations
        return results, None

    def _execute(
        self,
        primitive: ControlFlow,
        inputs: Sequence[Any],
        watch: StageObserver | None,
        cancellation: Cancellation | None,
    ) -> tuple[Any, ...]:
        """Compute control flow in blocks of trips where it can be, else body by body."""
        run = functools.partial(self._run_body, watch=watch, cancellation=cancellation)
        if id(primitive) not in self._blocks:
            self._blocks[id(primitive)] = primitive.blocks()
        blocks = self._blocks[id(primitive)]
        results = blocks if isinstance(blocks, str) else blocks.execute(inputs, functools.partial(run, whole=True))
        if not isinstance(results, str):
            self._reasons.pop(id(primitive), None)
            return results
        self._reasons[id(primitive)] = results
        return primitive.execute(inputs, run)

    def _run_body(
        self,
        body: Topology,
        feeds: Mapping[str, Any],
        watch: StageObserver | None = None,
        cancellation: Cancellation | None = None,
        whole: bool = False,
    ) -> dict[str, Any]:
        if id(body) not in self._bodies:
            self._bodies[id(body)] = StageRunner(
                body,
                self._make,
                strict=self._strict,
                tensors=self._tensors,
                preferences=self._wishes,
                whole=whole,
                label=f"{self.piece.topology.label}_{self._role(body)}_",
            )
        results = self._bodies[id(body)].run(feeds, watch, cancellation)
        return {name: array_of(a) for name, a in results.items()}

    def _role(self, body: Topology) -> str:
        """Return the name of the node that has *body*, as far as folders can have it, and the body's."""
        for layer, role, found in self.bodies_of_layers():
            if found is body:
                return re.sub(r"[^\w.-]+", "_", f"{layer}_{role}")
        return "body"

    def _on_device(
        self, feeds: Mapping[str, Any], watch: StageObserver | None, cancellation: Cancellation | None
    ) -> dict[str, Any]:
        self.on_host = False
        self._refuse_host_values(feeds)
        known = {name: s for name, s in self._sizes().items() if name in feeds}
        dtypes = tuple(DType.of(a.dtype) for a in feeds.values())
        model = self.latest = self._model(dtypes, known if fits(known, feeds) else {})
        if isinstance(watch, StageClock):
            start = time.perf_counter() - watch.begin
            watch.commands += [replace(c, start=c.start + start) for c in model.profile(feeds).commands]
        elif isinstance(watch, Recorder):
            watch.calls.append((model, {name: array_of(a) for name, a in feeds.items()}))
        elif watch is not None:
            return model.watch(feeds, watch)
        return model.run(feeds, tensors=self._tensors, cancellation=cancellation)

    def _refuse_host_values(self, feeds: Mapping[str, Any]) -> None:
        """Raise ``ShapeError`` where a sequence, say, comes for a compiled layer: all of them take tensors only."""
        others = {name: value for name, value in feeds.items() if kind_of(value) != "a tensor"}
        for layer in self.piece.topology.layers if others else ():
            check_kinds(layer, [others.get(name, 0) for name in layer.inputs])

    def take_over(self, other: PieceRunner) -> None:
        """Clone what *other* has compiled of the same piece."""
        self._models = {key: model.clone() for key, model in other._models.items()}
        self._most = other._most

    def front(self) -> Model | None:
        """Return the model of a piece that is always compiled and reads inputs of declared types; else ``None``."""
        dtypes = tuple(s.dtype for s in self.piece.topology.inputs.values() if s.dtype is not None)
        whole = len(dtypes) == len(self.piece.topology.inputs)
        return self._model(dtypes, {}) if self._always and whole else None

    def _model(self, dtypes: tuple[DType, ...], known: Mapping[str, Signature]) -> Model:
        """Return the model for inputs of *dtypes*, which a piece without declared ones learns from its first run.

        Args:
            known: Inputs whose shapes are those that earlier pieces are known to make.
        """
        key = dtypes, bool(known)
        if key not in self._models:
            topology = self.piece.topology
            pairs = zip(topology.inputs.values(), dtypes, strict=True)
            inputs = {s.name: replace(known.get(s.name, s), dtype=d) for s, d in pairs}
            self._models[key] = self._make(replace(topology, inputs=inputs))
        return self._models[key]


class StageRunner:
    """A topology cut into pieces, and what each piece has been compiled to.

    Attributes:
        pieces: In the order in which they run.
    """

    def __init__(
        self,
        topology: Topology,
        make: MakeModel,
        *,
        strict: bool,
        tensors: bool,
        preferences: Preferences = NO_PREFERENCES,
        whole: bool = True,
        label: str = "",
    ) -> None:
        """Cut *topology*.

        Args:
            make: Makes an ordinary model of a piece.
            strict: Refuse what the host would have to compute.
            tensors: Leave what compiled pieces make on the device.
            preferences: Where layers are to run.
            whole: It is a model, not a body: what reads its inputs alone is compiled, whatever its size.
            label: What dumps call a body.
        """
        self.topology = topology
        pieces = split(topology, body=not whole, label=label)
        first = [piece.compilable and set(piece.topology.inputs) <= set(topology.inputs) for piece in pieces]
        self._sizes: Mapping[str, Signature] | None = None
        self.pieces = tuple(
            PieceRunner(
                piece,
                make,
                always=whole and is_first,
                strict=strict,
                tensors=tensors,
                preferences=preferences,
                sizes=dict if is_first else self._passed_on,
            )
            for piece, is_first in zip(pieces, first, strict=True)
        )

    def run(
        self, feeds: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name; they may be memory of *feeds*, or of one another."""
        values: dict[str, Any] = {**self.topology.constants, **feeds}
        for piece in self.pieces:
            values.update(piece.run(values, watch, cancellation))
        return {name: values[source] for name, source in self.topology.outputs}

    def run_whole(
        self, feeds: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name, each in memory of its own."""
        results = self.run(feeds, watch, cancellation)
        made = {name for piece in self.pieces if not piece.on_host for name, _ in piece.piece.topology.outputs}
        seen: set[int] = set()
        for name, source in self.topology.outputs:
            if source not in made or id(results[name]) in seen:
                results[name] = handed_out(results[name])
            seen.add(id(results[name]))
        return results

    def take_over(self, other: StageRunner) -> None:
        """Clone what *other* has compiled of the same topology."""
        self._sizes = other._sizes
        for mine, theirs in zip(self.pieces, other.pieces, strict=True):
            mine.take_over(theirs)

    def _passed_on(self) -> Mapping[str, Signature]:
        """Return what is known of the shapes that the pieces make, found out once."""
        if self._sizes is None:
            self._sizes = passed_on([runner.piece for runner in self.pieces])
        return self._sizes


def _host_time(piece: Piece, start: float, seconds: float, operations: float) -> NodeTime:
    names = [layer.name for layer in piece.topology.layers]
    origin = tuple(dict.fromkeys(name for layer in piece.topology.layers for name in layer.origin))
    kind = piece.topology.layers[0].primitive.kind if len(names) == 1 else "stage"
    label = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return NodeTime(label, origin, kind, "host.reference", "host", "host", start, seconds, 0, operations)
