"""Runs of a topology that have become alike: the steps of all pieces one behind the other, on one list of values.

A piece decides in each run what computes it, and takes and makes dictionaries: some microseconds, as long as a few
layers on a few numbers. Where all of them decide the same in run after run, nothing but their steps is left, and checks
of what data may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from clgraph.errors import DeviceError
from clgraph.graph.interpret import ControlFlow, Execute, check_kinds
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.model.stages.host_layers import HostLayers, HostStep
from clgraph.model.stages.host_plan import HostPlan
from clgraph.model.stages.steps import Step

ALIKE = 2
"""How many runs behind one another decide the same before their steps are joined."""

_MOST_ALIKE = 1 << 10
"""The same where runs that were joined turned out to be others: twice as many each time, up to this."""

_MOST_BYTES = 1 << 20
"""Of all values of a topology: joined steps hold them until the run is over."""

Settled = HostPlan | HostLayers | Model
"""What computes a piece: its plan, its layers, or the model that ran it last."""


class DecidedPiece(Protocol):
    """A piece as its decisions are asked for."""

    @property
    def settled(self) -> Settled | None:
        """What computes the next run if it is like the last one, ``None`` where that is to be decided."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its inputs."""

    @property
    def execute(self) -> Execute:
        """What computes its control flow."""

    def deciding(self, plan: HostPlan) -> Callable[[Sequence[Any]], bool] | None:
        """Return what counts a run of *plan* on its inputs, and tells whether a program is to compute it instead."""


class _OtherwiseError(Exception):
    """Raised by a step of a run that is not like those before."""


class Settling:
    """Watches the runs of a topology, joins their steps once they are alike, and runs those."""

    __slots__ = ("_alike", "_found", "_run", "_wanted")

    def __init__(self) -> None:
        """Know of no run yet."""
        self._found: tuple[Settled | None, ...] = ()
        self._alike, self._wanted = 0, ALIKE
        self._run: _Joined | None = None

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the outputs by name; ``None`` where the run is not like those before, and is to be decided about."""
        if self._run is None:
            return None
        made = self._run(feeds)
        if made is None:
            self._alike, self._wanted = 0, min(2 * self._wanted, _MOST_ALIKE)
        return made

    def note(self, topology: Topology, pieces: Sequence[DecidedPiece], *, alone: bool) -> None:
        """Note a run that was decided about.

        Args:
            alone: Nobody observes the run or may end it.
        """
        self._run = None
        found = tuple([piece.settled for piece in pieces]) if alone else ()
        if found != self._found or not found or None in found:
            self._found, self._alike = found, 0
            return
        self._alike += 1
        if self._alike == self._wanted and _nbytes(found) <= _MOST_BYTES:
            self._run = _Joined(topology, pieces, found)


def _nbytes(found: Sequence[Settled | None]) -> int:
    layouts = [layout for one in found if isinstance(one, HostPlan) for layout in one.layouts]
    return sum(dtype.itemsize * int(np.prod(shape)) for shape, dtype in layouts)


class _Joined:
    """The steps of all pieces of a topology."""

    __slots__ = ("_checked", "_names", "_outputs", "_places", "_steps", "_values")

    def __init__(self, topology: Topology, pieces: Sequence[DecidedPiece], found: Sequence[Settled | None]) -> None:
        """Join what was *found* to compute the *pieces*."""
        self._names = tuple(topology.inputs)
        self._places = {name: i for i, name in enumerate(dict.fromkeys((*self._names, *topology.constants)))}
        self._values: list[Any] = [topology.constants.get(name) for name in self._places]
        self._checked: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._steps = list[Step]()
        for piece, one in zip(pieces, found, strict=True):
            if isinstance(one, HostPlan):
                self._add_plan(piece, one)
            elif isinstance(one, HostLayers):
                self._add_layers(piece, one)
            elif one is not None:
                self._add_model(piece, one)
        self._outputs = [(name, self._places[source]) for name, source in topology.outputs]

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        values = self._values.copy()
        for i, name in enumerate(self._names):
            values[i] = feeds[name]
        try:
            for step in self._steps:
                step(values)
        except DeviceError:
            raise
        except Exception as error:  # references may raise of any class: who decides names the layer
            pass_on(error)
            return None
        return {name: values[i] for name, i in self._outputs}

    def _add_plan(self, piece: DecidedPiece, plan: HostPlan) -> None:
        """Add the steps of *plan*, behind a check of what nothing has told the shape of so far."""
        places = [self._places[name] for name in piece.names]
        own = range(len(places))
        checks = [(places[i], *plan.layouts[i]) for i in own if self._checked.get(places[i]) != plan.layouts[i]]
        values = [(places[i], data) for i, data in plan.deciding]
        if checks or values:
            self._steps.append(_check(checks, values))
        if (is_for_device := piece.deciding(plan)) is not None:
            self._steps.append(_decision(is_for_device, tuple(places)))
        for value in plan.values[len(places) :]:
            places.append(len(self._values))
            self._values.append(value)
        self._steps += [part.step(places) for part in plan.parts]
        self._checked.update(zip(places, plan.layouts, strict=True))
        self._places.update((name, places[i]) for name, i in plan.outputs)

    def _add_layers(self, piece: DecidedPiece, layers: HostLayers) -> None:
        places = [self._places[name] for name in piece.names]
        for value in layers.values[len(places) :]:
            places.append(len(self._values))
            self._values.append(value)
        for step in layers.steps:
            inputs, outputs = ([places[i] for i in own] for own in (step.inputs, step.outputs))
            if not step.plain or step.control or not self._checked.keys() >= {*inputs}:
                self._steps.append(_kinds_check(step, inputs))
            if step.control is None:
                self._steps.append(_layer(step.compute, inputs, outputs))
            else:
                self._steps.append(_layer(partial(_controlled, piece.execute, step.control), inputs, outputs))
        self._places.update((name, places[i]) for name, i in layers.outputs)

    def _add_model(self, piece: DecidedPiece, model: Model) -> None:
        given = [(name, self._places[name]) for name in piece.names]
        made = []
        for name, _ in model.topology.outputs:
            made.append((name, len(self._values)))
            self._places[name] = len(self._values)
            self._values.append(None)
        self._steps.append(_model(model, given, made))


def _check(
    layouts: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]],
    known: Sequence[tuple[int, bytes]],
) -> Step:
    def step(values: list[Any]) -> None:
        for i, shape, dtype in layouts:
            a = values[i]
            if type(a) is not np.ndarray or a.shape != shape or (a.dtype is not dtype and a.dtype != dtype):
                raise _OtherwiseError
        for i, data in known:
            if values[i].tobytes() != data:
                raise _OtherwiseError

    return step


def _decision(is_for_device: Callable[[Sequence[Any]], bool], inputs: Sequence[int]) -> Step:
    def step(values: list[Any]) -> None:
        if is_for_device([values[i] for i in inputs]):
            raise _OtherwiseError

    return step


def _kinds_check(of: HostStep, inputs: Sequence[int]) -> Step:
    layer, plain = of.layer, of.plain and of.control is None

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


def _controlled(execute: Execute, control: ControlFlow, *inputs: Any) -> tuple[Any, ...]:
    return execute(control, inputs)


def _model(model: Model, given: Sequence[tuple[str, int]], made: Sequence[tuple[str, int]]) -> Step:
    def step(values: list[Any]) -> None:
        results = model.run_quickly({name: values[i] for name, i in given})
        if results is None:
            raise _OtherwiseError
        for name, i in made:
            values[i] = results[name]

    return step
