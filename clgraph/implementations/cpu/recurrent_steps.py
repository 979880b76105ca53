"""The steps of RNN, GRU and LSTM on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps, activation_codes, tensors, walk_flags
from clgraph.selector.general import bits, table
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.query import Query


@implements(
    RecurrentSteps,
    name="recurrent_steps.lines",
    serves=Serves(dtypes=frozenset({DType.F32, DType.I32}), mixed=True, kinds=frozenset({"cpu"})),
)
class RecurrentStepsLines(Implementation[RecurrentSteps]):
    """One work-item a direction of a sequence, in vectors of 16 along the hidden states."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        if any(not x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        if any(x.count >= 2**31 for x in (*q.inputs, *q.outputs)):
            return "counts elements in 32 bits"
        return None

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        # A vector of products a nanosecond, as long as the weights lie in the second-level cache.
        workers = min(q.device.workers, q.primitive.directions * q.inputs[0].shape[1])
        return q.device.launch_seconds + q.primitive.flops(q.own, q.outputs) / 32 * 1e-9 / workers

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _) = q.primitive, q.inputs[0].shape
        count = f.directions * batch
        flags = [list(GATES).index(f.cell), *walk_flags(f)]
        numbers = table([tokens, batch, f.hidden], flags, [bits(f.clip)], *activation_codes(f))
        kernel = "recurrent_steps/recurrent_steps_lines"
        args: tuple[Argument, ...] = (count, *tensors(f), "scratch0", numbers)
        launch = Launch(f"{kernel}.cl", "recurrent_steps_lines", Jit(), (count,), (1,), args)
        return Plan((launch,), (count * f.hidden * 4,))
