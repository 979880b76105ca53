"""Faults put in on purpose: a pass and a kernel that compute something else, and plans that end lives too early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

from clgraph.compilation import pass_runs
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.pipeline import default_pipeline
from clgraph.selector.implementation import IMPLEMENTATIONS, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@dataclass(frozen=True)
class WrongPass(Pass):
    """Multiply the weights of the first convolution by a little more than 1."""

    name = "plant_a_fault"
    needs = Milestone.BUILT

    def run(self, program: Program, context: Context) -> int:
        node = next(n for n in program if n.primitive.kind == "convolution")
        old = node.inputs[1]
        program.rewire(old, replace(old, constant=old.constant * np.float32(1.05)), uses=[(node, 1)])
        return 1


@contextmanager
def wrong_pass(monkeypatch: pytest.MonkeyPatch, behind: str) -> Iterator[None]:
    """Let every compilation run a wrong pass behind the one called *behind*."""
    passes = list(default_pipeline())
    place = next(i for i, p in enumerate(passes) if p.name == behind) + 1
    passes.insert(place, WrongPass())
    with monkeypatch.context() as patched:
        patched.setattr(pass_runs, "default_pipeline", lambda: tuple(passes))
        yield


@contextmanager
def wrong_kernel(base: str = "pooling.fsv16", name: str = "pooling.wrong") -> Iterator[None]:
    """Register a copy of implementation *base* of pooling that costs nothing and computes maxima for averages."""
    right = IMPLEMENTATIONS[base]

    class Wrong(right):
        @classmethod
        def cost(cls, q: Query) -> float:
            return 0.0

        @classmethod
        def plan(cls, q: Query) -> Plan:
            return super().plan(replace(q, primitive=replace(q.primitive, function="max")))

    saved = IMPLEMENTATIONS.snapshot()
    try:
        implements(right.primitive, name=name, serves=right.serves)(Wrong)
        yield
    finally:
        IMPLEMENTATIONS.restore(saved)


@contextmanager
def own_classes() -> Iterator[None]:
    """Register a class of its own for every implementation, of which nothing has been chosen or planned yet."""
    saved = IMPLEMENTATIONS.snapshot()
    IMPLEMENTATIONS.restore({name: type(found.__name__, (found,), {}) for name, found in saved.items()})
    try:
        yield
    finally:
        IMPLEMENTATIONS.restore(saved)
