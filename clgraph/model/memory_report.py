"""Memory usage of a compiled program: figures, a table, and a picture of the arenas over time."""

from __future__ import annotations

from html import escape

from clgraph.core.frozen import frozen
from clgraph.graph.colours import colour_of
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.result_memory import MOST_BYTES, kept_bytes

_WIDTH, _HEIGHT, _MARGIN = 900.0, 420.0, 48.0
_LETTER, _LINE = 7.5, 16.0


@frozen
class BufferReport:
    """One buffer of an arena.

    Attributes:
        kind: Operator that makes its first value; ``input`` and ``scratch`` for what no operator makes.
        offset: Bytes from the start of the arena.
        first, last: Positions of the first write (-1: before the run) and the last read in the execution order.
        values: The values in it, in order.
    """

    name: str
    kind: str
    nbytes: int
    offset: int
    first: int
    last: int
    values: tuple[str, ...]


@frozen
class ArenaReport:
    """The memory of one placement: bytes planned, the most alive at once, and what it would be without sharing."""

    placement: str
    nbytes: int
    lower_bound: int
    unshared: int
    buffers: tuple[BufferReport, ...]

    @property
    def overhead(self) -> float:
        """The arena relative to its lower bound."""
        return self.nbytes / self.lower_bound if self.lower_bound else 1.0

    @property
    def peak(self) -> int:
        """The first position at which the most bytes are alive."""
        ends = [b.first for b in self.buffers]
        return max(ends, key=lambda p: sum(b.nbytes for b in self.buffers if b.first <= p <= b.last), default=0)


@frozen
class MemoryReport:
    """Every arena of a program, the bytes of its constants, and the names of its nodes in execution order.

    Attributes:
        results: Bytes of large results, whose memory is kept for later runs as the caller drops them.
    """

    arenas: tuple[ArenaReport, ...]
    constants: int
    results: int
    nodes: tuple[str, ...]

    def to_svg(self) -> str:
        """Return a picture: a rectangle a buffer, execution order to the right, offset in the arena upwards."""
        height = (_HEIGHT + 2 * _MARGIN) * max(len(self.arenas), 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _MARGIN:g} {height:g}" '
            'font-family="sans-serif" font-size="13">',
            '<rect width="100%" height="100%" fill="white"/>',
        ]
        for i, arena in enumerate(self.arenas):
            top = i * (_HEIGHT + 2 * _MARGIN) + _MARGIN
            parts += [f'<g transform="translate({_MARGIN:g} {top:g})">', *_drawn(arena, self.nodes), "</g>"]
        return "\n".join([*parts, "</svg>\n"])


def memory_report(program: Program) -> MemoryReport:
    """Return the report of a planned program."""
    values: dict[object, list[Value]] = {}
    for value in program.values:
        if value.buffer is not None:
            values.setdefault(value.buffer, []).append(value)
    arenas = []
    for placement, arena in program.arenas.items():
        buffers = tuple(
            BufferReport(
                b.name, _kind(values.get(b, [])), b.nbytes, b.offset or 0, b.first, b.last, _names(values.get(b, []))
            )
            for b in program.buffers
            if b.placement == placement
        )
        arenas.append(ArenaReport(placement, arena.nbytes, arena.lower_bound, arena.unshared, buffers))
    constants = sum(v.layout.nbytes for v in program.constants)
    results = sum(kept_bytes(program.batch_slices * value.layout.nbytes) for _, value in program.outputs)
    return MemoryReport(tuple(arenas), constants, min(results, MOST_BYTES), tuple(node.name for node in program))


def _drawn(arena: ArenaReport, nodes: tuple[str, ...]) -> list[str]:
    columns, total = len(nodes) + 2, max(arena.nbytes, 1)

    def x(position: int) -> float:
        return (min(position, len(nodes)) + 1) / columns * _WIDTH

    def y(offset: int) -> float:
        return _HEIGHT - offset / total * _HEIGHT

    title = f"{arena.placement}: {arena.nbytes} bytes, at least {arena.lower_bound}, without sharing {arena.unshared}"
    parts = [
        f'<text x="0" y="-24" font-size="15">{escape(title)}</text>',
        f'<text x="0" y="-7">offset, 0 to {arena.nbytes} bytes; step 0 to {len(nodes)} to the right</text>',
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="none" stroke="black"/>',
    ]
    for b in arena.buffers:
        width = max(x(b.last + 1) - x(b.first), 0.5)
        tip = f"{b.name} ({b.kind}): {b.nbytes} bytes at {b.offset}, steps {b.first} to {b.last}"
        parts.append(
            f'<rect x="{x(b.first):.2f}" y="{y(b.offset + b.nbytes):.2f}" width="{width:.2f}" '
            f'height="{b.nbytes / total * _HEIGHT:.2f}" fill="{colour_of(b.kind)}" '
            f'stroke="black" stroke-width="0.3"><title>{escape(tip)}</title></rect>'
        )
        if len(b.name) * _LETTER < width and b.nbytes / total * _HEIGHT > _LINE:
            parts.append(f'<text x="{x(b.first) + 3:.2f}" y="{y(b.offset) - 4:.2f}">{escape(b.name)}</text>')
    bound = y(arena.lower_bound)
    parts.append(f'<line x2="{_WIDTH:g}" y1="{bound:.2f}" y2="{bound:.2f}" stroke="red" stroke-dasharray="6 4"/>')
    at = 0.0
    for kind in sorted({b.kind for b in arena.buffers}):
        if at < _WIDTH:
            parts.append(
                f'<rect x="{at:.1f}" y="{_HEIGHT + 10:g}" width="10" height="10" fill="{colour_of(kind)}"/>'
                f'<text x="{at + 14:.1f}" y="{_HEIGHT + 19:g}">{escape(kind)}</text>'
            )
        at += 28 + len(kind) * _LETTER
    return parts


def _kind(held: list[Value]) -> str:
    if not held:
        return "scratch"
    return "input" if held[0].producer is None else held[0].producer.primitive.kind


def _names(held: list[Value]) -> tuple[str, ...]:
    return tuple(v.name for v in held)
