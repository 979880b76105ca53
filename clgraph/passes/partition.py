"""Give each node a device, from its annotation and from what can run it. clDNN has one device and no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from clgraph.errors import UnsupportedError
from clgraph.graph.program import Node, Program, Stage
from clgraph.passes.base import Context, Pass
from clgraph.passes.selection import servable
from clgraph.selector.query import DeviceInfo, query_of


@dataclass(frozen=True)
class Partition(Pass):
    """Place every node: on the device its annotation names, else on the first of ``Context.devices`` that serves it.

    A node's annotation holds the name of a placement, alone or as ``name:detail``; another annotation is a hint that
    means nothing here. Every node placed elsewhere than on the first device is listed in ``Program.notes``. When no
    device serves a node (the host, which serves all, is only there when the caller allows it), all such nodes are
    reported in one error.
    """

    name: ClassVar[str] = "partition"
    required: ClassVar[bool] = True
    reaches: ClassVar[Stage | None] = Stage.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes, moved, refused = 0, list[str](), list[str]()
        for node in program:
            placement, reasons = _place(context, node)
            if placement is None:
                refused.append(f"node {node.name!r} (from {', '.join(node.origin)}): {'; '.join(reasons.values())}")
                continue
            changes += node.placement != placement
            node.placement = placement
            if reasons:
                moved.append(f"{node.name} runs on {placement}: {'; '.join(reasons.values())}")
        if refused:
            listed = "\n".join(refused)
            where = ", ".join(context.devices)
            raise UnsupportedError(
                f"{len(refused)} of {len(program)} nodes have no implementation on {where}:\n{listed}"
            )
        if moved:
            program.notes[self.name] = "\n".join(moved)
        return changes


def _place(context: Context, node: Node) -> tuple[str | None, Mapping[str, str]]:
    """Return the placement, or ``None``, and why the devices before it do not serve the node."""
    reasons: dict[str, str] = {}
    for placement, device in _wishes(context, node):
        reason = servable(context, node, query_of(node, device))
        if reason is None:
            return placement, reasons
        reasons[placement] = reason
    return None, reasons


def _wishes(context: Context, node: Node) -> list[tuple[str, DeviceInfo]]:
    """Return the devices in the order to try; an annotated node's own device comes first."""
    wanted = node.placement or (node.annotation or "").partition(":")[0]
    found = next((p for p in (node.placement, node.annotation, wanted) if p in context.devices), None)
    return sorted(context.devices.items(), key=lambda item: item[0] != found)
