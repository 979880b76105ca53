"""Small pieces whose shapes come again: a program for them pays once the host has spent as much as compiling takes.

All times are estimates, of sizes and layers alone: the same calls in the same order are computed in the same way, with
the same bits, however busy the machine is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.errors import ClgraphError
from clgraph.graph.refusals import one_line
from clgraph.model.stages.compiled_piece import CompiledPiece
from clgraph.model.stages.host_plan import RUN_SECONDS, HostPlan

SWITCH_SECONDS = 1.5e-5
"""What it takes more behind one of other shapes, or where elements decide sizes."""

COMPILING_SECONDS = 5e-3, 3e-4
"""Compiling for new shapes, and for each layer: of 17 layers 8 to 12 ms, of 200 ones 45, of 477 ones 120 to 350."""

BINDING_SECONDS = 2e-3, 5e-5
"""The same for further members of a family: half of what it takes, 30 to 56 ms of 477 layers."""

_log = logging.getLogger(__name__)


class Repeats:
    """Decides about the runs of one piece that the host can compute: it goes on, or the device takes over."""

    def __init__(self, compiled: CompiledPiece) -> None:
        """Take the piece as it is compiled."""
        self._compiled = compiled
        self._last: HostPlan | None = None
        self._saved, self._tried = 0.0, False

    def on_device(self, plan: HostPlan, names: Sequence[str], given: Sequence[Any]) -> bool:
        """Count a run of *plan* on inputs; return whether a program, which is there then, is to compute it."""
        again = plan is self._last and not plan.decided
        if plan.on_device and not again and not self._compiled.holds(dict(zip(names, given, strict=True))):
            plan.saved, plan.on_device = 0.0, None
        if plan.on_device is None:
            saved = plan.seconds - RUN_SECONDS - (0.0 if again else SWITCH_SECONDS)
            if saved > 0.0:
                plan.saved += saved
                self._saved += saved
                if self._pays(plan):
                    plan.on_device = self._compile(plan, dict(zip(names, given, strict=True)))
        self._last = plan
        return bool(plan.on_device)

    def _pays(self, plan: HostPlan) -> bool:
        """Whether the shapes of *plan* have come often enough for a member; the first is paid for by all together."""
        once, each = BINDING_SECONDS
        if plan.saved <= once + each * plan.layers:  # of all runs but a few, and compiling takes longer
            return False
        once, each = COMPILING_SECONDS
        if not self._tried:
            return self._saved > once + each * plan.layers
        return self._compiled.binds or plan.saved > once + each * plan.layers

    def _compile(self, plan: HostPlan, feeds: Mapping[str, Any]) -> bool:
        """Compile for *feeds*; return whether the program is faster than *plan*."""
        self._tried = True
        try:
            return self._compiled.prepare(feeds) + RUN_SECONDS < plan.seconds
        except ClgraphError as error:
            label = self._compiled.label
            _log.warning("%s: the host goes on computing it, because it cannot be compiled: %s", label, one_line(error))
            return False
