"""The executor kernel of a library: its arguments, and the test that a device runs ranges of steps as it should."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clgraph.errors import DeviceError
from clgraph.selector.executor_kernel import BANKS, ENTRY

if TYPE_CHECKING:
    from clgraph.runtime.engine import Engine, KernelArgument
    from clgraph.runtime.memory import Memory
    from clgraph.selector.library import Library

RECORD = "<qqiiii"
"""A step: descriptor and post-operations (byte offsets in the table), function, tickets, post-operations, reserved."""
FIRST_BANK = 11
"""Number of the kernel's argument that is bank 0."""
COUNTER_INTS = 16
"""Counters stand 64 bytes apart, so that no two share a cache line."""
TIMES = 4
"""Times of a step and worker: came, found no more tickets, all were done (cycles), tickets run."""
SPINS = 1 << 32
"""Polls of a wait between steps: seconds, where a ticket takes microseconds."""

_PROBE_STEPS, _PROBE_ROUNDS, _PROBE_SPINS = 48, 12, 1 << 27


def counter_count(steps: int, workers: int) -> int:
    """Return how many ints of counters *steps* steps need."""
    return COUNTER_INTS * (1 + steps * (1 + workers))


def arguments(
    table: Memory,
    steps: tuple[int, int],
    counters: Memory,
    scratch: Memory,
    scratch_bytes: int,
    workers: int,
    error: Memory,
    banks: Sequence[Memory],
    *,
    spins: int = SPINS,
    times: Memory | None = None,
) -> list[KernelArgument]:
    """Return the arguments that run *steps* (first, one past the last), and write *times* where given."""
    return [
        table,
        np.int32(steps[0]),
        np.int32(steps[1]),
        counters,
        scratch,
        np.int64(scratch_bytes),
        np.int32(workers),
        np.int64(spins),
        error,
        np.int32(times is not None),
        counters if times is None else times,
        *banks,
        *[banks[0]] * (BANKS - len(banks)),
    ]


def refusal(engine: Engine, library: Library) -> str | None:
    """Say why *library* must not run several steps in one launch on the device of *engine*, or return ``None``.

    At the first use on a device, a chain of probe steps is run, in which every ticket reads what all tickets of the
    step before have written. That it went well is kept in the cache folder, by device, driver, library and workers.

    Raises:
        DeviceError: The driver refuses a command of the test.
    """
    if engine.info.kind != "cpu":
        return "the work-groups of a GPU may run one after another"
    if "acq_rel" not in engine.info.features:
        return "the device has no acquire/release atomics"
    name = f"persistent executor of {library.name} with {engine.info.workers} workers"
    if engine.programs.remembers(library.text, name):
        return None
    if (why := run_probe(engine, library)) is None:
        engine.programs.remember(library.text, name)
    return why


def run_probe(
    engine: Engine, library: Library, spins: int = _PROBE_SPINS, *, rounds: int = _PROBE_ROUNDS, joined: bool = True
) -> str | None:
    """Run the chain of probe steps some times with other numbers; say what was wrong, ``None`` when all was right.

    Args:
        joined: All steps in one launch, as the persistent executor does; else a launch each.

    Raises:
        DeviceError: The driver refuses a command, which says nothing of other runs.
    """
    workers = engine.info.workers
    tickets = 3 * workers + 1
    row = 4 * tickets
    records = (struct.pack(RECORD, row * (1 + i), 0, -1, tickets, 0, 0) for i in range(_PROBE_STEPS))
    table = engine.upload(np.frombuffer(b"".join(records), np.uint8), "the table of the executor's test")
    counters = engine.upload(np.zeros(counter_count(_PROBE_STEPS, workers), np.int32), "the test's counters")
    error = engine.upload(np.zeros(1, np.int32), "the test's error word")
    values = engine.allocate(row * (1 + _PROBE_STEPS), "the executor's test")
    scratch = engine.allocate(64, "the test's scratch")
    ranges = [(0, _PROBE_STEPS)] if joined else [(i, i + 1) for i in range(_PROBE_STEPS)]
    launches = []
    for steps in ranges:
        bound = arguments(table, steps, counters, scratch, 0, workers, error, [values], spins=spins)
        kernel = engine.kernel(library.text, ENTRY, bound, library=True, what=f"library {library.name}")
        launches.append(kernel.on(engine.stream, (workers,), (1,)))
    found, word = np.empty((1 + _PROBE_STEPS, tickets), np.uint32), np.zeros(1, np.int32)
    for seed in range(rounds):
        found[...] = 0
        found[0] = np.arange(tickets, dtype=np.uint32) * (seed + 1)
        want = _expected(found[0])
        engine.stream.write(values, 0, found)
        try:
            for launch in launches:
                launch()
        except engine.failures as failure:
            raise DeviceError(f"{engine.info.name} failed in the executor's test: {failure}") from failure
        engine.stream.read(error, 0, word)
        engine.stream.read(values, 0, found)
        if word[0]:
            return f"its test waited in vain at step {word[0] - 1}"
        if not np.array_equal(found, want):
            wrong = int(np.flatnonzero((found != want).any(axis=1))[0])
            return f"its test went wrong at step {wrong - 1}"
    return None


def _expected(
    seeds: np.ndarray[tuple[int, ...], np.dtype[np.uint32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    rows = [seeds.astype(np.uint64)]
    tickets = np.arange(len(seeds), dtype=np.uint64)
    for _ in range(_PROBE_STEPS):
        rows.append((np.uint64(3) * rows[-1].sum() + tickets) & np.uint64(0xFFFFFFFF))
    return np.array(rows).astype(np.uint32)
