"""Rows that a mask chooses, computed for all rows: mixtures of experts as PyTorch's exporters write them.

For each expert a NonZero finds the rows whose token has chosen it; they are gathered, computed, and scattered to where
they were. How many there are only the data tells, so that a model of N experts would run in 2 N stages a layer, and
would have no state. Here every expert computes all rows, and where it was not chosen the sum stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clgraph.compilation.idioms.mixtures import with_mixtures
from clgraph.compilation.idioms.row_choices import NUMBERS, RowChoice, are_small, row_choices
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.state.examples import Examples

_GATHERS = frozenset({"gather", "gather_nd"})

_CLOSE, _CLOSE_HALVES = {np.dtype(np.float32): 1e-4}, 2e-2
"""How far apart sums of some hundred products may be that are the same but for their order, of numbers near 1: rounding
moves them by 2^-24 a term, of halves by 2^-8 in all. Rows that are others differ by about 1."""


def with_all_rows(topology: Topology) -> Topology:
    """Return *topology* without stages for rows that are chosen, where nothing else needs such; else itself.

    Each expert's layers are confirmed by numbers: those for all rows make the same of an example.
    """
    choices = row_choices(topology)
    if not choices or any(name in topology.constants for name in NUMBERS):
        return topology
    if (program := _example(_rewritten(topology, choices, {}), choices)) is None:
        return topology
    if (made := with_mixtures(topology, choices, program)) is not None:
        return made
    if not are_small(choices, topology.constants):
        return topology
    same: dict[object, tuple[int, ...] | None] = {}
    copies: dict[str, str] = {}
    known = {name: v.constant for name, v in program.outputs if v.constant is not None}
    for choice in choices:
        form = choice.form({**topology.constants, **known})
        if form not in same:
            same[form] = _Confirmed(topology, choice, program, known).copies()
        if (found := same[form]) is None:
            return topology
        copies |= {choice.rows[i].outputs[0]: choice.rows[i].inputs[0] for i in found}
    return _rewritten(topology, choices, copies).pruned()


def _example(made: Topology, choices: Sequence[RowChoice]) -> Program | None:
    """Return *made*, all rows of *choices*, for a few tokens, with the values that those read as further outputs."""
    layers = [x for choice in choices for x in (choice.finder, *choice.rows, *choice.sinks)]
    inner = {name for choice in choices for x in (choice.finder, *choice.rows) for name in x.outputs}
    named = {name for name, _ in made.outputs}
    read = dict.fromkeys(name for x in layers for name in x.inputs if name not in made.constants)
    more = [(name, name) for name in read if name not in named and name not in inner]
    return Examples(replace(made, outputs=[*made.outputs, *more])).program


def _rewritten(topology: Topology, choices: Sequence[RowChoice], copies: Mapping[str, str]) -> Topology:
    """Return *topology* with all rows computed.

    Args:
        copies: The values that are read in place of others, by the names of these.
    """
    by_finder = {choice.finder.name: choice for choice in choices}
    by_sink = {sink.name: choice for choice in choices for sink in choice.sinks}
    constants = topology.constants | NUMBERS
    made = replace(topology, layers=[], constants=constants)
    for layer in topology.layers:
        if layer.outputs[0] in copies:
            continue
        layer = replace(layer, inputs=tuple(_source(name, copies) for name in layer.inputs))
        if layer.name in by_finder:
            made.layers += by_finder[layer.name].before
        elif layer.name in by_sink:
            made.layers += by_sink[layer.name].behind(layer)
        else:
            made.layers.append(layer)
    return made


def _source(name: str, copies: Mapping[str, str]) -> str:
    while name in copies:
        name = copies[name]
    return name


@dataclass
class _Confirmed:
    """Compares on random numbers what a choice of rows makes with what its layers for all rows make."""

    topology: Topology
    choice: RowChoice
    program: Program
    known: Mapping[str, Array]

    def copies(self) -> tuple[int, ...] | None:
        """Return which of its layers gather all rows in order; ``None`` where all rows make something else."""
        shapes = {name: value.layout for name, value in self.program.outputs}
        mask = self.choice.finder.inputs[0]
        if mask not in shapes or len(shapes[mask].shape) != 2 or shapes[mask].shape[1 - self.choice.axis] < 2:
            return None
        random, copies = np.random.default_rng(0), set(range(len(self.choice.rows)))
        count = shapes[mask].shape[1 - self.choice.axis]
        every = np.arange(count)
        for rows in (every, every[:0], every[1:], every[::2], every[1::2], every[random.random(count) < 0.5]):
            feeds: dict[str, Array] = {mask: self._mask(random, shapes[mask].shape, rows)}
            for layer in (*self.choice.rows, *self.choice.sinks):
                for name in layer.inputs:
                    if name in feeds or any(name in x.outputs for x in self._inner):
                        continue
                    if (array := self._array(random, shapes, name)) is None:
                        return None
                    feeds[name] = array
            try:
                want = _values([self.choice.finder, *self.choice.rows, *self.choice.sinks], feeds)
                behind = [x for sink in self.choice.sinks for x in self.choice.behind(sink)]
                got = _values([*self.choice.before, *self.choice.rows, *behind], feeds)
            except (ClgraphError, KeyError, ValueError, IndexError) as error:
                pass_on(error)
                return None
            for sink in self.choice.sinks:
                a, b = want[sink.outputs[0]], got[sink.outputs[0]]
                close = _CLOSE.get(a.dtype, _CLOSE_HALVES)
                if a.shape != b.shape or not np.allclose(a.astype(np.float32), b.astype(np.float32), close, close):
                    return None
            copies = {i for i in copies if self._is_copy(self.choice.rows[i], got)}
        return tuple(sorted(copies))

    def _array(self, random: np.random.Generator, shapes: Mapping[str, Layout], name: str) -> Array | None:
        """Return what *name* is where that is known, else random numbers; ``None`` where it may be places."""
        if (array := self.topology.constants.get(name, self.known.get(name))) is not None:
            return array
        if name not in shapes or not shapes[name].dtype.floating:
            return None
        return random.standard_normal(shapes[name].shape).astype(shapes[name].dtype.numpy)

    @property
    def _inner(self) -> list[Layer]:
        return [self.choice.finder, *self.choice.rows]

    def _mask(self, random: np.random.Generator, shape: tuple[int, ...], rows: Array) -> Array:
        """Return a mask of which each of *rows* has one element along the axis."""
        places = random.integers(0, shape[self.choice.axis], len(rows))
        made = np.zeros(shape, bool)
        made[(places, rows) if self.choice.axis == 0 else (rows, places)] = True
        return made

    @staticmethod
    def _is_copy(layer: Layer, values: Mapping[str, Array]) -> bool:
        if layer.primitive.kind not in _GATHERS or not np.issubdtype(values[layer.inputs[0]].dtype, np.floating):
            return False
        source, made = values[layer.inputs[0]], values[layer.outputs[0]]
        return source.shape == made.shape and source.size > 1 and np.array_equal(source, made)


def _values(layers: Sequence[Layer], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return what *layers* make of *feeds*, with these, by name."""
    values = {**NUMBERS, **feeds}
    for layer in layers:
        results = compute(layer.primitive, [values[name] for name in layer.inputs])
        values.update(zip(layer.outputs, results, strict=False))
    return values
