"""A topology run by the primitives' references: what small stages, bodies and the tests of both need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError, InputError, ShapeError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.graph.host_types import kind_of
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, DataDependent, OfHostValues, Primitive
from clgraph.graph.refusals import refusals
from clgraph.graph.topology import Topology, inlined

Spend = Callable[[float], None]
"""Told the arithmetic of every layer before it is computed; what it raises ends the run."""

Execute = Callable[["ControlFlow", Sequence[Any]], tuple[Array, ...]]
"""Computes the outputs of control flow on inputs."""

RunBody = Callable[[Topology, Mapping[str, Array]], dict[str, Array]]
"""Runs a topology on arrays by name and returns its outputs by name."""

Trip = Callable[[Sequence[Any]], list[Any]]
"""Runs a topology on its inputs in their order and returns its outputs in theirs."""


@np.errstate(all="ignore")  # infinity and NaN are results, whatever the program has told NumPy to do
def interpret(
    topology: Topology, feeds: Mapping[str, Array], spend: Spend | None = None, execute: Execute | None = None
) -> dict[str, Array]:
    """Return the outputs of *topology* on *feeds*, layer by layer with NumPy.

    Args:
        execute: Computes control flow; its bodies are interpreted, too, when not given.

    Raises:
        ShapeError, UnsupportedError: A layer does not fit its inputs; the message names it.
        InputError: An element means nothing to it, such as a text that is to be a number.
    """
    values: dict[str, Any] = {**topology.constants, **feeds}
    for layer in topology.layers:
        arguments = [values[name] for name in layer.inputs]
        check_kinds(layer, arguments)
        try:
            results = compute(layer.primitive, arguments, spend, execute)
        except Exception:  # references may raise of any class; to enter contexts takes longer than a small one
            refuse(layer)
            raise
        values.update(zip(layer.outputs, results, strict=False))
    return {name: values[source] for name, source in topology.outputs}


def refuse(layer: Layer) -> None:
    """Convert the exception being handled, raised by *layer*, to an error that names the layer."""
    try:
        with faults(f"the reference of {layer.primitive.kind}", layer.name, layer.origin), refusals():
            raise
    except (ShapeError, UnsupportedError, DeviceMemoryError, InputError) as error:
        raise type(error)(f"node {layer.name!r} ({layer.primitive}): {error}") from error


def compute(
    primitive: Primitive, arguments: Sequence[Any], spend: Spend | None = None, execute: Execute | None = None
) -> tuple[Array, ...]:
    """Return the results of one primitive, not bound yet, on *arguments*; *spend* and *execute* as for ``interpret``.

    Raises:
        ShapeError, UnsupportedError: It does not fit its inputs.
    """
    if primitive.data_dependent:
        if execute is not None and isinstance(primitive, ControlFlow):
            return execute(primitive, arguments)
        return primitive.reference(*arguments)
    layouts = [Layout.of(a) for a in arguments]
    if (body := inlined(primitive, layouts, arguments)) is not None:
        feeds = dict(zip(body.inputs, arguments[len(arguments) - len(body.inputs) :], strict=True))
        results = interpret(body, feeds, spend, execute)
        return tuple(results[name] for name, _ in body.outputs)
    bound = primitive.bind(layouts, arguments)
    kept = [layouts[i] for i in bound.keep]
    if spend is not None:
        spend(bound.primitive.flops(kept, bound.primitive.infer(kept)))
    return bound.primitive.computed(*(np.asarray(arguments[i]) for i in bound.keep))


def check_kinds(layer: Layer, arguments: Sequence[Any]) -> None:
    """Raise ``ShapeError`` where *layer* expects a tensor and gets a sequence, an optional or a map, or vice versa."""
    primitive = layer.primitive
    own = primitive if primitive.data_dependent and isinstance(primitive, OfHostValues) else None
    if own is None and all([type(a) is np.ndarray for a in arguments]):  # noqa: C419  # a generator takes twice as long
        return
    if isinstance(primitive, ControlFlow) or (own is not None and own.takes_any):
        return
    for slot, argument in enumerate(arguments):
        found, wanted = kind_of(argument), "a tensor" if own is None else own.kind_at(slot)
        if found != wanted:
            source = f"input {slot} ({layer.inputs[slot]!r})"
            raise ShapeError(f"node {layer.name!r}: {source} is {found}, and {primitive.kind} requires {wanted}")


class InvariantInputs(ABC):
    """Elements and sizes of a control-flow operator's inputs, as far as they are the same in every run."""

    @abstractmethod
    def values(self, slots: Collection[int]) -> Mapping[int, Array]:
        """Return the elements of the inputs in *slots*, by slot, as far as they are the same in every run."""

    @abstractmethod
    def size(self, slot: int, axis: int) -> int | None:
        """Return a size of an input, if it is the same in every run."""


class Blocks(ABC):
    """A loop rewritten so that one execution of a body computes several of its trips.

    Attributes:
        bodies: The rewritten bodies, by the number of trips that each computes.
    """

    bodies: dict[int, Topology]

    @abstractmethod
    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...] | str:
        """Return the outputs, computed by *bodies* with *run*; where the inputs do not allow that, the reason."""


class RunsTrips(ABC):
    """A :data:`RunBody` that finds what runs a body once for all trips of a loop."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, body: Topology, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of *body* by name."""

    @abstractmethod
    def trips(self, body: Topology) -> Trip:
        """Return what runs *body* as a call does."""


def trips(body: Topology, run: RunBody) -> Trip:
    """Return what runs *body* with *run*, trip by trip."""
    return run.trips(body) if isinstance(run, RunsTrips) else by_names(body, run)


def by_names(body: Topology, run: RunBody) -> Trip:
    """Return what calls *run* on *body*."""
    names, made_names = tuple(body.inputs), [name for name, _ in body.outputs]

    def trip(given: Sequence[Any]) -> list[Any]:
        made = run(body, dict(zip(names, given, strict=True)))
        return [made[name] for name in made_names]

    return trip


class ControlFlow(DataDependent):
    """Base of primitives that run bodies, topologies of their own: If, Loop, Scan.

    The inputs of every body end with what it reads of the graph around it, which are the last inputs of the primitive.
    """

    __slots__ = ()

    @abstractmethod
    def bodies(self) -> Mapping[str, Topology]:
        """Return the bodies by the name of their role."""

    @abstractmethod
    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        """Compute the outputs, the bodies with *run*."""

    def unrolled(self, known: InvariantInputs) -> Topology | None:
        """Return layers that compute the same for all feeds and read its last inputs; ``None`` if it stays as it is."""
        return None

    def blocks(self) -> Blocks | str:
        """Return the operator with several trips in one execution, or the reason why that is impossible.

        The default, an empty reason, is that of operators without trips. The result is computed once and kept.
        """
        return ""

    def result_types(self) -> Sequence[str | None]:
        """Return the types of the results as ONNX spells them, where the bodies tell them: as the first body's."""
        body = next(iter(self.bodies().values()))
        return [body.declared[name].type if name in body.declared else None for name, _ in body.outputs]

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the outputs, the bodies by references too."""
        return self.execute(inputs, interpret)

    def print_below(self, indent: str) -> list[str]:
        """Return the bodies, each below the name of its role."""
        return [line for role, body in self.bodies().items() for line in (f"{indent}{role}:", *body.lines(indent))]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}: {len(b.layers)} layers' for name, b in self.bodies().items())})"
