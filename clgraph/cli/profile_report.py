"""The printed report of ``clgraph profile``."""

from __future__ import annotations

from typing import Any

from clgraph.cli.output import nbytes, say, table
from clgraph.network.profile import FAR_OFF, Profile
from clgraph.selector.query import DeviceInfo


def show(profile: Profile, device: DeviceInfo, top: int | None) -> None:
    """Print the *top* slowest commands, or all, and their sums by kind, subgraph and transfer."""
    _commands(profile, device, top)
    _kinds(profile, device)
    _transfers(profile)
    if profile.copies:
        table(("input or output", "copies"), list(profile.copies.items()))
        say()
    _subgraphs(profile)
    say(
        f"{profile.seconds * 1e3:.3f} ms in {len(profile.commands)} commands on {device.name}; "
        f"the whole run took {profile.total * 1e3:.3f} ms, waiting for each launch"
    )


def _commands(profile: Profile, device: DeviceInfo, top: int | None) -> None:
    far_off = profile.far_off()
    several = len(profile.subgraphs) > 1
    subgraph = ("subgraph",) if several else ()
    measured = ("us", "estimate", "%", "tickets", "idle us", "GFLOP/s", "GB/s", "% of roofline")
    rows: list[tuple[Any, ...]] = [
        (
            c.node,
            c.what,
            " to ".join(c.route or (c.placement,)),
            *((c.subgraph,) if several else ()),
            _micro(c.seconds),
            "" if c.estimate is None else f"{'! ' * (c.node in far_off)}{_micro(c.estimate)}",
            _percent(c.seconds, profile),
            c.tickets or "",
            _micro(c.idle) if c.idle else "",
            _rate(c.flops, c.seconds),
            _rate(c.nbytes, c.seconds),
            _share(c.roofline(device), c.seconds) if c.placement == device.name else "",
        )
        for c in sorted(profile.commands, key=lambda c: -c.seconds)[:top]
    ]
    spare = ("subgraph", "GFLOP/s", "GB/s", "placement", "idle us", "tickets")
    table(("node", "kernel", "placement", *subgraph, *measured), rows, spare=spare)
    if far_off:
        listed = ", ".join(f"{node} ({ratio:.2g} times)" for node, ratio in far_off.items())
        say(f"! the estimate is {FAR_OFF:.0f} or more times off, and with it perhaps the choice: {listed}")
    say()


def _kinds(profile: Profile, device: DeviceInfo) -> None:
    rows = [
        (
            t.kind,
            t.count,
            _micro(t.seconds),
            _percent(t.seconds, profile),
            _rate(t.flops, t.seconds),
            _rate(t.nbytes, t.seconds),
            _share(t.roofline(device), t.seconds),
        )
        for t in profile.by_kind()
    ]
    table(("kind", "commands", "us", "%", "GFLOP/s", "GB/s", "% of roofline"), rows)
    say()


def _transfers(profile: Profile) -> None:
    carried = [c for c in sorted(profile.commands, key=lambda c: -c.seconds) if c.route is not None]
    if carried:
        rows = [(c.node, " to ".join(c.route or ()), nbytes(c.nbytes / 2), _micro(c.seconds)) for c in carried]
        table(("transfer", "way", "size", "us"), rows)
        say()


def _subgraphs(profile: Profile) -> None:
    if profile.subgraphs:
        seconds = profile.by_subgraph()
        rows = [
            (s.id, s.nodes, _micro(seconds[s.id]), _percent(seconds[s.id], profile), s.created, s.runs)
            for s in profile.subgraphs
        ]
        table(("subgraph", "nodes", "us", "%", "created", "runs"), rows)
        say()


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _percent(seconds: float, profile: Profile) -> str:
    return f"{100 * seconds / profile.seconds:.1f}"


def _share(roofline: float, seconds: float) -> str:
    return f"{100 * roofline / seconds:.0f}" if seconds else ""


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds / 1e9:.1f}" if count and seconds else ""
