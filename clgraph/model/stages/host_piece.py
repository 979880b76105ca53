"""A piece as the host computes it: by the primitives' references, and control flow body by body.

A piece that can be compiled is computed so where a run of it costs less arithmetic than ``HOST_OPERATIONS``, it reads
fewer constants than ``HOST_CONSTANTS`` and none of its references is slow for its size: its shapes may be others in
every run, and to compile it for them would take longer by far. :mod:`~clgraph.model.stages.repeats` tells when they
are not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from clgraph.graph.interpret import Blocks, ControlFlow, interpret
from clgraph.graph.refusals import one_line
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.stages.handing import array_of
from clgraph.model.stages.host_layers import HostLayers
from clgraph.model.stages.host_plan import PLANNED, HostPlan, HostPlans
from clgraph.model.stages.open_plan import OpenPlans
from clgraph.model.stages.split import Piece
from clgraph.network.cancelling import Cancellation

HOST_OPERATIONS = 4e6
"""Arithmetic of a piece up to which the host computes it: some milliseconds; see ``docs/decisions``."""

FIRST_OPERATIONS = 5e5
"""The same of the first one of open sizes, which needs no more than to be bound to them: half a millisecond."""

HOST_CONSTANTS = 1 << 20
"""Bytes of constants in a piece up to which the host computes it: the references of products convert them in each run,
a program packs them once.
"""

_log = logging.getLogger(__name__)


class TooMuch(BaseException):
    """Raised inside a run on the host that exceeds its time allowance, so that the device takes over; not an error."""


class RunBody(Protocol):
    """Runs a body of control flow."""

    def __call__(self, body: Topology, feeds: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """Return the results of *body*; *whole*: it is a block of trips, which is compiled as a model is."""


class HostPiece:
    """The references of a piece's layers, and plans of them for shapes that come again.

    Attributes:
        between: The layers of a piece that cannot be compiled.
        operations: Arithmetic of the last run.
    """

    def __init__(self, piece: Piece, *, first: bool = False) -> None:
        """Take a piece; *first*: of a model, so that its own inputs are all that it needs."""
        self._piece, self._first = piece, first
        self._blocks: dict[int, Blocks | str] = {}
        self._reasons: dict[int, str] = {}
        self._failure: str | None = None
        self.between = None if piece.compilable else HostLayers(piece.topology)
        self._plans, self._open = HostPlans(piece.topology, PLANNED), OpenPlans(piece.topology)
        self.operations = 0.0

    @property
    def is_heavy(self) -> bool:
        """Whether the piece can be compiled and has constants or references that the host is to be spared."""
        topology = self._piece.topology
        return self._piece.compilable and (
            sum(a.nbytes for a in topology.constants.values()) > HOST_CONSTANTS
            or any(layer.primitive.slow_reference for layer in topology.layers)
        )

    def bodies(self) -> Iterator[tuple[str, str, Topology]]:
        """Yield each body of control flow with the layer's name and its role; blocks of trips of loops, too."""
        for layer in self._piece.topology.layers:
            if isinstance(layer.primitive, ControlFlow):
                yield from ((layer.name, role, body) for role, body in layer.primitive.bodies().items())
                if isinstance(blocks := self._blocks.get(id(layer.primitive)), Blocks):
                    yield from ((layer.name, f"{trips} trips", body) for trips, body in blocks.bodies.items())

    def trip_by_trip(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each layer whose body last ran once a trip, with the reason."""
        for layer in self._piece.topology.layers:
            if reason := self._reasons.get(id(layer.primitive)):
                yield layer.name, reason

    def role_of(self, body: Topology) -> str:
        """Return the name of the node that has *body*, as far as folders can have it, and the body's."""
        for layer, role, found in self.bodies():
            if found is body:
                return re.sub(r"[^\w.-]+", "_", f"{layer}_{role}")
        return "body"

    def plan(self, feeds: Mapping[str, Any]) -> HostPlan | None:
        """Return the plan of a piece that can be compiled for *feeds*; ``None`` where they are new, or no arrays."""
        return self._plans.find(feeds)

    def known_plan(self, feeds: Mapping[str, Any]) -> HostPlan | None:
        """Return the plan for *feeds* that there is already."""
        return self._plans.known(feeds)

    def take_over(self, other: HostPiece) -> None:
        """Share the plans of the same piece."""
        self._plans.take_over(other._plans)

    def run(
        self,
        feeds: Mapping[str, Any],
        run_body: RunBody,
        cancellation: Cancellation | None = None,
        plan: HostPlan | None = None,
    ) -> dict[str, Any]:
        """Return what the piece makes of *feeds*, by *plan* if there is one.

        Raises:
            TooMuch: The piece can be compiled, and a run takes too long.
            RunCancelledError: The run was ended.
        """
        if plan is not None and (planned := self.run_plan(plan, list(feeds.values()))) is not None:
            return planned
        failure, self._failure = self._failure, None
        arrays = {name: array_of(a) for name, a in feeds.items()}
        if self.between is not None:
            return self.run_between(list(arrays.values()), run_body)
        spend = partial(self._spend, cancellation)
        if self._piece.compilable and plan is None:
            self.operations = 0.0
            try:
                found = self._open.run(arrays, spend)
            except Exception as error:  # of any class, as above; interpret names the layer
                pass_on(error)
                found, failure = None, one_line(error)
            if found is not None:
                return found
        self.operations = 0.0
        results = interpret(self._piece.topology, arrays, spend, partial(self.execute, run_body))
        if failure is not None:
            label = self._piece.topology.label
            _log.warning("%s: its plan failed, and its layers are computed without: %s", label, failure)
        return results

    def run_between(self, given: Sequence[Any], run_body: RunBody) -> dict[str, Any]:
        """Return what a piece that cannot be compiled makes of its inputs, none of them a device's; raises as that."""
        assert self.between is not None
        return self.between.run(given, lambda: partial(self.execute, run_body))

    def run_plan(self, plan: HostPlan, given: Sequence[Any]) -> dict[str, Any] | None:
        """Return what *plan* makes of the inputs; ``None`` where it has failed, which :meth:`run` looks into."""
        try:
            results = plan.run(given)
        except Exception as error:  # references may raise of any class
            pass_on(error)
            self._failure = one_line(error)
            return None
        self.operations = plan.operations
        return results

    def _spend(self, cancellation: Cancellation | None, operations: float) -> None:
        """Count arithmetic of a run, which *cancellation* or too much of it ends."""
        self.operations += operations
        if cancellation is not None:
            cancellation.check()
        if self._piece.compilable and self.operations > (FIRST_OPERATIONS if self._first else HOST_OPERATIONS):
            raise TooMuch

    def execute(self, run_body: RunBody, primitive: ControlFlow, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return what control flow makes of *inputs*: in blocks of trips where it can be, else body by body."""
        if id(primitive) not in self._blocks:
            self._blocks[id(primitive)] = primitive.blocks()
        blocks = self._blocks[id(primitive)]
        results = blocks if isinstance(blocks, str) else blocks.execute(inputs, partial(run_body, whole=True))
        if not isinstance(results, str):
            self._reasons.pop(id(primitive), None)
            return results
        self._reasons[id(primitive)] = results
        return primitive.execute(inputs, run_body)
