"""Mixtures of experts whose rows masks choose, as PyTorch's exporters write them, made mixtures of a router's choices.

Each expert's layers gather the rows of the tokens that have chosen it, multiply them by weights of its own, and scatter
them to where they were. That these are one of ONNX Runtime's mixtures is confirmed by numbers, whatever the spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

import numpy as np

from clgraph.compilation.idioms.agreement import distance
from clgraph.compilation.idioms.mixture_sums import adds, sums_of
from clgraph.compilation.idioms.one_hot_masks import chosen_expert
from clgraph.compilation.idioms.row_choices import NUMBERS, SMALL, RowChoice
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.moe import EXPERT_ACTIVATIONS, MixtureOfExperts
from clgraph.ops.reshape import Reshape


@frozen
class _Form:
    """What experts may be: the primitive, and its rows and shares by their places among what is read.

    Attributes:
        order: Of the weights: which product each belongs to, and whether it is the bias behind it.
    """

    primitive: MixtureOfExperts
    rows: int
    shares: int
    order: tuple[tuple[int, bool], ...]


@frozen
class _Mixture:
    """The experts of one router, in the order of their numbers.

    Attributes:
        layouts, known: Of values of an example; integers of it that shapes decide.
        places: The router's choices ``[rows, k]``.
        numbers: Which of the *count* experts that it knows these are; a trace may not have met the others.
    """

    topology: Topology
    layouts: Mapping[str, Layout]
    known: Mapping[str, Array]
    places: str
    numbers: Sequence[int]
    count: int
    choices: Sequence[RowChoice]

    @property
    def size(self) -> tuple[int, int]:
        """Rows and choices of each."""
        rows, k = self.layouts[self.places].shape
        return rows, k

    @property
    def given(self) -> list[str]:
        """Floats that the first expert's layers read and do not make, but for constants."""
        first = self.choices[0]
        made = {n for x in first.rows for n in x.outputs}
        read = dict.fromkeys(n for x in first.rows for n in x.inputs if n not in made and n in self.layouts)
        return [n for n in read if self.layouts[n].dtype.floating and n not in self.topology.constants]

    def weights(self, choice: RowChoice) -> list[str]:
        """Return the right sides of an expert's products."""
        return [x.inputs[1] for x in choice.rows if isinstance(x.primitive, MatMul)]

    def biases(self, choice: RowChoice) -> list[str]:
        """Return what is added to each of an expert's products, nothing where no constant is."""
        return [self._bias(choice, x) for x in choice.rows if isinstance(x.primitive, MatMul)]

    def _bias(self, choice: RowChoice, product: Layer) -> str:
        for layer in choice.rows:
            if getattr(layer.primitive, "function", "") == "add" and product.outputs[0] in layer.inputs:
                (other,) = [n for n in layer.inputs if n != product.outputs[0]] or [""]
                return other if other in self.topology.constants else ""
        return ""

    def read(self, choice: RowChoice, form: _Form) -> list[str]:
        """Return the constants of an expert in the order in which *form* reads them."""
        weights, biases = self.weights(choice), self.biases(choice)
        return [biases[i] if is_bias else weights[i] for i, is_bias in form.order]

    def forms(self) -> Iterator[_Form]:
        """Yield what the experts may be."""
        products = [x.primitive for x in self.choices[0].rows if isinstance(x.primitive, MatMul)]
        weights = [self.topology.constants.get(n) for n in self.weights(self.choices[0])]
        turned = {p.transpose_b for p in products}
        if len(products) not in (2, 3) or len(turned) > 1 or any(w is None or w.ndim != 2 for w in weights):
            return
        (rows, k), depth = self.size, weights[0].shape[turned == {True}] if weights[0] is not None else 0
        sizes = [prod(self.layouts[n].shape) for n in self.given]
        biases = self.biases(self.choices[0])
        for numbers in [(0, 1)] if len(products) == 2 else [(0, 2, 1), (1, 2, 0)]:
            named = [(f"{part}{n}", (i, part == "b")) for n, i in enumerate(numbers, 1) for part in ("fc", "b")]
            named = [(name, (i, is_bias)) for name, (i, is_bias) in named if biases[i] or not is_bias]
            reads, order = ("shares", *(name for name, _ in named)), tuple(at for _, at in named)
            for activation in EXPERT_ACTIVATIONS:
                p = MixtureOfExperts(k, activation, reads=reads, chosen=True, columns=turned == {False})
                yield from (
                    _Form(p, x, shares, order)
                    for x, count in enumerate(sizes)
                    for shares, share_count in enumerate(sizes)
                    if count == rows * depth and share_count == rows * k
                )

    def closest(self) -> _Form | None:
        """Return what makes of random rows what the first experts do that these choose; ``None`` where nothing does."""
        errors = [(error, form) for form in self.forms() if (error := self.error(form)) is not None]
        return min(errors, key=lambda x: x[0])[1] if errors else None

    def error(self, form: _Form) -> float | None:
        """Return how far what *form* makes is from that of the experts; ``None`` where it is something else."""
        random, (rows, k) = np.random.default_rng(0), self.size
        some = self.choices[: max(2, k)]
        chosen = np.stack([random.permutation(len(some))[:k] for _ in range(rows)])
        feeds = {name: self._fed(random, name) for name in self.given}
        try:
            total = sum(self._of_expert(choice, chosen == i, random, feeds) for i, choice in enumerate(some))
            each = [[self.topology.constants[n] for n in self.read(choice, form)] for choice in some]
            weights = [np.stack(own) for own in zip(*each, strict=True)]
            x, shares = feeds[self.given[form.rows]], feeds[self.given[form.shares]]
            (y,) = form.primitive.reference(x.reshape(rows, -1), chosen, shares.reshape(rows, k), *weights)
        except (ClgraphError, KeyError, ValueError, IndexError) as error:
            pass_on(error)
            return None
        return distance(y, np.asarray(total))

    def _of_expert(
        self, choice: RowChoice, mask: Array, random: np.random.Generator, feeds: Mapping[str, Array]
    ) -> Array:
        """Return what an expert's layers add to zeros, for the rows that *mask* says."""
        makers = {n: x for x in self.topology.layers for n in x.outputs}
        constants = self.topology.constants
        values = {**constants, **self.known, **NUMBERS, **feeds}
        values[choice.finder.inputs[0]] = mask.T if choice.axis == 0 else mask
        (sink,) = choice.sinks
        for layer in (choice.finder, *choice.rows, sink):
            for name in layer.inputs:
                if name not in values:
                    like = next((n for n in feeds if _alike(makers, constants, name, n)), None)
                    values[name] = self._fed(random, name) if like is None else feeds[like]
            if layer is sink:
                values[sink.inputs[0]] = np.zeros_like(values[sink.inputs[0]])
            made = compute(layer.primitive, [values[n] for n in layer.inputs])
            values.update(zip(layer.outputs, made, strict=False))
        return np.asarray(values[sink.outputs[0]])

    def _fed(self, random: np.random.Generator, name: str) -> Array:
        layout = self.layouts[name]
        if not layout.dtype.floating:
            raise KeyError(name)
        return random.standard_normal(layout.shape).astype(layout.dtype.numpy)

    def layers(self, form: _Form, total: str, constants: dict[str, Array]) -> list[Layer]:
        """Return the layers that make *total* of all rows, and enter the constants that they read."""
        (sink,), made = self.choices[0].sinks, list[Layer]()

        def add(what: str, p: Primitive, *inputs: str) -> str:
            made.append(Layer(f"{sink.name}/{what}", p, inputs, (f"{sink.name}/{what}",), sink.origin))
            return f"{sink.name}/{what}"

        weights = list[str]()
        for i, each in enumerate(zip(*(self.read(choice, form) for choice in self.choices), strict=True)):
            shape = (len(each), *self.topology.constants[each[0]].shape)
            weights.append(add(f"experts{i}", Reshape(shape), add(f"weights{i}", Concat(0), *each)))
        depth = self.topology.constants[self.weights(self.choices[0])[0]].shape[not form.primitive.columns]
        rows = add("rows", Reshape((-1, depth)), self.given[form.rows])
        shares = add("shares", Reshape((-1, self.size[1])), self.given[form.shares])
        places = self.places
        if len(self.numbers) < self.count:
            at, is_there = (f"{sink.name}/{what}" for what in ("at", "is_there"))
            constants[at] = np.searchsorted(self.numbers, np.arange(self.count))
            dtype = self.layouts[self.given[form.shares]].dtype.numpy
            constants[is_there] = np.isin(np.arange(self.count), self.numbers).astype(dtype)
            shares = add("own_shares", Eltwise("mul"), shares, add("there", Gather(0), is_there, places))
            places = add("places", Gather(0), at, places)
        y = add("mixture", form.primitive, rows, places, shares, *weights)
        if adds(sink):
            add("sum", Eltwise("add"), sink.inputs[0], y)
        made.append(replace(made.pop(), outputs=(total,)))
        return made


def _alike(makers: Mapping[str, Layer], constants: Mapping[str, Array], one: str, other: str) -> bool:
    """Whether *one* and *other* are the same computation of the same values."""
    if one == other:
        return True
    if one in constants and other in constants:
        return constants[one].size <= SMALL and np.array_equal(constants[one], constants[other])
    a, b = makers.get(one), makers.get(other)
    if a is None or b is None or a.primitive != b.primitive or len(a.inputs) != len(b.inputs):
        return False
    same = a.outputs.index(one) == b.outputs.index(other)
    return same and all(_alike(makers, constants, x, y) for x, y in zip(a.inputs, b.inputs, strict=True))


def with_mixtures(topology: Topology, choices: Sequence[RowChoice], program: Program) -> Topology | None:
    """Return *topology* with a mixture for the *choices* of each router; ``None`` where one of them is none.

    Args:
        program: An example of all rows, which has the shapes of what *choices* read.
    """
    values = [*program.inputs, *program.values]
    layouts = {v.name: v.layout for v in values}
    known = {v.name: v.constant for v in values if v.constant is not None and not v.layout.dtype.floating}
    makers = {n: x for x in topology.layers for n in x.outputs}
    found = [(chosen_expert(topology.constants, makers, choice.finder), choice) for choice in choices]
    constants = dict(topology.constants)
    made, aliases, same = dict[str, list[Layer]](), dict[str, str](), dict[object, _Form]()
    for places, group in groupby(found, key=lambda x: x[0].places if x[0] else ""):
        own = list(group)
        scores = own[0][0].scores if own[0][0] else ""
        count = layouts[scores].shape[-1] if scores in layouts else 0
        numbers = [x.number for x, _ in own if x]
        if (
            len(numbers) < len(own)
            or not {*numbers} <= {*range(count)}
            or numbers != sorted({*numbers})
            or any(len(x.sinks) != 1 for _, x in own)
        ):
            return None
        mixture = _Mixture(topology, layouts, known, places, numbers, count, [choice for _, choice in own])
        forms = {c.form({**topology.constants, **known}, mixture.biases(c)) for c in mixture.choices}
        sums = sums_of(topology, [choice.sinks[0] for _, choice in own], makers)
        if len(forms) != 1 or len(own) < 2 or sums is None or len(layouts[places].shape) != 2:
            return None
        (key,) = forms
        form = same.get(key) or mixture.closest()
        if form is None:
            return None
        same[key] = form
        made[own[0][1].sinks[0].name] = mixture.layers(form, sums.total, constants)
        aliases |= sums.aliases
    return _rewritten(replace(topology, constants=constants), choices, made, aliases)


def _rewritten(
    topology: Topology, choices: Sequence[RowChoice], made: Mapping[str, list[Layer]], aliases: Mapping[str, str]
) -> Topology:
    """Return *topology* with what is *made* in place of the first sink of each router's experts."""
    gone = {x.name for choice in choices for x in (choice.finder, *choice.rows, *choice.sinks)}

    def source(name: str) -> str:
        while name in aliases:
            name = aliases[name]
        return name

    layers = list[Layer]()
    for layer in topology.layers:
        if layer.name in made:
            layers += made[layer.name]
        elif layer.name not in gone and layer.outputs[0] not in aliases:
            layers.append(replace(layer, inputs=tuple(source(name) for name in layer.inputs)))
    outputs = [(name, source(value)) for name, value in topology.outputs]
    return replace(topology, layers=layers, outputs=outputs).pruned()
