"""The steps of a recurrent network on GPUs: a group walks a direction of a sequence, states in local memory."""

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
"""Work-items of a group at most."""
_STATES = 3
"""States of a unit in local memory: before and after a step, and its cell or what is reset."""


@implements(
    RecurrentSteps,
    name="recurrent_steps.gpu_groups",
    serves=Serves(dtypes=FLOATS | {DType.I32}, mixed=True, kinds=frozenset({"gpu"}), formats=True),
)
class RecurrentStepsGroups(Implementation[RecurrentSteps]):
    """A group a direction of a sequence, a work-item a unit; one launch for all tokens."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        r = q.inputs[1]
        if any(not x.is_dense_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1) or r.format.blocks:
            return "serves dense plain tensors"
        if any(x.count >= 2**31 for x in (*q.inputs, *q.outputs)):
            return "counts elements in 32 bits"
        if len({x.dtype for x in (*q.inputs, *q.outputs) if x.dtype != DType.I32}) > 1:
            return "requires one type for all but the lengths"
        needed = 4 * _STATES * _room(q.primitive.hidden)
        if needed > q.device.local_bytes:
            return f"requires {needed} bytes of local memory, the device has {q.device.local_bytes}"
        return activation_refusal(q.primitive)

    @classmethod
    def weights(cls, q: Query[RecurrentSteps]) -> Mapping[int, Format | Primitive]:
        # Neighbouring work-items read neighbouring rows.
        return {1: Format((0, 2, 1))} if 1 in q.constant else {}

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        groups = q.primitive.directions * q.inputs[0].shape[1]
        busy = min(1.0, groups / max(q.device.compute_units, 1))
        return roofline(q, 0.05 * busy)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _), r = q.primitive, q.inputs[0].shape, q.inputs[1]
        pitches = [r.all_pitches[1], r.all_pitches[2]]
        numbers = table([tokens, batch, f.hidden], walk_flags(f), [bits(f.clip)], pitches, *activation_codes(f))
        items, cell = _items(q.device, f.hidden), list(GATES).index(f.cell)
        jit = float_jit(q.outputs[0].dtype, 1).define(ITEMS=items, SIZE=_room(f.hidden), CELL=cell)
        args: tuple[Argument, ...] = (*tensors(f), numbers)
        kernel, grid = "recurrent_steps_gpu_groups", (items * f.directions * batch,)
        return Plan((Launch(f"recurrent_steps/{kernel}.cl", kernel, jit, grid, (items,), args),))


def _room(hidden: int) -> int:
    """Return the states that there is room for: few different numbers, so that few kernels are compiled."""
    return max(64, 1 << max(hidden - 1, 0).bit_length())


def _items(device: DeviceInfo, hidden: int) -> int:
    return min(MOST_ITEMS, 1 << device.max_work_group.bit_length() - 1, _room(hidden))
