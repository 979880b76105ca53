"""Post-operations: how a fused primitive is written into a kernel's run-time list."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from clgraph.core.layout import Layout
from clgraph.core.memo import remembered, remembered_of_tuples
from clgraph.graph.node import Fused
from clgraph.selector.descriptor import NULL, PostStep, Ref
from clgraph.selector.query import Query
from clgraph.selector.sources import kernel_text

_DEFINE = re.compile(r"^#define POST_([A-Z_]+) (\d+) ", re.MULTILINE)

FLOAT_MAX = 2.0**128 - 2.0**104
"""The largest float32."""
FUSABLE = frozenset({"activation", "eltwise", "quantized_product", "quantized_sum"})
"""Kinds of primitives with a post-operation code; what a kernel with a full list names in ``Serves.fuses``."""

NOTING = frozenset({"note_extreme"})
"""What the lists of tiles have besides."""


@functools.cache
def post_codes() -> dict[str, int]:
    """Return code by lower-case name, read from ``post_codes.clh``."""
    return {name.lower(): int(code) for name, code in _DEFINE.findall(kernel_text("post_codes.clh"))}


def keeps_its_bits(number: float) -> bool:
    """Whether *number* is 0 or in the range of normal float32 numbers, so that no bits are lost to its exponent."""
    return number == 0 or 2.0**-126 <= abs(number) <= FLOAT_MAX


@remembered
def _alone(fused: Fused) -> PostStep:
    """Return the step of an operation that reads nothing but the running value."""
    operation = fused.operation
    assert operation is not None
    return PostStep(post_codes()[operation.name], operation.a, operation.b)


def post_steps(
    q: Query[Any], pitches: Callable[[Layout], Sequence[int]], of: tuple[Fused, ...] | None = None
) -> tuple[PostStep, ...]:
    """Return the list for a tile: one step a fused operation, or several that each multiply and add constants.

    Args:
        pitches: For an operand's layout, its floats from one n, c-block, y, x, lane to the next, 0 where broadcast.
        of: The operations; those behind the primitive by default.
    """
    listed = q.post if of is None else of
    if not listed:
        return ()
    # What reads no tensors is the same for all sizes.
    return constant_steps(listed) or _steps(q, pitches, listed)


@remembered_of_tuples
def constant_steps(listed: tuple[Fused, ...]) -> tuple[PostStep, ...]:
    """Return the steps of operations that read nothing but the running value, none where one reads more."""
    return () if any(fused.operands for fused in listed) else _steps(None, _no_pitches, listed)


def _no_pitches(layout: Layout) -> Sequence[int]:
    raise ValueError(f"nothing reads {layout}")


def _steps(
    q: Query[Any] | None, pitches: Callable[[Layout], Sequence[int]], listed: tuple[Fused, ...]
) -> tuple[PostStep, ...]:
    steps: list[PostStep] = []
    for fused in listed:
        operation = fused.operation
        if operation is None:
            raise ValueError(f"{fused.primitive} has no post-operation")
        if not fused.operands and operation.name != "linear":
            steps.append(_alone(fused))
            continue
        code, a, b = post_codes()[operation.name], operation.a, operation.b
        if operation.name == "linear" and steps and steps[-1].code == code:
            before = steps[-1]
            joined = before.a * a, before.b * a + b
            if all(map(keeps_its_bits, joined)):
                a, b = joined
                steps.pop()
        operand, steps_of = NULL, (0, 0, 0, 0, 0)
        if fused.operands:
            assert q is not None
            layout = q.inputs[fused.operands[0]]
            operand = Ref(f"in{fused.operands[0]}", layout.origin * layout.dtype.itemsize)
            n, c, y, x, lane = pitches(layout)
            steps_of = (n, c, y, x, lane)
        steps.append(PostStep(code, a, b, operand, steps_of))
    return tuple(steps)
