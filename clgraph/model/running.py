"""Runs of a model: synchronous, asynchronous, and enqueued on a queue of the caller's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, cast, overload

import numpy as np

from clgraph.errors import ClosedError, InputError
from clgraph.model.state.stateful import Stateful
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.process import check_process

if TYPE_CHECKING:
    from concurrent.futures import Future

    from clgraph.graph.primitive import Array
    from clgraph.graph.topology import Topology
    from clgraph.model.delivery import Outputs
    from clgraph.model.run_queue import RunQueue
    from clgraph.model.specialisation import Specialisation
    from clgraph.model.specialisations import Specialisations
    from clgraph.model.tensor import Tensor
    from clgraph.network.cancelling import Cancellation
    from clgraph.network.network import Network
    from clgraph.network.profile import Profile
    from clgraph.network.quick import QuickRun
    from clgraph.network.watch import Watcher
    from clgraph.selector.query import DeviceInfo

Deciding = tuple[tuple[str, bytes], ...]
"""Inputs by name, and what those held whose values a program was compiled for."""

_QUEUE = "clgraph-run"
"""What the thread of asynchronous runs is called; it and its queue come with the first of them."""


class Running(Stateful):
    """Base of models: runs, one after the other, until it is closed. It is a context manager that closes it.

    Attributes:
        topology: What was compiled.
        device: What it runs on.
    """

    def __init__(self, topology: Topology, device: DeviceInfo, specialisations: Specialisations) -> None:
        """Take what the programs come from."""
        from clgraph.graph.random_numbers import RANDOM_KEY
        from clgraph.model.delivery import wanted_types

        self.topology, self.device = topology, device
        self._specialisations, self._lock = specialisations, specialisations.lock
        self._queues: dict[str, RunQueue] = {}
        self._closed, self._others = False, dict[frozenset[str], Running]()
        self._uses_driver = device.kind != "host" and device.name != "null"
        self._random = RANDOM_KEY in topology.inputs
        self._fed = [(name, None) for name in self.input_names]
        self._wanted, self._indices = wanted_types(topology.inputs.values()), topology.indices
        self._quick: tuple[Specialisation, QuickRun, Deciding] | None = None

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
        if len(given) == 1 and not (named or tensors or wait_for):
            unlimited = timeout is None and cancellation is None
            if unlimited and outputs is None and (results := self.run_quickly(given[0])) is not None:
                return results
        from clgraph.model.feeds import arranged, foreign_places, shared_places
        from clgraph.network.cancelling import ending

        if wait_for:
            from clgraph.runtime.callers_buffer import wait

            wait(wait_for)
        if given and isinstance(given[0], dict | Mapping):
            given, (outputs,) = given[:1], (*given[1:], outputs)[:1]
        feeds = arranged(given, named, self._fed)
        if (other := self._taking(feeds)) is not self:
            return other.run(feeds, outputs=outputs, tensors=tensors, timeout=timeout, cancellation=cancellation)
        arrays = self._arrays(feeds)
        foreign = {} if outputs is None else foreign_places(outputs)
        if foreign:
            outputs = {**cast("Mapping[str, Any]", outputs), **shared_places(foreign)}
        results = self._run_arrays(arrays, outputs, tensors=tensors, cancellation=ending(timeout, cancellation))
        return results | foreign if foreign else results

    def run_quickly(self, feeds: Any) -> dict[str, Array] | None:
        """Return what :meth:`run` does of *feeds* that are just like those of the run before; else ``None``.

        Then nothing was done. Raises as :meth:`run`.
        """
        if self._quick is None or type(feeds) is not dict:
            return None
        latest, quick, values = self._quick
        feeds = self._specialisations.unread.replaced(feeds)
        for name, data in values:
            if type(given := feeds.get(name)) is not np.ndarray or given.tobytes() != data:
                return None
        check_process()
        if self._indices:
            self._check_indices(feeds)
        with self._lock:
            if self._specialisations.latest is not latest:
                return None
            return GATE.call(quick, feeds) if GATE.here.daemon else quick(feeds)

    def run_again(self, feeds: Mapping[str, Any]) -> dict[str, Array] | None:
        """Return what :meth:`run` does of *feeds*, in the order of the inputs, if there is a program for their shapes.

        ``None`` where there is none that runs quickly, or feeds are not just what it reads; then nothing was done.
        Raises as :meth:`run`.
        """
        if not all([type(a) is np.ndarray for a in feeds.values()]):  # noqa: C419  # sooner
            return None
        feeds = self._specialisations.unread.replaced({**feeds})
        check_process()
        if self._indices:
            self._check_indices(feeds)
        with self._lock:
            found = self._specialisations.find(tuple(a.shape for a in feeds.values()), feeds)
            if found is None or found.network is None or found.network.quick is None or self._is_over_caches:
                return None
            self._quick = self._prepared(found.network, self._deciding(feeds))
            return GATE.call(found.network.quick, feeds)

    def _run_arrays(
        self,
        arrays: dict[str, Array | Tensor],
        outputs: Outputs,
        *,
        tensors: bool,
        cancellation: Cancellation | None,
    ) -> dict[str, Any]:
        from clgraph.model.delivery import run_network

        arrays = self._specialisations.unread.replaced(arrays)
        with self._lock if cancellation is None else cancellation.holding(self._lock):
            if not tensors and (found := self._run_fed_back(arrays, outputs, cancellation)) is not None:
                return found
            network = self._network(arrays)
            deciding = self._deciding(arrays)  # before results, which may lie where a feed does
            results = run_network(network, arrays, outputs, tensors=tensors, cancellation=cancellation)
            if self._quick is None or self._quick[0] is not self._specialisations.latest:
                self._quick = self._prepared(network, deciding)
            return results

    def _deciding(self, feeds: Mapping[str, Any]) -> Deciding:
        """Return the feeds, and what they hold now, whose values the latest program was compiled for."""
        return tuple((name, np.asarray(feeds[name]).tobytes()) for name in self._specialisations.deciding)

    def _prepared(self, network: Network, deciding: Deciding) -> tuple[Specialisation, QuickRun, Deciding] | None:
        """Return what :meth:`run_quickly` goes by, *network* being the latest."""
        latest = self._specialisations.latest
        if latest is None or network.quick is None or self._is_over_caches:
            return None
        return latest, network.quick, deciding

    @property
    def runs_alike(self) -> bool:
        """Whether runs with feeds of the same shapes do the same, whatever is in them and was run before."""
        return not (self._random or self._specialisations.deciding or self._may_keep)

    @property
    def _is_over_caches(self) -> bool:
        return self._may_keep and self._model_state.parts is not None

    def _taking(self, feeds: Mapping[str, Any]) -> Running:
        """Return the model that takes *feeds*: this one, or that which is fed what the topology has values for."""
        overridable = self.topology.overridable
        names = frozenset(feeds.keys() & overridable.keys()) if overridable else None
        if not names:
            return self
        self._check_open()
        with self._lock:
            if names not in self._others:
                from clgraph.graph.overriding import opened

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
        from clgraph.model.delivery import enqueue_network
        from clgraph.model.feeds import arranged

        feeds = arranged(given, named, self._fed)
        if (other := self._taking(feeds)) is not self:
            return other.enqueue(feeds, outputs=outputs, wait_for=wait_for)
        arrays = self._arrays(feeds)
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
        from clgraph.model.run_queue import RunQueue

        self._check_open()
        queue = self._queues.setdefault(_QUEUE, RunQueue(_QUEUE))
        return queue.submit(self.run, *given, **options)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run with feeds as :meth:`run` takes them; return the only output, or a tuple of them.

        Where all feeds are tensors of torch, so are the outputs. Raises as :meth:`run`.
        """
        from clgraph.model.feeds import arranged, as_given

        feeds = arranged(given, named, self._fed)
        results = tuple(self.run(feeds).values())
        return as_given(results[0] if len(results) == 1 else results, feeds)

    def profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Run once and measure the time of each node; raises as :meth:`run`."""
        return self._taking(feeds)._profile(feeds)

    def watch(self, feeds: Mapping[str, Any], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes; returns and raises as :meth:`run`."""
        return self._taking(feeds)._watch(feeds, watcher)

    def _profile(self, feeds: Mapping[str, Any]) -> Profile:
        arrays = self._host_arrays(feeds)
        with self._lock:
            return self._network(arrays).profile(arrays)

    def _watch(self, feeds: Mapping[str, Any], watcher: Watcher) -> dict[str, Array]:
        arrays = self._host_arrays(feeds)
        with self._lock:
            return self._network(arrays).watch(arrays, watcher)

    def close(self) -> None:
        """Release the memory: cancels waiting runs and finishes the running one; later calls raise ``ClosedError``.

        Arrays and tensors that were returned live on, and so do the caches of sessions until these are closed. What the
        model cache has not got yet is written first. A closed model can be closed again.
        """
        self._closed = True
        for queue in self._queues.values():
            queue.close()
        self._specialisations.clear()
        self._close_state()
        self._quick = None
        for other in self._others.values():
            other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def _of(self, topology: Topology) -> Running:
        """Return a model of another topology with the same constants."""

    def _network(self, arrays: Mapping[str, Array | Tensor]) -> Network:
        self._check_open()
        network = self._specialisations.get(tuple(a.shape for a in arrays.values()), arrays).network
        if network is None:
            raise InputError(f"the model was compiled for {self.device.name!r}, which runs nothing: it is a dry run")
        return network

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array | Tensor]:
        from clgraph.graph.random_numbers import with_key
        from clgraph.model.delivery import as_arrays

        self._check_open()
        if self._random and isinstance(feeds, Mapping):
            feeds = with_key(feeds)
        arrays = as_arrays(feeds, self._wanted)
        if self._indices:
            self._check_indices(arrays)
        return arrays

    def _host_arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        arrays = self._specialisations.unread.replaced(self._arrays(feeds))
        return {n: a if isinstance(a, np.ndarray) else a.numpy() for n, a in arrays.items()}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: a model holds buffers of a device, and what closes one closes the other."""
        way = "another process can load what save(path) writes; for concurrent runs in this process, use clone()"
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied: {way}")

    def _check_indices(self, feeds: Mapping[str, Any]) -> None:
        from clgraph.graph.fed_indices import check_indices  # few models pick from constants

        check_indices(feeds, self._indices)

    def _check_open(self) -> None:
        # Before any lock is taken: a thread that a forked child does not have may hold it.
        if self._uses_driver:
            check_process()
        if self._closed:
            raise ClosedError("the model was closed: compile or load it again")
