"""A model in stages on several machines: each in an actor of Ray, values handed on by the object store."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

from clgraph.compilation.sources import read_source
from clgraph.core.frozen import frozen, mutable
from clgraph.errors import ClosedError, DeviceError, OptionError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.delivery import as_arrays
from clgraph.model.feeds import arranged
from clgraph.model.tensor import Tensor
from clgraph.ray.cluster import options_for, ray_module
from clgraph.ray.cutting import Part, by_memory, by_patterns
from clgraph.ray.stage_actor import StageActor, StageReport
from clgraph.settings import settings

ATTEMPTS = 12
"""How often a request is sent that was lost with a process or a machine."""
LONGEST_WAIT = 10.0
"""Seconds between two of them, at most: an actor starts anew elsewhere meanwhile."""


@frozen
class Stage:
    """Part of a model, and what the actor that runs it reserves.

    Attributes:
        fits: The nodes of the stage: a pattern of annotations, names, operators or kinds, as for ``placement``.
        num_cpus: CPUs, and worker threads.
        num_gpus: GPUs. The stage runs on ``gpu`` then, unless *options* name a device.
        resources: Further resources, by the names that nodes were started with: to name the node itself.
        options: As for ``clgraph.compile``, of this stage alone; ``placement`` shares it out to devices of its node.
    """

    fits: str = "*"
    num_cpus: int = 1
    num_gpus: float | None = None
    resources: Mapping[str, float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def pipeline(
    model: str | os.PathLike[str] | bytes | Topology,
    stages: Sequence[Stage] | Stage | None = None,
    *,
    memory_limit: int | str | None = None,
    in_flight: int | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    **options: Any,
) -> Pipeline:
    """Cut *model* into stages, and start an actor of Ray for each.

    Args:
        model: As for ``clgraph.compile``; it is read here, and an actor gets the weights of its stage.
        stages: Each with a pattern of its nodes, in the order that values go. Or, with *memory_limit*, what each of as
            many stages as it takes reserves.
        memory_limit: Bytes, or ``"2 GiB"``, of the weights of a stage as the model has them.
        in_flight: Requests that are on their way at once in :meth:`Pipeline.map`; by default two a stage.
        outputs, shapes: As for ``clgraph.compile``.
        options: Further ones, of all stages.

    Raises:
        OptionError: Ray is not installed or not started, a stage fits nothing or reads what comes behind it, or an
            option that means nothing.
        MemoryLimitError: A node has more weights than *memory_limit*.
        ClgraphError: The model cannot be read.
    """
    patterns = None if stages is None or isinstance(stages, Stage) else tuple(stages)
    if (memory_limit is None) == (not patterns):
        raise OptionError("a model is cut by stages=[Stage(pattern), ...] or by memory_limit=: give one of them")
    if in_flight is not None and (not isinstance(in_flight, int) or in_flight < 1):
        raise OptionError(f"in_flight={in_flight!r} is not a number of requests")
    topology = read_source(model, outputs, shapes)
    if patterns:
        parts, each = by_patterns(topology, [s.fits for s in patterns]), patterns
    else:
        parts = by_memory(topology, settings().with_(memory_limit=memory_limit).memory_limit or 0)
        each = (stages if isinstance(stages, Stage) else Stage(),) * len(parts)
    if not ray_module().is_initialized():
        raise OptionError("no Ray cluster is known to this process: ray.init(), or ray.init(address='auto'), first")
    return Pipeline(topology, parts, each, options, in_flight or max(2 * len(parts), 1))


@mutable
class _Flight:
    """A request on its way: its feeds and its results, as references into the object store."""

    feeds: Mapping[str, Any]
    results: list[Any]


class Pipeline:
    """What :func:`pipeline` returns. It may be called from several threads, and is a context manager that closes it."""

    def __init__(
        self,
        topology: Topology,
        parts: Sequence[Part],
        stages: Sequence[Stage],
        options: Mapping[str, Any],
        in_flight: int,
    ) -> None:
        """Start an actor for each of *parts*."""
        self._ray, self._parts, self._in_flight = ray_module(), tuple(parts), in_flight
        self._results = dict(topology.outputs)
        self._known = {name: topology.constants[name] for name in self._results.values() if name in topology.constants}
        self._wanted = tuple(
            (s.name, s.host_type or (None if s.dtype is None else s.dtype.numpy)) for s in topology.fed.values()
        )
        self._closed = False
        system = self._ray.exceptions
        self._lost = (system.RayActorError, system.ObjectLostError, system.WorkerCrashedError, system.NodeDiedError)
        self._shipped = [[self._ray.put(part)] for part in parts]
        self._actors = [self._start(stage, options) for stage in stages]

    @property
    def stages(self) -> tuple[tuple[int, int], ...]:
        """How many layers each stage has, and how many bytes of weights."""
        return tuple((len(part.topology.layers), part.nbytes) for part in self._parts)

    def run(self, *given: Any, **named: Any) -> dict[str, Array]:
        """Run one request through all stages; takes feeds and returns results as ``Model.run``.

        Raises:
            InputError: A feed is missing, unknown, or has the wrong type.
            DeviceError: Processes or machines were lost again and again.
            ClosedError: The pipeline was closed.
            ClgraphError: What a stage raises.
        """
        return self._taken(self._sent(given, named))

    def map(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Array]]:
        """Yield the results of each of *requests*, in their order, with several on their way at once.

        What was lost with a process or a machine is sent again: each request has its results once. Raises as
        :meth:`run`.
        """
        flights = deque[_Flight]()
        for feeds in requests:
            flights.append(self._sent((feeds,), {}))
            if len(flights) == self._in_flight:
                yield self._taken(flights.popleft())
        while flights:
            yield self._taken(flights.popleft())

    def report(self) -> list[StageReport]:
        """Return what each stage has done since its actor was started, and where."""
        self._check_open()
        return list(self._ray.get([actor.report.remote() for actor in self._actors]))

    def close(self) -> None:
        """End the actors; requests on their way are lost."""
        if not self._closed:
            self._closed = True
            for actor in self._actors:
                self._ray.kill(actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self, stage: Stage, options: Mapping[str, Any]) -> Any:
        own = options_for({**options, **stage.options}, stage.num_cpus, stage.num_gpus)
        actor = self._ray.remote(StageActor).options(
            num_cpus=stage.num_cpus,
            num_gpus=stage.num_gpus,
            resources=dict(stage.resources or {}),
            scheduling_strategy="SPREAD",
            max_restarts=-1,
        )
        return actor.remote(own)

    def _sent(self, given: Sequence[Any], named: Mapping[str, Any]) -> _Flight:
        self._check_open()
        arrays = as_arrays(arranged(given, named, [(name, None) for name, _ in self._wanted]), self._wanted)
        # Tensors of a device cannot leave their process.
        feeds = {n: self._ray.put(a.numpy() if isinstance(a, Tensor) else a) for n, a in arrays.items()}
        return _Flight(feeds, self._through(feeds))

    def _through(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Send a request through the stages; return references to its results."""
        values = dict(feeds)
        for actor, shipped, part in zip(self._actors, self._shipped, self._parts, strict=True):
            count = len(part.makes)
            made = actor.run.options(num_returns=count).remote(shipped, *(values[name] for name in part.reads))
            values |= zip(part.makes, [made] if count == 1 else made, strict=True)
        return [values[name] for name in self._results.values() if name not in self._known]

    def _taken(self, flight: _Flight) -> dict[str, Array]:
        """Wait for the results of a request, which is sent again where it was lost."""
        for attempt in range(ATTEMPTS):
            try:
                found = iter(self._ray.get(flight.results))
                break
            except (*self._lost, self._ray.exceptions.RayTaskError) as error:
                if not isinstance(error, self._lost) and not isinstance(error.cause, self._lost):
                    raise
                self._check_open()
                latest = error
            time.sleep(min(LONGEST_WAIT, 0.1 * 2**attempt))
            flight.results = self._through(flight.feeds)
        else:
            raise DeviceError(f"a request was lost {ATTEMPTS} times with processes of stages: {latest}") from latest
        return {
            name: self._known[value] if value in self._known else next(found) for name, value in self._results.items()
        }

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the pipeline was closed: make another one")
