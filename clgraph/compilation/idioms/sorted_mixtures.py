"""Mixtures of experts whose rows are sorted by expert, or whose matrices are gathered, made mixtures of a choice.

Where splits or ranges have computed sizes, each run of rows is multiplied by the matrix of its expert: a model of N
experts would run in stages and compile each division of rows. Where a matrix is gathered for each choice of each row,
it is copied for all of them. That the layers between a router's places and the sums of rows are one of ONNX Runtime's
mixtures is confirmed by numbers, whatever the spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from clgraph.compilation.idioms.agreement import distance
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.model.state.examples import Examples
from clgraph.ops.microsoft.moe import EXPERT_ACTIVATIONS, MixtureOfExperts
from clgraph.ops.reshape import Reshape
from clgraph.ops.sequence import Sequential
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split

_ENDS = 6
"""Values of all rows in turn that may be the sums: what experts make of each choice is reshaped for that."""

_RESHAPED, _REPEATED = ("reshape", "squeeze", "unsqueeze"), ("expand", "gather", "repeat")
"""Kinds of layers by which rows get a row for each of their choices."""


def with_sorted_mixtures(topology: Topology) -> Topology:
    """Return *topology* with a mixture for each router that experts' rows are found by, confirmed by numbers."""
    made = topology
    for name in [x.name for x in topology.layers if x.primitive.kind == "top_k" and len(x.outputs) == 2]:
        router = next((x for x in made.layers if x.name == name), None)
        if router is not None and any(_divides(x, made.constants) for x in made.layers):
            made = next((m for m in map(_changed, _regions(made, router)) if m is not None), made)
    return made


def _divides(layer: Layer, constants: Mapping[str, Array]) -> bool:
    """Whether *layer*, which depends on a router's places, divides rows by them, or gathers matrices.

    It splits rows, or counts their runs.
    """
    splits = isinstance(layer.primitive, Split) and len(layer.inputs) > 1 and layer.inputs[1] not in constants
    matrices = constants.get(layer.inputs[0]) if layer.primitive.kind in ("gather", "gather_nd") else None
    return splits or isinstance(layer.primitive, Sequential) or (matrices is not None and matrices.ndim == 3)


@frozen
class _Region:
    """The *layers* between the places that *router* finds and the one value that others read, of the last.

    Attributes:
        sources: What makes of constants alone what the layers read.
        repeats: What makes of rows a row for each choice, which the layers read.
    """

    topology: Topology
    router: Layer
    sources: Sequence[Layer]
    repeats: Sequence[Layer]
    layers: Sequence[Layer]

    @property
    def places(self) -> str:
        return self.router.outputs[1]

    @property
    def read(self) -> list[str]:
        """Values that the layers read and do not make, but for constants and places."""
        layers = (*self.repeats, *self.layers)
        made = {n for x in (*self.sources, *layers) for n in x.outputs} | {self.places, *self.topology.constants}
        return [n for n in dict.fromkeys(n for x in layers for n in x.inputs) if n not in made]

    @property
    def weights(self) -> list[str]:
        """Matrices of all experts, in the order in which they are read."""
        read = dict.fromkeys(n for x in (*self.sources, *self.layers) for n in x.inputs)
        return [n for n in read if n in self.topology.constants and self.topology.constants[n].ndim == 3]


def _regions(topology: Topology, router: Layer) -> Iterator[_Region]:
    """Yield what may be the experts of *router*: their last layer is one of the first that alone is read."""
    layers = _behind(topology, router.outputs[1])
    of_data = {n for x in _behind(topology, router.outputs[1], shapes=False) for n in x.outputs}
    marks = [i for i, x in enumerate(layers) if _divides(x, topology.constants) and of_data & set(x.outputs)]
    if not marks:
        return
    of_constants, names = list[Layer](), set(topology.constants)
    for layer in topology.layers:
        if names.issuperset(layer.inputs):
            of_constants.append(layer)
            names.update(layer.outputs)
    for i in islice((i for i in _ends(topology, router, layers) if i > marks[0]), _ENDS):
        own = layers[: i + 1]
        repeats = _repeats(topology, own)
        yield _Region(topology, router, _makers(of_constants, (*repeats, *own)), repeats, own)


def _repeats(topology: Topology, readers: Sequence[Layer]) -> list[Layer]:
    """Return the layers that repeat rows for *readers*, in order."""
    makers, found = {n: x for x in topology.layers for n in x.outputs}, dict[str, Layer]()
    made = {n for x in readers for n in x.outputs}
    for name in {n for x in readers for n in x.inputs} - made:
        way, layer = list[Layer](), makers.get(name)
        while layer is not None and layer.primitive.kind in _RESHAPED:
            way.append(layer)
            layer = makers.get(layer.inputs[0])
        if layer is not None and layer.primitive.kind in _REPEATED and layer.inputs[0] not in topology.constants:
            found |= {x.name: x for x in (*way, layer)}
    return [x for x in topology.layers if x.name in found]


def _ends(topology: Topology, router: Layer, layers: Sequence[Layer]) -> Iterator[int]:
    """Yield which of all *layers* behind *router*'s places make one value that alone is read of those up to them."""
    read_by = {name: i for i, x in enumerate(layers) for name in x.inputs}
    read_by |= {value: len(layers) for _, value in topology.outputs}
    latest = read_by[router.outputs[1]]
    for i, layer in enumerate(layers):
        if latest <= i and len(layer.outputs) == 1:
            yield i
        latest = max(latest, *(read_by.get(name, 0) for name in layer.outputs))


def _makers(layers: Sequence[Layer], readers: Sequence[Layer]) -> list[Layer]:
    """Return those of *layers* that make what *readers* read."""
    read, made = {n for x in readers for n in x.inputs}, list[Layer]()
    for layer in reversed(layers):
        if not read.isdisjoint(layer.outputs):
            made.insert(0, layer)
            read.update(layer.inputs)
    return made


def _behind(topology: Topology, name: str, *, shapes: bool = True) -> list[Layer]:
    """Return the layers that depend on *name*: where *shapes* is false, on its elements."""
    names, layers = {name}, list[Layer]()
    for layer in topology.layers:
        if not names.isdisjoint(layer.inputs) and (shapes or not layer.primitive.shapes_only):
            layers.append(layer)
            names.update(layer.outputs)
    return layers


@frozen
class _Form:
    """What the experts may be: a primitive, what it has for rows and shares, and its weights in order.

    Attributes:
        parts: Of each weight the name of a constant and the outputs of each matrix that are it, ``None`` for all.
    """

    primitive: MixtureOfExperts
    rows: str
    shares: str
    parts: tuple[tuple[str, tuple[int, int] | None], ...]

    @property
    def axis(self) -> int:
        """That of a matrix's outputs."""
        return 2 if self.primitive.columns else 1


@frozen
class _Example:
    """Shapes and types of what a region reads for a few tokens, and what of it is the same whatever tokens are."""

    layouts: Mapping[str, Layout]
    known: Mapping[str, Array]


def _changed(region: _Region) -> Topology | None:
    """Return the topology with a mixture in place of *region*; ``None`` where it is none that is known."""
    if len(region.weights) != 2 or (example := _example(region)) is None:
        return None
    trials, close = dict[tuple[str, str], list[_Trial]](), list[tuple[float, _Form]]()
    for form in _forms(region, example):
        read = form.rows, form.shares
        if read not in trials:
            trials[read] = _trials(region, example, *read)
        if (error := _worst(trials[read], form, region.topology.constants)) is not None:
            close.append((error, form))
    if not close:
        return None
    form = min(close, key=lambda x: x[0])[1]
    layers, gone = list[Layer](), {x.name for x in region.layers}
    for layer in region.topology.layers:
        if layer.name == region.layers[-1].name:
            layers += _layers(region, form)
        elif layer.name not in gone:
            layers.append(layer)
    return replace(region.topology, layers=layers).pruned()


def _worst(trials: Sequence[_Trial], form: _Form, constants: Mapping[str, Array]) -> float | None:
    """Return how far *form* is from what all *trials* tell; ``None`` where one refutes it, or there is none."""
    worst: float | None = None
    for trial in trials:
        if (error := trial.error(form, constants)) is None:
            return None
        worst = max(error, worst or 0.0)
    return worst


def _example(region: _Region) -> _Example | None:
    """Return an example; ``None`` where what is in front of the region has no shapes."""
    top, behind = region.topology, {n for x in region.layers for n in x.outputs}
    for layer in top.layers:
        if behind & set(layer.inputs):
            behind |= set(layer.outputs)
    wanted = [region.places, region.router.inputs[0], *region.read]
    outputs = [x for x in top.outputs if x[1] not in behind]
    outputs += [(f"region {i}", n) for i, n in enumerate(wanted)]
    if (program := Examples(replace(top, outputs=outputs).pruned()).program) is None:
        return None
    values = {n: v for n, (_, v) in zip(wanted, program.outputs[-len(wanted) :], strict=True)}
    makers = {n: x for x in top.layers for n in x.outputs}
    known = {n: v.constant for n, v in values.items() if v.constant is not None}
    for name, value in values.items():
        maker = makers.get(name)
        if maker is not None and maker.primitive.kind == "expand" and not np.any(top.constants.get(maker.inputs[0], 1)):
            known[name] = np.zeros(value.layout.shape, value.layout.dtype.numpy)
    return _Example({n: v.layout for n, v in values.items()}, known)


def _forms(region: _Region, example: _Example) -> Iterator[_Form]:
    """Yield what the experts may be."""
    layouts, weights = example.layouts, [region.topology.constants[n] for n in region.weights]
    experts = layouts[region.router.inputs[0]].shape[-1]
    if layouts[region.places].rank != 2 or any(w.shape[0] != experts for w in weights):
        return
    rows, k = layouts[region.places].shape
    (first, second) = region.weights
    floats = [n for n in region.read if layouts[n].dtype.floating and n not in example.known]
    for columns in (False, True):
        width, depth = weights[0].shape[:0:-1] if columns else weights[0].shape[1:]
        halves = (first, (0, width // 2)), (first, (width // 2, width))
        plain = [((first, None), (second, None))]
        gated = [(one, (second, None), other) for one, other in (halves, halves[::-1])]
        back = weights[1].shape[:0:-1] if columns else weights[1].shape[1:]
        for parts in gated if back == (depth, width // 2) else plain if back == (depth, width) else ():
            reads = ("shares", "fc1", "fc2", "fc3")[: 1 + len(parts)]
            for activation in EXPERT_ACTIVATIONS:
                primitive = MixtureOfExperts(k, activation, reads=reads, chosen=True, columns=columns)
                yield from (
                    _Form(primitive, x, shares, parts)
                    for x in floats
                    for shares in floats
                    if layouts[x].shape[-1:] == (depth,) and layouts[x].count == rows * depth
                    if layouts[shares].count == rows * k
                )


@frozen
class _Trial:
    """Random rows and shares, places, and what a region makes of them in *total*."""

    rows: Array
    shares: Array
    places: Array
    total: Array

    def error(self, form: _Form, constants: Mapping[str, Array]) -> float | None:
        """Return how far what *form* makes is from it; ``None`` where it is something else."""
        weights = [
            w if p is None else np.split(w, p, form.axis)[1] for w, p in ((constants[n], p) for n, p in form.parts)
        ]
        try:
            rows = self.rows.reshape(len(self.places), -1)
            (y,) = form.primitive.reference(rows, self.places, self.shares.reshape(self.places.shape), *weights)
        except (ClgraphError, ValueError, IndexError) as error:
            pass_on(error)
            return None
        return distance(y, self.total)


def _trials(region: _Region, example: _Example, rows: str, shares: str) -> list[_Trial]:
    """Return what *region* makes of places that have each expert, then of random ones; nothing where it cannot."""
    random, found, layouts = np.random.default_rng(0), list[_Trial](), example.layouts
    (count, k), experts = layouts[region.places].shape, layouts[region.router.inputs[0]].shape[-1]
    each = [np.arange(i, i + count * k).reshape(count, k) % experts for i in range(0, experts, count * k)]
    some = [np.stack([random.permutation(experts)[:k] for _ in range(count)]) for _ in range(2)]
    try:
        sources = _computed(region.sources, {**region.topology.constants, **example.known})
        for places in (*each, *some):
            feeds = {n: random.standard_normal(layouts[n].shape).astype(layouts[n].dtype.numpy) for n in (rows, shares)}
            values = _computed((*region.repeats, *region.layers), {**sources, **feeds, region.places: places})
            total = np.asarray(values[region.layers[-1].outputs[0]])
            if total.shape != (count, layouts[rows].shape[-1]):
                return []
            found.append(_Trial(feeds[rows], feeds[shares], places, total))
    except (ClgraphError, KeyError, ValueError, IndexError) as error:
        pass_on(error)
        return []
    return found


def _computed(layers: Sequence[Layer], values: dict[str, Array]) -> dict[str, Array]:
    """Return *values* with what *layers* make of them."""
    for layer in layers:
        values.update(zip(layer.outputs, compute(layer.primitive, [values[n] for n in layer.inputs]), strict=False))
    return values


def _layers(region: _Region, form: _Form) -> list[Layer]:
    """Return the layers that make the result of *region*."""
    last, made, weights = region.layers[-1], list[Layer](), list[str]()
    for i, (name, part) in enumerate(form.parts):
        if part is not None:
            own = f"{last.name}/weights{i}"
            made.append(Layer(own, Slice((part[0],), (part[1],), axes=(form.axis,)), (name,), (own,), last.origin))
            name = own
        weights.append(name)
    shares = f"{last.name}/shares"
    made.append(Layer(shares, Reshape((-1, form.primitive.k)), (form.shares,), (shares,), last.origin))
    rows = f"{last.name}/rows"
    depth = region.topology.constants[form.parts[0][0]].shape[1 if form.primitive.columns else 2]
    made.append(Layer(rows, Reshape((-1, depth)), (form.rows,), (rows,), last.origin))
    inputs = (rows, region.places, shares, *weights)
    return [*made, Layer(f"{last.name}/mixture", form.primitive, inputs, last.outputs, last.origin)]
