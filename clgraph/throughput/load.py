"""Clients of a model in streams, to measure it by: as many as wait for each other's results, or as come by chance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen

Run = Callable[[Mapping[str, Any]], object]
"""Runs a model on feeds; called from several threads at once."""


@frozen
class Load:
    """The measurements of a load test.

    Attributes:
        requests_per_second: Served, of all clients.
        p50, p99: Seconds from when a request was sent, or was to be sent, to its results.
        cpu_seconds: Of the process, a request.
    """

    requests_per_second: float
    p50: float
    p99: float
    cpu_seconds: float


def closed_loop(run: Run, feeds: Sequence[Mapping[str, Any]], clients: int, seconds: float) -> Load:
    """Return what *clients* measure that each send a request when they have the results of the one before.

    Raises what *run* raises.
    """
    end = time.monotonic() + seconds

    def client(number: int, found: list[float]) -> None:
        random = Random(number)
        while (sent := time.monotonic()) < end or not found:
            run(feeds[random.randrange(len(feeds))])
            found.append(time.monotonic() - sent)

    return _measured(client, clients)


def open_loop(run: Run, feeds: Sequence[Mapping[str, Any]], rate: float, seconds: float, most: int = 64) -> Load:
    """Return what is measured when *rate* requests a second come by chance (Poisson), however long others take.

    The time of a request counts from when it was to be sent, so that those which wait for a free client are not left
    out.

    Args:
        most: Clients: requests on their way at once.
    """
    random, begin = Random(0), time.monotonic()
    times = []
    at = 0.0
    while at < seconds:
        times.append((begin + at, random.randrange(len(feeds))))
        at += random.expovariate(rate)
    coming, lock = iter(times), threading.Lock()

    def client(_: int, found: list[float]) -> None:
        while True:
            with lock:
                due, which = next(coming, (None, 0))
            if due is None:
                return
            time.sleep(max(due - time.monotonic(), 0))
            run(feeds[which])
            found.append(time.monotonic() - due)

    return _measured(client, most)


def _measured(client: Callable[[int, list[float]], None], clients: int) -> Load:
    """Let *clients* run at once; raises what the first that fails raises."""
    found: list[list[float]] = [[] for _ in range(clients)]
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            client(number, found[number])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), name=f"clgraph-client-{n}") for n in range(clients)]
    began, cpu = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    seconds = [s for each in found for s in each]
    p50, p99 = np.percentile(seconds, (50, 99))
    count = len(seconds)
    return Load(count / (time.monotonic() - began), float(p50), float(p99), (time.process_time() - cpu) / count)
