"""Ask for capability again, once passes have made nodes. Answers the second ``GetCapability`` of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from clgraph.errors import UnsupportedError
from clgraph.graph.program import Node, Program, Stage
from clgraph.passes.base import Context, Pass
from clgraph.passes.formats.add_required_reorders import convert_result, serve
from clgraph.passes.placement.insert_transfers import carry_again, uncarried
from clgraph.passes.placement.partition import Places, cheapest, line_of, moves_data, places_of
from clgraph.passes.selection import select, stands
from clgraph.selector.choose import Choice


class ConfirmPlacement(Pass):
    """Ask every node's device whether it takes the node as it is now, and place anew what it refuses.

    Between partition and this pass nodes have become other ones: fused, laid out, the target's own. By the rules of
    partition, on the nodes as they are:

    * What its device serves stays, in its layouts or with reorders around it.
    * What its device refuses, or what has none, goes where the user's patterns, then capability and cost say. What only
      moves data for its neighbours (reorders) is bound by no pattern.
    * What is on the host for want of a device, and has become what one takes, is claimed by that.

    Transfers follow. ``Program.notes`` lists every node that moved, with the reason. A node that nothing allowed serves
    is an error, with all others. Counts the nodes that moved.
    """

    name: ClassVar[str] = "confirm_placement"
    required: ClassVar[bool] = True
    needs: ClassVar[Stage] = Stage.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        refused = _ask(program, context)
        _raise({node: why for node, why in refused.items() if node.name in context.forced})
        again = {node: places_of(context, node, {node.placement or "nowhere": why}) for node, why in refused.items()}
        again |= {node: found for node in program if node not in again and (found := _claimed(context, node))}
        if not again and not uncarried(program):
            return 0
        places = {node: again.get(node, Places([node.placement or ""])) for node in program}
        chosen = cheapest(program, context, places)
        for node in again:
            _move(program, context, node, chosen[node])
        carry_again(program)
        _raise(_ask(program, context))
        if again:
            program.notes[self.name] = "\n".join(line_of(node, found) for node, found in again.items())
        return len(again)

    def describe(self, kind: str) -> str:
        return "stays where it is if its device still takes it, else is placed anew"


def _raise(refused: Mapping[Node, str]) -> None:
    if refused:
        lines = (f"node {n.name!r} (from {', '.join(n.origin)}) on {n.placement}: {why}" for n, why in refused.items())
        raise UnsupportedError("\n".join(lines))


def _ask(program: Program, context: Context) -> dict[Node, str]:
    """Return which nodes their devices take in no layouts, with the reason; the others get reorders where they must."""
    before = set(program)
    refused = {n: why for n in program if (why := _refusal(context, n, partial(serve, program, context))) is not None}
    # A reorder that is refused itself has none around it.
    made = (n for n in program if n not in before)
    return refused | {n: why for n in made if (why := _refusal(context, n, partial(select, context))) is not None}


def _refusal(context: Context, node: Node, attempt: Callable[[Node], object]) -> str | None:
    """Return why the device of *node* does not take it; ``None`` where its choice stands, or *attempt* makes one."""
    if node.placement not in context.devices:
        return f"{node.placement} is no device here"
    if node.in_place or (isinstance(node.choice, Choice) and stands(node.choice, context.query(node))):
        return None
    try:
        attempt(node)
    except UnsupportedError as error:
        # Without the name of the node, which choosing puts in front.
        return str(error.__cause__ or error)
    return None


def _claimed(context: Context, node: Node) -> Places | None:
    """Return where a node of the host goes that a device takes by now; ``None`` for one that stays."""
    if context.device(node).kind != "host" or len(context.devices) == 1 or moves_data(node) or node.in_place:
        return None
    found = places_of(context, node, {})
    if not found.able or node.placement in found.able:
        return None
    found.reasons[node.placement or ""] = f"{', '.join(found.able)} takes it as it has become"
    return found


def _move(program: Program, context: Context, node: Node, placement: str) -> None:
    """Place *node* anew; where its results lay in a buffer with others, or with zeros around, they are copied there."""
    for value in node.outputs:
        if node.placement in context.devices and (
            value.buffer is not None or value.layout.halo or value.layout.pitches
        ):
            convert_result(program, context, node, value, value.layout.plain())
    node.placement, node.choice = placement, None
