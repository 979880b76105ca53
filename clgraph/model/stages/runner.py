"""Runs a topology that was cut into pieces: each on the device, or on the host where it is small or decides shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from clgraph.errors import UnsupportedError
from clgraph.graph.interpret import ControlFlow, Execute, Trip
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.stages.bodies import ByPlace, RunBodies, by_place
from clgraph.model.stages.compiled_piece import CompiledPiece, MakeModel, Sizes
from clgraph.model.stages.handing import array_of, handed_out, maps_of_a_run, nobody_elses
from clgraph.model.stages.host_layers import HostLayers
from clgraph.model.stages.host_piece import HostPiece, TooMuch
from clgraph.model.stages.host_plan import HostPlan
from clgraph.model.stages.joined import Settled
from clgraph.model.stages.observing import StageClock, StageObserver
from clgraph.model.stages.preferences import NO_PREFERENCES, Preferences
from clgraph.model.stages.repeats import Repeats
from clgraph.model.stages.settled import Settling
from clgraph.model.stages.sizes import PassedOn
from clgraph.model.stages.split import Piece, split
from clgraph.network.cancelling import Cancellation


class PieceRunner:
    """One piece, compiled or computed by the host.

    Attributes:
        compiled, host: The piece as either runs it.
        on_host: Whether the host ran it last.
        names: Its inputs.
        tensors: Whether results of the device stay there.
    """

    def __init__(
        self,
        piece: Piece,
        make: MakeModel,
        *,
        first: bool,
        always: bool,
        strict: bool,
        tensors: bool,
        preferences: Preferences,
        sizes: Sizes,
    ) -> None:
        """Take a piece.

        Args:
            first: It reads the inputs of the model alone: what is prepared of it runs, whatever its size.
            always: Compile it, whatever its size.
            sizes: Tells what shapes earlier pieces make, as far as they are known.
            strict: Refuse what the host would have to compute.
            tensors: Leave results of the device there.
            preferences: Where its layers are to run; a piece with a device among them is always compiled.
        """
        preferences.check(piece)
        self.piece = piece
        self._make, self.tensors, self._preferences, self._strict = make, tensors, preferences, strict
        fixed = all(s.is_fixed for s in piece.topology.inputs.values())
        self._first = first
        self._always = always or strict or (piece.compilable and preferences.name_device(piece))
        self._always |= first and (fixed or tensors or preferences.deterministic)
        self._bodies: dict[int, StageRunner] = {}
        self._most = inf
        self.host = HostPiece(piece, first=first)
        self.compiled = CompiledPiece(piece, make, sizes, tensors=tensors)
        self._heavy = self.host.is_heavy
        self.names, self._compilable = tuple(piece.topology.inputs), piece.compilable
        self._latest_plan: HostPlan | None = None
        self._repeats = None if tensors or preferences.deterministic else Repeats(self.compiled)
        self.on_host = False
        if strict and not piece.compilable:
            refused = [x for x in piece.topology.layers if not isinstance(x.primitive, ControlFlow)]
            if refused:
                names = ", ".join(f"{x.name!r} ({x.primitive.kind})" for x in refused)
                raise UnsupportedError(f"the host has to compute {names}, between stages, and strict refuses it")

    @property
    def models(self) -> tuple[Model, ...]:
        """The compiled models of the piece and of the control-flow bodies in it."""
        inner = (m for body in self._bodies.values() for piece in body.pieces for m in piece.models)
        return (*self.compiled.models, *inner)

    @cached_property
    def _has_state(self) -> bool:
        """Whether it runs over caches, as a decoder in a search does: it costs no program a length then."""
        model = self.compiled.declared() if self.piece.topology.keeps_keys else None
        return model is not None and bool(model.state)

    @property
    def warns(self) -> bool:
        """Whether NumPy may warn of what the host computes of it."""
        if self._compilable and self._always:
            return False
        return any(layer.primitive.warns for layer in self.piece.topology.layers)

    @property
    def latest(self) -> Model | None:
        """The model that ran it last, ``None`` where that was the host."""
        return None if self.on_host else self.compiled.latest

    @property
    def layers(self) -> HostLayers | None:
        """What computes it in every run, of arrays; ``None`` where that may be a program, or has bodies to run."""
        layers = None if self.tensors else self.host.between
        return None if layers is None or layers.has_control else layers

    @property
    def settled(self) -> Settled | None:
        """What computes the next run if it is like the last one; ``None`` where that is to be decided."""
        if self.tensors:
            return None
        if not self._compilable:
            return self.host.between
        plan = self._latest_plan
        if not self.on_host:
            return self.compiled.latest if plan is None else None
        return None if plan is None or plan.on_device or self._may_be_prepared(plan) else plan

    def deciding(self, plan: HostPlan) -> Callable[[Sequence[Any]], bool] | None:
        """Return what counts a run of *plan* on its inputs, and tells whether a program is to compute it instead."""
        repeats = None if plan.is_quick or plan.on_device is False else self._repeats
        if repeats is None and not self._first:
            return None

        def is_for_device(given: Sequence[Any]) -> bool:
            if plan.on_device is False:
                return False
            if self._may_be_prepared(plan):
                return True
            return repeats is not None and repeats.on_device(plan, self.names, given)

        return is_for_device

    @cached_property
    def execute(self) -> Execute:
        """What computes its control flow in runs that nobody observes or ends."""
        return partial(self.host.execute, self._running)

    @cached_property
    def _running(self) -> RunBodies:
        return RunBodies(self, None, None)

    def trips(self, body: Topology) -> Trip:
        """Return what runs *body* of its control flow, as :attr:`execute` does."""
        return self._running.trips(body)

    @property
    def bodies(self) -> Mapping[int, StageRunner]:
        """What has run the bodies of control flow in the piece, by the identity of the topology."""
        return self._bodies

    def run(
        self, arrays: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return what the piece makes of *arrays*; raises as :meth:`Cancellation.check`."""
        if cancellation is not None:
            cancellation.check()
        elif watch is None and self._compilable and not self.on_host and self._latest_plan is None:
            same = {name: arrays[name] for name in self.names}
            if (results := self.compiled.run_quickly(same)) is not None:
                return results
        given = [arrays[name] for name in self.names]
        if watch is None:
            if not self._compilable and not self.tensors:
                self.on_host = True
                return self.host.run_between(given, RunBodies(self, None, cancellation))
            if (found := self.run_quickly(given)) is not None:
                return found
        feeds = dict(zip(self.names, given, strict=True))
        if not self._compilable:
            return self._on_host(feeds, None, watch, cancellation)
        unseen = watch is None and cancellation is None
        if unseen and not self.on_host and (results := self.compiled.run_quickly(feeds)) is not None:
            return results
        if not self._always and not self._heavy and self._is_small(feeds) and not self._has_state:
            arrays = {name: array_of(a) for name, a in feeds.items()} if self.tensors else feeds
            plan = self.host.plan(arrays)
            taken_over = unseen and plan is not None and plan.on_device
            if taken_over and (results := self.compiled.run_again(feeds)) is not None:
                self.on_host = False
                return results
            if not self._is_for_device(plan, feeds):
                try:
                    return self._on_host(arrays, plan, watch, cancellation)
                except TooMuch:
                    self._most = _size(feeds)
        self.on_host, self._latest_plan = False, None
        return self.compiled.run(feeds, watch, cancellation)

    def run_quickly(self, given: Sequence[Any]) -> dict[str, Any] | None:
        """Return what the latest plan makes of its inputs; ``None`` where they are others, or it is not to run."""
        plan = self._latest_plan
        if plan is None or plan.on_device or not plan.fits(given) or self._may_be_prepared(plan):
            return None
        if (
            plan.on_device is None
            and not plan.is_quick
            and self._repeats is not None
            and self._repeats.on_device(plan, self.names, given)
        ):
            return None
        self.on_host = True
        return self.host.run_plan(plan, given)

    def run_planned(self, given: Sequence[Any]) -> dict[str, Any] | None:
        """Return what a plan for inputs makes of them; ``None`` where there is none, or a program is to run."""
        self._latest_plan = self.host.known_plan(dict(zip(self.names, given, strict=True)))
        return self.run_quickly(given)

    def _may_be_prepared(self, plan: HostPlan) -> bool:
        """Whether there may be a program for what *plan* computes that has not been found to take longer."""
        return self._first and plan.on_device is not False and self.compiled.has_programs

    def _is_for_device(self, plan: HostPlan | None, feeds: Mapping[str, Any]) -> bool:
        """Whether a piece that the host can compute has a program for *feeds*, prepared for them or because they come.

        Args:
            plan: For their shapes, if those are not new.
        """
        if self._first and (plan is None or plan.on_device is not False) and self.compiled.holds(feeds):
            return True
        if plan is None or self._repeats is None:
            return False
        return self._repeats.on_device(plan, self.names, [feeds[name] for name in self.names])

    def _is_small(self, feeds: Mapping[str, Any]) -> bool:
        """Whether less is fed than what has cost too much."""
        return self._most == inf or _size(feeds) < self._most

    def _on_host(
        self,
        feeds: Mapping[str, Any],
        plan: HostPlan | None,
        watch: StageObserver | None,
        cancellation: Cancellation | None,
    ) -> dict[str, Any]:
        start = time.perf_counter()
        results = self.host.run(feeds, RunBodies(self, watch, cancellation), cancellation, plan)
        self.on_host = True
        self._latest_plan = plan
        if isinstance(watch, StageClock) and (self.piece.compilable or not self._bodies):
            watch.note_host(self.piece, start, self.host.operations)
        return results

    def body(self, body: Topology, *, whole: bool) -> StageRunner:
        """Return what runs *body*; *whole*: it is a block of trips."""
        runner = self._bodies.get(id(body))
        if runner is None:
            runner = self._bodies[id(body)] = StageRunner(
                body,
                self._make,
                strict=self._strict,
                tensors=self.tensors,
                preferences=self._preferences,
                whole=whole,
                block=whole,
                label=f"{self.piece.topology.label}_{self.host.role_of(body)}_",
            )
        return runner

    def take_over(self, other: PieceRunner) -> None:
        """Clone what *other* has compiled of the same piece."""
        self.compiled.take_over(other.compiled)
        self.host.take_over(other.host)
        self._most = other._most

    def front(self) -> Model | None:
        """Return the model of a piece that is always compiled and reads inputs of declared types; else ``None``."""
        return self.compiled.declared() if self._always or self._first else None


def _size(feeds: Mapping[str, Any]) -> float:
    return float(sum(getattr(a, "size", 0) for a in feeds.values()))


class StageRunner:
    """Runs a topology that is cut into pieces, each compiled for the device or computed by the host.

    Attributes:
        pieces: In the order in which they run.
        only: The only one, where it reads inputs alone, else ``None``; the places of its inputs among those of the
            topology; the sources of the outputs, each with its place if it is an input and its elements if a constant.
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
        block: bool = False,
        label: str = "",
    ) -> None:
        """Cut *topology*.

        Args:
            make: Makes an ordinary model of a piece.
            strict: Refuse what the host would have to compute.
            tensors: Leave what compiled pieces make on the device.
            preferences: Where layers are to run.
            whole: It is a model, not a body: what reads its inputs alone is compiled, whatever its size, where theirs
                are fixed.
            block: It is a block of trips: its sizes hardly change, and that is compiled in any case.
            label: What dumps call a body.
        """
        self.topology = topology
        pieces = split(topology, body=not whole, label=label)
        first = [piece.compilable and set(piece.topology.inputs) <= set(topology.inputs) for piece in pieces]
        self._sizes = PassedOn(pieces)
        self.pieces = tuple(
            PieceRunner(
                piece,
                make,
                first=whole and is_first,
                always=block and is_first,
                strict=strict,
                tensors=tensors,
                preferences=preferences,
                sizes=dict if is_first else self._sizes,
            )
            for piece, is_first in zip(pieces, first, strict=True)
        )
        self._warns = any(piece.warns for piece in self.pieces)
        makers = {name: piece for piece in self.pieces for name, _ in piece.piece.topology.outputs}
        self._makers = [(name, makers.get(source)) for name, source in topology.outputs]
        self.only: ByPlace | None = by_place(topology, self.pieces[0]) if len(pieces) == 1 else None
        self._ways = tuple((piece, piece.layers) for piece in self.pieces)
        self._names, self._made = tuple(topology.inputs), tuple([name for name, _ in topology.outputs])
        self._settling = Settling()

    def run(
        self, feeds: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name; they may be memory of *feeds*, or of one another."""
        if watch is None and cancellation is None:
            return dict(zip(self._made, self.trip([feeds[name] for name in self._names]), strict=True))
        return self._decided(feeds, watch, cancellation)

    def trip(self, given: Sequence[Any]) -> list[Any]:
        """Return what :meth:`run` does, inputs and outputs in their order."""
        made = self._settling.run(given)
        if made is None:
            results = self._decided(dict(zip(self._names, given, strict=True)), None, None)
            return [results[name] for name in self._made]
        return made

    def _decided(
        self, feeds: Mapping[str, Any], watch: StageObserver | None, cancellation: Cancellation | None
    ) -> dict[str, Any]:
        """Return what :meth:`run` does, where each piece decides what computes it."""
        alone = watch is None and cancellation is None
        values: dict[str, Any] = {**self.topology.constants, **feeds}
        for piece, layers in self._ways:
            if layers is None or not alone:
                values.update(piece.run(values, watch, cancellation))
            else:
                piece.on_host = True
                values.update(layers.run([values[name] for name in piece.names]))
        self._settling.note(self.topology, self.pieces, [feeds[name] for name in self._names], alone=alone)
        return {name: values[source] for name, source in self.topology.outputs}

    def run_whole(
        self, feeds: Mapping[str, Any], watch: StageObserver | None = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name, each in memory of its own."""
        if self._warns:
            with np.errstate(all="ignore"):  # as references compute; for all of them at once
                results = self.run(feeds, watch, cancellation)
        else:
            results = self.run(feeds, watch, cancellation)
        seen: set[int] = set()
        for name, maker in self._makers:
            given = maker is None or maker.on_host or id(results[name]) in seen
            if given and not nobody_elses(results, name):
                maps = maps_of_a_run(results, name)
                results[name] = handed_out(results[name]) if maps is None else maps
            seen.add(id(results[name]))
        return results

    def take_over(self, other: StageRunner) -> None:
        """Clone what *other* has compiled of the same topology."""
        self._sizes.found = other._sizes.found
        for mine, theirs in zip(self.pieces, other.pieces, strict=True):
            mine.take_over(theirs)
