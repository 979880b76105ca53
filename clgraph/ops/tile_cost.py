"""What tile implementations share in choosing ticket sizes and estimating time."""

from __future__ import annotations

from dataclasses import dataclass

from clgraph.selector.query import DeviceInfo

TICKET_SECONDS = (2.0e-6, 10.0e-6)
"""Shortest and longest ticket wanted: shorter ones cost more to draw than they even out."""

TICKETS_A_WORKER = 8


def worker_flops(device: DeviceInfo) -> float:
    """Return what one worker computes a second."""
    return device.flops / max(1, device.workers)


def ticket_seconds(work: float, device: DeviceInfo) -> float:
    """Return how long a ticket of a step should take whose *work* takes one worker that many seconds."""
    low, high = TICKET_SECONDS
    return min(max(work / (device.workers * TICKETS_A_WORKER), low), high)


@dataclass(frozen=True, slots=True)
class Split:
    """*count* pieces cut into *parts* runs of *each* (the last may be shorter)."""

    parts: int
    each: int


def split(count: int, piece_seconds: float, seconds: float, workers: int) -> Split:
    """Cut *count* equal pieces into runs of about *seconds*; few runs are made a multiple of the workers."""
    parts = max(1, min(count, round(count * piece_seconds / max(seconds, 1e-12))))
    if workers < parts < 5 * workers or (count >= workers and parts < workers):
        parts = min(count, -(-parts // workers) * workers)
    each = max(1, -(-count // parts))
    return Split(-(-count // each), each)


def step_seconds(device: DeviceInfo, work: float, traffic: float, tickets: int) -> float:
    """Estimate one tile step: a launch, then the work spread over the workers or the traffic, whichever is longer.

    Args:
        work: Seconds that one worker alone would need.
        traffic: Bytes that come from or go to memory.
    """
    rounds = -(-tickets // device.workers)
    spread = work * rounds / max(1, tickets)
    return device.launch_seconds / 4 + max(spread, traffic / device.bytes_per_second)
