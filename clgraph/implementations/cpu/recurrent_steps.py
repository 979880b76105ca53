"""The steps of RNN, GRU and LSTM on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Shape
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, step_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps, activation_refusal, walk_flags
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_codes
from clgraph.selector.query import DeviceInfo, Query

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
    x: Pointer
    w_first: Pointer
    w_others: Pointer
    x_bias: Pointer
    between: Pointer
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
    depth: Int
    chunk_tokens: Int
    wave: Int
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
        work = token_seconds(f, lines.each, q.device) * tokens * batch * f.directions
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, work, traffic, lines.count * f.directions)

    @classmethod
    def plan(cls, q: Query[RecurrentSteps]) -> Plan:
        f, lines = q.primitive, _lines(q)
        fields = walk_fields(f, q.inputs[0].shape, lines, q.device) | optional_tensors(f, 2)
        desc = RecurrentStepsProductsDesc(
            **fields,
            x=NULL,
            w_first=NULL,
            w_others=NULL,
            x_bias=NULL,
            between=NULL,
            ahead=Ref("in0"),
            weights=Ref("in1"),
            directions=f.directions,
            depth=0,
            chunk_tokens=q.inputs[0].shape[0],
            wave=0,
        )
        tickets = lines.count * f.directions
        scratch = walk_scratch(f, lines.each)
        return Plan((Tile("recurrent_steps_products", desc, tickets, scratch=scratch, post=functions(f)),))


def token_seconds(f: RecurrentSteps, lines: int, device: DeviceInfo) -> float:
    """Return one worker's time for a token of one of *lines* sequences that it walks together."""
    cells = (GATES[f.cell] + 1) * -(-f.hidden // LANES) * VECTOR_SECONDS
    return gates_seconds(f, f.hidden, lines, device) + cells


def gates_seconds(f: RecurrentSteps, depth: int, rows: int, device: DeviceInfo) -> float:
    """Return one worker's time for a row of *depth* numbers by the weights of all gates, of *rows* at a time."""
    widest = widest_instance(device)
    count = min(widest.rows, rows)
    tap = max(half_cycles(widest.nb, count), FETCH_HALF_CYCLES * widest.nb) / count * (GROUP // LANES // widest.nb)
    return depth * tap * 2 * LANES * -(-GATES[f.cell] * f.hidden // GROUP) / worker_flops(device)


def optional_tensors(f: RecurrentSteps, first: int) -> dict[str, Ref]:
    """Return the tensors that a walk may be without and its results; the *present* ones begin at slot *first*."""
    slots = {name: Ref(f"in{slot}") for slot, name in enumerate(f.present, first)}
    named = {"bias": "bias", "lengths": "lengths", "hidden": "hidden", "first": "cell", "peephole": "peephole"}
    found = {field: slots.get(name, NULL) for field, name in named.items()}
    return found | {"every": Ref("out0"), "last": Ref("out1"), "cells": Ref("out2") if f.cell == "lstm" else NULL}


def walk_fields(f: RecurrentSteps, shape: Shape, lines: TicketRanges, device: DeviceInfo) -> dict[str, Any]:
    """Return the numbers of a walk over x of *shape* in tickets of *lines*."""
    widest = widest_instance(device)
    backward, _, linear, coupled = walk_flags(f)
    return {
        "tokens": shape[0],
        "batch": shape[1],
        "units": f.hidden,
        "cell": list(GATES).index(f.cell),
        "backward": backward,
        "linear": linear,
        "coupled": coupled,
        "groups": -(-GATES[f.cell] * f.hidden // GROUP),
        "ticket_lines": lines.each,
        "runs": lines.count,
        "nb": widest.nb,
        "widest": widest.rows,
        "first_id": widest.first_id,
        "rounded": int(f.rounded),
        "limit": f.clip,
    }


def functions(f: RecurrentSteps) -> tuple[PostStep, ...]:
    """Return the activations of each direction."""
    codes = post_codes()
    return tuple(PostStep(codes[name], a, b) for d in range(f.directions) for name, a, b in f.chosen(d))


def walk_scratch(f: RecurrentSteps, lines: int, tokens: int = 0) -> int:
    """Return the bytes that a ticket of *lines* sequences needs, with the products of *tokens* for a stack."""
    rows = -(-GATES[f.cell] * f.hidden // GROUP) * GROUP
    return 4 * (lines * (3 * -(-f.hidden // LANES) * LANES + (1 + tokens) * rows) + LANES)
