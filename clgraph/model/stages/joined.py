"""The steps of all pieces of a topology one behind the other, on one list of values: runs that have become alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from clgraph.errors import DeviceError
from clgraph.graph.interpret import ControlFlow, Execute, Trip, check_kinds
from clgraph.graph.primitive import OfHostValues
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.model.stages.host_layers import HostLayers, HostStep
from clgraph.model.stages.host_plan import HostPlan
from clgraph.model.stages.steps import Step
from clgraph.ops.if_else import IfElse

Settled = HostPlan | HostLayers | Model
"""What computes a piece: its plan, its layers, or the model that ran it last."""


class DecidedPiece(Protocol):
    """A piece as its decisions are asked for.

    Attributes:
        on_host: Whether the host ran it last.
    """

    on_host: bool

    @property
    def settled(self) -> Settled | None:
        """What computes the next run if it is like the last one, ``None`` where that is to be decided."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its inputs."""

    @property
    def execute(self) -> Execute:
        """What computes its control flow."""

    def trips(self, body: Topology) -> Trip:
        """Return what runs a body of its control flow."""

    def deciding(self, plan: HostPlan) -> Callable[[Sequence[Any]], bool] | None:
        """Return what counts a run of *plan* on its inputs, and tells whether a program is to compute it instead."""

    def run_planned(self, given: Sequence[Any]) -> dict[str, Any] | None:
        """Return the outputs by name of the inputs in their order, by a plan for them; ``None`` where there is none."""


class _OtherwiseError(Exception):
    """Raised by a step of a run that is not like those before."""


class JoinedPieces:
    """The steps of all pieces of a topology."""

    __slots__ = ("_arrays", "_checked", "_count", "_outputs", "_places", "_steps", "_values")

    def __init__(
        self,
        topology: Topology,
        pieces: Sequence[DecidedPiece],
        found: Sequence[Settled | None],
        layouts: Sequence[tuple[Any, Any]],
    ) -> None:
        """Join what was *found* to compute the *pieces* on inputs of *layouts*."""
        self._count = len(topology.inputs)
        self._places = {name: i for i, name in enumerate(dict.fromkeys((*topology.inputs, *topology.constants)))}
        self._values: list[Any] = [topology.constants.get(name) for name in self._places]
        self._checked = {i: layout for i, layout in enumerate(layouts) if layout[0] is not None}
        self._arrays = {*self._checked, *range(self._count, len(self._values))}
        self._steps = list[Step]()
        for piece, one in zip(pieces, found, strict=True):
            if isinstance(one, HostPlan):
                self._add_plan(piece, one)
            elif isinstance(one, HostLayers):
                self._add_layers(piece, one)
            elif one is not None:
                self._add_model(piece, one)
        self._outputs = [self._places[source] for _, source in topology.outputs]

    def run(self, given: Sequence[Any]) -> list[Any] | None:
        """Return the outputs of the inputs, both in their order; ``None`` of a run that turns out otherwise."""
        values = self._values.copy()
        values[: self._count] = given
        try:
            for step in self._steps:
                step(values)
        except DeviceError:
            raise
        except Exception as error:  # references may raise of any class: who decides names the layer
            pass_on(error)
            return None
        return [values[i] for i in self._outputs]

    def _add_plan(self, piece: DecidedPiece, plan: HostPlan) -> None:
        """Add the steps of *plan*; where nothing has told the shapes of its inputs so far, another one may run."""
        places = [self._places[name] for name in piece.names]
        inputs, count = tuple(places), len(places)
        checks = [
            (i, *plan.layouts[slot]) for slot, i in enumerate(inputs) if self._checked.get(i) != plan.layouts[slot]
        ]
        values = [(places[i], data) for i, data in plan.deciding]
        for value in plan.values[count:]:
            places.append(len(self._values))
            self._values.append(value)
        steps = [part.step(places) for part in plan.parts]
        if (is_for_device := piece.deciding(plan)) is not None:
            steps.insert(0, _decision(is_for_device, inputs))
        if checks or values:
            outputs = list[tuple[str, int]]()
            free = {places[i] for part in plan.parts for i in part.outputs}
            for name, i in plan.outputs:
                place = places[i]
                if place not in free:  # an input, say, which another plan may make anew: each has a place of its own
                    place = len(self._values)
                    self._values.append(None)
                    steps.append(_moved(places[i], place))
                free.discard(place)
                outputs.append((name, place))
            self._steps.append(_planned(piece, inputs, outputs, checks, values, steps))
            self._arrays.update(i for _, i in outputs)
        else:
            outputs = [(name, places[i]) for name, i in plan.outputs]
            self._steps += steps
            self._checked.update(zip(places, plan.layouts, strict=True))
            self._arrays.update(places)
        self._places.update(outputs)

    def _add_layers(self, piece: DecidedPiece, layers: HostLayers) -> None:
        places = [self._places[name] for name in piece.names]
        for value in layers.values[len(places) :]:
            places.append(len(self._values))
            self._values.append(value)
        for step in layers.steps:
            inputs, outputs = ([places[i] for i in own] for own in (step.inputs, step.outputs))
            if step.control is not None:
                if isinstance(step.control, IfElse):
                    self._steps.append(_branch(piece, step.control, inputs, outputs))
                else:
                    self._steps.append(_control(piece.execute, step.control, inputs, outputs))
                continue
            if not step.plain or not self._arrays.issuperset(inputs):
                self._steps.append(_kinds_check(step, inputs))
            self._steps.append(_layer(step.compute, inputs, outputs))
            if not isinstance(step.layer.primitive, OfHostValues):
                self._arrays.update(outputs)
        self._places.update((name, places[i]) for name, i in layers.outputs)

    def _add_model(self, piece: DecidedPiece, model: Model) -> None:
        given = [(name, self._places[name]) for name in piece.names]
        made = []
        for name, _ in model.topology.outputs:
            made.append((name, len(self._values)))
            self._places[name] = len(self._values)
            self._arrays.add(len(self._values))
            self._values.append(None)
        self._steps.append(_model(model, given, made))


def _planned(
    piece: DecidedPiece,
    inputs: Sequence[int],
    outputs: Sequence[tuple[str, int]],
    layouts: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]],
    known: Sequence[tuple[int, bytes]],
    steps: Sequence[Step],
) -> Step:
    """Return what runs the *steps* of a plan on values of *layouts* and with *known* bytes, other plans on others."""

    def step(values: list[Any]) -> None:
        for i, shape, dtype in layouts:
            a = values[i]
            if type(a) is not np.ndarray or a.shape != shape or (a.dtype is not dtype and a.dtype != dtype):
                run_other(values)
                return
        for i, data in known:
            if values[i].tobytes() != data:
                run_other(values)
                return
        for each in steps:
            each(values)

    def run_other(values: list[Any]) -> None:
        made = piece.run_planned([values[i] for i in inputs])
        if made is None:
            raise _OtherwiseError
        for name, i in outputs:
            values[i] = made[name]

    return step


def _moved(source: int, target: int) -> Step:
    def step(values: list[Any]) -> None:
        values[target] = values[source]

    return step


def _decision(is_for_device: Callable[[Sequence[Any]], bool], inputs: Sequence[int]) -> Step:
    def step(values: list[Any]) -> None:
        if is_for_device([values[i] for i in inputs]):
            raise _OtherwiseError

    return step


def _kinds_check(of: HostStep, inputs: Sequence[int]) -> Step:
    layer, plain = of.layer, of.plain

    def step(values: list[Any]) -> None:
        for i in inputs:
            if not plain or type(values[i]) is not np.ndarray:
                check_kinds(layer, [values[i] for i in inputs])
                return

    return step


def _layer(compute: Callable[..., Sequence[Any]], inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    """Return the step of a layer between compiled ones, whose results may be no arrays."""
    if len(inputs) == len(outputs) == 1:
        (x,), (y,) = inputs, outputs

        def step_of_one(values: list[Any]) -> None:
            values[y] = compute(values[x])[0]

        return step_of_one

    def step(values: list[Any]) -> None:
        for i, result in zip(outputs, compute(*[values[i] for i in inputs]), strict=False):
            values[i] = result

    return step


def _branch(piece: DecidedPiece, control: IfElse, inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    condition, *given = inputs
    trips: dict[int, Trip] = {}

    def step(values: list[Any]) -> None:
        body = control.chosen(values[condition])
        if (trip := trips.get(id(body))) is None:
            trip = trips[id(body)] = piece.trips(body) if body.layers else _passing_on(body)
        for i, result in zip(outputs, trip([values[i] for i in given]), strict=False):
            values[i] = result

    return step


def _passing_on(body: Topology) -> Trip:
    """Return what runs a body that has no layers."""
    places = {name: i for i, name in enumerate(body.inputs)}
    made = [(places.get(source), body.constants.get(source)) for _, source in body.outputs]

    def trip(given: Sequence[Any]) -> list[Any]:
        return [own if at is None else given[at] for at, own in made]

    return trip


def _control(execute: Execute, control: ControlFlow, inputs: Sequence[int], outputs: Sequence[int]) -> Step:
    def step(values: list[Any]) -> None:
        for i, result in zip(outputs, execute(control, [values[i] for i in inputs]), strict=False):
            values[i] = result

    return step


def _model(model: Model, given: Sequence[tuple[str, int]], made: Sequence[tuple[str, int]]) -> Step:
    def step(values: list[Any]) -> None:
        feeds = {name: values[i] for name, i in given}
        if (results := model.run_quickly(feeds)) is None and (results := model.run_again(feeds)) is None:
            raise _OtherwiseError
        for name, i in made:
            values[i] = results[name]

    return step
