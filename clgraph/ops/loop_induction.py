"""Induction variables of a loop: counters, conditions on them, and slices by them, known before its first trip."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.topology import Topology
from clgraph.graph.unrolling import needed_for
from clgraph.ops.loop_trips import LoopBody

_CUTS = ("gather", "slice")

_BY_DATA = "its condition depends on data"


@frozen
class InductionVariables:
    """The values of a loop that can be computed for all trips before it starts.

    Attributes:
        states: Carried values that depend on their initial values and the trip number alone.
        names: These, the trip number, and every value that is computed from both alone.
        trip: Computes them and the condition for one trip; its other inputs are values of the graph around the loop.
        cuts: Layers that take a slice of such an outer value at an index that is one of *names*.
    """

    states: tuple[str, ...]
    names: frozenset[str]
    trip: Topology
    cuts: tuple[Layer, ...]


def induction_variables(body: LoopBody) -> InductionVariables | str:
    """Return the induction variables of a loop with *body*; if its trip count is not known before it, the reason."""
    layers = body.topology.layers
    if RANDOM_KEY in body.topology.inputs:
        return "every trip draws random numbers of its own"
    if (dependent := next((x for x in layers if x.primitive.data_dependent), None)) is not None:
        return f"{dependent.name!r} of its body ({dependent.primitive.kind}) depends on data"
    nexts = dict(zip(body.carried, body.next, strict=True))
    around = {*body.around, *(name for name, value in nexts.items() if name == value)}
    asked = body.deciding()
    if asked is None:
        return _BY_DATA
    constants = {*body.topology.constants, body.condition}
    given = {name for name in asked.inputs if name in around}
    states = [name for name in body.carried if name not in around]
    while True:
        own, known = _following(layers, {*constants, *given, body.trip, *states})
        left = [name for name in states if nexts[name] in known]
        if left == states:
            break
        states = left
    if body.goes_on not in known:
        return _BY_DATA
    names = known - _following(layers, constants)[1] - given
    cuts = [x for x in layers if x.primitive.kind in _CUTS and x.inputs[0] in around and _cuts(x, known, names)]
    wanted = {body.goes_on, *names, *(nexts[name] for name in states), *(name for x in cuts for name in x.inputs[1:])}
    trip = Topology(layers=needed_for(wanted, own))
    read = wanted | {name for layer in trip.layers for name in layer.inputs}
    trip.inputs = {n: s for n, s in body.topology.inputs.items() if n in read and n in {body.trip, *states, *given}}
    trip.constants = {n: a for n, a in body.topology.constants.items() if n in read} | {body.condition: np.array(True)}
    trip.outputs = [(name, name) for layer in trip.layers for name in layer.outputs]
    return InductionVariables(tuple(states), frozenset(names), trip, tuple(cuts))


def _following(layers: Sequence[Layer], known: Collection[str]) -> tuple[list[Layer], set[str]]:
    """Return the layers that follow from what is *known* alone, and all that is known with them."""
    found, own = set(known), list[Layer]()
    for layer in layers:
        if found.issuperset(layer.inputs):
            found.update(layer.outputs)
            own.append(layer)
    return own, found


def _cuts(layer: Layer, known: Collection[str], names: Collection[str]) -> bool:
    """Whether where *layer* cuts its first input is known before the loop starts, and another place in each trip."""
    places = layer.inputs[1:]
    return all(name in known for name in places) and any(name in names for name in places)
