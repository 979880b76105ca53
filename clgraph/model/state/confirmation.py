"""Whether the layers of an attention that is spelled out make of random numbers what the attention makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from clgraph.errors import ClgraphError
from clgraph.graph.interpret import interpret
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.state.examples import Examples
from clgraph.model.state.spelled_attention import Spelled

_CLOSE, _CLOSE_HALVES = 1e-4, 2e-2
"""How near mixtures of normal numbers are to each other where two ways to make them mean the same: of absolute and of
relative size, in float32 and wider types, and in narrower ones.

Scores are below 8, and come out of a dozen roundings of either sign: sqrt(12) * 8 * 2**-11 = 1.4e-2 of float16; of
float32 2e-6, and sqrt(512) * 8 * 2**-24 = 1.1e-5 by a sum over depth 512. Another scale, mask or order of heads moves
mixtures by tenths. What is refused for its roundings runs as it is spelled out.
"""


def is_confirmed(s: Spelled, topology: Topology, examples: Examples) -> bool:
    """Whether the layers of *s* make of random numbers, of the shapes of *examples*, what the attention makes."""
    shapes, masks = examples.shapes, {mask.name: mask.hides for mask in s.scores.masks}
    if any(name not in shapes for name in s.cut):
        return False
    random = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for name in s.cut:
        shape, dtype = shapes[name]
        feeds[name] = random.standard_normal(shape).astype(dtype)
        if name in masks:
            feeds[name] = (random.random(shape) < 0.5) & (np.arange(shape[-1]) > 0) ^ (not masks[name])
    try:
        want = _mixtures(s, topology, topology.layers, examples, feeds)
        got = _mixtures(s, topology, s.layers, examples, feeds)
    except ClgraphError:
        return False
    close = _CLOSE if want.dtype.itemsize >= 4 else _CLOSE_HALVES
    return want.shape == got.shape and bool(np.allclose(want.astype(np.float32), got.astype(np.float32), close, close))


def _mixtures(
    s: Spelled, topology: Topology, layers: Iterable[Layer], examples: Examples, feeds: Mapping[str, Array]
) -> Array:
    """Return what *layers* make of *feeds* for the mixtures of *s*, and of ones for other inputs of the model."""
    body, found, needed = Topology(), list[Layer](), {s.last.outputs[0]}
    for layer in reversed(list(layers)):
        if needed & set(layer.outputs) - feeds.keys():
            found.insert(0, layer)
            needed |= set(layer.inputs)
    ones = {name: np.ones(*examples.shapes[name]) for name in topology.inputs if name in needed - feeds.keys()}
    for name in (*feeds, *ones):
        body.input(name, None, None)
    for name, array in (topology.constants | s.scores.arrays(examples.type_of(s.queries))).items():
        if name in needed:
            body.constant(name, array)
    for x in found:
        outputs = [n if n not in feeds else f"{n}:unused" for n in x.outputs]
        body.add(x.name, x.primitive, *x.inputs, outputs=outputs)
    body.output(s.last.outputs[0])
    return interpret(body, {**feeds, **ones})[s.last.outputs[0]]
