"""Runs a planned program: memory and kernels bound once, then copy in, submit a prepared list, copy out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from clgraph.core.mapped import files_of
from clgraph.errors import InputError
from clgraph.graph.faults import faults
from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.subgraph import Subgraph
from clgraph.network.borrowed_buffers import borrowed_buffer
from clgraph.network.bound_subgraph import BoundSubgraph
from clgraph.network.boundary import Feed, Held, Result, check_planned, wrong_names
from clgraph.network.buffer_table import BufferTable
from clgraph.network.cancelling import Cancellation
from clgraph.network.ending import give_up
from clgraph.network.executor_notes import note_tiles, recording, submissions
from clgraph.network.host import Host
from clgraph.network.joining import Joining
from clgraph.network.kept_memory import check_updates, kept_memory
from clgraph.network.memory_need import admit
from clgraph.network.node_steps import StepsInLibraries, steps_in_libraries
from clgraph.network.quick import quick_run
from clgraph.network.steps import Command
from clgraph.network.waking import engine_beside
from clgraph.network.workspace import Workspace
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.runtime.memory import Memory
from clgraph.runtime.stream import Step
from clgraph.selector.library import Library, compose

if TYPE_CHECKING:
    from clgraph.network.profile import Profile
    from clgraph.network.watch import Watcher

AnyEngine = Engine | HostEngine


class Network:
    """A program bound to devices. ``run`` may be called from any thread; calls are served one after the other.

    Attributes:
        program: What is run; without its nodes once it has been lightened.
        kept: Inputs that nodes update.
        lock: Held during a run of this network or another of its workspace.
        quick: Runs it on arrays that are just what it reads, ``None`` where it takes more than kernels.
    """

    def __init__(
        self,
        program: Program,
        engines: Mapping[str, AnyEngine],
        executor: str = "auto",
        *,
        poison: bool = False,
        command_buffers: bool = False,
        library: Callable[[str, int], Library] = compose,
        workspace: Workspace | None = None,
    ) -> None:
        """Allocate the memory of *program*, copy its constants, build and bind its kernels.

        Args:
            program: At milestone PLANNED; gets a note that says how tile functions are run.
            engines: By placement; what is placed on none of the OpenCL engines is run on the host.
            executor: How tile functions are run: ``stream`` (a launch for each step), ``persistent`` (one for all that
                follow each other), or ``auto``: persistent where the device can.
            command_buffers: Record launches that follow each other, where a device can.
            library: Finds the libraries of tile functions by name and SIMD width.
            poison: Fill memory with NaN wherever it holds nothing (:mod:`clgraph.network.poison`): slow, for debugging.
            workspace: Memory shared with other networks, none of which then runs at the same time.

        Raises:
            ProgramError: The program is not planned, or an input or output is not laid out as NumPy's arrays.
            DeviceError, DeviceMemoryError, KernelBuildError: A device cannot or must not hold it, cannot build it, or
                cannot run the persistent executor or command buffers that were asked for.
        """
        check_planned(program)
        check_updates(program)
        self.program = program
        self._again: Callable[[], Program] | None = None
        self._arguments = (engines, executor, poison, command_buffers, library)
        self._workspace = workspace or Workspace()
        # Outside the gate: it may wait until others are done with a model, which they are not once the gate is closed.
        admit(program, {p: e.info for p, e in engines.items()}, self._workspace)
        self.lock, self._names = self._workspace.lock, frozenset(v.name for v in program.inputs)
        self._take_place()

    @GATE
    def _take_place(self) -> None:
        program, (engines, executor, poison, command_buffers, library) = self.program, self._arguments
        used = {*program.arenas, *{n.placement for n in program}}
        opened = {p: e for p, e in engines.items() if isinstance(e, Engine) and p in used}
        self._engines = {p: engine_beside(e, program, p) for p, e in opened.items()}
        self._failures = next((e.failures for e in self._engines.values()), ())
        self._places: dict[str, BufferTable] = {
            p: BufferTable.of(program, p, e, lends=not poison, workspace=self._workspace)
            for p, e in self._engines.items()
        }
        self._host = Host(self._places)
        self._runs, self._created, self._unchecked = 0, Counter[str](), False
        self._joining = Joining(executor)
        steps = steps_in_libraries(program)
        self._subgraphs = [self._bind(s, library, steps) for s in program.subgraphs]
        note_tiles(program, self._places, self._subgraphs, self._joining)
        if poison:
            from clgraph.network.poison import poisoned_steps

            streams = {p: e.stream for p, e in self._engines.items()}
            self._steps = poisoned_steps(program, self._commands, self._places, streams)
        else:
            recorded = recording(program, self._engines, self._places) if command_buffers else set()
            self._steps = submissions(program, self._subgraphs, recorded)
        tiles = [tiles for s in self._subgraphs for tiles in s.executors]
        borrowed = partial(borrowed_buffer, places=self._places, executors=tiles)
        kept = partial(kept_memory, places=self._places, executors=tiles)
        self._feeds = [Feed(v, self._places, self._host, borrowed(v), kept(v)) for v in program.inputs]
        self.kept = tuple(feed.kept for feed in self._feeds if feed.kept is not None)
        memory = self._workspace.results
        self._results = [
            Result(name, v, self._places, self._host, None if v in program.inputs else borrowed(v), memory)
            for name, v in program.outputs
        ]
        self._files = files_of([v.constant for v in program.constants if v.constant is not None])
        whole = not (poison or self._files or program.batch_slices > 1)
        self.quick = quick_run(self._engines, self._subgraphs, self._feeds, self._results, self.lock) if whole else None

    def lighten(self, again: Callable[[], Program]) -> None:
        """Keep only what runs the program: its nodes, and what they are bound to, are twenty times as many objects.

        Where a model has been run in many sizes, Python's collector would walk through all of them.

        Args:
            again: Returns the program, for who looks at single nodes.
        """
        self._again, self.program = again, self.program.without_nodes()
        for bound in self._subgraphs:
            bound.lighten()
        for places in self._places.values():
            places.lighten()

    def _whole(self) -> Network:
        """Return the network with all its commands: bound anew, to be looked at, where it has been lightened."""
        if self._again is None:
            return self
        whole = self.clone(self._workspace)
        whole._runs, whole._created = self.runs, self._created
        return whole

    def _bind(
        self, subgraph: Subgraph, library: Callable[[str, int], Library], steps: Mapping[Node, StepsInLibraries]
    ) -> BoundSubgraph:
        """Make and bind what runs *subgraph*; ``profile`` says how often that was done."""
        self._created[subgraph.id] += 1
        places = self._places.get(subgraph.placement)
        return BoundSubgraph(subgraph, places, self._host, library, self._joining, steps)

    @property
    def _commands(self) -> list[Command]:
        return [c for s in self._subgraphs for c in s.commands]

    @faults("a run of the model")
    def run(
        self,
        feeds: Mapping[str, Held],
        targets: Mapping[str, Held | None] | None = None,
        cancellation: Cancellation | None = None,
    ) -> dict[str, Array]:
        """Return one array an output.

        Args:
            feeds: An array an input, or memory of the input's device that holds its elements.
            targets: The results to return, all by default: in the array or the memory given, which then is what is
                returned, or with ``None`` in a new array. They overlap neither each other nor a constant.
            cancellation: Ends the run between two steps, of which each then waits for the one before; a launch that
                joins tile steps is ended between those, where the host can reach the device's memory.

        Raises:
            RunCancelledError: The run was ended.
            InputError: A feed is missing, unknown, or has another shape or element type than the program expects.
            ModelError: The file that constants lie in was cut or written to.
            DeviceError: A device failed, or the process was forked since the network was made.
            DeviceMemoryError: There is no memory left for a copy or a result.
        """
        with GATE, self.lock:
            if cancellation is None:
                return self._run_whole(feeds, targets, lambda: self._steps)
            with cancellation.watching([tiles for bound in self._subgraphs for tiles in bound.joined]):
                return self._run_whole(feeds, targets, lambda: self._singly(cancellation))

    @faults("a run of the model")
    def enqueue(self, feeds: Mapping[str, Memory], targets: Mapping[str, Memory], wait_for: Sequence[Any]) -> Any:
        """Enqueue a run on the caller's queue; return its event. What fails on the device shows in the next run.

        Args:
            feeds, targets: Memory an input, and of the results wanted, which nobody touches until the event is over.
            wait_for: Events of what comes before.

        Raises:
            UnsupportedError: The program cannot be enqueued as a whole.
            DeviceError: The driver refuses it.
        """
        from clgraph.network.enqueueing import engine_of, enqueue

        with GATE, self.lock:
            placements = [bound.subgraph.placement for bound in self._subgraphs]
            engine = engine_of(self._arguments[0], placements, self.program.batch_slices)
            self._begin()
            self._unchecked = True
            given = [(feed, feeds[feed.name]) for feed in self._feeds]
            results = [(result, targets.get(result.name)) for result in self._results]
            return enqueue(engine, given, self._steps, results, wait_for, (self, feeds, targets))

    def _begin(self) -> None:
        """Prepare for a run. Raises ``DeviceError`` where one that was enqueued before has failed."""
        for engine in self._engines.values():
            engine.begin()
        if self._unchecked:
            self._unchecked = False
            self._finish()
            self._check()
        if self._files:
            for file in self._files:
                file.check()
            self._workspace.constants.near.begin()

    def _run_whole(
        self,
        feeds: Mapping[str, Held],
        targets: Mapping[str, Held | None] | None,
        steps: Callable[[], Iterable[Step]],
    ) -> dict[str, Array]:
        if self.program.batch_slices == 1:
            return self._run(feeds, steps(), targets)
        from clgraph.network.batch_slices import in_turn

        empty = self._workspace.results.empty
        return in_turn(self.program, feeds, targets, lambda given, to: self._run(given, steps(), to), empty)

    def _singly(self, cancellation: Cancellation) -> Iterator[Step]:
        """Yield the steps of a run, each once the one before is over, as long as nobody ends it."""
        steps = self._steps if self._arguments[2] else [step for bound in self._subgraphs for step in bound.steps]
        for step in steps:
            cancellation.check()
            yield step
            self._finish()

    @faults("a run of the model")
    def run_once(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the results of the only run: read-only, and where possible the network's memory itself.

        Raises as :meth:`run`.
        """
        if self.program.batch_slices > 1:
            return self.run(feeds)
        with GATE, self.lock:
            results = self._run(feeds, self._steps, keep=False)
        for array in results.values():
            array.flags.writeable = False
        return results

    @property
    def runs(self) -> int:
        """How many runs are over."""
        return self._runs + (0 if self.quick is None else self.quick.runs)

    @property
    def copies(self) -> dict[str, str]:
        """What became of every input and result in the latest run, by name: used where it lies, or copied and how."""
        return {f.name: f.how for f in self._feeds} | {r.name: r.how for r in self._results}

    def clone(self, workspace: Workspace | None = None) -> Network:
        """Return a network of the same program with memory and a queue of its own, and the same constants.

        Both may run at the same time, unless they share a *workspace*. Raises as the constructor.
        """
        engines, executor, poison, recorded, library = self._arguments
        options: dict[str, Any] = {"poison": poison, "command_buffers": recorded, "library": library}
        program = self.program if self._again is None else self._again()
        return Network(program, engines, executor, **options, workspace=workspace or Workspace(self._workspace))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it alone holds: tables of tile steps, and constants that no other network uses.

        Beside them there is what it shares: the program, and the workspace's arena, scratch and constants.
        """
        tables = sum(tiles.nbytes for s in self._subgraphs for tiles in s.executors)
        return tables + sum(places.nbytes for places in self._places.values())

    @property
    def engine(self) -> Engine | None:
        """The first OpenCL engine in use, ``None`` where everything runs on the host."""
        return next(iter(self._engines.values()), None)

    def holds(self, memory: Memory) -> bool:
        """Whether *memory* can be read and written in a run."""
        return self.engine is not None and self.engine.holds(memory)

    @faults("a profiled run of the model")
    def profile(self, feeds: Mapping[str, Array]) -> Profile:
        """Run once with the clock on every command, whose time is that in all batch slices. Raises as :meth:`run`."""
        from clgraph.network.batch_slices import feeds_of_slices
        from clgraph.network.profile import sum_of

        whole = self._whole()
        with GATE, self.lock:
            found = sum_of([whole._profile(given) for given in feeds_of_slices(self.program, feeds)])
            self._runs = whole.runs - (self.runs - self._runs)
        return found

    def _profile(self, feeds: Mapping[str, Held]) -> Profile:
        from clgraph.network.profile import Profile, SubgraphUse
        from clgraph.network.timing import timed_steps

        for engine in self._engines.values():
            engine.check_process()
        streams = {placement: engine.profiling_stream() for placement, engine in self._engines.items()}
        clock = timed_steps(self._subgraphs, streams, self._finish)
        # The first run warms up, and tells with the second how long a cycle of the device's counters is.
        self._run(feeds, clock.steps)
        clock.start()
        self._run(feeds, clock.steps)
        total = time.perf_counter() - clock.begin
        parts = [s.subgraph for s in self._subgraphs]
        used = (SubgraphUse(s.id, s.placement, len(s.nodes), self._created[s.id], self.runs) for s in parts)
        return Profile(tuple(clock.times()), total, self.copies, tuple(used))

    def watch(self, feeds: Mapping[str, Array], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes. Returns and raises as :meth:`run`.

        Raises:
            InputError: The batch is computed in slices.
        """
        from clgraph.network.watch import watched_steps

        if (slices := self.program.batch_slices) > 1:
            raise InputError(f"the batch is computed in {slices} slices; CLGRAPH_SPLIT_BATCH=0 keeps it whole")
        whole = self._whole()
        streams = {placement: engine.stream for placement, engine in whole._engines.items()}
        with GATE, self.lock:
            steps = watched_steps(whole.program, whole._commands, whole._host, streams, watcher)
            return whole._run(feeds, steps)

    def _run(
        self,
        feeds: Mapping[str, Held],
        steps: Iterable[Step],
        targets: Mapping[str, Held | None] | None = None,
        *,
        keep: bool = True,
    ) -> dict[str, Any]:
        self._begin()
        if feeds.keys() != self._names:
            raise InputError(wrong_names([feed.name for feed in self._feeds], list(feeds)))
        over = False
        try:
            held = [feed.checked(feeds[feed.name]) for feed in self._feeds]
            wanted = []
            for result in self._results:
                if keep and (targets is None or result.name in targets):
                    wanted.append(result)
                    result.begin(None if targets is None else targets[result.name], held)
                else:
                    result.skip()
            for feed, given in zip(self._feeds, held, strict=True):
                feed.write(given)
            for step in steps:
                step()
            self._finish()
            over = True
            self._check()
            self._runs += 1
            if not keep:
                return {r.name: r.view() for r in self._results}
            return {r.name: r.end() for r in wanted}
        except BaseException as error:
            give_up(error, self._failures, *(() if over else (self._finish, self._check)))
            raise
        finally:
            self._host.forget()
            for result in self._results:
                result.release()

    def _check(self) -> None:
        """Raise when workers have waited in vain."""
        for bound in self._subgraphs:
            bound.check()

    def _finish(self) -> None:
        for engine in self._engines.values():
            engine.stream.finish()
