"""The graph being compiled, and the four edits that passes may make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import Literal

from clgraph.core.layout import Layout
from clgraph.errors import ProgramError
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.node import Fused, Node, Value, print_node, print_value
from clgraph.graph.order import Order, topological
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.subgraph import Subgraph, cut


class Milestone(IntEnum):
    """How far compilation has come; ``check`` knows what must hold at each milestone."""

    BUILT = 0
    """Linked, every layout known."""
    PLACED = 1
    """Every node has a placement."""
    FORMATTED = 2
    """Every value has its memory format."""
    SELECTED = 3
    """Every node has an implementation that serves its layouts."""
    PLANNED = 4
    """Every value has a place in memory, every node a subgraph."""


class Program:
    """Nodes in execution order, the graph's inputs, and its outputs as (name, value) pairs.

    ``insert``, ``rewire``, ``erase`` and ``fuse`` are the only edits. ``insert`` and ``fuse`` inherit annotation,
    placement and provenance from the nodes that the result stands for, and refuse to merge different ones.

    The program holds its nodes, nodes hold their values, and values refer back to nodes weakly: memory is given back
    with the last reference to the program, without a search for cyclic garbage.

    Attributes:
        merged: The names of constants, and of results of nodes, with those of equal ones that their readers read in
            their place.
        converted: The names of constants, with those of the constants that they are in another element type.
        batch_slices: How many equal slices of its inputs along the first axis a run computes one after another; the
            inputs and outputs are those of one part. Inputs whose size does not change with them are the same for all.
    """

    def __init__(self, inputs: Iterable[Value], outputs: Iterable[tuple[str, Value]], nodes: Iterable[Node]) -> None:
        """Link *nodes*, given in execution order."""
        self._order = Order()
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.milestone = Milestone.BUILT
        self.batch_slices = 1
        self.arenas: dict[str, Arena] = {}
        self.notes: dict[str, str] = {}
        self.merged: dict[str, str] = {}
        self.converted: dict[str, str] = {}
        self._subgraphs: tuple[Subgraph, ...] | None = None
        self._names: dict[str, int] = {v.name: 1 for v in self.inputs}
        self._order.replace(nodes)
        for node in self._order.nodes:
            self._names.setdefault(node.name, 1)
            node.join()

    def __iter__(self) -> Iterator[Node]:
        """Nodes in execution order, over a snapshot: a pass may edit while it walks. Keeps the nodes alive."""
        return iter(tuple(self._order.nodes))

    def __len__(self) -> int:
        return len(self._order.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._order

    def __getitem__(self, name: str) -> Node:
        for node in self._order.nodes:
            if node.name == name:
                return node
        raise ProgramError(f"no node {name!r} in the program")

    @property
    def outputs(self) -> Sequence[tuple[str, Value]]:
        """The results of the graph as (name, value) pairs; assigned as a whole, edited by ``rewire``."""
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: Iterable[tuple[str, Value]]) -> None:
        self._outputs = list(outputs)
        self._returned: dict[Value, list[int]] = {}
        for i, (_, value) in enumerate(self._outputs):
            self._returned.setdefault(value, []).append(i)

    @property
    def values(self) -> list[Value]:
        """Every value once: inputs, then constants and results in order of first use."""
        of_nodes = chain.from_iterable([node.inputs + node.outputs for node in self._order.nodes])
        return list(dict.fromkeys(chain(self.inputs, of_nodes, [v for _, v in self.outputs])))

    @property
    def constants(self) -> list[Value]:
        """The values that hold data."""
        return [v for v in self.values if v.constant is not None]

    @property
    def buffers(self) -> list[Buffer]:
        """Every buffer once, scratch included, in order of first use."""
        made = chain(self.inputs, chain.from_iterable([node.outputs for node in self._order.nodes]))
        found = dict.fromkeys([v.buffer for v in made if v.buffer is not None])
        return list(found | dict.fromkeys([b for node in self._order.nodes for b in node.scratch]))

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """What is bound and submitted as one, in order of execution: made once, when the program is planned.

        There are none before. Placements, edges and order are final by then, as the plan of the memory is.
        """
        if self.milestone < Milestone.PLANNED:
            return ()
        if self._subgraphs is None:
            self._subgraphs = cut(self._order.nodes, self._returned)
        return self._subgraphs

    def is_output(self, value: Value) -> bool:
        """Whether *value* is a result of the graph."""
        return value in self._returned

    def without_nodes(self) -> Program:
        """Return a planned program without its nodes: the same inputs, outputs, arenas and notes, for reports."""
        made = Program(self.inputs, self.outputs, ())
        made.milestone, made.batch_slices = self.milestone, self.batch_slices
        made.arenas, made.notes = self.arenas, self.notes
        return made

    def position(self, node: Node) -> int:
        """Return the place of *node* in the execution order."""
        return self._order.position(node)

    def unique(self, name: str) -> str:
        """Return *name*, or *name* with the smallest suffix ``_2``, ``_3`` … that no node has."""
        if name not in self._names:
            self._names[name] = 1
            return name
        while (candidate := f"{name}_{self._names[name] + 1}") in self._names:
            self._names[name] += 1
        self._names[name] += 1
        self._names[candidate] = 1
        return candidate

    def constant(self, name: str, data: Array, layout: Layout | None = None) -> Value:
        """Return a new constant value; it belongs to the program once a node reads it."""
        return Value(self.unique(name), layout or Layout.of(data), constant=data)

    def conversion(self, value: Value, data: Array) -> Value:
        """Return a new constant value: *data*, what the constant *value* is in another element type."""
        layout = Layout.of(data)
        made = self.constant(f"{value.name}/{layout.dtype}", data, layout)
        self.converted[made.name] = value.name
        return made

    # The four edits.

    def insert(
        self,
        primitive: Primitive,
        inputs: Sequence[Value],
        *,
        sources: Sequence[Node],
        name: str | None = None,
        before: Node | None = None,
    ) -> Node:
        """Add a node that computes *primitive* on *inputs*, and return it.

        Args:
            sources: The nodes it stands for; it inherits their annotation, placement and provenance.
            before: Place in the execution order; after the last producer of *inputs* when not given.

        Raises:
            ProgramError: *sources* is empty or its nodes carry different annotations or placements.
        """
        if not sources:
            raise ProgramError(f"inserting {primitive} needs the node it stems from")
        from clgraph.graph.inheritance import inherited

        annotation, placement, partitioned_by, origin = inherited(sources)
        label = self.unique(name or f"{sources[0].name}/{primitive.kind}")
        layouts = primitive.infer([v.layout for v in inputs])
        results = tuple(Value(label if i == 0 else f"{label}:{i}", out) for i, out in enumerate(layouts))
        node = Node(label, primitive, tuple(inputs), results, len(inputs), origin=origin)
        node.annotation, node.placement, node.partitioned_by = annotation, placement, partitioned_by
        self._link(node, self.position(before) if before else self._after(inputs))
        return node

    def rewire(self, old: Value, new: Value, *, uses: Iterable[tuple[Node, int]] | None = None) -> None:
        """Make every reader of *old* read *new*; the graph output too, unless only some *uses* are named."""
        for node, slot in tuple(old.uses if uses is None else uses):
            node.inputs = (*node.inputs[:slot], new, *node.inputs[slot + 1 :])
            old.unlink(node, slot)
            new.link(node, slot)
        for i in self._returned.pop(old, ()) if uses is None else ():
            self._outputs[i] = (self._outputs[i][0], new)
            self._returned.setdefault(new, []).append(i)

    def erase(self, node: Node) -> None:
        """Remove a node nobody reads.

        Raises:
            ProgramError: A result of *node* still has a reader or is a graph output.
        """
        for value in node.outputs:
            if value.uses or self.is_output(value):
                reader = next(iter(value.uses))[0].name if value.uses else "the graph's output"
                raise ProgramError(f"{node.name} cannot be erased: {value.name} is still read by {reader}")
        self._unlink(node)

    def fuse(self, peer: Node, into: Node, running: int = 0) -> None:
        """Absorb *peer* into *into*: after it when *peer* reads its result, before it when *into* reads *peer*'s.

        The other inputs of *peer* (and its own fused operations) come along as operands.

        Args:
            running: Before *into*, the input of *peer* that becomes *into*'s first one.

        Raises:
            ProgramError: The two are not neighbours, their annotations or placements differ, or the result between them
                is read elsewhere (so that no other input of *peer* can depend on *into*).
        """
        from clgraph.graph.inheritance import inherited

        annotation, placement, partitioned_by, origin = inherited((into, peer))
        post = into.output in peer.inputs
        inner = into.output if post else peer.output
        what = f"{peer.name} cannot be fused into {into.name}"
        if not post and (not into.inputs or into.inputs[0] is not inner):
            raise ProgramError(f"{what}: neither reads the other's first result")
        if not inner.has_one_use or self.is_output(inner) or len((into if post else peer).outputs) > 1:
            raise ProgramError(f"{what}: {inner.name} is read elsewhere")
        slot = peer.inputs.index(inner) if post else running
        extra = [v for i, v in enumerate(peer.inputs) if i != slot]
        where: Literal["post", "pre"] = "post" if post else "pre"
        operand = {i: len(into.inputs) + n for n, i in enumerate(i for i in range(len(peer.inputs)) if i != slot)}
        own = tuple(operand[i] for i in range(peer.arity) if i != slot)
        steps = [Fused(peer.primitive, own, slot, where)]
        steps += [Fused(f.primitive, tuple(operand[i] for i in f.operands), f.slot, where) for f in peer.fused]
        # Everything the fused node reads is made before the later of the two, everything that reads it stands after.
        place = self.position(peer if post else into) - 1
        first = (peer.inputs[slot],) if not post else into.inputs[:1]
        self._unlink(peer)
        self._unlink(into)
        into.inputs = (*first, *into.inputs[1:], *extra)
        into.fused = (*into.fused, *steps) if post else (*steps, *into.fused)
        into.outputs = peer.outputs if post else into.outputs
        into.origin, into.annotation, into.placement = origin, annotation, placement
        into.partitioned_by, into.choice = partitioned_by, None
        self._link(into, place)

    def sort(self) -> None:
        """Put the nodes into a topological order, keeping the present order where it is one already.

        Raises:
            ProgramError: The graph has a cycle.
        """
        self._order.replace(topological(self._order.nodes))

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Put the nodes into the order of *nodes*, a permutation of them.

        Raises:
            ProgramError: It is not a permutation, or a node stands before one whose result it reads.
        """
        if len(nodes) != len(self) or len({id(n) for n in nodes if n in self}) != len(self):
            raise ProgramError("an execution order holds every node once")
        made: set[int] = set()
        for node in nodes:
            if late := [v for v in node.inputs if v.producer is not None and id(v.producer) not in made]:
                raise ProgramError(f"{node.name} stands before {late[0].name}, which it reads, is made")
            made.add(id(node))
        self._order.replace(nodes)

    def _after(self, inputs: Iterable[Value]) -> int:
        return max((self.position(v.producer) + 1 for v in inputs if v.producer is not None), default=0)

    def _link(self, node: Node, position: int) -> None:
        self._order.insert(position, node)
        node.join()

    def _unlink(self, node: Node) -> None:
        _part(node)
        self._order.remove(node)

    def __repr__(self) -> str:
        return f"<Program of {len(self)} nodes, {self.milestone.name.lower()}>"

    def _repr_html_(self) -> str:
        from clgraph.core.notebook import html_table

        rows = [(n.name, n.primitive.kind, n.output.layout, n.placement or "", n.choice or "") for n in self]
        return html_table(repr(self)[1:-1], ("node", "operator", "result", "device", "kernel"), rows)

    def __str__(self) -> str:
        """Print one line an input, constant, node and output, in execution order: what dumps hold and tests compare.

        Where a planned program has several subgraphs, a line stands in front of each.
        """
        lines = [f"program {self.milestone.name.lower()}" + (f" x{self.batch_slices}" if self.batch_slices > 1 else "")]
        lines += [f"  input {print_value(v)}" for v in self.inputs]
        lines += [f"  const {print_value(v)}" for v in self.constants]
        heads = {s.nodes[0]: f"  subgraph {s.id}" for s in self.subgraphs} if len(self.subgraphs) > 1 else {}
        for node in self:
            lines += [heads[node]] if node in heads else []
            lines.append(f"  {print_node(node)}")
        lines += [f"  output {name}" + (f" = {v.name}" if v.name != name else "") for name, v in self.outputs]
        return "\n".join(lines)


def _part(node: Node) -> None:
    """Remove *node* from its values: as a reader of its inputs and as the producer of its outputs."""
    for slot, value in enumerate(node.inputs):
        value.unlink(node, slot)
    for value in node.outputs:
        if value.producer is node:
            value.producer = None
