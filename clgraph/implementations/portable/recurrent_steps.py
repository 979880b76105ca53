"""The steps of RNN, GRU and LSTM a sequence a work-item: in floats on CPU devices, in doubles on all that have them."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps, activation_codes, activation_refusal, tensors, walk_flags
from clgraph.selector.general import float_jit, table, words
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.query import Query

_SERVES = Serves(dtypes=frozenset({DType.F32, DType.F64, DType.I32}), mixed=True)


@implements(RecurrentSteps, name="recurrent_steps.lines", serves=_SERVES)
class RecurrentStepsLines(Implementation[RecurrentSteps]):
    """One work-item a direction of a sequence, or of all that are rounded together, in vectors of 16."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        x, device = q.inputs[0], q.device
        if x.dtype == DType.F64 and "fp64" not in device.features:
            return "needs fp64 for doubles"
        if x.dtype != DType.F64 and device.kind != "cpu" and not q.primitive.rounded:
            return "serves doubles and rounded states alone on a GPU, whose own kernels serve floats"
        if any(t.dtype not in (x.dtype, DType.I32) for t in (*q.inputs, *q.outputs)):
            return "requires one type for all but the lengths"
        if not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
            return "serves dense plain tensors"
        if any(t.count >= 2**31 for t in (*q.inputs, *q.outputs)):
            return "counts elements in 32 bits"
        return activation_refusal(q.primitive)

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        # A vector of products in 2 ns, of doubles in 4, as long as the weights lie in the second-level cache.
        lines = _walks(q)
        vectors = q.primitive.flops(q.own, q.outputs) / 32 * (q.inputs[0].dtype.itemsize // 4)
        return q.device.launch_seconds + vectors * 2e-9 / min(q.device.workers, lines)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _), dtype = q.primitive, q.inputs[0].shape, q.inputs[0].dtype
        count = _walks(q)
        flags = [list(GATES).index(f.cell), *walk_flags(f), int(f.rounded)]
        numbers = table([tokens, batch, f.hidden], flags, words(f.clip, dtype), *activation_codes(f, dtype))
        args: tuple[Argument, ...] = (count, *tensors(f), "scratch0", numbers)
        kernel = "recurrent_steps_lines"
        jit = float_jit(dtype, 1)
        launch = Launch(f"recurrent_steps/{kernel}.cl", kernel, jit, (count,), (1,), args)
        return Plan((launch,), (f.directions * batch * f.hidden * dtype.itemsize,))


def _walks(q: Query[RecurrentSteps]) -> int:
    """Return the work-items: one a direction of a sequence, or of all that are rounded together."""
    return q.primitive.directions * (1 if q.primitive.rounded else q.inputs[0].shape[1])
