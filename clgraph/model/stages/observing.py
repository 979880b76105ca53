"""Observers of a run in stages: the clock of a profiled run, and a recorder of the feeds of each model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from clgraph.core.frozen import mutable
from clgraph.model.model import Model
from clgraph.model.stages.split import Piece
from clgraph.network.profile import NodeTime
from clgraph.network.watch import Watcher


@mutable
class StageClock:
    """Collects the commands of each piece of a profiled run, with times from the begin of the run."""

    begin: float
    commands: list[NodeTime] = field(default_factory=list)

    def note_device(self, model: Model, feeds: Mapping[str, Any]) -> None:
        """Profile a run of *model*."""
        start = time.perf_counter() - self.begin
        self.commands += [replace(c, start=c.start + start) for c in model.profile(feeds).commands]

    def note_host(self, piece: Piece, start: float, operations: float) -> None:
        """Record that the host has computed *piece* since *start*."""
        layers, seconds = piece.topology.layers, time.perf_counter() - start
        origin = tuple(dict.fromkeys(name for layer in layers for name in layer.origin))
        kind = layers[0].primitive.kind if len(layers) == 1 else "stage"
        label = layers[0].name if len(layers) == 1 else f"{layers[0].name} … {layers[-1].name}"
        at = start - self.begin
        self.commands.append(
            NodeTime(label, origin, kind, "host.reference", "host", "host", at, seconds, 0, operations)
        )


@mutable
class Recorder:
    """Records the models that a run used, with the feeds of each, in order."""

    calls: list[tuple[Model, Mapping[str, Any]]] = field(default_factory=list)


StageObserver = StageClock | Recorder | Watcher
"""Who is told of the nodes of a run."""
