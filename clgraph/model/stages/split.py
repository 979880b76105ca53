"""Splits a topology at data-dependent shapes, once, before any shape is known.

A *piece* is an ordinary topology. Its number says when it can run: the even ones hold layers whose shapes are known
once their inputs are there (and the elements of those that decide shapes), so that they can be compiled; the odd ones
what has to be computed to know a shape (NonZero, NonMaxSuppression …), control flow, and what takes or makes values
that are no tensors of numbers. Number -1 reads the model's inputs alone. What small inputs of the model decide needs no
stages: their elements are part of a specialisation's key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from clgraph.core.frozen import frozen, mutable
from clgraph.graph.excerpts import excerpt
from clgraph.graph.host_types import has_strings
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.known_values import VALUE_ELEMENTS
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import DataDependent, OfHostValues
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology

FIRST = -1
"""Of what is there before anything has run."""


@frozen
class Piece:
    """Layers that run together; reads what earlier pieces make by its name there, of any type and shape."""

    number: int
    topology: Topology

    @property
    def compilable(self) -> bool:
        """Whether it can be compiled, once its inputs are there."""
        return self.number % 2 == 0


def needs_stages(topology: Topology) -> bool:
    """Whether shapes depend on what *topology* computes, bodies are run on conditions, or values stay on the host."""
    numbers = _Numbers(topology, topology.needed())
    return bool(numbers.held) or any(number != 0 for number in numbers.of.values())


def split(topology: Topology, *, body: bool = False, label: str = "") -> tuple[Piece, ...]:
    """Return the pieces in the order of their numbers, labelled behind *label*; what no output needs is left out.

    In a *body* that is run many times, what reads sizes or places from values of the run (a Slice by the number of the
    trip) is left to the host, so that the rest is compiled for its shapes alone.
    """
    needed = topology.needed()
    numbers = _Numbers(topology, needed, host_values=body).of
    fixed = _fixed(topology, needed, numbers)
    made = {name for layer in fixed for name in layer.outputs}
    wanted = {source for _, source in topology.outputs}
    pieces = []
    for number in sorted(set(numbers.values()), reverse=True):
        own = [x for x in needed if numbers[x.name] == number and made.isdisjoint(x.outputs)]
        read = {name for layer in own for name in layer.inputs} if number % 2 == 0 else set()
        layers = {x.name for x in (*own, *_makers(fixed, read if number else read | wanted))}
        if not layers:
            continue
        part = excerpt(topology, [x for x in needed if x.name in layers], wanted - made if number else wanted)
        part.label = f"{label}stage_{number}"
        pieces.append(Piece(number, part))
        wanted.update(part.inputs)
    return tuple(pieces[::-1])


def _fixed(topology: Topology, needed: Sequence[Layer], numbers: Mapping[str, int]) -> list[Layer]:
    """Return what computes from constants alone, such as the floats of weights in bytes.

    Each compilable piece has its own of them: what another handed over were an input, not weights to be packed.
    """
    known, fixed = set(topology.constants), list[Layer]()
    for x in needed:
        if numbers[x.name] == 0 and x.inputs and known.issuperset(x.inputs) and not x.primitive.updates:
            known.update(x.outputs)
            fixed.append(x)
    return fixed


def _makers(layers: Sequence[Layer], wanted: Collection[str]) -> list[Layer]:
    """Return those of *layers* that what is *wanted* needs, from the last to the first."""
    names, found = set(wanted), list[Layer]()
    for layer in reversed(layers):
        if not names.isdisjoint(layer.outputs):
            names.update(layer.inputs)
            found.append(layer)
    return found


@mutable
class _Numbers:
    """The number of the piece of each layer, found in one walk.

    Attributes:
        known: Values that shapes alone decide.
        keyed: Those and what small inputs decide: they are constants when shapes are bound.
        held: Values that are no tensors of numbers, or may be none: programs have no place for them.
        of: The numbers by layer.
    """

    topology: Topology
    layers: Sequence[Layer]
    known_inputs: Collection[str] = ()
    keyed_inputs: Collection[str] = ()
    held_inputs: Collection[str] = ()
    host_values: bool = False
    of: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(init=False)
    keyed: set[str] = field(init=False)
    held: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Walk the layers."""
        topology = self.topology
        self.known = {*topology.constants, *self.known_inputs}
        small = {name for name, signature in topology.inputs.items() if _is_small(signature)}
        self.keyed = {*self.known, *self.keyed_inputs, *small}
        self.held = {name for name, s in topology.inputs.items() if s.host_type or name in self.held_inputs}
        self.held |= {name for name, array in topology.constants.items() if has_strings(array)}
        at = dict.fromkeys((*topology.inputs, *topology.constants), FIRST)
        for layer in self.layers:
            self.of[layer.name] = number = self._number(layer, at)
            at.update(dict.fromkeys(layer.outputs, number))
            if number % 2 and self._may_hold(layer):
                self.held.update(layer.outputs)
            for decided in (self.known, self.keyed) if number % 2 == 0 else ():
                if layer.primitive.shapes_only or all(name in decided for name in layer.inputs):
                    decided.update(layer.outputs)

    def _number(self, layer: Layer, at: dict[str, int]) -> int:
        number = max((at[name] for name in layer.inputs), default=FIRST)
        if layer.primitive.data_dependent and not self._settled(layer):
            return number + (number % 2 == 0)
        decide = [layer.inputs[i] for i in layer.primitive.value_slots() if i < len(layer.inputs)]
        if self.host_values and not all(name in self.known for name in decide):
            return number + (number % 2 == 0)
        number += number % 2
        for name in decide:
            if name not in self.keyed:
                number = max(number, at[name] + 2 - at[name] % 2)
        return number

    def _may_hold(self, layer: Layer) -> bool:
        """Whether results of a layer that is not compiled may be other than tensors of numbers."""
        if not isinstance(layer.primitive, ControlFlow):
            return isinstance(layer.primitive, OfHostValues)
        return not self.held.isdisjoint(layer.inputs) or any(
            self._inner(body, layer).held for body in layer.primitive.bodies().values()
        )

    def _settled(self, layer: Layer) -> bool:
        """Whether a layer whose results depend on elements leaves none when shapes are bound."""
        if isinstance(layer.primitive, DataDependent) and not layer.primitive.foldable:
            return False
        if not layer.primitive.value_slots():
            return all(name in self.known for name in layer.inputs)
        if not all(layer.inputs[i] in self.keyed for i in layer.primitive.value_slots()):
            return False
        if not isinstance(layer.primitive, ControlFlow):
            return True
        inner = [self._inner(body, layer) for body in layer.primitive.bodies().values()]
        return self.held.isdisjoint(layer.inputs) and not any(n.held or any(n.of.values()) for n in inner)

    def _inner(self, body: Topology, layer: Layer) -> _Numbers:
        """Return the numbers in a body whose last inputs are the last ones of *layer*."""
        count = min(len(body.inputs), len(layer.inputs))
        pairs = list(zip(list(body.inputs)[-count:], layer.inputs[-count:], strict=True)) if count else []
        known, keyed, held = ([own for own, name in pairs if name in d] for d in (self.known, self.keyed, self.held))
        return _Numbers(body, body.needed(), known, keyed, held)


def _is_small(signature: Signature) -> bool:
    """Whether an input can hold no more than a few numbers by its declaration."""
    if signature.host_type or signature.shape is None or len(signature.shape) > 1:
        return False
    if signature.is_fixed:
        return all(isinstance(d, int) and d <= VALUE_ELEMENTS for d in signature.shape)
    return signature.dtype is not None and not signature.dtype.floating
