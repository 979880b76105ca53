"""A program bound to its devices: its memory, its subgraphs, what goes in and out; and a run of all that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.mapped import MappedFile, files_of
from clgraph.errors import InputError, ProgramError
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.graph.subgraph import Subgraph
from clgraph.network.addresses import LEAST_BYTES
from clgraph.network.bound_subgraph import BoundSubgraph
from clgraph.network.buffer_table import BufferTable
from clgraph.network.callers_arrays import borrowed_buffer
from clgraph.network.cancelling import Cancellation
from clgraph.network.commands import Command
from clgraph.network.ending import give_up
from clgraph.network.executor_notes import note_tiles, recording, submissions
from clgraph.network.feed import Feed, Held, wrong_names
from clgraph.network.host import Host
from clgraph.network.joining import Joining
from clgraph.network.kept_memory import kept_memory
from clgraph.network.node_steps import StepsInLibraries, steps_in_libraries
from clgraph.network.passing import passed_on, unread
from clgraph.network.quick import quick_run
from clgraph.network.result import Result
from clgraph.network.tiles import TileExecutor
from clgraph.network.waking import engine_beside
from clgraph.network.workspace import Workspace
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.runtime.stream import Step
from clgraph.selector.library import Library, compose

AnyEngine = Engine | HostEngine


@frozen
class Binding:
    """What a program is bound to, and how: :class:`clgraph.network.network.Network` says what each means."""

    engines: Mapping[str, AnyEngine]
    executor: str = "auto"
    poison: bool = False
    command_buffers: bool = False
    library: Callable[[str, int], Library] = compose


class BoundProgram:
    """A program with its memory and its kernels, on a queue of its own. One run at a time.

    Attributes:
        engines: The OpenCL engines in use, by placement; ``places``: where values lie on each.
        subgraphs: In the order in which they are submitted; ``steps``: what a run does, one after the other.
        created: How often what runs each subgraph was made, by its identity.
        kept: Inputs that nodes update.
        quick: Runs it on arrays that are just what it reads, ``None`` where it takes more than kernels.
        failures: What the drivers' commands raise.
        runs: How many are over, without those of ``quick``.
        unchecked: A run was enqueued that nobody has waited for.
    """

    def __init__(self, program: Program, binding: Binding, workspace: Workspace) -> None:
        """Allocate the memory of *program*, copy its constants, build and bind its kernels.

        Raises as :class:`clgraph.network.network.Network`.
        """
        used = {*program.arenas, *{n.placement for n in program}}
        opened = {p: e for p, e in binding.engines.items() if isinstance(e, Engine) and p in used}
        self.engines = {p: engine_beside(e, program, p) for p, e in opened.items()}
        self.failures = next((e.failures for e in self.engines.values()), ())
        self.places: dict[str, BufferTable] = {
            p: BufferTable.of(program, p, e, lends=not binding.poison, workspace=workspace)
            for p, e in self.engines.items()
        }
        self.host = Host(self.places)
        self.runs, self.created, self.unchecked = 0, Counter[str](), False
        self._poison, self._workspace = binding.poison, workspace
        self._joining = Joining(binding.executor)
        of_nodes = steps_in_libraries(program)
        self.subgraphs = [self._bind(s, binding.library, of_nodes) for s in program.subgraphs]
        note_tiles(program, self.places, self.subgraphs, self._joining)
        self.steps: list[Step]
        if binding.poison:
            from clgraph.network.poison import poisoned_steps

            streams = {p: e.stream for p, e in self.engines.items()}
            self.steps = poisoned_steps(program, self.commands, self.places, streams)
        else:
            recorded = recording(program, self.engines, self.places) if binding.command_buffers else set()
            self.steps = submissions(program, self.subgraphs, recorded)
        borrowed = partial(borrowed_buffer, places=self.places, executors=self.executors)
        kept = partial(kept_memory, places=self.places, executors=self.executors)
        idle, passed = unread(program), passed_on(program)
        sources = set(passed.values())
        feeds = {
            v: Feed(v, self.places, self.host, borrowed(v), kept(v), read=v not in idle, passes=v in sources)
            for v in program.inputs
        }
        self.feeds = list(feeds.values())
        self.kept = tuple(feed.kept for feed in self.feeds if feed.kept is not None)
        self._names = frozenset(feed.name for feed in self.feeds)
        self.results = [
            Result(
                name,
                v,
                self.places,
                self.host,
                None if v in program.inputs else borrowed(v),
                workspace.results,
                feeds[passed[v]] if v in passed else None,
            )
            for name, v in program.outputs
        ]
        self._files = _files_read(program, self.places)
        whole = not (binding.poison or program.batch_slices > 1)
        parts = self.engines, self.subgraphs, self.feeds, self.results, workspace, self._files, self.host.forget
        self.quick = quick_run(*parts) if whole else None

    def _bind(
        self, subgraph: Subgraph, library: Callable[[str, int], Library], steps: Mapping[Node, StepsInLibraries]
    ) -> BoundSubgraph:
        """Make and bind what runs *subgraph*; ``profile`` says how often that was done."""
        self.created[subgraph.id] += 1
        places = self.places.get(subgraph.placement)
        return BoundSubgraph(subgraph, places, self.host, library, self._joining, steps)

    @property
    def commands(self) -> list[Command]:
        """One for each step of each node, in order."""
        return [c for s in self.subgraphs for c in s.commands]

    @property
    def executors(self) -> list[TileExecutor]:
        """What runs tile steps, subgraph by subgraph."""
        return [tiles for s in self.subgraphs for tiles in s.executors]

    @property
    def joined(self) -> list[TileExecutor]:
        """Of :attr:`executors`, those with launches that join steps."""
        return [tiles for s in self.subgraphs for tiles in s.joined]

    @property
    def copies(self) -> dict[str, str]:
        """What became of every input and result in the latest run, by name: used where it lies, or copied and how."""
        return {f.name: f.how for f in self.feeds} | {r.name: r.how for r in self.results}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it alone holds: tables of tile steps, and constants that no other one uses."""
        return sum(tiles.nbytes for tiles in self.executors) + sum(places.nbytes for places in self.places.values())

    def lighten(self) -> None:
        """Forget the nodes: what a run does is all that is left."""
        for bound in self.subgraphs:
            bound.lighten()
        for places in self.places.values():
            places.lighten()

    def begin(self) -> None:
        """Prepare for a run. Raises ``DeviceError`` where one that was enqueued before has failed."""
        for engine in self.engines.values():
            engine.begin()
        if self.unchecked:
            self.unchecked = False
            self.finish()
            self.check()
        if self._files:
            for file in self._files:
                file.check()
            self._workspace.constants.near.begin()

    def run(
        self,
        feeds: Mapping[str, Held],
        steps: Iterable[Step],
        targets: Mapping[str, Held | None] | None = None,
        *,
        keep: bool = True,
    ) -> dict[str, Any]:
        """Run *steps* on *feeds*; return the results that *targets* name, all by default.

        Without *keep* these are views of its memory. Raises as :meth:`clgraph.network.network.Network.run`.
        """
        self.begin()
        if feeds.keys() != self._names:
            raise InputError(wrong_names([feed.name for feed in self.feeds], list(feeds)))
        over = False
        try:
            held = [feed.checked(feeds[feed.name]) for feed in self.feeds]
            wanted = []
            for result in self.results:
                if keep and (targets is None or result.name in targets):
                    wanted.append(result)
                    result.begin(None if targets is None else targets[result.name], held)
                else:
                    result.skip()
            passing = keep and targets is None
            for feed, given in zip(self.feeds, held, strict=True):
                feed.write(given, passing=passing)
            for step in steps:
                step()
            self.finish()
            over = True
            self.check()
            self.runs += 1
            if not keep:
                return {r.name: r.view() for r in self.results}
            return {r.name: r.end() for r in wanted}
        except BaseException as error:
            give_up(error, self.failures, *(() if over else (self.finish, self.check)))
            raise
        finally:
            self.host.forget()
            for feed in self.feeds:
                feed.given = None
            for result in self.results:
                result.release()

    def steps_one_by_one(self, cancellation: Cancellation) -> Iterator[Step]:
        """Yield the steps of a run, each once the one before is over, as long as nobody ends it."""
        for step in self.steps if self._poison else [step for bound in self.subgraphs for step in bound.steps]:
            cancellation.check()
            yield step
            self.finish()

    def check(self) -> None:
        """Raise when workers have waited in vain."""
        for bound in self.subgraphs:
            bound.check()

    def finish(self) -> None:
        """Wait for what the devices were given."""
        for engine in self.engines.values():
            engine.stream.finish()


def _files_read(program: Program, places: Container[str]) -> list[MappedFile]:
    """Return the mapped files that runs read: small constants are copied, for devices and here for the host.

    To look at a file takes each run 2 us, as long as the host computes a small operator.
    """
    large = []
    on_host = {v for node in program if node.placement not in places for v in node.inputs}
    for value in program.constants:
        if value.constant is None:
            continue
        if value.constant.nbytes >= LEAST_BYTES:
            large.append(value.constant)
        elif value in on_host and files_of([value.constant]):
            value.constant = value.constant.copy()
            value.constant.flags.writeable = False
    return files_of(large)


def check_planned(program: Program) -> None:
    """Raise ``ProgramError`` where *program* is not planned, or an input or output is no plain and dense array."""
    if program.milestone < Milestone.PLANNED:
        raise ProgramError(f"a network needs a PLANNED program; this one is {program.milestone.name}")
    for name, value in [*((v.name, v) for v in program.inputs), *program.outputs]:
        if not value.layout.is_dense_plain:
            raise ProgramError(f"{name!r} is {value.layout}; inputs and outputs of a program are plain and dense")
