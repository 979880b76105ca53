"""A model ready to run: its topology, the device, and one program for each set of input shapes met."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import numpy as np

from clgraph.core.notebook import html_table
from clgraph.engines.option_checks import idle_notes
from clgraph.errors import ClosedError, InputError, UnknownValueError
from clgraph.graph.batch_slices import whole_shape
from clgraph.graph.overriding import opened
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import RANDOM_KEY, fresh_key
from clgraph.graph.topology import Dimension, Signature, Topology
from clgraph.model.delivery import Outputs, as_arrays, enqueue_network, run_network
from clgraph.model.feeds import arranged, as_given, foreign_places, shared_places
from clgraph.model.ranges import Ranges, asked
from clgraph.model.run_queue import RunQueue
from clgraph.model.specialisations import Key, PassRecord, Specialisation, Specialisations, Specialise, Values
from clgraph.model.state.remembering import Remembering
from clgraph.network.cancelling import Cancellation
from clgraph.runtime.callers_buffer import wait
from clgraph.runtime.process import check_process
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from concurrent.futures import Future

    from clgraph.model.explain import Explanation
    from clgraph.model.tensor import Tensor
    from clgraph.network.network import Network
    from clgraph.network.profile import Profile
    from clgraph.network.watch import Watcher


_log = logging.getLogger(__name__)


class Model(Remembering):
    """What ``clgraph.compile`` returns. Calls from several threads are served one after the other; clones run at once.

    A model is a context manager that closes it.

    Attributes:
        topology: What was compiled.
        device: What it runs on.
    """

    def __init__(
        self,
        topology: Topology,
        device: DeviceInfo,
        specialise: Specialise,
        family: Specialisations | None = None,
        beside: Specialisations | None = None,
    ) -> None:
        """Take a topology and the function that compiles it; *family* and *beside* as :class:`Specialisations`."""
        self.topology, self.device = topology, device
        self._specialisations = Specialisations(topology, specialise, family=family, beside=beside)
        self._lock = self._specialisations.lock
        self._queue = RunQueue("clgraph-run")
        self._closed, self._others = False, dict[frozenset[str], Model]()
        self._uses_driver = device.kind != "host" and device.name != "null"
        self._random = RANDOM_KEY in topology.inputs
        self._fed = [(name, None) for name in self.input_names]
        self._wanted = tuple(
            (s.name, s.host_type or (None if s.dtype is None else s.dtype.numpy)) for s in topology.inputs.values()
        )

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output: as compiled where inputs fix it, else as declared."""
        overridden = self.topology.overridable and self.about.ir_version > 3  # before, every initialiser was an input
        if self.is_static and not self._specialisations.deciding and not overridden:
            program = self._current().program
            return tuple(Signature(name, v.layout.dtype, whole_shape(program, v)) for name, v in program.outputs)
        unknown = (Signature(name, None, None) for name, _ in self.topology.outputs)
        return tuple(self.topology.declared.get(s.name, s) for s in unknown)

    @property
    def is_compiled(self) -> bool:
        """Whether there is a program."""
        return self._specialisations.latest is not None

    @property
    def program(self) -> Program:
        """The compiled program: of the shapes used last; for a model of fixed shapes, the one there is.

        Raises:
            InputError: The shapes are open and nothing has been run or prepared yet.
        """
        return self._current().program

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """What the passes did to :attr:`program`. Raises as that does."""
        return self._current().passes

    @property
    def compiled(self) -> Mapping[Key, Specialisation]:
        """What is compiled, by what it holds for; the one used last at the end."""
        return self._specialisations.kept

    def when_compiled(self, tell: Callable[[Mapping[Key, Specialisation]], None]) -> None:
        """Call *tell* with what is compiled, now if there is something, and whenever that has become more."""
        with self._lock:
            self._specialisations.tell = tell
            if made := self._specialisations.kept:
                tell(made)

    @property
    def notes(self) -> tuple[str, ...]:
        """Options and annotations that did nothing; where each program that was saved or cached came from, and why."""
        kept = self._specialisations.kept.values()
        return (*self.unused, *(s.notes["load"] for s in kept if "load" in s.notes))

    @property
    def unused(self) -> tuple[str, ...]:
        """Of :attr:`notes`, those about options and annotations that did nothing to what is compiled."""
        return idle_notes(self._specialisations.kept.values())

    @property
    def specialisations(self) -> tuple[str, ...]:
        """One line for each program there is, the one used last at the end: what it holds for, how it came about."""
        return self._specialisations.report

    def reshape(self, shapes: Mapping[str, Sequence[Dimension]]) -> Model:
        """Return a model of the same weights with other input shapes; this one stays as it is.

        Sizes also replace those that the model declares, such as a batch of 1: whether that fits the operators inside
        shows when it is compiled. That is now if every size is fixed.

        Args:
            shapes: By name; a dimension is a size, or a name or ``None`` where it stays open. Other inputs stay.

        Raises:
            InputError: *shapes* names no input, has another number of axes than the input, or a negative size.
            ShapeError, UnsupportedError: An operator does not fit the shapes; the message names it.
            ClosedError: The model was closed.
        """
        self._check_open()
        twin = self._of(self.topology.with_shapes(shapes, anew=True))
        twin.prepare_fixed()
        return twin

    def prepare_fixed(self) -> None:
        """Compile now if every input's shape is fixed, and no value decides sizes; raises as :meth:`prepare`."""
        if self.is_static:
            try:
                self._prepare_what_is_known()
            except UnknownValueError as error:
                _log.info("compiled at the first run: %s", error)

    def _prepare_what_is_known(self) -> None:
        self.prepare()

    def _of(self, topology: Topology) -> Model:
        """Return a model of another topology with the same constants."""
        return Model(topology, self.device, self._specialisations.specialise, beside=self._specialisations)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and what is compiled of it to one file, for :func:`clgraph.load`.

        The file holds the topology with its weights, so that another device or shape can be compiled, and the programs
        there are with what their kernels read, equal data once: where sizes are open, families of shapes, and of their
        members those used last. A file that is there is replaced, at once or not at all.

        Raises:
            ModelError: The file cannot be written.
            UnsupportedError: An operator of a plugin has attributes that cannot be written.
        """
        from clgraph.model.save import save_model

        save_model(self.topology, self._specialisations.kept, path)

    def prepare(self, shapes: Ranges | None = None, values: Values | None = None) -> Program:
        """Compile for *shapes* now, so that the first run with them does not have to; return the program.

        Args:
            shapes: By name. A dimension is a size, or the smallest and largest of a range: ``{"x": ((1, 8), 3, 48, (64,
                640))}`` compiles the families of all shapes in it, and binds those at its ends, so that what is wrong
                with a size shows now. The program is that of the largest sizes then. Ranges of sizes that have one name
                in the model, or none but the same place in several inputs, go together.
            values: What inputs that decide sizes inside the model will hold, such as the shape that a Reshape reads;
                their shapes need not be given.

        Raises:
            InputError: *shapes* or *values* names no input, does not fit, or leaves a size open; or a range is none.
            UnknownValueError: A value decides sizes and is not given.
            ClgraphError: The model cannot be compiled for them; the model stays usable for others.
        """
        self._check_open()
        known, wanted = asked(self.topology, shapes, values)
        for bound in wanted:
            found = self._specialisations.get(tuple(bound.values()), known)
        return found.program

    @overload
    def run(
        self,
        *given: Any,
        outputs: Sequence[str] | None = None,
        tensors: Literal[False] = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        wait_for: Sequence[Any] = (),
        **named: Any,
    ) -> dict[str, Array]: ...
    @overload
    def run(
        self,
        *given: Any,
        outputs: Outputs = None,
        tensors: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        wait_for: Sequence[Any] = (),
        **named: Any,
    ) -> dict[str, Any]: ...
    def run(
        self,
        *given: Any,
        outputs: Outputs = None,
        tensors: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        wait_for: Sequence[Any] = (),
        **named: Any,
    ) -> dict[str, Any]:
        """Run the model once.

        Args:
            given: The feeds: a dictionary by name, or arrays in the order of :attr:`inputs`. Each is of the input's
                element type: a NumPy array, a :class:`clgraph.Tensor`, a tensor of torch, or what NumPy or DLPack can
                make one of. Numbers and nested lists take the input's type, where none of them is lost. On a device
                that works on the host's memory, large contiguous arrays are read where they lie. *outputs* may follow
                a dictionary.
            outputs: The names of the results to return, all by default; or by name the array or tensor that is to hold
                each. On a device that works on the host's memory, kernels write large ones directly where the first
                byte is aligned to 64, as a tensor's is. ``profile`` says what was copied.
            tensors: Return the results that are given no array as tensors on the model's device.
            timeout, cancellation: Seconds after which the run ends, and what lets another thread end it, between steps.
            wait_for: Events of OpenCL that the run waits for.
            named: Feeds by keyword, of inputs that are not called like an argument of this method.

        Returns:
            The results by name: what *outputs* gives, filled, else new arrays or tensors.

        Raises:
            InputError: A feed is missing, unknown, or has the wrong type or shape; or *outputs* does not fit.
            RunTimeoutError, RunCancelledError: The run was ended before it was over; the model can be used again.
            ClosedError: The model was closed.
            ClgraphError: The shapes are new and the model cannot be compiled for them, or the device fails.
        """
        if wait_for:
            wait(wait_for)
        if given and isinstance(given[0], dict | Mapping):
            given, (outputs,) = given[:1], (*given[1:], outputs)[:1]
        feeds = arranged(given, named, self._fed)
        overridable = self.topology.overridable
        if overridable and (overridden := feeds.keys() & overridable.keys()):
            other = self._overriding(frozenset(overridden))
            return other.run(feeds, outputs=outputs, tensors=tensors, timeout=timeout, cancellation=cancellation)
        arrays = self._arrays(feeds)
        foreign = {} if outputs is None else foreign_places(outputs)
        if foreign:
            outputs = {**cast("Mapping[str, Any]", outputs), **shared_places(foreign)}
        if timeout is not None:
            cancellation = Cancellation(timeout, cancellation)
        results = self._run_arrays(arrays, outputs, tensors=tensors, cancellation=cancellation)
        return results | foreign if foreign else results

    def _run_arrays(
        self,
        arrays: dict[str, Array | Tensor],
        outputs: Outputs,
        *,
        tensors: bool,
        cancellation: Cancellation | None,
    ) -> dict[str, Any]:
        with self._lock if cancellation is None else cancellation.holding(self._lock):
            if not tensors and (found := self._run_fed_back(arrays, outputs, cancellation)) is not None:
                return found
            return run_network(self._network(arrays), arrays, outputs, tensors=tensors, cancellation=cancellation)

    def _overriding(self, names: frozenset[str]) -> Model:
        """Return the model that is fed the inputs *names*, for which the topology has values."""
        self._check_open()
        with self._lock:
            if names not in self._others:
                self._others[names] = self._of(opened(self.topology, names))
            return self._others[names]

    def enqueue(self, *given: Any, outputs: Mapping[str, Any], wait_for: Sequence[Any] = (), **named: Any) -> Any:
        """Enqueue a run on the queue that the model was compiled with; return its event without waiting for it.

        The event goes into ``wait_for`` of what comes next; commands on the same queue come behind it anyway. What
        fails on the device shows in the model's next run.

        Args:
            given, named: As for :meth:`run`, all in memory of the device: arrays of pyopencl, or tensors of
                :meth:`clgraph.Tensor.from_buffer`.
            outputs: By name what is to hold the results that are wanted, of the same kinds. Until the event is over
                nobody reads it, nor writes to what is fed.
            wait_for: Events of what comes before.

        Raises:
            InputError: Something does not fit, or does not lie in memory of the queue's context.
            UnsupportedError: The model was compiled without ``queue=``, or the host has a part in the run.
            DeviceError: The driver refuses it.
            ClosedError: The model was closed.
        """
        arrays = self._arrays(arranged(given, named, self._fed))
        with self._lock:
            return enqueue_network(self._network(arrays), arrays, outputs, wait_for)

    def run_async(self, *given: Any, **options: Any) -> Future[dict[str, Any]]:
        """Start a run and return its future, whose result or exception is what :meth:`run` returns or raises.

        It takes what that takes. Calls are served in order by one thread of the model. Until they are, the feeds are
        not to be changed. When ``LONGEST`` (:mod:`clgraph.model.run_queue`) are not over, this waits. What has not
        begun can be cancelled; what has, by its *cancellation*. A done-callback may start further runs; to wait there
        for one of them is a ``DeadlockError``.

        Raises:
            ClosedError: The model was closed.
        """
        self._check_open()
        return self._queue.submit(self.run, *given, **options)

    def clone(self) -> Model:
        """Return a model with memory and a queue of its own that runs at the same time as this one.

        Compiled programs and weights are shared. A program that this model has for some shapes is not compiled again.

        Raises:
            ClosedError: The model was closed.
            DeviceMemoryError: The device has no memory left.
        """
        self._check_open()
        return Model(self.topology, self.device, self._specialisations.specialise, self._specialisations)

    def close(self) -> None:
        """Give back the memory: what waits in the queue is cancelled, what runs is finished, later calls are errors.

        Arrays and tensors that were returned live on. A closed model can be closed again.
        """
        self._closed = True
        self._queue.close()
        self._specialisations.clear()
        for other in self._others.values():
            other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run with feeds as :meth:`run` takes them; return the only output, or a tuple of them.

        Where all feeds are tensors of torch, so are the outputs. Raises as :meth:`run`.
        """
        feeds = arranged(given, named, self._fed)
        results = tuple(self.run(feeds).values())
        return as_given(results[0] if len(results) == 1 else results, feeds)

    def profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Run once with the clock on each node; raises as :meth:`run`."""
        arrays = self._host_arrays(feeds)
        with self._lock:
            return self._network(arrays).profile(arrays)

    def watch(self, feeds: Mapping[str, Any], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes; returns and raises as :meth:`run`."""
        arrays = self._host_arrays(feeds)
        with self._lock:
            return self._network(arrays).watch(arrays, watcher)

    def explain(self) -> Explanation:
        """Return what was decided about every node of :attr:`program` and why; raises as that does.

        Where there are several programs, a note lists all :attr:`specialisations`.
        """
        from clgraph.model.explain import expanded_note, explain

        found, made = explain(self.program), self.specialisations
        more = {"specialisations": "\n".join(made)} if len(made) > 1 else {}
        return replace(found, notes={**found.notes, **expanded_note(self.topology), **more, **self._state_note})

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<Model ({inputs}) -> ({', '.join(name for name, _ in self.topology.outputs)}) on {self.device.name}>"

    def _repr_html_(self) -> str:
        values = [("input", s) for s in self.inputs] + [("output", s) for s in self.outputs]
        return html_table(f"Model on {self.device.name}", ("", "name, type and shape"), values)

    def _network(self, arrays: Mapping[str, Array | Tensor]) -> Network:
        self._check_open()
        network = self._specialisations.get(tuple(a.shape for a in arrays.values()), arrays).network
        if network is None:
            raise InputError(f"the model was compiled for {self.device.name!r}, which runs nothing: it is a dry run")
        return network

    def _current(self) -> Specialisation:
        if self._specialisations.latest is None and self._latest_over_caches is None:
            self.prepare()
        found = self._specialisations.latest or self._latest_over_caches
        assert found is not None
        return found

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array | Tensor]:
        self._check_open()
        if self._random and isinstance(feeds, Mapping) and RANDOM_KEY not in feeds:
            feeds = {**feeds, RANDOM_KEY: fresh_key()}
        return as_arrays(feeds, self._wanted)

    def _host_arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        return {n: a if isinstance(a, np.ndarray) else a.numpy() for n, a in self._arrays(feeds).items()}

    def _check_open(self) -> None:
        # Before any lock is taken: a thread that a forked child does not have may hold it.
        if self._uses_driver:
            check_process()
        if self._closed:
            raise ClosedError("the model was closed: compile or load it again")
