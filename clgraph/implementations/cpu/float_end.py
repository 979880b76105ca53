"""What micro-kernels of floats apply to their sums in registers: bounds, a hard swish, a line, rounding to steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered_of_tuples, remembered_with
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.fused_operations import (
    UNBOUND,
    InRegisters,
    blocked_posts,
    clip,
    in_registers,
    reads_nothing,
)
from clgraph.implementations.cpu.geometry import LANES
from clgraph.selector.descriptor import Float, Int, PostStep, fields
from clgraph.selector.post import constant_steps, post_codes
from clgraph.selector.query import Query


@fields
class FloatEndFields:
    """Fields as in ``float_end.clh``."""

    low: Float
    high: Float
    gate: Float
    gate_from: Float
    factor: Float
    summand: Float
    step: Float
    reciprocal: Float
    remainder: Float
    least: Float
    most: Float
    bounded: Int
    gated: Int
    scaled: Int
    stepped: Int


@frozen
class StepsEnd:
    """Integers of a *step* from *least* to *most*, and the parts of its reciprocal."""

    step: float = 0.0
    reciprocal: float = 0.0
    remainder: float = 0.0
    least: float = 0.0
    most: float = 0.0


_NO_STEPS = StepsEnd()


@frozen
class FloatEnd(Remembering):
    """Bounds, what comes behind them, and the ``rest`` of the list.

    Attributes:
        gate: Slope and offset of a hard swish.
        line: Factor and summand behind it.
        steps: What rounds to integers of steps behind that.
    """

    low: float = UNBOUND.low
    high: float = UNBOUND.high
    gate: tuple[float, float] | None = None
    line: tuple[float, float] | None = None
    steps: StepsEnd | None = None
    rest: tuple[PostStep, ...] = ()

    @remembered_with
    def fields(self, prefix: str) -> dict[str, Any]:
        """Return the fields of :class:`FloatEndFields`, with *prefix* in front of their names; not to be changed."""
        (gate, gate_from), (factor, summand) = self.gate or (0.0, 0.0), self.line or (0.0, 0.0)
        bounded = (self.low, self.high) != (UNBOUND.low, UNBOUND.high)
        kinds = (bounded, self.gate is not None, self.line is not None, self.steps is not None)
        steps = self.steps or _NO_STEPS
        numbers = (steps.step, steps.reciprocal, steps.remainder, steps.least, steps.most)
        values = (self.low, self.high, gate, gate_from, factor, summand, *numbers, *map(int, kinds))
        return {prefix + name: value for name, value in zip(_NAMES, values, strict=True)}


_NAMES = tuple(FloatEndFields.__annotations__)
NO_END = FloatEnd()


def float_end(q: Query[Any], registers: InRegisters, lanes: int) -> FloatEnd:
    """Return what follows the sums of *q* behind a residual in *registers*, the last block having so many *lanes*.

    A line that makes anything of 0 stays in the list where some lanes have no channel: it would fill them.
    """
    if not (post := q.post):
        return NO_END
    if reads_nothing(post):
        return _of_whole_blocks(post) if lanes == LANES else _of_others(post)
    return _end(registers, blocked_posts(q, registers.taken), lanes)


@remembered_of_tuples
def _of_whole_blocks(post: tuple[Fused, ...]) -> FloatEnd:
    return _alone(post, LANES)


@remembered_of_tuples
def _of_others(post: tuple[Fused, ...]) -> FloatEnd:
    return _alone(post, 1)


def _alone(post: tuple[Fused, ...], lanes: int) -> FloatEnd:
    registers = clip(post)
    return _end(registers, constant_steps(post)[registers.taken :], lanes)


def _end(registers: InRegisters, steps: tuple[PostStep, ...], lanes: int) -> FloatEnd:
    codes, gate, line = post_codes(), None, None
    if steps and steps[0].code == codes["hard_swish"]:
        gate, steps = (steps[0].a, steps[0].b), steps[1:]
    if steps and steps[0].code == codes["linear"] and (steps[0].b == 0 or lanes == LANES):
        line, steps = (steps[0].a, steps[0].b), steps[1:]
    rounded = _steps_end(steps[0], codes) if steps else None
    return FloatEnd(registers.low, registers.high, gate, line, rounded, steps[1:] if rounded else steps)


def _steps_end(step: PostStep, codes: Mapping[str, int]) -> StepsEnd | None:
    """Return what *step* rounds to, ``None`` where registers do not: it does something else, or fills lanes."""
    reach = {codes["fake_quantize"]: 2**8 - 1, codes["fake_quantize_wide"]: 2**16 - 1}.get(step.code)
    parts = None if reach is None else quotient_parts(step.a, wide=reach > 2**8)
    if reach is None or parts is None or not step.b <= 0 <= step.b + reach:
        return None
    return StepsEnd(step.a, *parts, step.b, step.b + reach)


def quotient_parts(by: float, *, wide: bool) -> tuple[float, float] | None:
    """Return 1 / *by* in the two parts of ``quotient_parts`` in ``quotient.clh``, ``None`` where there are none."""
    divisor = np.float32(by)
    last = int(divisor.view(np.uint32)) + 16 & (0xFF if wide else 0xFFFF)
    if not 2.0**-40 < divisor < 2.0**40 or last < 32:
        return None
    part = high = np.float32(1) / divisor
    # Products and differences of these are exact in float64.
    if 1 - float(high) * float(divisor) < 0:
        high = np.nextafter(high, np.float32(0))
    return float(high), float(np.float32(1 - float(high) * float(divisor)) * part)


def sums_alone(q: Query[Any]) -> InRegisters:
    """Return what is taken in registers where no residual is: it stays in the list, with all that follows."""
    registers = in_registers(q)
    return registers if registers.residual is None else UNBOUND
