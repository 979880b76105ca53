"""Attention on halves for NVIDIA GPUs: one pass over the keys, products by matrix units."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.implementations.matrix_units.nvidia.tiles import F16, chunk, ptx_macros
from clgraph.ops.attention import Attention, attention_space, bias_view
from clgraph.selector.general import General, post_arguments, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import PTX, SM80, Query

DEEPEST = 128
_ITEMS = 128
_EFFICIENCY = 2.5
"""Arithmetic for the float peak that the cost model knows: matrix units have ten times as much. An estimate."""


@frozen
class _Shape:
    """What a group holds: heads rounded up, keys at a time, tiles of 16 queries a warp."""

    depth: int
    width: int
    keys: int
    tiles: int

    @property
    def local_bytes(self) -> int:
        rows = [_row_bytes(x) for x in (self.depth, self.width)]
        return max(64 * self.tiles * rows[0] + 2 * self.keys * sum(rows), 64 * (self.width + 8) * 4)


@implements(
    Attention,
    name="attention.nvidia",
    serves=Serves(dtypes=frozenset({DType.F16}), kinds=frozenset({"gpu"}), fuses=FUSABLE, features=PTX),
)
class AttentionNvidia(General[Attention]):
    """Groups of four warps make 64 or 128 queries, 32 or 64 keys at a time."""

    @classmethod
    def further_limits(cls, q: Query[Attention]) -> str | None:
        (y,), size = q.outputs, chunk(F16)
        _, _, d, e = q.primitive.sizes(q.own)
        if max(d, e) > DEEPEST or d % size or e % size:
            return f"serves heads of multiples of {size} up to {DEEPEST}, not {d} and {e}"
        if not q.primitive.scale > 0:
            return f"requires a scale above 0, not {q.primitive.scale}"
        queries, keys, values = q.own[:3]
        _, part = _axes(q.primitive)
        outer = list(keys.all_pitches)
        if outer.pop(part) != 1:
            return "requires the elements of a key side by side"
        if any(x.all_pitches[-1] != 1 for x in (queries, values, y)):
            return "requires the elements of a head side by side"
        starts = (keys.origin, *outer, *(i for x in (queries, values) for i in (x.origin, *x.all_pitches[:-1])))
        if any(i % size for i in starts) or any(i % LANES for i in (y.origin, *y.all_pitches[:-1])):
            return f"requires heads that start at multiples of {size} elements"
        return None if cls._shapes(q) else f"has no room in {q.device.local_bytes} bytes of local memory"

    @classmethod
    def _shapes(cls, q: Query[Attention]) -> list[_Shape]:
        _, _, d, e = q.primitive.sizes(q.own)
        wanted = ((64, 2), (64, 1), (32, 1), (16, 1)) if max(d, e) <= 64 else ((64, 1), (32, 1), (16, 1))
        found = [_Shape(-(-d // 16) * 16, -(-e // 16) * 16, *each) for each in wanted]
        return [s for s in found if s.local_bytes <= q.device.local_bytes]

    @classmethod
    def _shape(cls, q: Query[Attention]) -> _Shape:
        """Return what holds most, but fewer queries a group where else compute units had none."""
        (y,), shapes = q.outputs, cls._shapes(q)
        m, _, _, e = q.primitive.sizes(q.own)
        groups = -(-m // (64 * shapes[0].tiles)) * (y.count // (m * e))
        single = [s for s in shapes if s.tiles == 1]
        return single[0] if single and groups < q.device.compute_units else shapes[0]

    @classmethod
    def cost(cls, q: Query[Attention]) -> float:
        (y,) = q.outputs
        m, _, _, e = q.primitive.sizes(q.own)
        groups = -(-m // (64 * cls._shape(q).tiles)) * (y.count // (m * e))
        return roofline(q, _EFFICIENCY * min(1.0, groups / max(q.device.compute_units, 1)), 0.7)

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        (y,), p, shape = q.outputs, q.primitive, cls._shape(q)
        keys, values = q.own[1:3]
        m, n, d, _ = p.sizes(q.own)
        s = attention_space(q, [range(y.rank - 2), [y.rank - 2], [y.rank - 1]])
        pitches = [keys.all_pitches[_axes(p)[0]], values.all_pitches[-2], bias_view(q).pitches[-1]]
        numbers = table(s.dims, *s.views[:5], [n, d, *pitches, int(q.arity > 3)])
        jit = vector_jit(y.dtype, len(s.dims)).define(
            DEPTH=shape.depth,
            WIDTH=shape.width,
            KEYS=shape.keys,
            TILES=shape.tiles,
            **ptx_macros(q.device.features >= SM80),
        )
        arguments = ("in0", "in1", "in2", q.role(3), "out0", numbers, p.scale)
        posts = post_arguments(q, s.views[5:], len(s.dims))
        grid = (-(-m // (64 * shape.tiles)) * _ITEMS, 1, s.counts[0])
        entry = "attention_nvidia"
        return Plan((Launch(f"attention/{entry}.cl", entry, jit, grid, (_ITEMS, 1, 1), (*arguments, *posts)),))


def _axes(p: Attention) -> tuple[int, int]:
    """Return the axes of the keys that count them and what is in one."""
    return (-2, -1) if p.by_key else (-1, -2)


def _row_bytes(length: int) -> int:
    """Return the bytes of a row: an odd number of chunks where chunks are not exchanged."""
    chunks = length // 8
    return 16 * (chunks + 1 if chunks % 8 else chunks)
