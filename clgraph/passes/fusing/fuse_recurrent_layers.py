"""Make one node of recurrent layers that lie one on the other. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.concat import Concat
from clgraph.ops.recurrent_stack import PRODUCT, RecurrentStack
from clgraph.ops.recurrent_steps import RecurrentSteps
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import Inserter, apart, read_outside, supersede
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

GAIN = 0.92
"""Share of the time apart that the time together may take: estimates are no better than that."""

GAIN_OF_WORKERS = 1.15
"""The same of several workers, whose launches apart count. Two layers of 128 units over batches of 4 to 24, on two
cores, take 0.72 to 0.97 of the time apart where estimates say 0.77 to 1.10; over 32, 1.34 where they say 1.61."""


class FuseRecurrentLayers(Pass):
    """Let layers of a recurrent network run side by side, each some tokens behind the one before.

    Layers of one direction that are alike, each on all hidden states of the one before, become one node with the
    products of what they read. A token is too little work to share, and apart each layer waits for the last token of
    the one before. Done where one node is estimated faster. Counts the layers.
    """

    name: ClassVar[str] = "fuse_recurrent_layers"
    handles: ClassVar[Mapping[str, str]] = {
        "recurrent_steps": "layers on one another become one node, where that is faster",
        "matmul": "of what a recurrent layer reads: becomes a part of the layers' node",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, fused, seen = list[str](), 0, set[Node]()
        for node in program:
            if node in program and node not in seen and (first := _layer(node)) is not None:
                layers = _above(first)
                seen.update(layer.steps for layer in layers)
                if len(layers) > 1:
                    fused += _fuse(program, context, layers, notes)
        self.note(program, notes)
        return fused


@frozen
class _Layer:
    """A layer: the product of what it reads, its steps, and the reshapes between the layer before and the product."""

    product: Node
    steps: Node
    reshapes: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of it, in order."""
        return (*self.reshapes, self.product, self.steps)

    @property
    def primitive(self) -> RecurrentSteps:
        """What its steps are."""
        assert isinstance(self.steps.primitive, RecurrentSteps)
        return self.steps.primitive

    def is_like(self, other: _Layer) -> bool:
        """Whether the two differ in no more than their numbers."""
        same_lengths = "lengths" not in self.primitive.present or self._named("lengths") is other._named("lengths")
        biased = self.product.arity == other.product.arity
        return self.primitive == other.primitive and biased and same_lengths

    def _named(self, name: str) -> Value:
        return self.steps.inputs[2 + self.primitive.present.index(name)]


def _layer(node: Node, reshapes: tuple[Node, ...] = ()) -> _Layer | None:
    """Return the layer whose steps are *node*, if it may be one of a stack."""
    p, product = node.primitive, node.inputs[0].producer if node.inputs else None
    if not isinstance(p, RecurrentSteps) or p.direction != "forward" or p.rounded or node.inputs[1].constant is None:
        return None
    if product is None or product.primitive != PRODUCT or product.fused or product.inputs[0].layout.rank != 3:
        return None
    w, *bias = product.inputs[1:]
    if w.layout.rank != 2 or any(v.constant is None for v in (w, *bias)):
        return None
    if any(b.layout.shape != w.layout.shape[:1] for b in bias):
        return None
    return _Layer(product, node, reshapes)


def _above(first: _Layer) -> list[_Layer]:
    """Return *first*, the lowest of some layers, with those above it that are like it."""
    layers = [first]
    while (following := _next(layers[-1])) is not None:
        layers.append(following)
    return layers


def _next(layer: _Layer) -> _Layer | None:
    """Return the layer on all hidden states of *layer* that is like it."""
    value, reshapes = layer.steps.output, list[Node]()
    tokens, _, batch, size = value.layout.shape
    while len(value.readers) == 1 and isinstance(value.readers[0].primitive, Reshape):
        reshapes.append(value.readers[0])
        value = reshapes[-1].output
    if len(value.readers) != 1 or value.layout.shape != (tokens, batch, size):
        return None
    product = value.readers[0]
    if not product.outputs[0].readers or product.inputs[0] is not value:
        return None
    found = _layer(product.output.readers[0], tuple(reshapes))
    return found if found is not None and found.product is product and layer.is_like(found) else None


def _fuse(program: Program, context: Context, layers: Sequence[_Layer], notes: list[str]) -> int:
    """Put one node in the place of *layers*, or note why not; return how many layers went."""
    nodes, names = [n for layer in layers for n in layer.nodes], ", ".join(layer.steps.name for layer in layers)
    if (reason := _refusal(program, context, layers, nodes)) is not None:
        notes.append(f"{names}: not one node: {reason}")
        return 0
    last, p = layers[-1].steps, layers[0].primitive
    insert = Inserter(program, last)
    product = layers[0].product
    inputs = [product.inputs[0], product.inputs[1]]
    inputs.append(_joined(context, insert, [layer.product.inputs[1] for layer in layers[1:]], new=True))
    inputs.append(_joined(context, insert, [layer.steps.inputs[1] for layer in layers]))
    if product.arity > 2:
        inputs.append(_joined(context, insert, [layer.product.inputs[2] for layer in layers], new=True))
    cuts = list[list[Value]]()
    for slot, name in enumerate(p.present, 2):
        cuts.append([layer.steps.inputs[slot] for layer in layers])
        inputs.append(cuts[-1][0] if name == "lengths" else _joined(context, insert, cuts[-1]))
    made = program.insert(_primitive(layers), inputs, sources=nodes, before=last)
    program.rewire(last.output, made.output)
    for slot, value in enumerate(made.outputs[1:], 1):
        _hand_out(program, value, [layer.steps.outputs[slot] for layer in layers], last)
    for node in reversed(nodes):
        program.erase(node)
    for cut in dict.fromkeys(v.producer for layer in cuts for v in layer):
        if cut is not None and isinstance(cut.primitive, Slice | Split) and not any(v.uses for v in cut.outputs):
            program.erase(cut)
    made.name, made.output.name = layers[0].steps.name, last.output.name
    notes.append(f"{names}: one node")
    return len(layers)


def _hand_out(program: Program, value: Value, each: Sequence[Value], last: Node) -> None:
    """Let the readers of *each* read their part of *value*, or all of it where they join them as it has them."""
    for reader in each[0].readers:
        alike = reader.primitive == Concat(0) and reader.inputs == tuple(each) and not reader.fused
        if alike and reader.placement == last.placement:
            supersede(program, reader, value)
    if any(v.uses or program.is_output(v) for v in each):
        parts = program.insert(Split(0, (1,) * len(each)), [value], sources=[last], before=last)
        for old, new in zip(each, parts.outputs, strict=True):
            program.rewire(old, new)


def _refusal(program: Program, context: Context, layers: Sequence[_Layer], nodes: Sequence[Node]) -> str | None:
    """Say why *layers* stay as they are, or return ``None``."""
    inner = [layer.product.output for layer in layers] + [layer.steps.output for layer in layers[:-1]]
    inner += [n.output for layer in layers for n in layer.reshapes]
    for value in inner:
        if (why := read_outside(program, value, nodes)) is not None:
            return why
    if (why := apart(nodes)) is not None:
        return why
    if forced := next((n.name for n in nodes if n.name in context.forced), None):
        return f"a kernel is forced on {forced}"
    if not (together := proposals(context, layers[0].steps, _query(context, layers))):
        return f"nothing on {context.device(layers[0].steps).name} serves them as one"
    device = context.device(layers[0].steps)
    # Products and steps are functions of two libraries: each is a launch, behind which workers meet.
    launch = device.launch_seconds if device.workers > 1 else 0.0
    gain = GAIN_OF_WORKERS if device.workers > 1 else GAIN
    alone = 0.0
    for node in nodes:
        if not isinstance(node.primitive, Reshape):
            found = proposals(context, node)
            if not found:
                return f"nothing serves {node.name}"
            alone += found[0].seconds + launch
    seconds = together[0].seconds
    return f"it would take {seconds:.2g} s, the layers apart {alone:.2g} s" if seconds > gain * alone else None


def _primitive(layers: Sequence[_Layer]) -> RecurrentStack:
    return RecurrentStack(layers[0].primitive, len(layers), layers[0].product.arity > 2)


def _query(context: Context, layers: Sequence[_Layer]) -> Query[Any]:
    """Return the problem that the one node would pose."""
    p, product, q = _primitive(layers), layers[0].product, context.query(layers[0].steps)
    x, w, r = product.inputs[0].layout, product.inputs[1].layout, q.inputs[1]
    rows, size = r.shape[1:]
    inputs = [x.plain(), w, w.with_shape((p.layers - 1, rows, size)), r.with_shape((p.layers, rows, size))]
    inputs += [w.with_shape((p.layers, rows))] * p.biased
    for name, given in zip(p.steps.present, q.inputs[2:], strict=True):
        inputs.append(given if name == "lengths" else given.with_shape((p.layers, *given.shape[1:])))
    constant = frozenset(range(1, 4 + p.biased))
    return Query(p, tuple(inputs), p.infer(inputs), q.device, len(inputs), (), constant)


def _joined(context: Context, insert: Inserter, values: Sequence[Value], *, new: bool = False) -> Value:
    """Return *values*, those of each layer, one behind the other along the first axis, or *new* one in front of it."""
    if (whole := _whole(values)) is not None:
        return whole
    arrays = [v.constant for v in values if v.constant is not None]
    if len(arrays) < len(values):
        return insert(Concat(0), *values)
    join = np.stack if new else np.concatenate
    data = context.packed.once(("layers", new), arrays, lambda: join(arrays))
    return insert.program.constant(f"{insert.node.name}/{values[0].name}/layers", data)


def _whole(values: Sequence[Value]) -> Value | None:
    """Return the value whose entries along the first axis *values* are, in order; ``None`` where there is none."""
    cuts = [v.producer for v in values]
    if any(cut is None or not isinstance(cut.primitive, Slice | Split) for cut in cuts):
        return None
    sources = {cut.inputs[0] for cut in cuts if cut is not None}
    source = next(iter(sources))
    alike = len(sources) == 1 and source.layout.shape == (len(values), *values[0].layout.shape[1:])
    return source if alike and all(_place(v) == i for i, v in enumerate(values)) else None


def _place(value: Value) -> int | None:
    """Return which entry of the first axis a slice or split cuts off for *value*, ``None`` where it cuts otherwise."""
    node = value.producer
    assert node is not None
    p = node.primitive
    if isinstance(p, Split):
        return node.outputs.index(value) if p.axis == 0 else None
    assert isinstance(p, Slice)
    return p.starts[0] if value.layout.shape[0] == 1 else None
