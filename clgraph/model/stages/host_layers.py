"""The layers of a stage that only the host computes, one behind the other: what decides shapes, and control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.host_types import has_strings
from clgraph.graph.interpret import ControlFlow, Execute, check_kinds, compute, refuse
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, OfHostValues, Primitive
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.stages.host_plan import PLANNED, HostPlan, HostPlans
from clgraph.ops.on_strings import CODE, MOVING, OnStrings


@frozen
class HostStep:
    """A layer: where its inputs and results stand among the values, and what computes it unless it is *control*.

    Attributes:
        plain: It takes any arrays.
    """

    layer: Layer
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    compute: Callable[..., Sequence[Any]]
    control: ControlFlow | None
    plain: bool


class HostLayers:
    """The layers of a topology, which compute what :func:`~clgraph.graph.interpret.interpret` does.

    Attributes:
        steps: The layers, in their order.
        values: What stands at each place in front of a run: the constants, ``None`` elsewhere; the inputs come first.
        outputs: The place of each by name.
        has_control: Whether any of the layers is control flow.
    """

    def __init__(self, topology: Topology) -> None:
        """Take the layers, in their order."""
        places = {name: i for i, name in enumerate(dict.fromkeys((*topology.inputs, *topology.constants)))}
        self.steps = list[HostStep]()
        for layer in topology.layers:
            own = layer.primitive
            for name in layer.outputs:
                places.setdefault(name, len(places))
            computed: Callable[..., Sequence[Any]] = own.reference
            if isinstance(own, OnStrings):
                computed = partial(_on_strings, own, _Numbers(own.inner, layer, topology.constants))
            elif not own.data_dependent:
                computed = _Numbers(own, layer, topology.constants).computed
            inputs, outputs = (tuple(places[name] for name in names) for names in (layer.inputs, layer.outputs))
            control = own if isinstance(own, ControlFlow) else None
            others = own.sequences or own.maps if isinstance(own, OfHostValues) else ()
            self.steps.append(HostStep(layer, inputs, outputs, computed, control, not others))
        self.has_control = any(step.control is not None for step in self.steps)
        self.values: list[Any] = [topology.constants.get(name) for name in places]
        self.outputs = [(name, places[source]) for name, source in topology.outputs]

    def run(self, given: Sequence[Any], execute: Callable[[], Execute] | None = None) -> dict[str, Any]:
        """Return the outputs by name.

        Args:
            given: The inputs in their order.
            execute: Returns what computes control flow, if there is any.

        Raises:
            ShapeError, UnsupportedError, InputError: As ``interpret``; the message names the layer.
        """
        values = self.values.copy()
        values[: len(given)] = given
        for step in self.steps:
            arguments = [values[i] for i in step.inputs]
            if not (step.plain and all([type(a) is np.ndarray for a in arguments])):  # noqa: C419  # sooner
                check_kinds(step.layer, arguments)
            try:
                if step.control is None:
                    results = step.compute(*arguments)
                else:
                    assert execute is not None
                    results = execute()(step.control, arguments)
            except Exception:  # references may raise of any class; to enter contexts takes longer than a small one
                refuse(step.layer)
                raise
            for i, result in zip(step.outputs, results, strict=False):
                values[i] = result
        return {name: values[i] for name, i in self.outputs}


def _on_strings(primitive: OnStrings, run: _Numbers, *arguments: Any) -> tuple[Any, ...]:
    if run.moves and (moved := run.moved(arguments)) is not None:
        return moved
    return primitive.computed_by(run, arguments)


class _StringPlans(HostPlans):
    """Plans for strings of what does the same to any elements, made for the numbers that could stand for them."""

    def _made(self, arrays: Mapping[str, Array]) -> HostPlan | None:
        return super()._made({n: np.empty(a.shape, CODE) if has_strings(a) else a for n, a in arrays.items()})


class _Numbers:
    """What an operator makes of numbers, which may stand for strings, by a plan where their shapes come again.

    Attributes:
        moves: Whether it may move the strings themselves.
    """

    def __init__(self, primitive: Primitive, layer: Layer, constants: Mapping[str, Array]) -> None:
        """Take the operator, and the *layer* that has it: those of its inputs that are constant numbers stay so."""
        topology = Topology()
        self._primitive, self._fed = primitive, list[int]()
        for slot, name in enumerate(layer.inputs):
            if name in constants and not has_strings(constants[name]):
                topology.constant(f"in{slot}", constants[name])
            else:
                topology.input(f"in{slot}", None, None)
                self._fed.append(slot)
        names = [f"out{slot}" for slot in range(len(layer.outputs))]
        topology.add(names[0], primitive, *(f"in{slot}" for slot in range(len(layer.inputs))), outputs=names)
        for name in names:
            topology.output(name)
        self._plans = None if primitive.data_dependent else HostPlans(topology, PLANNED)
        self.moves = primitive.kind in MOVING
        self._moving = _StringPlans(topology, PLANNED)
        self._latest: tuple[list[Any], HostPlan] | None = None

    def moved(self, given: Sequence[Array]) -> tuple[Array, ...] | None:
        """Return the results on strings as they are; ``None`` where shapes are new, or a result is a single string."""
        layouts = [(a.shape, a.dtype) for a in given]
        if self._latest is not None and layouts == self._latest[0]:
            plan = self._latest[1]
        else:
            found = self._moving.find({f"in{slot}": given[slot] for slot in self._fed})
            if found is None:
                return None
            plan = found
            if not plan.decided:
                self._latest = layouts, plan
        try:
            results = tuple(plan.run([given[slot] for slot in self._fed]).values())
        except Exception as error:  # references may raise of any class, and tell of the numbers what they tell
            pass_on(error)
            return None
        return None if any([a.dtype.kind == "U" for a in results]) else results  # noqa: C419  # sooner

    def __call__(self, given: Sequence[Array]) -> Sequence[Array]:
        if self._plans is not None:
            fed = {f"in{slot}": given[slot] for slot in self._fed}
            if (plan := self._plans.find(fed)) is not None:
                try:
                    return list(plan.run(list(fed.values())).values())
                except Exception as error:  # references may raise of any class: what computes it without tells of it
                    pass_on(error)
        return compute(self._primitive, given)

    def computed(self, *given: Any) -> Sequence[Any]:
        """Return the results of inputs, all of them numbers."""
        return self(given)
