"""Every OpenCL device there is, and the host: their profiles, and finding one by name."""

from __future__ import annotations

import functools
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any

from clgraph.core.frozen import changed, frozen
from clgraph.core.warn import warn
from clgraph.errors import DeviceError
from clgraph.runtime import handles
from clgraph.runtime.device_profile import profile_of
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.selector.query import VIRTUAL_DEVICES, DeviceInfo

if TYPE_CHECKING:
    from clgraph.runtime.callers_queue import CallersQueue


@frozen
class Device:
    """One device that nodes can be placed on.

    Attributes:
        label: What the driver calls it.
        notes: What a user should know: work-arounds applied, why something does not work.
        handle: The ``pyopencl.Device``; ``None`` for the host.
        refusal: Why nothing runs on it; empty where it computes rightly.
        record: The instruction set of its kernels.
        callers: The caller's context and queue that it is used by, where they are not clgraph's own.
    """

    info: DeviceInfo
    label: str
    notes: tuple[str, ...] = ()
    handle: Any = field(default=None, repr=False)
    refusal: str = ""
    record: InstructionSet = handles.GPU
    callers: CallersQueue | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.info.name} ({self.label})"


HOST = Device(
    DeviceInfo(name="host", kind="host", compute_units=1, workers=1, flops=2e9, bytes_per_second=1e10, simd=1),
    "NumPy references",
)


class Devices(list[Device]):
    """Devices as a list; it prints as a line a device, and notebooks show a table."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        from clgraph.core.notebook import html_table

        notes = ["; ".join(filter(None, [*d.notes, d.refusal])) for d in self]
        rows = [
            (d.info.name, d.info.kind, d.label, d.record.name, d.info.workers, note)
            for d, note in zip(self, notes, strict=True)
        ]
        return html_table("Devices", ("name", "class", "label", "instruction set", "workers", "notes"), rows)


def devices() -> Devices:
    """Return every OpenCL device in the order of the platforms, then those of targets, then the host."""
    return Devices([*_opencl_devices(), *map(_virtual, VIRTUAL_DEVICES.values()), HOST])


@functools.cache
def _virtual(info: DeviceInfo) -> Device:
    return Device(info, "a target's device", ("runs nodes by their references",))


@functools.cache
def _opencl_devices() -> list[Device]:
    return [_describe(handle, name) for name, handle in handles.named_handles().items()]


def find_device(text: str = "auto") -> Device:
    """Return the device that *text* selects.

    Args:
        text: ``auto`` (a GPU whose driver can make a context, else the CPU device), ``cpu`` (PoCL before others),
            ``gpu``, ``host``, a name (``pocl:0``) or its first part, an index into :func:`devices`, or a part of what
            the driver calls the device. With ``/2of3`` behind it, the second of three equal parts of that; with ``@1``
            the first context or queue of a caller there. Of several, the first that computes rightly; warns of those
            before it.

    Raises:
        DeviceError: Nothing fits, and the message lists what there is; the device computes wrongly; or it cannot be
            divided so.
    """
    if text.strip().lower() == HOST.info.name:
        return HOST  # no driver is asked, which takes seconds the first time on a machine
    there = devices()
    whole, slash, part = text.strip().lower().partition("/")
    if slash:
        return part_of(find_device(whole), part)
    if "@" in whole:
        from clgraph.runtime.callers_queue import adopted

        return _as_adopted(adopted(whole))
    wanted = whole
    cpus = sorted((d for d in there if d.info.kind == "cpu"), key=lambda d: not d.info.name.startswith("pocl"))
    gpus = [d for d in there if d.info.kind == "gpu"]
    if wanted == "auto":
        found = [*(d for d in gpus if d.refusal or handles.works(d.handle)), *cpus]
    elif wanted in ("cpu", "gpu"):
        found = cpus if wanted == "cpu" else gpus
    elif wanted.isdecimal():
        found = there[int(wanted) : int(wanted) + 1]
    else:
        exact = [d for d in there if wanted in (d.info.name, d.info.name.partition(":")[0])]
        found = exact or [d for d in there if wanted and wanted in d.label.lower()]
    if not found:
        listing = ", ".join(map(str, there))
        hint = "" if len(there) > 1 else "; no OpenCL driver was found: pip install pocl-binary-distribution==3.0"
        if wanted in ("gpu", "cuda", "rocm"):
            hint = "; no OpenCL driver lists a GPU: install the driver of the GPU's vendor, then select 'gpu'"
        raise DeviceError(f"no device is called {text!r}; there are {listing}{hint}")
    chosen = next((d for d in found if not d.refusal), None)
    if chosen is None:
        raise DeviceError(f"{found[0]} is not used: {found[0].refusal}; `clgraph devices` lists the others")
    for passed in found[: found.index(chosen)]:
        warn(f"{passed} is not used: {passed.refusal}; {chosen} is taken")
    return chosen


def _as_adopted(callers: CallersQueue) -> Device:
    """Return the device of a caller's queue: all of one, or the part that the caller has made of it."""
    device = find_device(callers.device)
    units = callers.handle.max_compute_units
    found = changed(device, handle=callers.handle, callers=callers)
    if device.info.kind != "cpu" or units >= device.info.workers:
        return found
    return with_workers(changed(found, info=changed(found.info, compute_units=units)), units)


@functools.cache
def part_of(device: Device, part: str) -> Device:
    """Return one of several equal parts of *device*, as ``2of3``.

    Raises:
        DeviceError: *part* is not of that form, or the device cannot be divided so.
    """
    match = re.fullmatch(r"(\d+)of(\d+)", part)
    number, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= parts:
        raise DeviceError(f"{part!r} is not a part of a device; 1of2 is the first of two")
    units = device.info.compute_units // parts
    cut = [] if device.handle is None or units < 1 else handles.parts_of(device.handle, units)
    if len(cut) < parts:
        have = f"{device} has {device.info.compute_units} compute units"
        raise DeviceError(f"{have} and cannot be divided into {parts} parts")
    workers = max(1, min(units, device.info.workers // parts))
    share, rates = workers / device.info.workers, device.info.rates
    info = changed(
        device.info,
        name=f"{device.info.name}/{part}",
        compute_units=units,
        workers=workers,
        flops=device.info.flops * share,
        bytes_per_second=device.info.bytes_per_second if rates is None else rates.bandwidth(workers),
    )
    return changed(device, info=info, handle=cut[number - 1])


def _describe(handle: Any, name: str) -> Device:
    decided = handles.decision(name, handle)
    notes = (*handles.notes(handle, decided.record), *decided.notes)
    return Device(profile_of(handle, name, decided), handle.name, notes, handle, decided.refusal, decided.record)


def with_class(device: Device, wanted: str) -> Device:
    """Return *device* with the profile of another class, ``cpu`` or ``gpu``; ``auto`` leaves it its own.

    As a GPU a CPU device has no vectors, and nothing that tile functions and executors ask for.
    """
    if wanted == "auto" or wanted == device.info.kind or device.info.kind == "host":
        return device
    if wanted == "cpu":
        return changed(device, info=changed(device.info, kind="cpu", simd=4, workers=device.info.compute_units))
    of_cpus = {"acq_rel", "host_memory", "yield", "prefetch", "fetch_ahead", "operand_loads", "cycle_counter"}
    features = device.info.features - of_cpus
    info = changed(device.info, kind="gpu", simd=1, features=features, workers=device.info.compute_units)
    return changed(device, info=info, notes=(*device.notes, "treated as a GPU"))


def with_workers(device: Device, threads: int | None) -> Device:
    """Return *device* with *threads* workers, where it is a CPU; they may be more than there are cores."""
    if threads is None or device.info.kind != "cpu" or threads == device.info.workers:
        return device
    cores = device.info.cores or device.info.workers
    flops = device.info.flops * min(threads, cores) / min(device.info.workers, cores)
    rates = device.info.rates
    bandwidth = device.info.bytes_per_second if rates is None else rates.bandwidth(threads)
    info = changed(device.info, workers=threads, cores=cores, flops=flops, bytes_per_second=bandwidth)
    return changed(device, info=info)
