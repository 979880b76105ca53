"""Ticket sizes and time estimates of tile implementations, by the device's cost model."""

from __future__ import annotations

from typing import Any

from clgraph.core.frozen import frozen
from clgraph.selector.query import DeviceInfo, Query


def worker_flops(device: DeviceInfo) -> float:
    """Return what one worker computes a second on a core of its own."""
    return device.costs.worker_flops


def operand_loads(device: DeviceInfo) -> bool:
    """Return whether products of vectors of 512 bits take no longer where each loads an operand."""
    return device.simd >= 16 and "operand_loads" in device.features


def ticket_seconds(work: float, device: DeviceInfo) -> float:
    """Return how long a ticket of a step should take whose *work* takes one worker that many seconds."""
    costs = device.costs
    return min(max(work / (device.workers * costs.tickets), costs.ticket_low), costs.ticket_high)


@frozen
class TicketRanges:
    """Pieces cut into *count* runs of *each* (the last may be shorter)."""

    count: int
    each: int


def split(count: int, piece_seconds: float, seconds: float, workers: int) -> TicketRanges:
    """Cut *count* equal pieces into runs of about *seconds*; few runs are made a multiple of the workers."""
    parts = max(1, min(count, round(count * piece_seconds / max(seconds, 1e-12))))
    if workers < parts < 5 * workers or (count >= workers and parts < workers):
        parts = min(count, -(-parts // workers) * workers)
    each = max(1, -(-count // parts))
    return TicketRanges(-(-count // each), each)


def runs(count: int, piece_seconds: float, device: DeviceInfo) -> TicketRanges:
    """Cut the *count* equal pieces that a step is into runs, tickets of a length that suits the whole step."""
    return split(count, piece_seconds, ticket_seconds(piece_seconds * count, device), device.workers)


PART_PIXELS = 64
"""Fewest pixels that a worker has of a map for itself: of smaller maps, whose weights outweigh their pixels, workers
share the channels. Measured on two cores, 1x1 convolutions in parts of 98 pixels take 0.88 of the time of parts of the
channels, in parts of 24 pixels 1.1."""


def map_parts(pixels: int, chunks: int, batch: int, device: DeviceInfo) -> TicketRanges:
    """Cut the chunks of a map into parts, one a worker where the map is worth sharing and images are not shared."""
    parts = min(device.workers, pixels // PART_PIXELS, chunks)
    each = -(-chunks // parts) if parts > 1 and batch % device.workers else chunks
    return TicketRanges(-(-chunks // each), each)


def row_strips(
    rows: int, width: int, row_seconds: float, planes: int, seconds: float, device: DeviceInfo
) -> TicketRanges:
    """Cut the rows of each of *planes* planes into strips of about *seconds*, tickets going strip by strip.

    Where a map is worth sharing there is a strip for each worker: then each computes the same part in every step, and
    finds in its own cache what it wrote in the step before. Cores that share no cache wait for each other otherwise.
    """
    found = split(rows, row_seconds, seconds, 1)
    worth = rows * row_seconds * planes >= device.workers * device.costs.ticket_low
    shared = worth and rows >= 2 * device.workers and rows * width >= device.workers * PART_PIXELS
    each = -(-rows // device.workers) if shared else rows
    return found if found.each <= each else TicketRanges(-(-rows // each), each)


OWN_CACHE = 1 << 20
"""Bytes that a core's own cache keeps while a step goes over them again and again."""


def is_far(q: Query[Any]) -> bool:
    """Whether a step finds what it reads and writes beside weights beyond a core's own cache, where all of it lies."""
    beside = [q.inputs[slot] for slot in q.post_slots] if q.fused else []
    return sum([layout.nbytes for layout in (q.inputs[0], *beside, *q.outputs)]) > OWN_CACHE


def again_seconds(device: DeviceInfo, nbytes: float, times: float) -> float:
    """Return what workers wait for *nbytes* that they read *times* in all: for what a core does not keep of them."""
    beyond, costs = max(0.0, nbytes - OWN_CACHE), device.costs
    rate = costs.shared_bytes_per_second or costs.cache_bytes_per_second
    return beyond * times * device.crowding / (rate * device.workers)


def waited_seconds(seconds: float, waited: float) -> float:
    """Return the time of a step of so many *seconds* beside what its workers have *waited* for weights by then.

    A core reads on while it computes, but only as far as its window of instructions reaches: half of the shorter part
    is added to the longer. 3x3 weights of 512 channels, 9.4 MB, take 365 us to read and 130 us to multiply by 4 pixels:
    480 us together (Emerald Rapids).
    """
    return max(seconds, waited) + min(seconds, waited) / 2


def step_seconds(device: DeviceInfo, work: float, moved: float, tickets: int, weights: float = 0.0) -> float:
    """Estimate one tile step: its begin, then the work spread over the workers or the traffic, whichever is longer.

    Args:
        work: Seconds that one worker alone would need.
        moved: Bytes that are read and written; what fits the shared cache is there, from the step before.
        weights: Bytes that come from memory.
    """
    spread = spread_seconds(work, tickets, device.workers, device.crowding)
    return device.costs.step_seconds + max(spread, traffic_seconds(device, moved, weights))


def stream_seconds(device: DeviceInfo, work: float, moved: float, tickets: int, weights: float) -> float:
    """Estimate one tile step that reads each of its *weights* once; arguments are those of :func:`step_seconds`.

    For a row and 2048 weights of 4 bits, 1280 bytes that take 87 ns to read: 94 ns of work in float became 142 ns,
    34 ns in three digits 104 (Sapphire Rapids).
    """
    spread = spread_seconds(work, tickets, device.workers, device.crowding)
    return device.costs.step_seconds + waited_seconds(spread, traffic_seconds(device, moved, weights))


def spread_seconds(work: float, tickets: int, workers: int, crowding: float) -> float:
    """Return how long *workers* take, of whom *crowding* share a core, for seconds of *work* in so many tickets."""
    return work * crowding * -(-tickets // workers) / max(1, tickets)


def traffic_seconds(device: DeviceInfo, moved: float, weights: float = 0.0) -> float:
    """Return what a tile step waits for memory; arguments are those of :func:`step_seconds`."""
    costs = device.costs
    near = min(moved, costs.cache_bytes)
    fetched = (moved - near + weights) / costs.bytes_per_second
    reach = costs.cache_bytes_per_second * device.workers / device.crowding
    return near / reach + fetched
