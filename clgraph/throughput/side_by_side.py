"""Several requests in one run, side by side: each request's own layers, then those whose weights all share.

A batch costs the copy of its requests into one array, and its values leave the caches that those of one request stay
in. Here every request is an input of its own, its layers run one after the other, and its values are joined where the
weights of what follows are more than the values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import accumulate
from typing import Any

from clgraph.core.frozen import mutable
from clgraph.core.layout import Shape
from clgraph.errors import ClgraphError, ClosedError
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.ops.concat import Concat
from clgraph.passes.memory.slice_costs import moved
from clgraph.passes.memory.split_batch import slice_of
from clgraph.throughput.batching import MOST_SIDE_BY_SIDE


def shapes_of_one(topology: Topology) -> dict[str, Shape] | None:
    """Return the shapes of the inputs for a request of one entry; ``None`` where more than the batch is open."""
    shapes = {name: signature.shape or () for name, signature in topology.inputs.items()}
    if not all(shape and all(isinstance(size, int) for size in shape[1:]) for shape in shapes.values()):
        return None
    return {name: (1, *[int(size) for size in shape[1:] if isinstance(size, int)]) for name, shape in shapes.items()}


def fed_name(name: str, number: int) -> str:
    """Return what the input *name* of request *number* is called."""
    return f"{name}/request{number}"


def side_by_side(topology: Topology, count: int) -> Topology | None:
    """Return *topology*, whose batch is open and whose entries stay apart, for *count* requests of one entry each.

    Its results are those of the batch. ``None`` where values had best be joined before the first layer, or more than
    the batch is open.

    Raises:
        ClgraphError: The topology does not fit a batch.
    """
    if (shapes := shapes_of_one(topology)) is None:
        return None
    layers, own, shared = topology.needed(), list[Layer](), list[Layer]()
    alone = _alone(topology, layers, shapes)
    apart = dict.fromkeys(topology.inputs)
    for layer in layers[:alone]:
        if apart.keys().isdisjoint(layer.inputs):
            shared.append(layer)
        else:
            own.append(layer)
            apart.update(dict.fromkeys(layer.outputs))
    if not own:
        return None
    read = {name for layer in layers[alone:] for name in layer.inputs} | {value for _, value in topology.outputs}
    each = [
        {n: replace(topology.inputs[n], name=fed_name(n, i), shape=s) for n, s in shapes.items()} for i in range(count)
    ]
    return replace(
        topology.with_shapes(shapes, anew=True),
        inputs={signature.name: signature for inputs in each for signature in inputs.values()},
        layers=[
            *shared,
            *(_of_request(layer, apart, i) for i in range(count) for layer in own),
            *(_join(name, count) for name in apart if name in read),
            *layers[alone:],
        ],
        overridable={},
    )


def _alone(topology: Topology, layers: Sequence[Layer], shapes: Mapping[str, Shape]) -> int:
    """Return how many of *layers* each request had best run alone, by the bytes that move: weights, or values."""
    # Slices of two entries: operators may repeat a single one.
    program = topology.build({name: (2 * MOST_SIDE_BY_SIDE, *shape[1:]) for name, shape in shapes.items()})
    found = slice_of(program, MOST_SIDE_BY_SIDE)
    if isinstance(found, str):
        return 0
    sizes = {id(v.layout): v.layout.nbytes for v in (*program.inputs, *(v for n in program for v in n.outputs))}
    weights, values = dict[str, float](), dict[str, float]()
    for node in program:
        nbytes = sum(v.layout.nbytes for v in node.inputs if v.constant is not None)
        weights[node.name] = (MOST_SIDE_BY_SIDE - 1) * nbytes
        values[node.name] = moved(node, sizes) / 2  # of so many requests
    cut = {v.name for v in found.layouts if found.is_cut(v)}
    again = [0.0, *accumulate(weights.get(layer.name, 0.0) for layer in layers)]
    spilt = [0.0, *accumulate(values.get(layer.name, 0.0) for layer in layers)]
    # Of cuts that are alike the last: what will be fused stays with what it is fused to.
    return min(_cuts(layers, topology, cut), key=lambda n: (again[n] + spilt[-1] - spilt[n], -n))


def _cuts(layers: Sequence[Layer], topology: Topology, cut: set[str]) -> list[int]:
    """Return behind how many of *layers* all values that are read later have entries of their own, as *cut* has."""
    last = {name: number for number, layer in enumerate(layers) for name in layer.inputs}
    last |= {value: len(layers) for _, value in topology.outputs}
    apart, possible = set(topology.inputs), [True] * (len(layers) + 1)
    for number, layer in enumerate(layers):
        if not apart.isdisjoint(layer.inputs):
            apart.update(layer.outputs)
            for name in layer.outputs:
                if name not in cut and name in last:
                    possible[number + 1 : last[name] + 1] = [False] * (last[name] - number)
    return [number for number, is_possible in enumerate(possible) if is_possible]


def _of_request(layer: Layer, apart: Mapping[str, None], number: int) -> Layer:
    """Return *layer* on the values of request *number*."""
    return replace(
        layer,
        name=fed_name(layer.name, number),
        inputs=tuple(fed_name(name, number) if name in apart else name for name in layer.inputs),
        outputs=tuple(fed_name(name, number) for name in layer.outputs),
    )


def _join(name: str, count: int) -> Layer:
    joined = f"{name}/joined"
    return Layer(joined, Concat(0), tuple(fed_name(name, i) for i in range(count)), (name,), (joined,))


@mutable
class SideBySideModels:
    """The models that run requests side by side on one part of a device, by number of requests; streams clone them.

    Attributes:
        make: Compiles the model for a number of requests.
    """

    make: Callable[[int], Model]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: dict[int, Model] = field(default_factory=dict)

    def model(self, count: int) -> Model:
        """Return a model of *count* requests that no other stream has. Raises as :meth:`Model.beside`."""
        with self._lock:
            # The one that the others are clones of is closed where its stream was given up.
            with suppress(KeyError, ClosedError):
                return self._made[count].clone()
            made = self._made[count] = self.make(count)
            return made


def side_by_side_models(model: Model, most: int) -> SideBySideModels | None:
    """Return the models that run up to *most* requests of *model* side by side; ``None`` if joining them is faster.

    A GPU has room for a whole batch, whose layers it computes sooner as one.
    """
    if model.device.kind != "cpu" or "host_memory" not in model.device.features or most < 2:
        return None
    try:
        if side_by_side(model.topology, 2) is None:
            return None
    except ClgraphError:  # said when it is compiled
        return None

    def make(count: int) -> Model:
        topology = side_by_side(model.topology, count)
        assert topology is not None
        return model.beside(topology)

    return SideBySideModels(make)


def feeds_of(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the feeds of one run for the feeds of *several* requests."""
    return {fed_name(name, i): array for i, feeds in enumerate(several) for name, array in feeds.items()}
