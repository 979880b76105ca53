"""The steps of a recurrent network on GPUs: a group walks a direction of a sequence, or all units make a token."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps, activation_codes, activation_refusal, tensors, walk_flags
from clgraph.selector.general import FLOATS, bits, float_jit, table
from clgraph.selector.implementation import Implementation, Serves, implements, roofline
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.query import DeviceInfo, Query

MOST_ITEMS = 256
"""Work-items of a group that walks a sequence at most."""
LANES = 64
"""Work-items that share the products of a unit at most."""
LINES = 8
"""Sequences that read a unit's weights together, where there are several."""
MOST_LAUNCHES = 4096
"""Of one node: each is a kernel whose arguments are bound."""
_READS = 0.25
"""Numbers that a compute unit reads from a cache or local memory while it could multiply and add one."""
_STATES = 3
"""States of a unit: before and after a token, and its cell or what is reset."""
_SERVES = Serves(dtypes=FLOATS | {DType.I32}, mixed=True, kinds=frozenset({"gpu"}), formats=True)


def _refusal(q: Query[RecurrentSteps]) -> str | None:
    """Say why neither kernel serves the problem, whatever the format of r, or return ``None``."""
    if any(not x.is_dense_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1):
        return "serves dense plain tensors"
    if any(x.count >= 2**31 for x in (*q.inputs, *q.outputs)):
        return "counts elements in 32 bits"
    if len({x.dtype for x in (*q.inputs, *q.outputs) if x.dtype != DType.I32}) > 1:
        return "requires one type for all but the lengths"
    if q.primitive.rounded:
        return "reads states as they are, not rounded to 8 bits"
    return activation_refusal(q.primitive)


def _reading(q: Query[RecurrentSteps], nbytes: float, units: int) -> float:
    """Return the seconds in which so many compute *units* read *nbytes* of weights, once all of them were read."""
    costs = q.device.costs
    rate = costs.cache_bytes_per_second * units
    return nbytes / (rate if q.inputs[1].nbytes <= costs.cache_bytes else min(rate, q.device.bytes_per_second))


@implements(RecurrentSteps, name="recurrent_steps.gpu_groups", serves=_SERVES)
class RecurrentStepsGroups(Implementation[RecurrentSteps]):
    """A group a direction of a sequence, a work-item a unit; one launch for all tokens."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        if q.inputs[1].format.blocks:
            return "serves dense plain tensors"
        needed = 4 * _STATES * _room(q.primitive.hidden)
        if needed > q.device.local_bytes:
            return f"requires {needed} bytes of local memory, the device has {q.device.local_bytes}"
        return _refusal(q)

    @classmethod
    def weights(cls, q: Query[RecurrentSteps]) -> Mapping[int, Format | Primitive]:
        # Neighbouring work-items read neighbouring rows.
        return {1: Format((0, 2, 1))} if 1 in q.constant else {}

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        # A compute unit reads the weights of a direction for each token, whoever else reads them, too.
        (tokens, batch, _), directions = q.inputs[0].shape, q.primitive.directions
        busy = min(directions * batch, max(q.device.compute_units, 1))
        rounds = -(-directions * batch // busy)
        walk = tokens * rounds * _reading(q, q.inputs[1].nbytes / directions * busy, busy)
        # A weight and a state for each multiply-add.
        return max(roofline(q, _READS / 2), q.device.launch_seconds + walk)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _), r = q.primitive, q.inputs[0].shape, q.inputs[1]
        numbers = table([tokens, batch, f.hidden], walk_flags(f), [bits(f.clip)], r.all_pitches, *activation_codes(f))
        items, cell = _items(q.device, f.hidden), list(GATES).index(f.cell)
        jit = float_jit(q.outputs[0].dtype, 1).define(ITEMS=items, SIZE=_room(f.hidden), CELL=cell)
        args: tuple[Argument, ...] = (*tensors(f), numbers)
        kernel, grid = "recurrent_steps_gpu_groups", (items * f.directions * batch,)
        return Plan((Launch(f"recurrent_steps/{kernel}.cl", kernel, jit, grid, (items,), args),))


@implements(RecurrentSteps, name="recurrent_steps.gpu_tokens", serves=_SERVES)
class RecurrentStepsTokens(Implementation[RecurrentSteps]):
    """A launch a token, in which a group makes a unit of several sequences: all compute units read the weights."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        if not q.inputs[1].is_dense_plain:
            return "serves dense plain tensors"
        if (count := len(_parts(q.primitive)) * q.inputs[0].shape[0]) > MOST_LAUNCHES:
            return f"takes {count} launches, at most {MOST_LAUNCHES}"
        if _STATES * q.outputs[1].count >= 2**31:
            return "counts elements in 32 bits"
        lines, lanes = _shares(q)
        needed = 4 * GATES[q.primitive.cell] * lines * (lanes + 2)
        if needed > q.device.local_bytes:
            return f"requires {needed} bytes of local memory, the device has {q.device.local_bytes}"
        return _refusal(q)

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        (tokens, batch, _), f, (lines, _) = q.inputs[0].shape, q.primitive, _shares(q)
        tiles, gates = -(-batch // lines), GATES[f.cell]
        busy = min(f.directions * f.hidden * tiles, max(q.device.compute_units, 1))
        walk = tokens * (len(_parts(f)) * q.device.launch_seconds + _reading(q, q.inputs[1].nbytes * tiles, busy))
        # The weights of a state, which all sequences share, and a state of each.
        return max(roofline(q, _READS * gates * lines / (gates + lines)), walk)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _), (lines, lanes) = q.primitive, q.inputs[0].shape, _shares(q)
        numbers = table([tokens, batch, f.hidden], walk_flags(f), [bits(f.clip)], *activation_codes(f))
        cell = list(GATES).index(f.cell)
        jit = float_jit(q.outputs[0].dtype, 1).define(ITEMS=lanes, LINES=lines, CELL=cell)
        kernel, grid = "recurrent_steps_gpu_tokens", (lanes * f.directions * f.hidden * -(-batch // lines),)

        def launch(step: int, part: int) -> Launch:
            args: tuple[Argument, ...] = (*tensors(f), "scratch0", step, numbers)
            text = jit.define(PART=part) if part else jit
            return Launch(f"recurrent_steps/{kernel}.cl", kernel, text, grid, (lanes,), args)

        steps = tuple(launch(step, part) for step in range(tokens) for part in _parts(f))
        return Plan(steps, (4 * _STATES * q.outputs[1].count,))


def _room(hidden: int) -> int:
    """Return the states that there is room for: few different numbers, so that few kernels are compiled."""
    return max(64, 1 << max(hidden - 1, 0).bit_length())


def _items(device: DeviceInfo, hidden: int) -> int:
    return min(MOST_ITEMS, 1 << device.max_work_group.bit_length() - 1, _room(hidden))


def _parts(f: RecurrentSteps) -> tuple[int, ...]:
    """Return the launches of a token: a GRU that resets before the product has to know all states that are reset."""
    return (1, 2) if f.cell == "gru" and not f.linear_before_reset else (0,)


def _shares(q: Query[RecurrentSteps]) -> tuple[int, int]:
    """Return the sequences, and the work-items, of a group that makes a unit."""
    lanes = min(LANES, 1 << q.device.max_work_group.bit_length() - 1)
    # One work-item has the cell of each sequence.
    return (1 if q.inputs[0].shape[1] == 1 else min(LINES, lanes)), lanes
