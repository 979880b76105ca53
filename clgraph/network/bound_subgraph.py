"""A subgraph on its device: its kernels are made and bound once, and submitted as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from clgraph.graph.node import Node
from clgraph.graph.subgraph import Subgraph
from clgraph.network.binding import commands
from clgraph.network.buffer_table import BufferTable
from clgraph.network.commands import Command, Segment, ordered_steps, recorded_steps
from clgraph.network.host import Host
from clgraph.network.joining import Joining
from clgraph.network.node_steps import StepsInLibraries
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.stream import Step
from clgraph.selector.library import Library


class BoundSubgraph:
    """The commands of one subgraph, on the queue of its device or on the host.

    Attributes:
        subgraph: What is bound.
        launches: Its commands in order, with tile steps that follow each other as one where the device can.
        executors: What runs its tile steps: one a library.
        steps: What :meth:`submit` does, one after the other.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        places: BufferTable | None,
        host: Host,
        library: Callable[[str, int], Library],
        joining: Joining,
        steps: Mapping[Node, StepsInLibraries],
    ) -> None:
        """Bind every node to the device of *places*, or to the *host* where there is none.

        Args:
            library: Finds libraries by name and SIMD width.
            steps: Those of the program's nodes, with the libraries that they run in.

        Raises:
            KernelBuildError, DeviceMemoryError: A kernel does not build, or does not fit.
            DeviceError: The device cannot join tile steps, and is told to.
        """
        self.subgraph = subgraph
        joins = partial(joining.allows, subgraph.placement)
        self.launches = commands(subgraph.nodes, places, host, library, joins, steps)
        segments = [c.work for c in self.launches if isinstance(c.work, Segment)]
        self.executors: list[TileExecutor] = list(dict.fromkeys([segment.executor for segment in segments]))
        # What is launched does not keep alive the memory that its arguments refer to.
        self._kernels = [c.work[0] for c in self.launches if isinstance(c.work, tuple)]
        self._joined = [segment for segment in segments if segment.count > 1]
        self._stream = None if places is None else places.engine.stream
        self.steps: list[Step] = []

    @property
    def commands(self) -> list[Command]:
        """One for each step of each node, in order."""
        return [part for launch in self.launches for part in launch.joined or (launch,)]

    @property
    def joined(self) -> list[TileExecutor]:
        """Of :attr:`executors`, those whose launches :meth:`check` looks at."""
        return list(dict.fromkeys(segment.executor for segment in self._joined))

    def prepare(self, *, alone: bool, recorded: bool = False) -> int:
        """Make what :meth:`submit` does; return how many recordings of launches there are.

        Args:
            alone: It is the whole program. Else it starts behind all that its device was given before, whatever order
                the queue runs in, and its device starts at once, while the host goes on to the next.
            recorded: Record launches that follow each other.
        """
        stream, count = self._stream, 0
        if stream is not None and recorded:
            self.steps, count = recorded_steps(self.launches, stream)
        else:
            self.steps = ordered_steps(self.launches, stream)
        if stream is not None and not alone:
            self.steps = [stream.barrier, *self.steps, stream.flush]
        return count

    def lighten(self) -> None:
        """Forget the nodes and their commands: what :meth:`submit` does is all that is left."""
        self.subgraph = replace(self.subgraph, nodes=())
        self.launches = []
        for executor in self.executors:
            executor.table.lighten()

    def submit(self) -> None:
        """Give the device everything there is to do."""
        for step in self.steps:
            step()

    def check(self) -> None:
        """Look at the launches that join tile steps.

        Raises:
            DeviceError: Workers have waited in vain.
            RunCancelledError: They were interrupted.
        """
        for segment in self._joined:
            segment.executor.check_waits()
