"""What the actor of a stage keeps: its part of the model, compiled for the types of what earlier stages make."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.compilation.entry import compile_model
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.ray.cluster import source_of
from clgraph.ray.cutting import Part

Types = tuple[tuple[str, int], ...]
"""Element type and number of axes of each value that a part reads."""


@frozen
class StageReport:
    """What a stage did since its process began.

    Attributes:
        node, process: The node's number in Ray, and the process's on it.
        runs, seconds: How many, and how long all of them took.
        spans: When the last runs began and ended, in seconds of the machine's clock.
        copies: What became of every value in the latest run: read or written in place, or copied and how.
        shared: Values of that run that lie in the object store's memory, which the processes of a node share.
    """

    node: str
    process: int
    runs: int
    seconds: float
    spans: tuple[tuple[float, float], ...]
    copies: Mapping[str, str]
    shared: tuple[str, ...]


SPANS = 64


class StageActor:
    """A part of a model; compiled for the first request, when the types of its inputs are known."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Take *options* of ``clgraph.compile``."""
        self._part: Part | None = None
        self._options = dict(options)
        self._models: dict[Types, Any] = {}
        self._latest: Any = None
        self._runs, self._seconds = 0, 0.0
        self._spans: list[tuple[float, float]] = []
        self._shared: tuple[str, ...] = ()

    def run(self, part: Sequence[Any], *values: Any) -> Any:
        """Return what the part makes of *values*, in the order of ``Part.makes``; one alone as it is.

        Args:
            part: It, alone in a list, or a reference to it in the object store, which is read once a process: an actor
                that Ray starts anew does not find what it was constructed with.

        Raises:
            UnsupportedError: A value is not a tensor.
            ClgraphError: The part cannot be compiled, or as ``Model.run``.
        """
        begun = time.time()
        if self._part is None:
            self._part = source_of(part[0])
        feeds = dict(zip(self._part.reads, values, strict=True))
        for name, value in feeds.items():
            if not isinstance(value, np.ndarray):
                raise UnsupportedError(f"{name!r} is a {type(value).__name__}; only tensors go from stage to stage")
        types = tuple((a.dtype.str, a.ndim) for a in feeds.values())
        if types not in self._models:
            self._models[types] = compile_model(typed(self._part.topology, feeds), **self._options)
        self._latest = self._models[types]
        results = self._latest.run(feeds)
        self._shared = tuple(n for n, a in feeds.items() if not a.flags.owndata and not a.flags.writeable)
        self._runs += 1
        self._seconds += time.time() - begun
        self._spans = [*self._spans[1 - SPANS :], (begun, time.time())]
        made = tuple(results[name] for name in self._part.makes)
        return made[0] if len(made) == 1 else made

    def report(self) -> StageReport:
        """Return what it did, and where."""
        compiled = list(getattr(self._latest, "compiled", {}).values())
        network = compiled[-1].network if compiled else None
        return StageReport(
            _node(),
            os.getpid(),
            self._runs,
            self._seconds,
            tuple(self._spans),
            {} if network is None else network.copies,
            self._shared,
        )


def _node() -> str:
    """Return the number of Ray's node that this process is on; nothing without Ray."""
    # Imported by then, where this runs in an actor.
    import sys

    ray = sys.modules.get("ray")
    return str(ray.get_runtime_context().get_node_id()) if ray is not None and ray.is_initialized() else ""


def typed(topology: Topology, feeds: Mapping[str, Array]) -> Topology:
    """Return *topology* with the element types and numbers of axes of *feeds* where inputs have none."""

    def known(s: Signature) -> Signature:
        if s.shape is not None or s.dtype is not None or s.host_type:
            return s
        return replace(s, shape=(None,) * feeds[s.name].ndim, dtype=DType.of(feeds[s.name].dtype))

    return replace(topology, inputs={name: known(s) for name, s in topology.inputs.items()})
