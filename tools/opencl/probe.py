"""What runs inside an implementation first: ``python -m tools.opencl.probe``, the OpenCL devices there are as JSON."""

from __future__ import annotations

import json
import sys

from clgraph.errors import DeviceError
from clgraph.runtime.device import devices, find_device


def main() -> int:
    """Print each device with what the canary says of it, and which one is taken where none is asked for."""
    found = []
    for device in devices():
        if device.handle is None:
            continue
        handle, rates = device.handle, device.info.rates
        found.append(
            {
                "name": device.info.name,
                "driver": f"{handle.platform.name} {handle.platform.version} {handle.driver_version}",
                "title": device.info.name.partition(":")[0],
                "version": handle.driver_version,
                "record": device.record.name,
                "refusal": device.refusal,
                "gflops": None if rates is None else rates.worker_flops / 1e9,
            }
        )
    try:
        auto = find_device("auto").info.name
    except DeviceError as error:
        auto = str(error)
    sys.stdout.write(json.dumps({"devices": found, "auto": auto}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
