"""Statistics of streams: requests, batches, times; for reports and servers."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence

import numpy as np

from clgraph.core.frozen import frozen

KEPT = 4096
"""Requests whose times are kept: those served last."""


@frozen
class ThroughputReport:
    """Statistics of a model in streams since it was compiled; printing it gives a few lines.

    Attributes:
        streams: Device and threads of each stream.
        chosen: Why so many.
        batching: How requests are joined, or why they are not.
        requests: How many were served, *failed* those of them that raised.
        batches: How many runs had so many entries.
        waiting: Requests that wait now, at most *queue_size*.
        seconds: From the first request to the last result.
        p50, p99: Seconds from a request to its result, of those served last; *waited_p50* of that in the queue.
        broken: Streams that were given up, with the reason.
    """

    streams: tuple[str, ...]
    chosen: str
    batching: str
    requests: int
    failed: int
    batches: Mapping[int, int]
    waiting: int
    queue_size: int
    seconds: float
    p50: float
    p99: float
    waited_p50: float
    broken: tuple[str, ...]

    @property
    def requests_per_second(self) -> float:
        """Requests served a second."""
        return self.requests / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        sizes = ", ".join(f"{count} of {size}" for size, count in sorted(self.batches.items())) or "none"
        lines = [
            f"streams    {len(self.streams)}: {', '.join(self.streams)}; {self.chosen}",
            f"batching   {self.batching}",
            f"requests   {self.requests} ({self.failed} failed), {self.requests_per_second:.1f} a second",
            f"batches    {sizes}",
            f"latency    p50 {self.p50 * 1e3:.2f} ms, p99 {self.p99 * 1e3:.2f} ms, in the queue "
            f"{self.waited_p50 * 1e3:.2f} ms",
            f"queue      {self.waiting} of {self.queue_size}",
            *(f"broken     {line}" for line in self.broken),
        ]
        return "\n".join(lines)


class Figures:
    """Collects the statistics of streams; each stream reports its batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Reset all counters."""
        with self._lock:
            self.requests = self.failed = 0
            self.batches: Counter[int] = Counter()
            self._times: deque[tuple[float, float]] = deque(maxlen=KEPT)
            self._first = self._last = 0.0
            self.broken: tuple[str, ...] = ()

    def served(self, sent: Sequence[float], begun: float, entries: int, failed: int) -> None:
        """Count a batch of *entries*, whose requests were *sent* at these times, in seconds."""
        now = time.monotonic()
        with self._lock:
            self._first = self._first or min(sent)
            self._last = now
            self.requests += len(sent)
            self.failed += failed
            self.batches[entries] += 1
            self._times.extend((begun - s, now - s) for s in sent)

    def gave_up(self, what: str) -> None:
        """Record a stream that has stopped taking requests, with the reason."""
        with self._lock:
            self.broken += (what,)

    def report(
        self, streams: Sequence[str], chosen: str, batching: str, waiting: int, queue_size: int
    ) -> ThroughputReport:
        """Return the report of everything counted, with the description of the model."""
        with self._lock:
            times = np.array(self._times or [(0.0, 0.0)])
            p50, p99 = np.percentile(times[:, 1], (50, 99))
            return ThroughputReport(
                tuple(streams),
                chosen,
                batching,
                self.requests,
                self.failed,
                dict(self.batches),
                waiting,
                queue_size,
                self._last - self._first,
                float(p50),
                float(p99),
                float(np.percentile(times[:, 0], 50)),
                self.broken,
            )
