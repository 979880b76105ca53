"""The steps of RNN, GRU and LSTM on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, step_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps, activation_refusal, walk_flags
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query

FLOATS_AND_LENGTHS = Serves(dtypes=frozenset({DType.F32, DType.I32}), mixed=True, kinds=frozenset({"cpu"}))

PACKED = Format((0, 1, 2), ((1, GROUP),))
"""Of r: [directions][rows / 64][H][64], zeros behind the last row."""

MOST_LINES = 24
"""Sequences of a ticket, so that their products stay in the first two caches beside the weights."""

MOST_ROUNDED = 128
"""Sequences whose states are rounded together, in one ticket."""

FETCH_HALF_CYCLES = 4
"""Until a vector of weights has come from the second-level cache: 32 bytes a cycle."""

VECTOR_SECONDS = 8e-9
"""Of an activation of sixteen units, measured at 3.4 GHz with 512-bit units."""


@descriptor("recurrent_steps_products", library="rare", micros=("micro_matmul",), any_alignment=True)
class RecurrentStepsProductsDesc(Descriptor):
    """Fields as in ``recurrent_steps_products.cl``."""

    ahead: Pointer
    weights: Pointer
    bias: Pointer
    lengths: Pointer
    hidden: Pointer
    first: Pointer
    peephole: Pointer
    every: Pointer
    last: Pointer
    cells: Pointer
    tokens: Int
    batch: Int
    directions: Int
    units: Int
    cell: Int
    backward: Int
    linear: Int
    coupled: Int
    groups: Int
    ticket_lines: Int
    runs: Int
    nb: Int
    widest: Int
    first_id: Int
    rounded: Int
    limit: Float


def _refusal(q: Query[RecurrentSteps]) -> str | None:
    """Say why the tensors are not what the kernels read and write, or return ``None``; r may be packed."""
    if any(not x.is_dense_plain for x in (q.inputs[0], *q.inputs[2:], *q.outputs)):
        return "serves dense plain tensors"
    if q.primitive.rounded and q.inputs[0].shape[1] > MOST_ROUNDED:
        return f"rounds the states of at most {MOST_ROUNDED} sequences together"
    return activation_refusal(q.primitive) or count_refusal(q)


def _lines(q: Query[RecurrentSteps]) -> TicketRanges:
    """Return the sequences of one direction as runs, a ticket each; those that are rounded together are one."""
    if q.primitive.rounded:
        return TicketRanges(1, q.inputs[0].shape[1])
    batch, workers = q.inputs[0].shape[1], max(1, q.device.workers // q.primitive.directions)
    each = min(MOST_LINES, -(-batch // workers))
    return TicketRanges(-(-batch // each), each)


@implements(RecurrentSteps, name="recurrent_steps.products", serves=FLOATS_AND_LENGTHS)
class RecurrentStepsProducts(Implementation[RecurrentSteps]):
    """A run of sequences a ticket: products of their states and packed weights, then the cells by vectors."""

    @classmethod
    def limits(cls, q: Query[RecurrentSteps]) -> str | None:
        if 1 not in q.constant:
            return "requires constant r, for packed groups"
        if not q.inputs[1].is_dense_plain and q.inputs[1].format != PACKED:
            return f"requires r plain or in {PACKED}, not {q.inputs[1].format}"
        return _refusal(q)

    @classmethod
    def weights(cls, q: Query[RecurrentSteps]) -> Mapping[int, Format]:
        return {1: PACKED}

    @classmethod
    def cost(cls, q: Query[RecurrentSteps]) -> float:
        f, (tokens, batch, _), lines = q.primitive, q.inputs[0].shape, _lines(q)
        widest, rows = widest_instance(q.device), GATES[f.cell] * f.hidden
        count = min(widest.rows, lines.each)
        tap = max(half_cycles(widest.nb, count), FETCH_HALF_CYCLES * widest.nb) / count * (GROUP // LANES // widest.nb)
        products = f.hidden * tap * 2 * LANES * -(-rows // GROUP) / worker_flops(q.device)
        cells = (GATES[f.cell] + 1) * -(-f.hidden // LANES) * VECTOR_SECONDS
        work = (products + cells) * tokens * batch * f.directions
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, work, traffic, lines.count * f.directions)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, (tokens, batch, _), lines, widest = q.primitive, q.inputs[0].shape, _lines(q), widest_instance(q.device)
        slots = {name: Ref(f"in{slot}") for slot, name in enumerate(f.present, 2)}
        groups = -(-GATES[f.cell] * f.hidden // GROUP)
        backward, directions, linear, coupled = walk_flags(f)
        desc = RecurrentStepsProductsDesc(
            ahead=Ref("in0"),
            weights=Ref("in1"),
            bias=slots.get("bias", NULL),
            lengths=slots.get("lengths", NULL),
            hidden=slots.get("hidden", NULL),
            first=slots.get("cell", NULL),
            peephole=slots.get("peephole", NULL),
            every=Ref("out0"),
            last=Ref("out1"),
            cells=Ref("out2") if f.cell == "lstm" else NULL,
            tokens=tokens,
            batch=batch,
            directions=directions,
            units=f.hidden,
            cell=list(GATES).index(f.cell),
            backward=backward,
            linear=linear,
            coupled=coupled,
            groups=groups,
            ticket_lines=lines.each,
            runs=lines.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            rounded=int(f.rounded),
            limit=f.clip,
        )
        codes = post_codes()
        functions = tuple(PostStep(codes[name], a, b) for d in range(directions) for name, a, b in f.chosen(d))
        states = 3 * -(-f.hidden // LANES) * LANES
        scratch = 4 * (lines.each * (states + groups * GROUP) + LANES)
        tile = Tile("recurrent_steps_products", desc, lines.count * directions, scratch=scratch, post=functions)
        return Plan((tile,))
