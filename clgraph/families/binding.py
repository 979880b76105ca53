"""A planned program for a member of a family: choices and formats are taken over, what depends on sizes derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from clgraph.core.format import Format
from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Layout, Shape
from clgraph.core.packing import pack, unpack
from clgraph.errors import BindingError, ClgraphError
from clgraph.families.layouts import Asked, share, widen_halos
from clgraph.families.member import MemberRecipe
from clgraph.families.notes import TAKEN
from clgraph.families.rules import Rule
from clgraph.families.taken import Taken
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.chosen import choice_of
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.passes.selection import in_place, missing_halo, select
from clgraph.passes.targets.target_code_emission import TargetCodeEmission
from clgraph.passes.targets.target_memory_allocation import TargetMemoryAllocation
from clgraph.passes.targets.target_scheduling import TargetScheduling
from clgraph.selector.choose import OF_FAMILY, Choice, taken_over
from clgraph.selector.query import Query

DERIVED = "derived"
"""The note of a bound program that counts what is not as the representative has it."""
_BEHIND: tuple[Pass, ...] = (
    TargetScheduling(),
    MemoryDependencies(counts=False),
    OooqMemoryDependencies(),
    TargetMemoryAllocation(),
)
"""What every program goes through behind propagate_constants, in front of plan_memory."""


@mutable
class Packings:
    """Constants of a family in other formats than the representative's, as some members ask for."""

    made: dict[tuple[int, Format], tuple[Array, Array, Layout]] = field(default_factory=dict)

    def of(self, value: Value, wanted: Format) -> Value:
        """Return *value*, a constant, in the format *wanted*."""
        assert value.constant is not None
        key = id(value.constant), wanted
        if key not in self.made:
            layout = value.layout.with_format(wanted)
            plain = value.constant if value.layout.is_dense_plain else unpack(value.constant, value.layout)
            array = pack(plain, layout)
            array.flags.writeable = False
            self.made[key] = value.constant, array, layout
        _, array, layout = self.made[key]
        return Value(value.name, layout, constant=array)


@mutable
class Derived:
    """Counts what a member has otherwise than its representative."""

    chosen: int = 0
    packed: int = 0
    widened: int = 0
    copied: int = 0

    def __str__(self) -> str:
        counts = [(self.chosen, "kernel", "chosen anew"), (self.packed, "weight", "repacked")]
        counts += [(self.widened, "halo", "widened"), (self.copied, "view", "copied")]
        return ", ".join(f"{n} {what}{'s' if n > 1 else ''} {how}" for n, what, how in counts if n)


def bind(
    recipe: MemberRecipe,
    packings: Packings,
    context: Context,
    shapes: Sequence[Shape],
    known: Mapping[str, Array],
    order: int = 0,
) -> Program:
    """Return the planned program of the member with inputs of *shapes*.

    Raises:
        BindingError: The member cannot be derived.
    """
    try:
        program, _ = recipe.member(shapes, known)
        pairs = list(zip(recipe.taken, program, strict=True))
        derived = Derived()
        derived.widened, asked = widen_halos(program, context, pairs)
        lost = share(program, context, pairs)
        derived.copied = len(lost)
        chooser = _Chooser(program, packings, context, asked, derived)
        nodes = [node for _, node in pairs]
        for taken, node in pairs:
            if taken.in_place and node not in lost:
                node.choice = in_place(node, context, taken.rule.query(node, context.device(node)))
                continue
            twin = taken.rule.twin
            node.choice = (None if twin is None else chooser.of_twin(taken, node, nodes[twin])) or chooser.choose(
                taken, node
            )
            derived.chosen += node.choice.implementation is not taken.implementation and not taken.in_place
        program.milestone = Milestone.SELECTED
        for step in (*_BEHIND, PlanMemory(orders=(order,), moves=0), TargetCodeEmission()):
            step.run(program, context)
            program.milestone = max(program.milestone, step.reaches or program.milestone)
        program.notes |= {name: recipe.program.notes[name] for name in TAKEN if name in recipe.program.notes}
        program.notes[DERIVED] = str(derived)
    except BindingError:
        raise
    except ClgraphError as error:
        raise BindingError(str(error)) from error
    return program


@frozen
class _Chooser:
    """Chooses for the nodes of one member.

    Attributes:
        asked: The problems of nodes whose inputs have the zeros that the representative's implementation reads.
        unpacked: The problems of nodes whose constants were packed otherwise than the representative's, before that.
    """

    program: Program
    packings: Packings
    context: Context
    asked: Asked
    derived: Derived
    unpacked: dict[Node, Query[Any]] = field(default_factory=dict)

    def of_twin(self, taken: Taken, node: Node, twin: Node) -> Choice | None:
        """Return the choice of *twin* if the problem is that of *node* here, too, packed alike."""
        choice = choice_of(twin)
        q = self.unpacked.get(twin, choice.query)
        inputs, outputs = tuple([v.layout for v in node.inputs]), tuple([v.layout for v in node.outputs])
        if q.inputs != inputs or q.outputs != outputs or q.primitive != node.primitive:
            return None
        if twin in self.unpacked:
            self.derived.packed += self._pack(taken.rule, node, choice.implementation.weights(q))
        return choice

    def choose(self, taken: Taken, node: Node) -> Choice:
        """Return the implementation that the representative has where it serves the problem of *node*, else another.

        The node gets its constants in the formats that it asks for. Where no size goes into it, as behind a pooling
        over all pixels, it has the representative's choice with its plan.
        """
        rule, implementation, asked = taken.rule, taken.implementation, self.asked.get(node)
        device = self.context.device(node)
        q = taken.query(node, device) if asked is None else rule.query(node, device, asked)
        if q is taken.choice.query:
            return taken.choice
        if not taken.in_place and (q is asked or not taken.reads_zeros or not missing_halo(implementation, q)):
            # Some are asked before weights are packed, and refuse those that are.
            refused = implementation.sizes_refusal(q) is not None
            if not refused or (rule.plain and implementation.sizes_refusal(rule.as_asked(q)) is None):
                if taken.asks_weights and (packed := self._pack(rule, node, implementation.weights(q))):
                    self.derived.packed += packed
                    self.unpacked[node] = q
                    q = rule.query(node, q.device)
                return taken_over(q, implementation, taken.choice.seconds, OF_FAMILY)
        chosen = select(self.context, node, q)
        if node.primitive.sooner_apart and chosen.implementation.general and not implementation.general:
            raise BindingError(f"node {node.name!r}: only the general kernel of {node.primitive.kind} serves its sizes")
        for slot, wanted in chosen.implementation.weights(q).items():
            if node.inputs[slot].constant is not None and node.inputs[slot].layout.format != wanted:
                raise BindingError(f"node {node.name!r}: {chosen.name} asks for other weights")
        return chosen

    def _pack(self, rule: Rule, node: Node, weights: Mapping[int, Any]) -> int:
        """Give *node* its constants in the formats of *weights*; return how many had another one."""
        changed = 0
        for slot, wanted in weights.items():
            value = node.inputs[slot]
            if value.constant is None or value.layout.format is wanted or value.layout.format == wanted:
                continue
            if rule.node.inputs[slot].layout.format == value.layout.format and _unasked(rule.node, slot):
                continue
            if not isinstance(wanted, Format):
                raise BindingError(f"node {node.name!r} asks for transformed weights")
            self.program.rewire(value, self.packings.of(value, wanted), uses=((node, slot),))
            changed += 1
        return changed


def _unasked(old: Node, slot: int) -> bool:
    """Whether the representative's node has not what its implementation asks for, because it was transformed for it."""
    choice = choice_of(old)
    return choice.implementation.weights(choice.query).get(slot) != old.inputs[slot].layout.format
