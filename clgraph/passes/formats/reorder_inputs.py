"""Choose a memory format for every value by cost. Answers clDNN's reorder_inputs, which counts reorders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np

from clgraph.core.format import Format
from clgraph.core.frozen import mutable
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.factor_graph import Edges, Factor, Solution
from clgraph.passes.memory.sharing import sharing_proposals
from clgraph.passes.rewriting import apart, mover
from clgraph.passes.selection import Proposal, proposals
from clgraph.passes.targets.target import targets_of
from clgraph.selector.choose import Choice, choose
from clgraph.selector.implementation import IMPLEMENTATIONS, overrides
from clgraph.selector.query import DeviceInfo, Query


class ReorderInputs(Pass):
    """Pose every node in the formats its implementations propose, minimise the estimated time, insert the reorders.

    The time of a program is that of its nodes in their formats plus that of the reorders between them; a reorder is
    paid once for all readers that prefer the same format. The minimum is exact on chains, trees and other narrow graphs
    (see ``factor_graph``). Graph inputs come and graph outputs leave in plain formats; constants keep theirs until
    post_optimize_weights. Each node keeps the implementation it was costed with as its provisional choice, which
    prepare_padding asks for halos. ``Program.notes`` has the estimate, for all workers of a device, whatever threads
    the user asks for. Counts the reorders inserted.
    """

    name: ClassVar[str] = "reorder_inputs"
    needs: ClassVar[Milestone] = Milestone.PLACED
    reaches: ClassVar[Milestone | None] = Milestone.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        problem = _Problem(program, context)
        solution = problem.solve()
        for node, options in problem.options.items():
            _settle(node, options[solution.values[problem.index[node]]])
        moved = 0
        inserted = _insert_reorders(program, problem, solution)
        for made in inserted:
            moved += made.output.layout.nbytes
        how = "exact" if solution.exact else "bounded search"
        time = f"{solution.cost * 1e3:.3g} ms estimated on all workers ({how})"
        program.notes[self.name] = f"{time}; reorders: {len(inserted)}, writing {moved} bytes"
        return len(inserted)

    def describe(self, kind: str) -> str:
        own = [i for i in IMPLEMENTATIONS.of(kind) if overrides(i, "formats")]
        return "gets one of the formats that its implementations propose" if own else "stays in plain formats"


@mutable
class _Problem:
    """The variables: the proposal of each node, then for each value with several readers the set of its formats."""

    program: Program
    context: Context
    options: dict[Node, tuple[Proposal, ...]] = field(init=False)
    index: dict[Node, int] = field(init=False)

    def __post_init__(self) -> None:
        self.options = {}
        for node in self.program:
            q = self.context.query(node)
            offered = [*sharing_proposals(self.program, node, q), *proposals(self.context, node, q)]
            if offered:
                self.options[node] = _distinct(_desired(node, q.device, offered))
        self.index = {node: i for i, node in enumerate(self.options)}

    def solve(self) -> Solution:
        """Return the proposal of each node, by ``index``."""
        sizes = [len(o) for o in self.options.values()]
        factors = [Factor((i,), np.array([p.seconds for p in o])) for i, o in enumerate(self.options.values())]
        edges: Edges[Format] = Edges(sizes, [0] * len(sizes), factors)
        for value in self.program.values:
            if value.constant is None:
                self._add_value(value, edges)
        return edges.minimise()

    def preferences(self, node: Node, slot: int) -> list[Format]:
        """Return the format that each option of *node* prefers for input *slot*."""
        if node not in self.options:
            return [Format.plain(node.inputs[slot].layout.rank)]
        return [p.query.inputs[slot].format for p in self.options[node]]

    def makes(self, value: Value) -> list[Format]:
        """Return the format that each option of the producer gives *value*."""
        node = value.producer
        if node is None or node not in self.options:
            return [value.layout.format]
        place = node.outputs.index(value)
        return [p.query.outputs[place].format for p in self.options[node]]

    def cost(self, value: Value, made: Format, wanted: Format, device: DeviceInfo) -> float:
        """Estimate the seconds of writing *value* again in another format; ``inf`` where no kernel does it."""
        if made == wanted:
            return 0.0
        source = value.layout.with_format(made)
        q = Query(Reorder(source.dtype, wanted), (source,), (source.with_format(wanted),), device, 1)
        try:
            return choose(q, denied=self.context.denied).seconds
        except UnsupportedError:
            return float("inf")

    def _add_value(self, value: Value, edges: Edges[Format]) -> None:
        """Add the cost of the reorders behind *value*."""
        made, readers = self.makes(value), list(value.uses)
        needs = [(self.index.get(n), self.preferences(n, slot)) for n, slot in readers]
        if self.program.is_output(value):
            needs.append((None, [Format.plain(value.layout.rank)]))
        formats = list(dict.fromkeys((*made, *(f for _, wanted in needs for f in wanted))))
        if len(formats) == 1 or not needs:
            return
        producer = None if value.producer is None else self.index.get(value.producer)
        device = self.context.device(mover(value, readers[0][0])) if readers else self.context.default
        price = {(m, f): self.cost(value, m, f, device) for m in dict.fromkeys(made) for f in formats}
        edges.add(producer, made, needs, price, formats)


def _desired(node: Node, device: DeviceInfo, offered: list[Proposal]) -> list[Proposal]:
    """Return the proposals in the formats that the target of the device would like; all where none is."""
    for target in targets_of([device]):
        preferred = target.desired(node.primitive.kind, node.output.layout.rank)
        liked = [p for p in offered if preferred is not None and p.query.outputs[0].format == preferred]
        offered = liked or offered
    return offered


def _distinct(found: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Return the cheapest proposal for each combination of formats."""
    kept: dict[tuple[Format, ...], Proposal] = {}
    for p in found:
        kept.setdefault(tuple(x.format for x in (*p.query.inputs, *p.query.outputs)), p)
    return tuple(kept.values())


def _settle(node: Node, chosen: Proposal) -> None:
    for value, layout in zip(node.outputs, chosen.query.outputs, strict=True):
        if value.layout.format != layout.format:
            value.layout = value.layout.with_format(layout.format)
    because = "tuned, cheapest over the graph" if chosen.tuned else "cheapest over the graph"
    node.choice = Choice(chosen.query, chosen.implementation, chosen.seconds, because)


def _insert_reorders(program: Program, problem: _Problem, solution: Solution) -> list[Node]:
    inserted: list[Node] = []
    for value in program.values:
        if value.constant is not None:
            continue
        groups: dict[tuple[Format, str | None, str | None], list[tuple[Node, int]]] = {}
        for node, slot in value.uses:
            preferences = problem.preferences(node, slot)
            wanted = preferences[solution.values[problem.index[node]]] if node in problem.index else preferences[0]
            if wanted != value.layout.format:
                where = mover(value, node)
                groups.setdefault((wanted, where.placement, where.annotation), []).append((node, slot))
        for (wanted, _, _), uses in groups.items():
            first = min((node for node, _ in uses), key=program.position)
            source = mover(value, first)
            made = program.insert(Reorder(value.layout.dtype, wanted), [value], sources=[source], before=first)
            program.rewire(value, made.output, uses=uses)
            inserted.append(made)
            if wanted.is_plain and apart((source, value.producer or first)) is None:
                program.outputs = [(name, made.output if v is value else v) for name, v in program.outputs]
        if program.is_output(value) and value.producer is not None and not value.layout.format.is_plain:
            made = program.insert(Reorder(value.layout.dtype), [value], sources=[value.producer])
            program.outputs = [(name, made.output if v is value else v) for name, v in program.outputs]
            inserted.append(made)
    return inserted
