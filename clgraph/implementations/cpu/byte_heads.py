"""Operations at the head of a list that the micro-kernels of bytes apply to their sums themselves on CPU devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.byte_end_fields import TWICE, End, end_numbers
from clgraph.implementations.cpu.fused_operations import operand_pitches
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.selector.query import Query


@frozen
class Head:
    """Operations at the head of a list that a micro-kernel applies, each at most once and in this order.

    Attributes:
        within: Rounds the sums, where *by*, *plus* or *again* follows.
        by, plus: Multiplies with and adds a number a channel; *by_after* and *plus_after* do so behind *again*.
        again: Rounds what is scaled and added to.
        residual: Adds the bytes of a tensor that is laid out as the result is.
        last: A rounding of floats behind *residual* that nothing follows.
        single: *by* is one number for all channels.
    """

    within: Fused | None
    by: Fused | None
    plus: Fused | None
    again: Fused | None
    by_after: Fused | None
    plus_after: Fused | None
    residual: Fused | None
    last: Fused | None
    single: bool

    def __len__(self) -> int:
        first = (self.within, self.by, self.plus, self.again)
        return sum(f is not None for f in (*first, self.by_after, self.plus_after, self.residual, self.last))

    def end(self, mode: int, taken: int, last: float, rounding: StaticQuantize | None, limits: tuple[int, int]) -> End:
        """Return the end in which they stand, followed by bytes of *rounding* in *mode* TWICE."""
        within, again = self.within, self.again
        step = rounding.scale if mode == TWICE and rounding is not None else 1.0
        adds = again or self.residual
        # What a float is multiplied with to become a step of the rounding that comes next.
        inner = float(1 / np.float32(_alpha(again) if again else 1.0 if adds else step))
        said: dict[str, Any] = {"first": 1.0, "middle": inner, "adding": inner, "second": 1.0, "step": step}
        if within:
            said |= {"first": _alpha(within), "middle": _alpha(within) * inner, "within": 1, "floor": _low(within)}
        elif again and not self.by and not self.plus:
            said |= {"first": _alpha(again), "middle": 1.0}
        if again:
            said |= {"second": _alpha(again), "again": 1, "bottom": _low(again)}
        if again and (self.by_after or self.plus_after):
            ending = float(1 / np.float32(step))
            said |= {"after": 1, "later": _alpha(again) * ending, "ending": ending}
        if self.residual:
            p = self.residual.primitive
            assert isinstance(p, DequantizeAdd)
            joint = _joint(again, p, rounding if mode == TWICE else None)
            said |= joint or {"third": p.scale, "shift": float(p.zero)}
        if self.last:
            said |= {"finished": 1, "step": _alpha(self.last)} | (
                {} if "joint" in said else {"ending": _low(self.last)}
            )
        operands = (self.by, self.plus, self.by_after, self.plus_after, self.residual)
        slots = [None if f is None else f.operands[0] for f in operands]
        said = {"zero": 0 if rounding is None else rounding.zero, "single": int(self.single), **said}
        low, high = limits
        return End(mode, taken, last, end_numbers(low=low, high=high, **said), *slots)


def _joint(again: Fused | None, p: DequantizeAdd, rounding: StaticQuantize | None) -> dict[str, Any] | None:
    """Return the fields of a sum of what *again* rounds with bytes in the order of steps, ``None`` where it is none.

    It becomes bytes by *rounding*, or floats. Bytes of a model that is signed are 128 more than its integers.
    """
    order, own, other = p.order, int(p.swapped), int(not p.swapped)
    if order is None or again is None:
        return None
    signed, (scale, zero) = p.zero - order.zeros[other], (order.scales[2], order.zeros[2])
    last = (scale, zero + signed) if rounding is None else (rounding.scale, rounding.zero)
    read = _alpha(again), -_low(again), p.scale, *last
    if read != (order.scales[own], order.zeros[own] + signed, order.scales[other], scale, zero + signed):
        return None
    second, third = order.ratios[own], order.ratios[other]
    said = {"joint": 1 + own, "second": second, "third": third, "shift": order.fixed, "zero": signed}
    return {**said, "step": scale, "ending": float(zero)}


def head_of(q: Query[Any], steps: tuple[Fused, ...], *, floats: bool = False) -> Head:
    """Return what of *steps* a micro-kernel applies itself; *floats* says that no rounding to bytes follows them."""
    left = list(steps)

    def take(fits: Callable[[Fused], bool]) -> Fused | None:
        return left.pop(0) if left and fits(left[0]) else None

    by, plus = (lambda f: _of_channels(q, f, "mul")), (lambda f: _of_channels(q, f, "add"))
    within, single = take(_rounds), take(lambda f: _of_all(q, f))
    by_, plus_, again = single or take(by), take(plus), take(_rounds)
    if within and not (by_ or plus_ or again):
        within, again = None, within
    after = (take(by), take(plus)) if again else (None, None)
    bytes_ = lambda f: isinstance(f.primitive, DequantizeAdd) and adds_alike(q, f.operands[0])  # noqa: E731
    residual = None if any(after) else take(bytes_)
    adds = residual.primitive if residual else None
    last = None
    if floats and isinstance(adds, DequantizeAdd) and len(left) == 1 and _ends(left[0], again, adds):
        last = left.pop()
    return Head(within, by_, plus_, again, *after, residual=residual, last=last, single=single is not None)


def _ends(last: Fused, again: Fused | None, p: DequantizeAdd) -> bool:
    """Whether *last* rounds a sum by *p* as a micro-kernel does: to the steps of its order, where it has one."""
    joint = None if p.order is None else _joint(again, p, None)
    if not _rounds(last) or (p.order is not None and joint is None):
        return False
    return joint is None or (_alpha(last), -_low(last)) == (joint["step"], joint["ending"] + joint["zero"])


def _rounds(step: Fused) -> bool:
    return isinstance(step.primitive, Activation) and step.primitive.function == "fake_quantize"


def _alpha(step: Fused) -> float:
    assert isinstance(step.primitive, Activation)
    return step.primitive.alpha


def _low(step: Fused) -> float:
    assert isinstance(step.primitive, Activation)
    return step.primitive.beta


def _of_all(q: Query[Any], step: Fused) -> bool:
    """Whether *step* multiplies with one number."""
    if not _does(step, "mul"):
        return False
    operand = q.inputs[step.operands[0]]
    return (operand.dtype, operand.count) == (DType.F32, 1)


def _does(step: Fused, function: str) -> bool:
    """Whether *step* is the binary *function*, of floats or from steps to steps."""
    p = step.primitive
    return p == Eltwise(function) or (isinstance(p, OnSteps) and p.function == function)


def _of_channels(q: Query[Any], step: Fused, function: str) -> bool:
    """Whether *step* does *function* with a number a channel, which lie side by side in whole blocks."""
    if not _does(step, function):
        return False
    (slot,), y = step.operands, q.outputs[0]
    operand = q.inputs[slot]
    if operand.dtype != DType.F32 or operand.count != y.shape[1]:
        return False
    if y.shape[1] % LANES and not (operand.format.blocks or (slot in q.constant and y.format.blocks)):
        return False
    return operand_pitches(operand, y)[1:] == (LANES, 0, 0, 1)


def adds_alike(q: Query[Any], slot: int) -> bool:
    """Whether input *slot* of *q* is bytes of the result's shape and format."""
    r, y = q.inputs[slot], q.outputs[0]
    return (r.dtype, r.shape, r.format) == (DType.U8, y.shape, y.format)
