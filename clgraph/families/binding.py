"""A planned program for a member of a family: choices and formats are taken over, what depends on sizes derived."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from clgraph.core.format import Format
from clgraph.core.frozen import mutable
from clgraph.core.layout import Layout, Shape, pack, unpack
from clgraph.errors import BindingError, ClgraphError
from clgraph.families.layouts import Pair, share, widen_halos
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
from clgraph.selector.choose import taken_over
from clgraph.selector.implementation import overrides

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
        widened = widen_halos(program, context, pairs)
        lost = share(program, context, pairs)
        nodes = [node for _, node in pairs]
        for (old, node), rule in zip(pairs, recipe.rules, strict=True):
            if old.in_place and node not in lost:
                node.choice = in_place(node, context)
            elif rule.twin is None or not _like(node, nodes[rule.twin]):
                _choose(program, packings, context, rule, node)
        program.milestone = Milestone.SELECTED
        for step in (*_BEHIND, PlanMemory(orders=(order,), moves=0), TargetCodeEmission()):
            step.run(program, context)
            program.milestone = max(program.milestone, step.reaches or program.milestone)
        program.notes[DERIVED] = _derived(pairs, widened, lost)
    except BindingError:
        raise
    except ClgraphError as error:
        raise BindingError(str(error)) from error
    return program


def _derived(pairs: Sequence[Pair], widened: int, lost: Collection[Node]) -> str:
    """Count what a member has otherwise than its representative."""
    chosen = sum(
        choice_of(old).implementation is not choice_of(node).implementation for old, node in pairs if node not in lost
    )
    packed = sum(
        mine.constant is not None and mine.layout.format != its.layout.format
        for old, node in pairs
        for its, mine in zip(old.inputs, node.inputs, strict=True)
    )
    counts = [(chosen, "kernel", "chosen anew"), (packed, "weight", "repacked")]
    counts += [(widened, "halo", "widened"), (len(lost), "view", "copied")]
    return ", ".join(f"{n} {what}{'s' if n > 1 else ''} {how}" for n, what, how in counts if n)


def _like(node: Node, twin: Node) -> bool:
    """Give *node* the choice of *twin* if the problem is the same here, too, and say whether it is."""
    choice = choice_of(twin)
    q = choice.query
    inputs, outputs = tuple(v.layout for v in node.inputs), tuple(v.layout for v in node.outputs)
    if q.inputs != inputs or q.outputs != outputs or q.primitive != node.primitive:
        return False
    node.choice = choice
    return True


def _choose(program: Program, packings: Packings, context: Context, rule: Rule, node: Node) -> None:
    """Give *node* the implementation that the representative has where it serves these sizes, else another one."""
    q = rule.query(node, context.device(node))
    if not rule.node.in_place:
        choice = choice_of(rule.node)
        implementation = choice.implementation
        # Types, fused operations and the device are those that it was chosen for.
        asked = rule.as_asked(q)
        if implementation.sizes_refusal(asked) is None and not missing_halo(implementation, asked):
            if overrides(implementation, "weights") and _pack(program, packings, rule, node, implementation.weights(q)):
                q = rule.query(node, q.device)
            node.choice = taken_over(q, implementation, choice.seconds, MADE)
            return
    node.choice = chosen = select(context, node, q)
    for slot, wanted in chosen.implementation.weights(q).items():
        if node.inputs[slot].constant is not None and node.inputs[slot].layout.format != wanted:
            raise BindingError(f"node {node.name!r}: {chosen.name} asks for other weights")


def _pack(program: Program, packings: Packings, rule: Rule, node: Node, weights: Mapping[int, Any]) -> bool:
    """Give *node* its constants in the formats of *weights*; return whether any had another one."""
    changed = False
    for slot, wanted in weights.items():
        value = node.inputs[slot]
        if value.constant is None or value.layout.format == wanted:
            continue
        if rule.node.inputs[slot].layout.format == value.layout.format and _unasked(rule.node, slot):
            continue
        if not isinstance(wanted, Format):
            raise BindingError(f"node {node.name!r} asks for transformed weights")
        program.rewire(value, packings.of(value, wanted), uses=((node, slot),))
        changed = True
    return changed


def _unasked(old: Node, slot: int) -> bool:
    """Whether the representative's node has not what its implementation asks for, because it was transformed for it."""
    choice = choice_of(old)
    return choice.implementation.weights(choice.query).get(slot) != old.inputs[slot].layout.format
