"""Stacked recurrent layers on CPU devices: a wave of chunks of tokens goes through the layers."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.cost import TicketRanges, traffic_seconds
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.matmul_instances import GROUP
from clgraph.implementations.cpu.recurrent_steps import (
    FLOATS_AND_LENGTHS,
    MOST_LINES,
    PACKED,
    RecurrentStepsProductsDesc,
    functions,
    gates_seconds,
    optional_tensors,
    token_seconds,
    walk_fields,
    walk_scratch,
)
from clgraph.ops.recurrent_stack import RecurrentStack
from clgraph.ops.recurrent_steps import activation_refusal
from clgraph.selector.descriptor import NULL, Ref
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

FORMATS = {1: Format((0, 1), ((0, GROUP),)), 2: PACKED, 3: PACKED}
"""Of the weights: [rows / 64][k][64] for each layer."""

CHUNK_ROWS = (4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rows of x that a chunk may have: for fewer the weights take longer to read than to multiply."""


@implements(RecurrentStack, name="recurrent_stack.waves", serves=FLOATS_AND_LENGTHS)
class RecurrentStackWaves(Implementation[RecurrentStack]):
    """A step for each wave, in which every layer walks the chunk of tokens behind that of the next layer.

    Workers meet once a chunk: sharing each token costs more than it saves where one of them has to wait for its core.
    """

    @classmethod
    def limits(cls, q: Query[RecurrentStack]) -> str | None:
        f = q.primitive.steps
        if not FORMATS.keys() <= q.constant:
            return "requires constant weights, for packed groups"
        if f.direction != "forward" or f.rounded:
            return "serves layers that go forward and whose states are not rounded"
        if f.hidden < LANES:
            # Products with so few columns have an order of their own.
            return f"serves layers of at least {LANES} hidden states"
        if wrong := [i for i, packed in FORMATS.items() if q.inputs[i].format != packed and not _is_plain(q, i)]:
            return f"requires input {wrong[0]} plain or in {FORMATS[wrong[0]]}"
        if not all(_is_plain(q, i) for i in range(len(q.inputs)) if i not in FORMATS):
            return "serves dense plain tensors"
        if not all(y.is_dense_plain for y in q.outputs):
            return "serves dense plain results"
        return activation_refusal(f) or count_refusal(q)

    @classmethod
    def weights(cls, q: Query[RecurrentStack]) -> Mapping[int, Format]:
        return FORMATS

    @classmethod
    def cost(cls, q: Query[RecurrentStack]) -> float:
        return max(waves_of(q).seconds, traffic_seconds(q.device, sum(x.nbytes for x in (*q.inputs, *q.outputs))))

    @classmethod
    def plan(cls, q: Query[RecurrentStack]) -> Plan:
        p, walk = q.primitive, waves_of(q)
        (tokens, batch, depth), f = q.inputs[0].shape, p.steps
        fields = walk_fields(f, q.inputs[0].shape, walk.lines, q.device) | optional_tensors(f, 4 + p.biased)
        scratch = walk_scratch(f, walk.lines.each, walk.chunk_tokens)
        steps = []
        for wave in range(walk.waves):
            desc = RecurrentStepsProductsDesc(
                **fields,
                ahead=NULL,
                x=Ref("in0"),
                w_first=Ref("in1"),
                w_others=Ref("in2"),
                weights=Ref("in3"),
                x_bias=Ref("in4") if p.biased else NULL,
                between=Ref("scratch0"),
                directions=p.layers,
                depth=depth,
                chunk_tokens=walk.chunk_tokens,
                wave=wave,
            )
            tickets = walk.active(wave, p.layers) * walk.lines.count
            steps.append(Tile("recurrent_steps_products", desc, tickets, scratch, functions(f) * p.layers))
        return Plan(tuple(steps), (4 * (p.layers - 1) * tokens * batch * f.hidden,))


def _is_plain(q: Query[RecurrentStack], slot: int) -> bool:
    return q.inputs[slot].is_dense_plain


@frozen
class Waves:
    """Runs of sequences, the tokens of a chunk, waves, and the time that all of them take."""

    lines: TicketRanges
    chunk_tokens: int
    waves: int
    seconds: float

    def active(self, wave: int, layers: int) -> int:
        """Return how many of *layers* have a chunk in *wave*: one more in each until all have, and so at the end."""
        return min(wave + 1, self.waves - wave, layers, self.waves - layers + 1)


@remembered
def waves_of(q: Query[RecurrentStack]) -> Waves:
    """Return how *q* is computed: in longer chunks workers idle longer at both ends, in shorter ones they meet more.

    One worker has nobody to meet, and reads the weights of one layer after those of another.
    """
    layers, tokens, batch = q.primitive.layers, *q.inputs[0].shape[:2]
    each = min(MOST_LINES, -(-batch // max(1, q.device.workers // layers)))
    lines = TicketRanges(-(-batch // each), each)
    lengths = [-(-n // each) for n in CHUNK_ROWS] if q.device.workers > 1 else []
    walks = [cut(q, lines, length) for length in (*dict.fromkeys(n for n in lengths if n < tokens), tokens)]
    return min(walks, key=lambda walk: walk.seconds)


def cut(q: Query[RecurrentStack], lines: TicketRanges, length: int) -> Waves:
    """Return the walk in chunks of so many tokens."""
    p, (tokens, _, depth), device = q.primitive, q.inputs[0].shape, q.device
    chunks, rows = -(-tokens // length), length * lines.each
    token = token_seconds(p.steps, lines.each, device)
    chunk = (token + gates_seconds(p.steps, max(depth, p.steps.hidden), rows, device)) * rows
    # One layer in the first wave, one more in each until all are under way that can be, and so at the end.
    most, waves = min(p.layers, chunks), chunks + p.layers - 1
    active = [*range(1, most), *range(1, most)]
    rounds = sum(-(-n * lines.count // device.workers) for n in active)
    rounds += (waves - len(active)) * -(-most * lines.count // device.workers)
    return Waves(lines, length, waves, waves * device.costs.step_seconds + rounds * device.crowding * chunk)
