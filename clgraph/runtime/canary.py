"""The canary: a few small kernels, run in a process of their own before a device is used for the first time.

They decide whether a driver computes rightly for an instruction set, and measure what the device does a second. The
verdict is kept in the cache folder under everything it depends on: driver, instruction set, CPU and workers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.frozen import frozen
from clgraph.core.log import Log
from clgraph.core.warn import warn
from clgraph.handlers import pass_on, suppressed
from clgraph.runtime.instruction_sets import InstructionSet, cpu_identity
from clgraph.selector.costs import Rates
from clgraph.selector.sources import kernel_text

_log = Log(__name__)

FORMAT = 1
"""Of the verdicts, and of everything that is compiled: a higher number makes all that was kept before unknown."""
_MODULE = "clgraph.runtime.canary_child"
_CPU_SECONDS = 240
"""Emulators of whole CPUs take half of it, a driver 2 s."""
_TURN_SECONDS = 300
"""How long a process waits for the trial of another one before it makes its own: 3 s of CPU time on a busy machine."""
_MOST_FLOPS_A_LANE, _THIN_LANES = 4e10, 1024
"""More than a lane of a vector adds and multiplies a second (two multiply-adds a cycle at 6 GHz are 2.4e10), and lanes
of a GPU's compute unit. Rusticl on llvmpipe ends its wait before the work, and would have 5.5e12 a core."""
_FILES = (
    "canary/canary_values.cl",
    "canary/canary_products.cl",
    "canary/canary_loaded_products.cl",
    "canary/canary_read.cl",
    "canary/canary_stream.cl",
    "canary/canary_vnni.cl",
    "canary/canary_byte_pairs.cl",
    "canary/canary_bf16.cl",
    "canary/canary_bf16_products.cl",
    "canary/canary_vbmi.cl",
    "canary/canary_amx_bf16.cl",
    "canary/canary_amx_bf16_products.cl",
    "canary/canary_byte_products.cl",
)


@frozen
class Verdict:
    """What the canary found: why the device must not be used (empty where it computes rightly), and its rates."""

    why: str
    rates: Rates | None = None


@frozen
class Decision:
    """What a device is used with: the instruction set, and why others were passed over.

    Attributes:
        record: The instruction set whose kernels it runs.
        refusal: Why it runs none; empty where it does.
        rates: What was measured; ``None`` where nothing was.
        notes: The wider instruction sets that were not taken, and why.
    """

    record: InstructionSet
    refusal: str = ""
    rates: Rates | None = None
    notes: tuple[str, ...] = ()


@frozen
class Subject:
    """A device to test.

    Attributes:
        device: Its name, as :func:`clgraph.runtime.handles.named_handles` gives it.
        driver: What tells the driver from others: the SHA-256 of its library, its version, the device's label.
    """

    device: str
    driver: str
    workers: int


def decide(subject: Subject, records: Sequence[InstructionSet], folder: Path) -> Decision:
    """Return the first of *records* for which the device computes rightly; warns of each that it passes over.

    A record with optional features is tried without each of them before the next one is.

    Args:
        folder: Of the verdicts; one that cannot be written costs a trial in every process.
    """
    refused: dict[str, str] = {}
    for record in chain.from_iterable(record.attempts for record in records):
        found = verdict(subject, record, folder)
        if not found.why:
            notes = _notes(refused)
            for note in notes:
                warn(f"{subject.device}: {note}; {record.label} is used")
            return Decision(record, rates=found.rates, notes=notes)
        refused[record.label] = found.why
    notes = _notes(refused)
    return Decision(records[-1], refusal="; ".join(notes), notes=notes)


def _notes(refused: dict[str, str]) -> tuple[str, ...]:
    """Return a line for each reason in *refused*, by instruction set: most have the same."""
    labels: dict[str, list[str]] = {}
    for label, why in refused.items():
        labels.setdefault(why, []).append(label)
    return tuple(
        f"instruction set {label[0]} is not used: {why}"
        if len(label) == 1
        else f"instruction sets {', '.join(label)} are not used: {why}"
        for why, label in labels.items()
    )


def verdict(subject: Subject, record: InstructionSet, folder: Path) -> Verdict:
    """Return what the canary says of a device and *record*: remembered in *folder*, else found out now.

    Of several processes one finds it out, and the others wait: rates that are measured side by side are too low.
    """
    key = _key(subject, record)
    path = folder / f"{key}.json"
    known = _read(path, key)
    if known is None:
        from clgraph.core.progress import lasting
        from clgraph.core.turns import in_turn

        with suppressed(OSError):  # without a folder there are no turns
            cache_folder.make_folder(folder)
        tried = lasting(_log, "%s is being tried with %s, once on this machine", subject.device, record.name)
        with tried, in_turn(folder / f"{key}.turn", _TURN_SECONDS):
            known = _read(path, key)
            if known is None:
                known, lasts = _try(subject, record)
                if lasts:
                    _write(path, {"key": key, **known})
    if known["why"] or known["worker_flops"] > _MOST_FLOPS_A_LANE * (record.simd if record.simd > 1 else _THIN_LANES):
        return Verdict(known["why"])
    return Verdict("", Rates.from_data(known))


def _key(subject: Subject, record: InstructionSet) -> str:
    texts = [kernel_text(file) for file in _FILES]
    told = [str(FORMAT), subject.driver, str(subject.workers), record.identity, cpu_identity(), *texts]
    return blake2("\0".join(told).encode()).hexdigest()


def _try(subject: Subject, record: InstructionSet) -> tuple[dict[str, Any], bool]:
    """Return what the canary says, and whether it would say so again."""
    _log.info("trying whether %s computes rightly with %s, once on this machine", subject.device, record.name)
    # Imported where they are needed: few starts compile or try anything.
    from clgraph.runtime import child
    from clgraph.runtime.scratch import scratch_folder, shortage

    try:
        with scratch_folder("clgraph-canary-") as folder:
            work = {"device": subject.device, "record": record.to_data(), "workers": subject.workers, "folder": folder}
            ended = child.run(_MODULE, work, _CPU_SECONDS, folder)
            short = shortage(Path(folder).parent)
    except OSError as error:
        pass_on(error)
        return {"why": f"it cannot be tried: there is no folder to do so in ({error})"}, False
    if ended.result is None:
        said = next((line.strip() for line in reversed(ended.log.splitlines()) if line.strip()), "")
        _log.info("the canary on %s with %s: %s\n%s", subject.device, record.name, ended.why, ended.log)
        why = f"a trial of it failed: {ended.why}{f', saying {said[:200]!r}' if said else ''}"
        return {"why": f"{why}; {short}" if short else why}, ended.died and not ended.hung and not short
    found = {name: value for name, value in ended.result.items() if name != "lasts"}
    if found["why"] and short:
        return {"why": f"{found['why']}; {short}"}, False
    return found, ended.result.get("lasts", True)


def _read(path: Path, key: str) -> dict[str, Any] | None:
    """Return a verdict that was kept; ``None`` where there is none, or what is there is no verdict of that key."""
    try:
        found: dict[str, Any] = json.loads(cache_folder.read(path).decode("utf-8"))
        if found["key"] != key or not isinstance(found["why"], str):
            return None
        if not found["why"]:
            rates = Rates.from_data(found)
            numbers = (rates.worker_flops, rates.bf16_products, rates.fetching, *chain(*rates.bandwidths))
            further = (rates.cached, rates.amx_products, rates.byte_products, rates.loaded_products)
            numbers += tuple(rate for rate in further if rate is not None)
            return found if min(numbers) > 0 else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        pass_on(error)
        return None
    return found


def _write(path: Path, content: dict[str, Any]) -> None:
    try:
        cache_folder.write(path, json.dumps(content).encode("utf-8"))
    except OSError as error:
        pass_on(error)
        _log.info("the verdict on the device is not kept: %s", error)
