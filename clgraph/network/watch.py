"""A run that stops at every node: what it reads and what it has made are handed to a watcher."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.commands import Command
from clgraph.network.host import Host
from clgraph.runtime.stream import Step, Stream


class Watcher(Protocol):
    """Told about every node of a run, nodes that share the memory of their inputs included."""

    def before(self, node: Node, inputs: tuple[Array, ...]) -> None:
        """Take the logical arrays that *node* is about to read."""

    def after(self, node: Node, outputs: tuple[Array, ...]) -> None:
        """Take the logical arrays that *node* has made."""


def watched_steps(
    program: Program, found: Sequence[Command], host: Host, streams: Mapping[str, Stream], watcher: Watcher
) -> list[Step]:
    """Return the steps of a run in order, with the calls of *watcher* between them."""
    steps: list[Step] = []
    by_node = commands_by_node(found)

    def before(node: Node) -> None:
        watcher.before(node, tuple(host.get(v) for v in node.inputs))

    def after(node: Node) -> None:
        watcher.after(node, tuple(host.get(v) for v in node.outputs))

    for node in program:
        steps.append(functools.partial(before, node))
        steps += [alone(command, streams.get(command.placement)) for command in by_node.get(node, ())]
        steps.append(functools.partial(after, node))
    return steps


def commands_by_node(found: Sequence[Command]) -> dict[Node, list[Command]]:
    """Return the commands of each node that has any, in order."""
    by_node: dict[Node, list[Command]] = {}
    for command in found:
        by_node.setdefault(command.node, []).append(command)
    return by_node


def alone(command: Command, stream: Stream | None) -> Step:
    """Return the step of *command*, waited for where the queue would not keep the order."""
    step = command.on(stream)
    if stream is None or not stream.out_of_order:
        return step

    def call() -> None:
        stream.finish()
        step()
        stream.finish()

    return call
