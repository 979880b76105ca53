"""What kernels for GPUs are compiled with where they meet their bounds."""

from __future__ import annotations

import pytest

from clgraph.engines import opening
from clgraph.runtime.device import find_device, with_class


@pytest.mark.opencl
def test_kernels_that_meet_their_bounds_are_optimised(device: str) -> None:
    opened = opening._open(with_class(find_device(device), "gpu"), None, False)
    assert "-cl-opt-disable" not in opened.build_options()
