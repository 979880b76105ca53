"""Give each node a device, from what the user and the model say and from what can run it. clDNN has one device only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.errors import UnsupportedError
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.layer import Layer
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.graph.topology import Topology
from clgraph.ops.reorder import Reorder
from clgraph.ops.transfer import Transfer, transfer_seconds
from clgraph.passes.base import Context, Pass
from clgraph.passes.factor_graph import Factor, minimise
from clgraph.passes.placement.beside_host import offer_host
from clgraph.passes.selection import proposals, unserved
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import query_of


class Partition(Pass):
    """Place every node by the user's patterns, else by its annotation, else by capability and cost.

    * The first pattern of ``Context.placement`` that fits the node's annotation, its name, the name or type of an ONNX
      operator it stems from, or its kind. A device that does not serve the node is an error, unless
      ``Context.fallback`` lists others that do.
    * An annotation that is the name of a device, alone or as ``name:detail``; a hint.
    * With budgets, in order: each device of ``Context.free`` until its budget is full; what patterns and annotations
      wish for a full device goes to the fallbacks, then there, too.
    * Capability and cost: of ``Context.free``, the devices that make the estimated time of nodes and copies between
      devices least. What none of them serves runs on the host, where that is allowed.

    Every node that is not where it was wished is listed in ``Program.notes`` with the reason; all nodes that nothing
    serves are reported in one error.
    """

    name: ClassVar[str] = "partition"
    required: ClassVar[bool] = True
    reaches: ClassVar[Milestone | None] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        places = {node: places_of(context, node) for node in program}
        if context.budgets is None:
            offer_host(context, {node: found.able for node, found in places.items()})
            chosen = cheapest(program, context, places)
        else:
            # Imported where devices have budgets.
            from clgraph.passes.placement.filling import fill

            _check_able(program, places)
            able = {node: [*found.able, *_behind(context, node, found)] for node, found in places.items()}
            chosen = fill(program, able, context.budgets)
        changes = 0
        for node, placement in chosen.items():
            changes += node.placement != placement
            node.placement = placement
        self.note(program, [line_of(node, found) for node, found in places.items() if found.reasons])
        return changes

    def describe(self, kind: str) -> str:
        where = sorted({k for i in IMPLEMENTATIONS.of(kind) for k in i.serves.kinds})
        return f"goes to devices that an implementation serves ({', '.join(where) or 'none'}), else to the host"


@mutable
class Places:
    """Where a node may run.

    Attributes:
        able: Placements that serve it; the cheapest is taken.
        reasons: Why those before them do not.
        pattern: What mapped it.
    """

    able: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    pattern: str | None = None


def places_of(context: Context, node: Node, refused: Mapping[str, str] | None = None) -> Places:
    """Return where *node* may run: where it is placed already, else by the rules of :class:`Partition`.

    Args:
        refused: Placements known not to serve it, with the reason. What moves data for its neighbours goes by no
            pattern then: the user placed them, not how they are laid out.
    """
    moves = refused is not None and moves_data(node)
    rules = () if moves else context.placement
    pattern, wanted = first_fitting(rules, node, context.op_types) or (None, None)
    if node.placement in context.devices and refused is None:
        groups: list[Sequence[str]] = [(node.placement,)] if node.placement else []
    elif wanted is not None:
        groups = [(wanted,), *((p,) for p in context.fallback)]
    else:
        hints = (named_by(hint, context.devices) for hint in hints_of(node))
        hinted = next((name for name in hints if name is not None), None)
        free = context.free or tuple(p for p, d in context.devices.items() if d.kind != "host")[:1]
        others = [p for p, d in context.devices.items() if d.kind == "host" or not context.placement]
        groups = [*([(hinted,)] if hinted else []), free, *((p,) for p in others if p not in free)]
    found = Places(reasons=dict(refused or {}), pattern=pattern)
    for group in groups:
        for placement in group:
            if placement in found.reasons:
                continue
            reason = unserved(context, node, query_of(node, context.devices[placement]))
            if reason is None:
                found.able.append(placement)
            else:
                found.reasons[placement] = reason
        if found.able:
            break
    return found


def moves_data(node: Node) -> bool:
    """Whether *node* computes nothing: it carries a value to another device, or into another format."""
    if isinstance(node.primitive, Reorder):
        return not node.fused and node.inputs[0].layout.dtype == node.output.layout.dtype
    return isinstance(node.primitive, Transfer)


def hints_of(of: Node | Layer) -> tuple[str, ...]:
    """Return the annotations of *of*: of a node that is placed, those that it was placed by."""
    if of.annotation is not None:
        return (of.annotation,)
    return tuple(of.partitioned_by.split(", ")) if isinstance(of, Node) and of.partitioned_by else ()


def first_fitting(
    rules: Sequence[tuple[str, str]], of: Node | Layer, op_types: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the first (pattern, placement) of *rules* that fits what a user may call *of* by; ``*`` fits anything."""
    return next((rule for rule in rules if _names_fit(rule[0], of, op_types)), None)


def unused_patterns(topology: Topology, patterns: Sequence[str]) -> list[str]:
    """Return the *patterns* that fit no layer of *topology* and of the bodies in it."""
    layers = list(_with_bodies(topology))
    return [p for p in patterns if not any(_names_fit(p, layer, topology.op_types) for layer in layers)]


def named_by(annotation: str, devices: Collection[str]) -> str | None:
    """Return which of *devices* an annotation names, alone or as ``name:detail``; ``None`` for none."""
    return next((name for name in (annotation, annotation.partition(":")[0]) if name in devices), None)


def idle_rules(topology: Topology, rules: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of *rules* that are the first fitting for no layer of *topology* and of the bodies in it."""
    used = {first_fitting(rules, layer, topology.op_types) for layer in _with_bodies(topology)} if rules else set()
    return [rule for rule in dict.fromkeys(rules) if rule not in used]


def idle_annotations(topology: Topology, rules: Sequence[tuple[str, str]], devices: Collection[str]) -> list[str]:
    """Return the annotations of layers that name none of *devices* and that no pattern of *rules* fits."""
    given = dict.fromkeys(layer.annotation for layer in _with_bodies(topology) if layer.annotation)
    return [
        name for name in given if named_by(name, devices) is None and not any(fnmatchcase(name, p) for p, _ in rules)
    ]


def _with_bodies(topology: Topology) -> Iterator[Layer]:
    for layer in topology.layers:
        yield layer
        if isinstance(layer.primitive, ControlFlow):
            for body in layer.primitive.bodies().values():
                yield from _with_bodies(body)


def _names_fit(pattern: str, of: Node | Layer, op_types: Mapping[str, str]) -> bool:
    kinds = [of.primitive.kind, *(op_types[o] for o in of.origin if o in op_types)]
    return any(fnmatchcase(name, pattern) for name in (*(hints_of(of) or ("",)), of.name, *of.origin, *kinds))


def line_of(node: Node, found: Places) -> str:
    """Say where *node* runs and why not elsewhere."""
    return f"{node.name} runs on {node.placement}: {'; '.join(found.reasons.values())}"


def _refused(node: Node, found: Places) -> str:
    reasons = "; ".join(f"{placement}: {reason}" for placement, reason in found.reasons.items())
    mapped = f", placed by {found.pattern!r} (placement_fallback lists where else it may go)" if found.pattern else ""
    return f"node {node.name!r} (from {', '.join(node.origin)}){mapped}: {reasons}"


def _behind(context: Context, node: Node, found: Places) -> list[str]:
    """Return where *node* may go when the devices of *found* are full."""
    rest = [p for p in (*context.fallback, *context.free) if p not in found.able and p not in found.reasons]
    return [p for p in dict.fromkeys(rest) if unserved(context, node, query_of(node, context.devices[p])) is None]


def _check_able(program: Program, places: Mapping[Node, Places]) -> None:
    """Raise ``UnsupportedError`` that lists the nodes that nothing serves."""
    if nowhere := {node: found for node, found in places.items() if not found.able}:
        tried = ", ".join(dict.fromkeys(p for found in nowhere.values() for p in found.reasons))
        listed = "\n".join(_refused(node, found) for node, found in nowhere.items())
        what = f"{len(nowhere)} of {len(program)} nodes have no implementation on {tried}"
        raise UnsupportedError(f"{what}:\n{listed}")


def cheapest(program: Program, context: Context, places: Mapping[Node, Places]) -> dict[Node, str]:
    """Return the placement of each node that makes nodes and copies between devices cheapest, by estimate.

    Raises:
        UnsupportedError: Lists the nodes that nothing serves.
    """
    _check_able(program, places)
    if all(len(found.able) == 1 for found in places.values()):
        return {node: found.able[0] for node, found in places.items()}
    index = {node: i for i, node in enumerate(places)}
    factors = [
        Factor((index[node],), np.array([_seconds(context, node, p) for p in found.able]))
        for node, found in places.items()
    ]
    for node, found in places.items():
        for value in node.outputs:
            for reader in value.readers:
                price = transfer_seconds(value.layout.nbytes)
                table = np.array([[price * (a != b) for b in places[reader].able] for a in found.able])
                factors.append(Factor((index[node], index[reader]), table))
    sizes = [len(found.able) for found in places.values()]
    solution = minimise(sizes, factors, [0] * len(sizes))
    return {node: found.able[solution.values[index[node]]] for node, found in places.items()}


def _seconds(context: Context, node: Node, placement: str) -> float:
    q = query_of(node, context.devices[placement])
    offered = proposals(context, node, q)
    return offered[0].seconds if offered else q.device.launch_seconds
