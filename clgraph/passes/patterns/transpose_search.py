"""Search for the axis order in which to hold each tensor: the choice behind transpose_optimization.

Only what explicit transposes can reach through operators that can be permuted takes part. An explicit transpose costs
nothing by itself: it says that its result is its input, held in another order. What costs is a tensor that is made in
one order and read in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush

from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Layout
from clgraph.graph.node import Node, Value
from clgraph.graph.permute import Axes, between, compose, held, identity, inverse, moves_data
from clgraph.graph.primitive import Permuted
from clgraph.graph.program import Program
from clgraph.ops.transpose import Transpose
from clgraph.passes.factor_graph import Edges
from clgraph.passes.rewriting import apart

EACH = 1 << 12
"""Bytes that a transpose costs beside those it moves: a launch."""
MOST_ORDERS = 6
"""Orders that are tried of one operator, in the order in which they were met."""


@frozen
class Root:
    """Where a value comes from: it is *value* behind explicit transposes, together *axes*."""

    value: Value
    axes: Axes


Need = tuple[Node | None, int, Axes]
"""Who reads a root, in which slot, behind which transpose."""


@mutable
class TransposeSearch:
    """The ways to compute each node that a transpose can reach, and the cheapest choice of them.

    Attributes:
        transposes: The explicit transposes that vanish.
        options: What each operator beside them, or in reach, may do, in the program's order; the first is what it does
            now.
    """

    program: Program
    transposes: dict[Node, Axes] = field(default_factory=dict)
    options: dict[Node, list[Permuted]] = field(default_factory=dict)
    _roots: dict[Value, Root] = field(default_factory=dict)
    _needs: dict[Value, list[Need]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find what is in reach."""
        for node in self.program:
            p = node.primitive
            if isinstance(p, Transpose) and not node.fused and not self._borders(node):
                self.transposes[node] = p.axes
        self._grow()
        self.options = {node: self.options[node] for node in sorted(self.options, key=self.program.position)}

    def root(self, value: Value) -> Root:
        """Return what *value* is, seen through the transposes that vanish."""
        found = self._roots.get(value)
        if found is None:
            node = value.producer
            if node is None or node not in self.transposes:
                found = Root(value, identity(value.layout.rank))
            else:
                before = self.root(node.inputs[0])
                found = Root(before.value, compose(before.axes, self.transposes[node]))
            self._roots[value] = found
        return found

    def needs(self, root: Value) -> list[Need]:
        """Return who reads *root* behind the transposes that vanish, slot and transpose; no node for an output."""
        found = self._needs.get(root)
        if found is None:
            behind = [root]
            for value in behind:
                behind += [reader.output for reader, _ in value.uses if reader in self.transposes]
            behind[1:] = sorted(behind[1:], key=lambda v: self.program.position(v.producer) if v.producer else 0)
            self._needs[root] = found = []
            for value in behind:
                axes = self.root(value).axes
                found += [(reader, slot, axes) for reader, slot in value.uses if reader not in self.transposes]
                found += [(None, 0, axes)] if self.program.is_output(value) else []
        return found

    def solve(self) -> dict[Node, Permuted]:
        """Return how to compute every node."""
        index = {node: i for i, node in enumerate(self.options)}
        sizes = [len(found) for found in self.options.values()]
        edges: Edges[Axes | None] = Edges(sizes, [0] * len(sizes), [])
        for root in self._reached():
            needs = self.needs(root)
            open_ends: list[Sequence[object]] = [self.made(root), *(self.wanted(root, *need) for need in needs)]
            if any(len(orders) > 1 for orders in open_ends):
                self._add_value(root, needs, index, edges)
        solution = edges.minimise()
        return {node: found[solution.values[index[node]]] for node, found in self.options.items()}

    def left(self, chosen: Mapping[Node, Permuted]) -> tuple[int, int]:
        """Return how many transposes move data when every node does what is *chosen*, and how many bytes they move."""
        count = nbytes = 0
        for root in self._reached():
            made = self.made(root)[self._number(chosen, root.producer)]
            wanted = {self._wanted_of(chosen, *need) for need in self.needs(root)}
            moved = sum(_price(root.layout, made, order) > EACH for order in wanted)
            count, nbytes = count + moved, nbytes + moved * root.layout.nbytes
        return count, nbytes

    def _reached(self) -> list[Value]:
        """Return the values that nodes with options make or read and that are read, in the program's order."""
        found = {self.root(v).value for node in (*self.options, *self.transposes) for v in node.inputs}
        found.update(v for node in self.options for v in node.outputs)
        made = (v for node in self.program for v in node.outputs)
        return [v for v in (*self.program.inputs, *made) if v in found and self.needs(v)]

    def _number(self, chosen: Mapping[Node, Permuted], node: Node | None) -> int:
        return 0 if node is None or node not in self.options else self.options[node].index(chosen[node])

    def made(self, root: Value) -> list[Axes]:
        """Return the order in which each option of its producer makes *root*."""
        node = root.producer
        if node is None or node not in self.options:
            return [identity(root.layout.rank)]
        return [option.outputs[node.outputs.index(root)] for option in self.options[node]]

    def wanted(self, root: Value, reader: Node | None, slot: int, axes: Axes) -> list[Axes | None]:
        """Return the order of *root* that each option of *reader* reads; ``None`` where axes come in front."""
        if reader is None or reader not in self.options:
            return [inverse(axes)]
        return [self._of_root(option.inputs[slot], axes) for option in self.options[reader]]

    def _wanted_of(self, chosen: Mapping[Node, Permuted], reader: Node | None, slot: int, axes: Axes) -> Axes | None:
        """Return the order of the root that *reader* reads in what is *chosen*."""
        option = None if reader is None else chosen.get(reader)
        return inverse(axes) if option is None else self._of_root(option.inputs[slot], axes)

    def _of_root(self, order: Axes | None, axes: Axes) -> Axes | None:
        if order is None:
            return inverse(axes)
        return compose(order, inverse(axes)) if len(order) == len(axes) else None

    def _grow(self) -> None:
        """Let orders spread from the transposes until none is new.

        Nodes are looked at round by round, in the program's order: in the first those beside the transposes, then
        those beside a node that has got another option since they were looked at.
        """
        place = {node: i for i, node in enumerate(self.program)}
        queue: list[tuple[int, int]] = []
        nodes = list(place)

        def look_at(found: Iterable[Node | None], then: int, at: int) -> None:
            for node in found:
                if node is not None and node not in self.transposes:
                    self.options.setdefault(node, [as_it_is(node)])
                    heappush(queue, (then + (place[node] <= at), place[node]))

        for node in self.transposes:
            root = self.root(node.output).value
            look_at((root.producer, *(reader for reader, _, _ in self.needs(root))), 0, -1)
        tried: dict[Node, set[Axes]] = {}
        last = (-1, -1)
        while queue:
            now = heappop(queue)
            if now == last:
                continue
            last, node = now, nodes[now[1]]
            if node not in tried:
                closed = node.fused or self._borders(node)
                rank = max((v.layout.rank for v in node.inputs), default=0)
                tried[node] = {identity(rank)} if not closed else set()
            if tried[node] and self._add_options(node, tried[node]):
                look_at(self._beside(node), *now)

    def _add_options(self, node: Node, tried: set[Axes]) -> bool:
        """Add what *node* may do in orders that it meets and that are not *tried*; say whether anything is new."""
        options, rank = self.options[node], len(next(iter(tried)))
        before = len(options)
        seen = {(option.primitive, option.inputs) for option in options}
        for met_axes in self._met(node):
            axes = _with_axes_in_front(met_axes, rank)
            if len(axes) != rank or len(options) >= MOST_ORDERS or axes in tried:
                continue
            tried.add(axes)
            option = _without_axes_in_front(node, node.primitive.permuted(axes, [v.layout for v in node.inputs]))
            if option is not None and (option.primitive, option.inputs) not in seen:
                seen.add((option.primitive, option.inputs))
                options.append(option)
        return len(options) > before

    def _beside(self, node: Node) -> list[Node | None]:
        """Return those who make the inputs of *node*, and those who read its results."""
        makers = [self.root(v).value.producer for v in node.inputs if v.constant is None]
        return [*makers, *(reader for v in node.outputs for reader, _, _ in self.needs(v))]

    def _met(self, node: Node) -> Iterator[Axes]:
        """Yield the orders of inputs that would fit those who make them, and of results, those who read them."""
        for value in node.inputs:
            if value.constant is None:
                root = self.root(value)
                yield from (compose(made, root.axes) for made in list(self.made(root.value)))
        for value in node.outputs:
            for need in self.needs(value):
                yield from [w for w in self.wanted(value, *need) if w is not None]

    def _borders(self, node: Node) -> bool:
        """Whether *node* stands beside one of another annotation or placement, with which nothing may be merged."""
        beside = [v.producer for v in node.inputs if v.producer is not None]
        beside += [reader for v in node.outputs for reader in v.readers]
        return any(apart((node, other)) is not None for other in beside)

    def _add_value(self, root: Value, needs: list[Need], index: dict[Node, int], edges: Edges[Axes | None]) -> None:
        """Add the cost of the transposes behind *root*: one for each order that is wanted and not made."""
        made = self.made(root)
        wants = [
            (None if reader is None else index.get(reader), self.wanted(root, reader, slot, axes))
            for reader, slot, axes in needs
        ]
        orders = list(dict.fromkeys(w for _, wanted in wants for w in wanted))
        producer = index.get(root.producer) if root.producer is not None else None
        edges.add(producer, made, wants, {(m, w): _price(root.layout, m, w) for m in made for w in orders}, orders)


def as_it_is(node: Node) -> Permuted:
    """Return the option to change nothing."""
    return Permuted(node.primitive, (None,) * len(node.inputs), tuple(identity(v.layout.rank) for v in node.outputs))


def _with_axes_in_front(axes: Axes, rank: int) -> Axes:
    """Return the order of a tensor of *rank* axes whose last ones are held in the order *axes*."""
    more = max(rank - len(axes), 0)
    return (*range(more), *(more + axis for axis in axes)) if more else axes


def _without_axes_in_front(node: Node, option: Permuted | None) -> Permuted | None:
    """Return *option* with the orders of broadcast inputs without the axes that stay in front of theirs."""
    if option is None:
        return None
    orders: list[Axes | None] = []
    for value, order in zip(node.inputs, option.inputs, strict=True):
        more = 0 if order is None or value.constant is not None else len(order) - value.layout.rank
        stay = order is not None and more > 0 and order[:more] == identity(more)
        orders.append(tuple(axis - more for axis in order[more:]) if order is not None and stay else order)
    return replace(option, inputs=tuple(orders))


def _price(layout: Layout, made: Axes, wanted: Axes | None) -> float:
    """Return the bytes that it takes to have a tensor in another order; axes in front are counted as a move."""
    if made == wanted:
        return 0.0
    if layout.count == 1:
        return 1.0
    if wanted is not None and not moves_data(held(layout.shape, made), between(made, wanted)):
        return 1.0
    if wanted is None and sum(d != 1 for d in layout.shape) == 1:
        return 1.0
    return float(EACH + layout.nbytes)
