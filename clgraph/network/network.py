"""Runs a planned program: memory and kernels bound once, then copy in, submit a prepared list, copy out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clgraph.errors import InputError
from clgraph.graph.faults import faults
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.bound_program import AnyEngine, Binding, BoundProgram, check_planned
from clgraph.network.cancelling import Cancellation
from clgraph.network.feed import Held
from clgraph.network.kept_memory import check_updates
from clgraph.network.memory_need import admit
from clgraph.network.workspace import Workspace
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.runtime.stream import Step
from clgraph.selector.library import Library, compose
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.network.profile import Profile
    from clgraph.network.watch import Watcher


class Network:
    """A program bound to devices. ``run`` may be called from any thread; calls are served one after the other.

    Attributes:
        program: What is run; without its nodes once it has been lightened.
        bound: Its memory and kernels.
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
        self._binding = Binding(engines, executor, poison, command_buffers, library)
        self._workspace = workspace or Workspace()
        # Outside the gate: it may wait until others are done with a model, which they are not once the gate is closed.
        admit(program, {p: e.info for p, e in engines.items()}, self._workspace)
        self.lock = self._workspace.lock
        with GATE:
            self.bound = BoundProgram(program, self._binding, self._workspace)
        self.kept, self.quick = self.bound.kept, self.bound.quick

    @classmethod
    def under(
        cls,
        options: Settings,
        program: Program,
        engines: Mapping[str, AnyEngine],
        library: Callable[[str, int], Library],
        workspace: Workspace | None = None,
    ) -> Network:
        """Return a network as *options* have it, whose memory is kept within their limit. Raises as the constructor."""
        workspace = workspace or Workspace()
        workspace.account.keep_within(options.memory_limit)
        return cls(
            program,
            engines,
            options.executor,
            poison=options.poison,
            command_buffers=options.command_buffers,
            library=library,
            workspace=workspace,
        )

    def lighten(self, again: Callable[[], Program]) -> None:
        """Keep only what runs the program: its nodes, and what they are bound to, are twenty times as many objects.

        Where a model has been run in many sizes, Python's collector would walk through all of them.

        Args:
            again: Returns the program, for who looks at single nodes.
        """
        self._again, self.program = again, self.program.without_nodes()
        self.bound.lighten()

    def _whole(self) -> Network:
        """Return the network with all its commands: bound anew, to be looked at, where it has been lightened."""
        if self._again is None:
            return self
        whole = self.clone(self._workspace)
        whole.bound.runs, whole.bound.created = self.runs, self.bound.created
        return whole

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
                return self._run_whole(feeds, targets, lambda: self.bound.steps)
            with cancellation.watching(self.bound.joined):
                return self._run_whole(feeds, targets, lambda: self.bound.steps_one_by_one(cancellation))

    def run_quickly(self, feeds: Mapping[str, Held]) -> dict[str, Array] | None:
        """Return new arrays of all results, ``None`` where :attr:`quick` does not run *feeds*, and nothing was done.

        Raises as :meth:`run`.
        """
        if self.quick is None or self.bound.unchecked:
            return None
        with GATE:
            for engine in self.bound.engines.values():
                engine.begin()
            return self.quick(feeds)

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
            bound = self.bound
            placements = [each.subgraph.placement for each in bound.subgraphs]
            engine = engine_of(self._binding.engines, placements, self.program.batch_slices)
            bound.begin()
            bound.unchecked = True
            given = [(feed, feeds[feed.name]) for feed in bound.feeds]
            results = [(result, targets.get(result.name)) for result in bound.results]
            return enqueue(engine, given, bound.steps, results, wait_for, (self, feeds, targets))

    def _run_whole(
        self,
        feeds: Mapping[str, Held],
        targets: Mapping[str, Held | None] | None,
        steps: Callable[[], Iterable[Step]],
    ) -> dict[str, Array]:
        if self.program.batch_slices == 1:
            return self.bound.run(feeds, steps(), targets)
        from clgraph.network.batch_slices import in_turn

        empty = self._workspace.results.empty
        return in_turn(self.program, feeds, targets, lambda given, to: self.bound.run(given, steps(), to), empty)

    @faults("a run of the model")
    def run_once(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the results of the only run: read-only, and where possible the network's memory itself.

        Raises as :meth:`run`.
        """
        if self.program.batch_slices > 1:
            return self.run(feeds)
        with GATE, self.lock:
            results = self.bound.run(feeds, self.bound.steps, keep=False)
        for array in results.values():
            array.flags.writeable = False
        return results

    @property
    def has_nodes(self) -> bool:
        """Whether it keeps the nodes of its program."""
        return self._again is None

    @property
    def records(self) -> bool:
        """Whether launches that follow each other are recorded where they can be."""
        return self._binding.command_buffers

    @property
    def runs(self) -> int:
        """How many runs are over."""
        return self.bound.runs + (0 if self.quick is None else self.quick.runs)

    @property
    def copies(self) -> dict[str, str]:
        """What became of every input and result in the latest run, by name: used where it lies, or copied and how."""
        return self.bound.copies

    def clone(self, workspace: Workspace | None = None) -> Network:
        """Return a network of the same program with memory and a queue of its own, and the same constants.

        Both may run at the same time, unless they share a *workspace*. Raises as the constructor.
        """
        program, b = self.program if self._again is None else self._again(), self._binding
        return Network(
            program,
            b.engines,
            b.executor,
            poison=b.poison,
            command_buffers=b.command_buffers,
            library=b.library,
            workspace=workspace or Workspace(self._workspace),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it alone holds: tables of tile steps, and constants that no other network uses.

        Beside them there is what it shares: the program, and the workspace's arena, scratch and constants.
        """
        return self.bound.nbytes

    @property
    def engine(self) -> Engine | None:
        """The first OpenCL engine in use, ``None`` where everything runs on the host."""
        return next(iter(self.bound.engines.values()), None)

    def holds(self, memory: Memory) -> bool:
        """Whether *memory* can be read and written in a run."""
        return self.engine is not None and self.engine.holds(memory)

    @faults("a profiled run of the model")
    def profile(self, feeds: Mapping[str, Array]) -> Profile:
        """Run once with the clock on every command, whose time is that in all batch slices. Raises as :meth:`run`."""
        from clgraph.network.batch_slices import feeds_of_slices
        from clgraph.network.profile import sum_of
        from clgraph.network.timing import profiled

        whole = self._whole()
        with GATE, self.lock:
            found = sum_of([profiled(whole.bound, given) for given in feeds_of_slices(self.program, feeds)])
            self.bound.runs = whole.runs - (self.runs - self.bound.runs)
        return found

    def watch(self, feeds: Mapping[str, Array], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes. Returns and raises as :meth:`run`.

        Raises:
            InputError: The batch is computed in slices.
        """
        from clgraph.network.watch import watched_steps

        if (slices := self.program.batch_slices) > 1:
            raise InputError(f"the batch is computed in {slices} slices; CLGRAPH_SPLIT_BATCH=0 keeps it whole")
        whole = self._whole()
        streams = {placement: engine.stream for placement, engine in whole.bound.engines.items()}
        with GATE, self.lock:
            steps = watched_steps(whole.program, whole.bound.commands, whole.bound.host, streams, watcher)
            return whole.bound.run(feeds, steps)
