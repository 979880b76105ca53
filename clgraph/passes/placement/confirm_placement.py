"""Ask for capability again, once passes have made nodes. Answers the second ``GetCapability`` of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.formats.add_required_reorders import convert_result, serve
from clgraph.passes.placement.beside_host import stays
from clgraph.passes.placement.insert_transfers import carry_again, uncarried
from clgraph.passes.placement.partition import Places, cheapest, line_of, moves_data, places_of
from clgraph.passes.selection import select, stands, unserved
from clgraph.selector.choose import Choice


class ConfirmPlacement(Pass):
    """Ask every node's device whether it takes the node as it is now, and place anew what it refuses.

    Between partition and this pass nodes have become other ones: fused, laid out, the target's own. By the rules of
    partition, on the nodes as they are:

    * What its device serves, in these layouts or others, stays.
    * What its device refuses, or what has none, goes where the user's patterns, then capability and cost say. What only
      moves data for its neighbours (reorders) is bound by no pattern.
    * What is on the host for want of a device, and has become what one takes, is claimed by that.

    Transfers follow. ``Program.notes`` lists every node that moved, with the reason. A node that nothing allowed serves
    is an error, with all others. Counts the nodes that moved.
    """

    name: ClassVar[str] = "confirm_placement"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        refused = {n: why for n in program if (why := _refusal(context, n)) is not None}
        again = {node: places_of(context, node, {node.placement or "nowhere": why}) for node, why in refused.items()}
        again |= {node: found for node in program if node not in again and (found := _claimed(context, node))}
        if not again and not uncarried(program):
            return 0
        places = {node: again.get(node, Places([node.placement or ""])) for node in program}
        chosen = cheapest(program, context, places)
        for node in again:
            _move(program, context, node, chosen[node])
        carry_again(program)
        _serve(program, context)
        self.note(program, [line_of(node, found) for node, found in again.items()])
        return len(again)

    def describe(self, kind: str) -> str:
        return "stays where it is if its device still takes it, else is placed anew"


def _serve(program: Program, context: Context) -> None:
    """Put reorders around what the changes of placement have left without a choice that stands."""
    before, errors = set(program), list[str]()

    def attempt(node: Node, choose: Callable[[Node], object]) -> None:
        try:
            if not _stands(context, node):
                choose(node)
        except UnsupportedError as error:
            errors.append(str(error))

    for node in program:
        attempt(node, partial(serve, program, context))
    for node in program:
        if node not in before:
            attempt(node, partial(select, context))
    if errors:
        raise UnsupportedError("\n".join(errors))


def _stands(context: Context, node: Node) -> bool:
    return node.in_place or (isinstance(node.choice, Choice) and stands(node.choice, context.query(node)))


def _refusal(context: Context, node: Node) -> str | None:
    """Return why the device of *node* takes it in no layouts, ``None`` where it does."""
    if node.placement not in context.devices:
        return f"{node.placement} is not a device here"
    if _stands(context, node):
        return None
    try:
        select(context, node)
    except UnsupportedError:
        if node.name in context.forced:
            raise
        return unserved(context, node, context.query(node))
    return None


def _claimed(context: Context, node: Node) -> Places | None:
    """Return where a node of the host goes that a device takes by now; ``None`` for one that stays."""
    if context.device(node).kind != "host" or len(context.devices) == 1 or moves_data(node) or node.in_place:
        return None
    if stays(node):
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
