"""Lines and a hard swish that the micro-kernels of bytes apply to floats in registers on CPU devices."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.activation import Activation
from clgraph.selector.post import constant_steps
from clgraph.selector.query import Query

_SAME = (1.0, -0.0)
"""A line that keeps every bit of what it meets, zeros of both signs included."""
_LINES, _GATED = 1, 2


@frozen
class ByteLines:
    """A line, a hard swish and another line, each of which may be missing.

    Attributes:
        taken: How many operations they are.
        numbers: Their fields of ``ByteEnd``, none where there is nothing.
    """

    taken: int
    numbers: dict[str, Any]


def lines_of(q: Query[Any], steps: tuple[Fused, ...]) -> ByteLines:
    """Return the lines at the head of *steps*.

    A line that makes anything of 0 stays in the list where some lanes have no channel: it would fill them.
    """
    partial = q.outputs[0].shape[1] % LANES > 0
    first, before = _line(steps, partial)
    gated = _is(steps[before:], "hard_swish")
    second, behind = _line(steps[before + gated :], partial) if gated else (_SAME, 0)
    taken = before + gated + behind
    if not taken:
        return ByteLines(0, {})
    p = steps[before].primitive if gated else None
    gate = (p.alpha, p.beta) if isinstance(p, Activation) else (0.0, 0.0)
    names = ("slope", "offset", "gate", "gate_from", "factor", "summand")
    return ByteLines(
        taken, dict(zip(names, (*first, *gate, *second), strict=True)) | {"lined": _GATED if gated else _LINES}
    )


def _is(steps: tuple[Fused, ...], function: str) -> bool:
    p = steps[0].primitive if steps else None
    return isinstance(p, Activation) and p.function == function


def _line(steps: tuple[Fused, ...], partial: bool) -> tuple[tuple[float, float], int]:
    """Return the line that the first of *steps* are as a list has them, and how many they are."""
    run = tuple(takewhile(lambda f: _is((f,), "linear"), steps))
    joined = constant_steps(run)
    if len(joined) != 1 or (partial and joined[0].b):
        return _SAME, 0
    return (joined[0].a, joined[0].b), len(run)
