"""A planned program for a member of a family: choices and formats are taken over, what depends on sizes derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from clgraph.core.format import Format
from clgraph.core.frozen import mutable
from clgraph.core.layout import Layout, Shape, pack, unpack
from clgraph.errors import BindingError, ClgraphError
from clgraph.families.layouts import share, widen_halos
from clgraph.families.member import Recipe
from clgraph.families.rules import Rule
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.passes.selection import choice_of, in_place, missing_halo, select
from clgraph.passes.targets.target_code_emission import TargetCodeEmission
from clgraph.passes.targets.target_memory_allocation import TargetMemoryAllocation
from clgraph.passes.targets.target_scheduling import TargetScheduling
from clgraph.selector.choose import Choice, taken_over
from clgraph.selector.implementation import Implementation, overrides
from clgraph.selector.query import Query

DERIVED = "derived"
"""The note of a bound program that counts what is not as the representative has it."""
_BEHIND: tuple[Pass, ...] = (
    TargetScheduling(),
    MemoryDependencies(),
    OooqMemoryDependencies(),
    TargetMemoryAllocation(),
)
"""What every program goes through behind propagate_constants, in front of plan_memory."""
MADE = "family"
"""Why an implementation was taken that the representative of the family has."""


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
    recipe: Recipe,
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
        pairs = list(zip(recipe.program, program, strict=True))
        derived, asked = Derived(), dict[Node, Query[Any]]()
        derived.widened = widen_halos(program, context, pairs, asked)
        lost = share(program, context, pairs)
        derived.copied = len(lost)
        nodes = [node for _, node in pairs]
        for (old, node), rule in zip(pairs, recipe.rules, strict=True):
            taken = choice_of(old)
            if taken.in_place and node not in lost:
                node.choice = in_place(node, context)
                continue
            choice = None if rule.twin is None else _of_twin(node, nodes[rule.twin])
            if choice is None:
                q = rule.query(node, context.device(node), asked.get(node))
                choice = _choose(program, packings, context, rule, node, q, derived)
            node.choice = choice
            derived.chosen += choice.implementation is not taken.implementation and not taken.in_place
        program.milestone = Milestone.SELECTED
        for step in (*_BEHIND, PlanMemory(orders=(order,), moves=0), TargetCodeEmission()):
            step.run(program, context)
            program.milestone = max(program.milestone, step.reaches or program.milestone)
        program.notes[DERIVED] = str(derived)
    except BindingError:
        raise
    except ClgraphError as error:
        raise BindingError(str(error)) from error
    return program


def _of_twin(node: Node, twin: Node) -> Choice | None:
    """Return the choice of *twin* if the problem is that of *node* here, too."""
    choice = choice_of(twin)
    q = choice.query
    inputs, outputs = tuple([v.layout for v in node.inputs]), tuple([v.layout for v in node.outputs])
    same = q.inputs == inputs and q.outputs == outputs and q.primitive == node.primitive
    return choice if same else None


def _choose(
    program: Program,
    packings: Packings,
    context: Context,
    rule: Rule,
    node: Node,
    q: Query[Any],
    derived: Derived,
) -> Choice:
    """Return the implementation that the representative has where it serves *q*, the problem of *node*, else another.

    The node gets its constants in the formats that it asks for.
    """
    taken = choice_of(rule.node)
    if not taken.in_place:
        implementation = taken.implementation
        # Some are asked before weights are packed, and refuse those that are.
        if _serves(implementation, q) or (rule.plain and _serves(implementation, rule.as_asked(q))):
            if overrides(implementation, "weights"):
                packed = _pack(program, packings, rule, node, implementation.weights(q))
                derived.packed += packed
                q = rule.query(node, q.device, q)
            return taken_over(q, implementation, taken.seconds, MADE)
    chosen = select(context, node, q)
    for slot, wanted in chosen.implementation.weights(q).items():
        if node.inputs[slot].constant is not None and node.inputs[slot].layout.format != wanted:
            raise BindingError(f"node {node.name!r}: {chosen.name} asks for other weights")
    return chosen


def _serves(implementation: type[Implementation[Any]], q: Query[Any]) -> bool:
    """Whether it serves *q*, whose types, fused operations and device are those that it was chosen for."""
    return implementation.sizes_refusal(q) is None and not missing_halo(implementation, q)


def _pack(program: Program, packings: Packings, rule: Rule, node: Node, weights: Mapping[int, Any]) -> int:
    """Give *node* its constants in the formats of *weights*; return how many had another one."""
    changed = 0
    for slot, wanted in weights.items():
        value = node.inputs[slot]
        if value.constant is None or value.layout.format == wanted:
            continue
        if rule.node.inputs[slot].layout.format == value.layout.format and _unasked(rule.node, slot):
            continue
        if not isinstance(wanted, Format):
            raise BindingError(f"node {node.name!r} asks for transformed weights")
        program.rewire(value, packings.of(value, wanted), uses=((node, slot),))
        changed += 1
    return changed


def _unasked(old: Node, slot: int) -> bool:
    """Whether the representative's node has not what its implementation asks for, because it was transformed for it."""
    choice = choice_of(old)
    return choice.implementation.weights(choice.query).get(slot) != old.inputs[slot].layout.format
