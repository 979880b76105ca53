"""Host plans of stages, specialised for the shapes of their inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.errors import ClgraphError, UnknownValueError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import REFERENCE_SECONDS, Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.stages.spellings import Spelling, is_one_call, spelled
from clgraph.model.stages.steps import PlanPart

T = TypeVar("T")

_KEPT = 128
"""Shapes whose plans are kept, and as many that have been met once: those of the steps of a loop that appends."""

PLANNED = 8
"""How often shapes come until they have a plan of their own: to make it takes as long as it saves in ten runs."""

_DECIDING = 64
"""Elements of the largest input whose value may be part of what a plan holds for."""

SPELLED_SECONDS = 1e-6
"""What a step that is spelled as one call of NumPy takes on a few numbers."""

RUN_SECONDS = 1e-5
"""What a run of a program takes beside its nodes, behind one of the same shapes."""

OPERATION_SECONDS = 1e-9
"""What references take for an operation."""


class HostPlan:
    """The nodes of a program, computed by their references one behind the other.

    Attributes:
        parts: What computes each node, in order.
        values: What stands at each place in front of a run: the constants, ``None`` elsewhere; the inputs come first.
        layouts: Shape and element type at each place.
        outputs: The place of each by name.
        deciding: Places of inputs whose bytes are part of what the plan holds for, with those.
        operations: Arithmetic of a run.
        seconds: What a run takes, by estimate.
        layers: How many the program has.
        decided: Whether values of inputs are part of what it holds for.
        is_quick: Whether no program can take less.
        saved: Seconds that programs would have saved in its runs so far, by estimate.
        on_device: Whether a program has taken over; ``None`` until that is decided.
    """

    def __init__(self, program: Program, values: Mapping[str, Array]) -> None:
        """Take a program as it was built, without passes, for *values* of its inputs."""
        places: dict[Value, int] = {}
        for value in (*program.inputs, *program.constants, *(v for n in program for v in n.outputs)):
            places.setdefault(value, len(places))
        self.values: list[Any] = [value.constant for value in places]
        self.layouts = [(value.layout.shape, value.layout.dtype.numpy) for value in places]
        spellings = [spelled(node.primitive, [v.layout for v in node.inputs]) for node in program]
        self.parts = [_part(node, own, places) for node, own in zip(program, spellings, strict=True)]
        self._steps = [part.step(range(len(places))) for part in self.parts]
        self._given = self.layouts[: len(program.inputs)]
        self.outputs = [(name, places[value]) for name, value in program.outputs]
        layouts = [(n.primitive, [v.layout for v in n.inputs], [v.layout for v in n.outputs]) for n in program]
        self.operations = float(sum(primitive.flops(read, made) for primitive, read, made in layouts))
        self.layers, self.decided = len(self._steps), bool(values)
        self.deciding = [(i, values[v.name].tobytes()) for i, v in enumerate(program.inputs) if v.name in values]
        steps = sum(
            (SPELLED_SECONDS if own and is_one_call(primitive) else REFERENCE_SECONDS)
            + (primitive.reference_seconds(read, made) - REFERENCE_SECONDS)
            for own, (primitive, read, made) in zip(spellings, layouts, strict=True)
        )
        self.seconds = steps + self.operations * OPERATION_SECONDS
        self.is_quick = self.seconds <= RUN_SECONDS
        self.saved, self.on_device = 0.0, None if self._steps else False

    def fits(self, given: Sequence[Any]) -> bool:
        """Whether *given*, the inputs in their order, have the types, shapes and values that the plan holds for."""
        for a, (shape, dtype) in zip(given, self._given, strict=True):
            if type(a) is not np.ndarray or a.shape != shape or (a.dtype is not dtype and a.dtype != dtype):
                return False
        return not self.deciding or all(given[i].tobytes() == known for i, known in self.deciding)

    def run(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Return the outputs by name; *arrays* are the inputs in their order. NumPy is to ignore what overflows."""
        values = self.values.copy()
        values[: len(arrays)] = arrays
        for step in self._steps:
            step(values)
        return {name: values[i] for name, i in self.outputs}


def _part(node: Node, own: Spelling | None, places: Mapping[Value, int]) -> PlanPart:
    """Return what computes *node*: its *own* spelling, or the reference, around which bfloat16 is float32."""
    inputs, outputs = (tuple([places[v] for v in values]) for values in (node.inputs, node.outputs))
    if own is not None:
        return PlanPart(own, inputs, outputs, single=len(outputs) == 1, scalar=not node.outputs[0].layout.rank)
    rounded = any(v.layout.dtype == DType.BF16 for v in node.inputs)
    return PlanPart(node.primitive.computed if rounded else node.primitive.reference, inputs, outputs)


class HostPlans:
    """The plans of one stage, each for the shapes and element types of its inputs.

    Binding a layer costs more than computing it on a few numbers; what shapes alone decide is computed once. A plan is
    made when shapes have come some times, so that a stream of new ones costs nothing.
    """

    def __init__(self, topology: Topology, comings: int = 2) -> None:
        """Make plans of *topology* when shapes come for that many times."""
        self._topology, self._comings = topology, comings
        self._met: OrderedDict[Hashable, int] = OrderedDict()
        self._plans: OrderedDict[Hashable, HostPlan | None] = OrderedDict()
        self._deciding: tuple[str, ...] = ()

    def find(self, arrays: Mapping[str, Any]) -> HostPlan | None:
        """Return the plan for *arrays*; ``None`` where they have hardly come before, or there cannot be one."""
        for a in arrays.values():
            if type(a) is not np.ndarray:
                return None
        key = self._key(arrays)
        if key in self._plans:
            self._plans.move_to_end(key)
            return self._plans[key]
        count = self._met.pop(key, 0) + 1
        _keep(self._met, key, count)
        if count < self._comings:
            return None
        made = self._made(arrays)
        _keep(self._plans, self._key(arrays), made)
        return made

    def known(self, arrays: Mapping[str, Any]) -> HostPlan | None:
        """Return the plan for *arrays* that has been made."""
        for a in arrays.values():
            if type(a) is not np.ndarray:
                return None
        key = self._key(arrays)
        if (plan := self._plans.get(key)) is not None:
            self._plans.move_to_end(key)
        return plan

    def take_over(self, other: HostPlans) -> None:
        """Share the plans that *other* has of the same stage, which count their runs together from now on."""
        self._met, self._plans, self._deciding = other._met.copy(), other._plans.copy(), other._deciding

    def _key(self, arrays: Mapping[str, Array]) -> Hashable:
        known = tuple([arrays[name].tobytes() for name in self._deciding]) if self._deciding else ()
        return tuple([(a.shape, a.dtype) for a in arrays.values()]), known

    def _made(self, arrays: Mapping[str, Array]) -> HostPlan | None:
        # As they came: bodies of loops declare what the first trip gets, and the references of layers take any.
        inputs = [(s, arrays[name]) for name, s in self._topology.inputs.items()]
        found = {s.name: replace(s, dtype=DType.of(a.dtype), shape=a.shape) for s, a in inputs}
        topology = replace(self._topology, inputs=found)
        while True:
            values = {name: arrays[name] for name in self._deciding}
            try:
                shapes = {name: a.shape for name, a in arrays.items()}
                return HostPlan(topology.build(shapes, values), values)
            except UnknownValueError as error:
                more = [name for name in error.inputs if name not in self._deciding]
                if not more or any(arrays[name].size > _DECIDING for name in more):
                    return None
                self._deciding = (*self._deciding, *more)
            except ClgraphError:
                return None


def _keep(kept: OrderedDict[Hashable, T], key: Hashable, value: T) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
