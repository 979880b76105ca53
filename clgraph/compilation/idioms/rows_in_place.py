"""Rows that a mask chooses and that are put back where it chose them, computed for all rows.

PyTorch's exporters write ``y[mask] = f(x[mask])`` as a NonZero of the mask, a GatherND, the layers of f, and a
ScatterND. How many rows there are only the data tells, so that the splines of VITS's durations would run in twelve
stages. Here f computes all rows, and those that were not chosen stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from clgraph.compilation.idioms.row_choices import NUMBERS, read_few_bytes
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.state.examples import Examples
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.reshape import Reshape
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.sequence import Sequential
from clgraph.ops.shape import EveryPlace, Size
from clgraph.ops.where import Where

_ZERO, _ONE = NUMBERS

_LIKE_THE_MASK = frozenset({"expand", "identity"})
"""What makes a mask that chooses the same rows of it, if its size stays."""

_CLOSE = 1e-4
"""How far apart float32 results of some hundred operations on numbers near 1 may be that are equal but for rounding:
2^-24 each. Rows that are others differ by about 1."""


@dataclass(eq=False)
class PlacedRows:
    """NonZeros of one mask, what is computed of the rows that they find, and the ScatterNDs that put these back."""

    finders: list[Layer] = field(default_factory=list)
    rows: list[Layer] = field(default_factory=list)
    sinks: list[Layer] = field(default_factory=list)
    lost: bool = False

    @property
    def layers(self) -> list[Layer]:
        """All of them; a NonZero may stand behind rows, a row never behind what it reads."""
        return [*self.finders, *self.rows, *self.sinks]

    def outer(self, constants: Mapping[str, Array]) -> list[str]:
        """Return the names of what is read, in order, but for *constants*."""
        inner = {name for x in (*self.finders, *self.rows) for name in x.outputs}
        read = dict.fromkeys(name for x in self.layers for name in x.inputs)
        return [name for name in read if name not in inner and name not in constants]


def with_rows_in_place(topology: Topology) -> Topology:
    """Return *topology* without stages for rows that are put back where they were found, else itself.

    The layers for all rows are confirmed by numbers: they make the same of an example.
    """
    if any(name in topology.constants for name in NUMBERS):
        return topology
    found = [x for x in placed_rows(topology) if read_few_bytes(x.rows, topology.constants)]
    if not found or (program := _example(topology, found)) is None:
        return topology
    confirmed = [x for x in found if _Confirming(topology, x, program).holds()]
    return _rewritten(topology, confirmed).pruned() if confirmed else topology


def placed_rows(topology: Topology) -> list[PlacedRows]:
    """Return the rows of each mask that nothing depends on but their places in *topology*."""
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    owners = dict[str, PlacedRows]()
    for layer in topology.layers:
        own = list({id(x): x for name in layer.inputs if (x := owners.get(name)) is not None}.values())
        if layer.primitive.kind == "non_zero" and not own:
            owners[layer.outputs[0]] = PlacedRows([layer])
        elif own:
            one = _joined(own, owners)
            if _puts_back(layer, makers) and layer.inputs[0] not in owners and layer.inputs[2] in owners:
                one.sinks.append(layer)
                continue
            one.rows.append(layer)
            one.lost |= layer.primitive.data_dependent
            owners.update(dict.fromkeys(layer.outputs, one))
    for _, value in topology.outputs:
        if value in owners:
            owners[value].lost = True
    order = {layer.name: i for i, layer in enumerate(topology.layers)}
    every = list({id(x): x for x in owners.values()}.values())
    for one in every:
        for layers in (one.finders, one.rows, one.sinks):
            layers.sort(key=lambda x: order[x.name])
    return [x for x in every if x.sinks and not x.lost and len({_root(f.inputs[0], makers) for f in x.finders}) == 1]


def _joined(own: Sequence[PlacedRows], owners: dict[str, PlacedRows]) -> PlacedRows:
    first, *others = own
    for other in others:
        first.finders += other.finders
        first.rows += other.rows
        first.sinks += other.sinks
        first.lost |= other.lost
        owners.update((name, first) for name, x in owners.items() if x is other)
    return first


def _puts_back(layer: Layer, makers: Mapping[str, Layer]) -> bool:
    """Whether *layer* scatters what a NonZero's places, turned to rows, are read for."""
    if not isinstance(layer.primitive, ScatterND) or layer.primitive.reduction != "none":
        return False
    turned = makers.get(layer.inputs[1])
    finder = None if turned is None or turned.primitive.kind != "transpose" else makers.get(turned.inputs[0])
    return finder is not None and finder.primitive.kind == "non_zero"


def _root(mask: str, makers: Mapping[str, Layer]) -> str:
    """Return the mask of which *mask* is an expansion."""
    while (layer := makers.get(mask)) is not None and layer.primitive.kind in _LIKE_THE_MASK:
        mask = layer.inputs[0]
    return mask


def _rewritten(topology: Topology, found: Sequence[PlacedRows]) -> Topology:
    """Return *topology* with all rows of *found* computed."""
    finders = {x.name for one in found for x in one.finders}
    sinks = {x.name: one for one in found for x in one.sinks}
    masks = {x.outputs[0]: x.inputs[0] for one in found for x in one.finders}
    turned = {x.outputs[0]: masks[x.inputs[0]] for one in found for x in one.rows if x.inputs[0] in masks}
    made = replace(topology, layers=[], constants=topology.constants | NUMBERS)
    for layer in topology.layers:
        if layer.name in finders:
            made.layers.append(replace(layer, primitive=EveryPlace()))
        elif layer.name in sinks:
            made.layers += _put_back(layer, turned[layer.inputs[1]])
        else:
            made.layers.append(layer)
    return made


def _put_back(sink: Layer, mask: str) -> list[Layer]:
    """Return layers that make of all rows what *sink* makes of those that *mask* has chosen, of tensors of any rank."""
    name, (data, places, rows) = sink.name, sink.inputs
    made: list[tuple[str, Primitive, tuple[str, ...]]] = [
        ("old", GatherND(), (data, places)),
        ("both", Concat(0), (rows, f"{name}/old")),
        ("size", Size(), (mask,)),
        ("new", Sequential(), (_ZERO, f"{name}/size", _ONE)),
        ("kept", Eltwise("add"), (f"{name}/new", f"{name}/size")),
        ("line", Reshape((-1,)), (mask,)),
        ("chosen", Where(), (f"{name}/line", f"{name}/new", f"{name}/kept")),
        ("rows", Gather(0), (f"{name}/both", f"{name}/chosen")),
    ]
    layers = [Layer(f"{name}/{n}", p, x, (f"{name}/{n}",), sink.origin) for n, p, x in made]
    return [*layers, replace(sink, inputs=(data, places, f"{name}/rows"))]


def _example(topology: Topology, found: Sequence[PlacedRows]) -> Program | None:
    """Return a program of small sizes that makes what *found* read; ``None`` where that needs stages all the same."""
    read = dict.fromkeys(name for x in found for name in x.outer(topology.constants))
    return Examples(replace(_rewritten(topology, found), outputs=[(n, n) for n in read]).pruned()).program


@frozen
class _Confirming:
    """Compares on random numbers what rows make with what all rows make."""

    topology: Topology
    one: PlacedRows
    program: Program

    def holds(self) -> bool:
        """Whether all rows make the same for a few masks."""
        values = dict(self.program.outputs)
        masks = [x.inputs[0] for x in self.one.finders]
        root = min((values[m].layout.shape for m in masks if m in values), key=prod, default=())
        if any(m not in values or values[m].layout.dtype != DType.BOOL for m in masks) or prod(root) < 2:
            return False
        whole = replace(self.topology, layers=self.one.layers)
        random = np.random.default_rng(0)
        half = random.permutation(prod(root)) < prod(root) // 2
        for chosen in (half, ~half, np.arange(prod(root)) == 1):
            feeds: dict[str, Array] = {}
            for name in self.one.outer(self.topology.constants):
                layout, constant = values[name].layout, values[name].constant
                if name in masks:
                    feeds[name] = np.ascontiguousarray(np.broadcast_to(chosen.reshape(root), layout.shape))
                elif constant is not None:
                    feeds[name] = constant
                elif layout.dtype.floating:
                    feeds[name] = random.standard_normal(layout.shape).astype(layout.dtype.numpy)
                else:
                    return False
            try:
                want, got = self._values(whole, feeds), self._values(_rewritten(whole, [self.one]), feeds)
            except (ClgraphError, KeyError, ValueError, IndexError) as error:
                pass_on(error)
                return False
            for name in (x.outputs[0] for x in self.one.sinks):
                a, b = want[name], got[name]
                if a.shape != b.shape or not np.allclose(a, b, _CLOSE, _CLOSE, equal_nan=True):
                    return False
        return True

    def _values(self, part: Topology, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the layers of *part* make of *feeds*, by name."""
        values: dict[str, Array] = {**part.constants, **feeds}
        for layer in part.layers:
            results = compute(layer.primitive, [values[name] for name in layer.inputs])
            values.update(zip(layer.outputs, results, strict=False))
        return values
