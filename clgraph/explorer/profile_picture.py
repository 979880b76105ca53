"""A profile as one picture: the run over time, and the nodes and operators that took most of it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from clgraph.core.frozen import frozen
from clgraph.graph.colours import colour_of
from clgraph.network.profile import NodeTime, Profile

MOST_BARS = 30
"""Of nodes, and of operators; what is faster is counted."""

_WIDTH, _MARGIN, _TOP, _LANE, _ROW = 960.0, 24.0, 20.0, 46.0, 20.0
_NAMES, _ROOM = 300.0, 510.0
"""Pixels for the names at the left of bars, and for the bars; figures stand at their right."""
_LETTER, _IDLE = 7.0, "#8a949e"


@frozen
class _Bar:
    """A row: what took how long, for what share of it workers had nothing to do, and what colours it."""

    name: str
    about: str
    seconds: float
    idle: float
    kind: str


def to_svg(profile: Profile, title: str) -> str:
    """Return the picture: a lane a device, on it a rectangle a command, and bars of nodes and of operators below.

    The grey part of a rectangle is the share of the workers' time in it without work.
    """
    whole = profile.seconds or 1e-12
    nodes = sorted(_by_node(profile), key=lambda bar: -bar.seconds)
    kinds = [_Bar(t.kind, _commands(t.count), t.seconds, _idle(t.commands), t.kind) for t in profile.by_kind()]
    parts = [_text(0, 0, title, size=17), *_lanes(profile, _TOP)]
    top = _TOP + _LANE * len(_placements(profile)) + 10
    parts += [_rectangle(0, top - 10, 11, 11, _IDLE, ""), _text(17, top, "workers without work")]
    top += 34
    for head, bars in (("operators", kinds), ("nodes", nodes)):
        parts.append(_text(0, top, head, size=15))
        top += 12
        longest = max((b.seconds for b in bars), default=1.0) or 1.0
        for bar in bars[:MOST_BARS]:
            parts += _row(bar, top, longest, whole)
            top += _ROW
        if others := bars[MOST_BARS:]:
            parts.append(_text(0, top + 14, f"{len(others)} others"))
            parts.append(_text(_NAMES, top + 14, _figures(sum(b.seconds for b in others), whole)))
            top += _ROW
        top += 30
    height = top + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _MARGIN:g} {height:g}" '
            'font-family="sans-serif" font-size="13">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<g transform="translate({_MARGIN:g} {_MARGIN + 12:g})">',
            *parts,
            "</g>",
            "</svg>\n",
        ]
    )


def _lanes(profile: Profile, top: float) -> Iterator[str]:
    """Yield the commands over the time of the run, a lane a device."""
    end = max((c.start + c.seconds for c in profile.commands), default=0.0) or 1e-12
    lanes = _placements(profile)
    for number, name in enumerate(lanes):
        yield _text(0, top + number * _LANE + 11, f"{name}, {end * 1e3:.2f} ms")
    for c in profile.commands:
        x, width = c.start / end * _WIDTH, max(c.seconds / end * _WIDTH, 0.4)
        y, tall = top + lanes.index(c.placement) * _LANE + 16, _LANE - 22
        idle = tall * min(1.0, c.idle / c.seconds if c.seconds else 0.0)
        yield _rectangle(x, y, width, tall - idle, colour_of(c.kind), _told(c))
        if idle:
            yield _rectangle(x, y + tall - idle, width, idle, _IDLE, _told(c))


def _row(bar: _Bar, top: float, longest: float, whole: float) -> list[str]:
    wide = bar.seconds / longest * _ROOM
    idle = wide * min(1.0, bar.idle)
    figures = _figures(bar.seconds, whole)
    about = ": ".join(filter(None, [bar.name, bar.about]))
    tip = f"{about}; {figures}, {100 * bar.idle:.0f} % of the workers' time idle"
    found = [
        _text(0, top + 14, _fitting(bar.name)),
        _rectangle(_NAMES, top + 2, wide - idle, _ROW - 4, colour_of(bar.kind), tip),
        _text(_NAMES + wide + 6, top + 14, figures),
    ]
    if idle:
        found.append(_rectangle(_NAMES + wide - idle, top + 2, idle, _ROW - 4, _IDLE, tip))
    return found


def _figures(seconds: float, whole: float) -> str:
    return f"{seconds * 1e6:.0f} us, {100 * seconds / whole:.1f} %"


def _by_node(profile: Profile) -> Iterator[_Bar]:
    commands: dict[str, list[NodeTime]] = {}
    for c in profile.commands:
        commands.setdefault(c.node, []).append(c)
    for node, found in commands.items():
        kernels = ", ".join(dict.fromkeys(c.what for c in found))
        yield _Bar(node, kernels, sum(c.seconds for c in found), _idle(found), found[0].kind)


def _idle(commands: list[NodeTime] | tuple[NodeTime, ...]) -> float:
    """Return the share of the time of *commands* that a worker had nothing to do in, on average."""
    seconds = sum(c.seconds for c in commands)
    return sum(c.idle for c in commands) / seconds if seconds else 0.0


def _placements(profile: Profile) -> list[str]:
    return list(dict.fromkeys(c.placement for c in profile.commands))


def _commands(count: int) -> str:
    return f"{count} commands" if count > 1 else "1 command"


def _told(c: NodeTime) -> str:
    return f"{c.node}: {c.what}, {c.seconds * 1e6:.1f} us, idle {c.idle * 1e6:.1f} us a worker"


def _fitting(name: str) -> str:
    """Return *name*, without the beginning of its scopes where it is too long."""
    most = int(_NAMES / _LETTER)
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _text(x: float, y: float, text: str, size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'


def _rectangle(x: float, y: float, width: float, height: float, fill: str, tip: str) -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect {place} fill="{fill}">' + (f"<title>{escape(tip)}</title>" if tip else "") + "</rect>"
