"""What Oclgrind writes: blocks of lines, each an error with the kernel or the call that it occurred in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_KERNEL = re.compile(r"^\s*(?:Kernel:|Function:|When creating kernel)\s*'?(\w+)", re.MULTILINE)
_ERROR = re.compile(r"^\s*Error:\s*(\w+)", re.MULTILINE)
_PLACE = re.compile(r"^\s*At line (\d+) \(column \d+\) of (\S+?):?$", re.MULTILINE)
_ASKED = ("in clGetDeviceInfo: CL_INVALID_VALUE", "in clCreateKernel: CL_INVALID_KERNEL_NAME")
"""Questions of pyopencl whose answer may be no: what a newer device would tell, whether a program has an attribute."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


def findings(log: str) -> Mapping[str, int]:
    """Return what was found, without the numbers in which findings of one kind differ, and how often."""
    found: Counter[str] = Counter()
    for block in re.split(r"\n\s*\n", log):
        kernel = _KERNEL.search(block)
        if kernel is None:
            continue
        place, error = _PLACE.search(block), _ERROR.search(block)
        what = _NUMBER.sub("N", block.strip().splitlines()[0].partition(" (./src")[0].strip())
        more = f" ({place[2]}:{place[1]})" if place else f": {error[1]}" if error else ""
        told = f"{what} in {kernel[1]}{more}"
        if not told.endswith(_ASKED):
            found[told] += 1
    return found
