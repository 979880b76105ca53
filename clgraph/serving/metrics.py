"""What is counted and measured, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from clgraph.graph.primitive import Array
from clgraph.serving.repository import Repository

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = tuple(float(1 << i) for i in range(11))


class Metrics:
    """Counters, histograms and gauges, in a registry of their own. Only names of models that there are become labels.

    Attributes:
        content_type: Of :meth:`text`.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, repository: Repository) -> None:
        """Take what gauges are read off."""
        self._registry, self._repository = CollectorRegistry(), repository
        model = ("model", "version")
        into = {"registry": self._registry}
        self._calls = Counter(
            "clgraph_requests", "Calls that were answered, by status.", (*model, "protocol", "status"), **into
        )
        self._failures = Counter("clgraph_failures", "Calls whose status is not 200.", model, **into)
        self._seconds = Histogram(
            "clgraph_request_seconds", "Time of a call that was run.", model, buckets=_SECONDS, **into
        )
        self._sizes = Histogram("clgraph_call_size", "First size of a call's inputs.", model, buckets=_SIZES, **into)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        found: bytes = generate_latest(self._registry)
        return found

    def answered(self, model: str, version: str, protocol: str, status: int) -> None:
        """Count a call; those of no model that there is are given empty names."""
        self._calls.labels(model, version, protocol, str(status)).inc()
        if status != 200:
            self._failures.labels(model, version).inc()

    def ran(self, model: str, version: str, seconds: float, feeds: Mapping[str, Array]) -> None:
        """Take down how long a call took, waiting included, and how large it was."""
        self._seconds.labels(model, version).observe(seconds)
        first = next(iter(feeds.values()), None)
        if first is not None and first.ndim:
            self._sizes.labels(model, version).observe(first.shape[0])

    def collect(self) -> Iterator[Metric]:
        """Return what models know of themselves: as Prometheus' registry asks collectors for it."""
        of = ("model", "version")
        waiting = GaugeMetricFamily("clgraph_queue_length", "Calls that wait.", labels=of)
        waited = GaugeMetricFamily("clgraph_queue_seconds", "Median time in the queue of late calls.", labels=of)
        memory = GaugeMetricFamily("clgraph_model_bytes", "Memory of devices that it takes.", labels=of)
        batches = CounterMetricFamily("clgraph_batches", "Runs, by calls' entries joined.", labels=(*of, "entries"))
        loads = CounterMetricFamily("clgraph_loads", "Times that it was loaded.", labels=of)
        evictions = CounterMetricFamily("clgraph_evictions", "Times that it was unloaded for others.", labels=of)
        for served in self._repository:
            labels, report, pooled = (served.name, str(served.version)), served.throughput, served.pooled
            memory.add_metric(labels, sum(pooled.nbytes.values()))
            loads.add_metric(labels, pooled.loads)
            evictions.add_metric(labels, pooled.evictions)
            if report is None:
                continue
            waiting.add_metric(labels, report.waiting)
            waited.add_metric(labels, report.waited_p50)
            for entries, count in sorted(report.batches.items()):
                batches.add_metric((*labels, str(entries)), count)
        yield from (waiting, waited, memory, batches, loads, evictions)
