"""``--placement-budget``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIRST, SECOND = "pocl:0/1of2", "pocl:0/2of2"
pytestmark = [
    pytest.mark.opencl,
    pytest.mark.usefixtures("several_units"),
]


def test_the_command_line_shares_out_and_estimates(clgraph_command: Callable[..., Any], model: Path) -> None:
    # Winograd's weights would be too large, where it is chosen.
    least = ("--force-kernel", "first=convolution.fsv16")
    options = ("--device", f"{FIRST},{SECOND}", "--placement-budget", f"{FIRST}=12 KiB", *least)
    status, out, _ = clgraph_command("explain", model, *options)
    assert status == 0
    assert f"{FIRST} takes" in out
    assert "of 12.0 KiB" in out
    status, out, _ = clgraph_command("estimate", model, *options)
    assert status == 0
    assert FIRST in out
    assert SECOND in out
    status, _, err = clgraph_command("run", model, "--random-inputs", *options[:3], FIRST)
    assert status == 2
    assert "is not DEVICE=SIZE" in err
