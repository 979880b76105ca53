"""Entry point of the canary's process: ``python -m clgraph.runtime.canary_child``, work on stdin, verdict on stdout.

Values first, then rates.
"""

from __future__ import annotations

import json
import sys

from clgraph.errors import DeviceError
from clgraph.runtime import child, driver, handles, process
from clgraph.runtime.canary_kernels import Canary
from clgraph.runtime.canary_rates import measure
from clgraph.runtime.canary_values import wrong
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.runtime.wheel import impose
from clgraph.settings import settings


def main() -> int:
    """Print ``{"why": "", ...}`` with the rates for a device that computes rightly, else why it must not be used.

    With ``"lasts": false`` where the next trial may say something else.
    """
    work = json.load(sys.stdin)
    child.limit(work["cpu_seconds"])
    child.end_with(work["parent"])
    record = InstructionSet.from_data(work["record"])
    process.serve(record)
    driver.choose_options(settings().with_(cache_dir=work["folder"]))
    cl = driver.load()
    try:
        handle = handles.named_handles().get(work["device"])
        if handle is None:
            print(json.dumps({"why": f"OpenCL shows no {work['device']} there", "lasts": False}))
            return 0
        if handles.kind(handle) == "cpu":
            child.limit_memory()
        impose(handle, record)
        canary = Canary(handle, record, work["workers"])
        why = wrong(canary)
        verdict = {"why": why} if why else {"why": "", **measure(canary)}
    except (cl.Error, DeviceError, ValueError, KeyError) as error:
        verdict = {"why": f"{error}".strip().partition("\n")[0]}
    print(json.dumps(verdict))
    return 0


if __name__ == "__main__":
    sys.exit(main())
