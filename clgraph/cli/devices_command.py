"""``clgraph devices``."""

from __future__ import annotations

import click

from clgraph.cli.output import json_option, nbytes, say, say_json, table
from clgraph.cli.sections import SectionedCommand
from clgraph.cli.verbosity import verbosity
from clgraph.runtime.device import Device, devices, find_device


@click.command(cls=SectionedCommand, name="devices")
@json_option
def command(as_json: bool) -> None:
    """List the OpenCL devices, with their profiles.

    A star marks the device that `auto` selects. Devices are selected by name (pocl:0), kind (cpu, gpu, host), index, or
    a part of the driver's name for them. With -v, extensions and the figures of the cost model are shown as well.

    \b
    Examples:
      clgraph devices
      clgraph run model.onnx --random-inputs --device gpu
    """
    found = devices()
    auto = find_device("auto") if any(d.handle is not None for d in found) else None
    if as_json:
        say_json(
            [
                {"label": d.label, "auto": d is auto, "record": d.record.name, "notes": d.notes, "refusal": d.refusal}
                | {"info": d.info}
                for d in found
            ]
        )
        return
    table(
        ("", "index", "name", "kind", "device", "units", "workers", "simd", "local", "memory", "features"),
        [("*" if d is auto else "", i, *_row(d)) for i, d in enumerate(found)],
        spare=("memory", "simd", "local", "features"),
    )
    if auto is None:
        say("no OpenCL driver was found; for one on the CPU: pip install pocl-binary-distribution==3.0 (Linux x86_64)")
    for device in found:
        for note in device.notes:
            say(f"{device.info.name}: {note}")
        if verbosity() > 0:
            say(f"{device.info.name}: {_figures(device)}")


def _row(device: Device) -> tuple[object, ...]:
    info = device.info
    if device.handle is None:
        return info.name, info.kind, device.label, "", "", "", "", "", ""
    return (
        info.name,
        info.kind,
        device.label,
        info.compute_units,
        info.workers,
        info.simd,
        nbytes(info.local_bytes),
        nbytes(info.global_bytes),
        " ".join(sorted(info.features)),
    )


def _figures(device: Device) -> str:
    info = device.info
    return (
        f"driver {info.driver or 'none'}, largest allocation {nbytes(info.max_alloc)}, estimates by "
        f"{info.flops / 1e9:.0f} GFLOP/s, {info.bytes_per_second / 1e9:.0f} GB/s, "
        f"{info.launch_seconds * 1e6:.0f} us a launch"
        + (f", extensions {' '.join(sorted(info.extensions))}" if info.extensions else "")
    )
