"""What kernels for GPUs are compiled with where engines are looked at."""

from __future__ import annotations

import pytest

from clgraph.engines import opening
from clgraph.runtime.device import find_device, with_class


@pytest.mark.opencl
def test_engines_that_are_looked_at_are_those_of_users(device: str) -> None:
    opened = opening._open(with_class(find_device(device), "gpu"), None, False)
    assert "-cl-opt-disable" not in opened.programs.options()
