"""The tests' own engines: models for GPUs are compiled without the optimiser, all others as users have them."""

from __future__ import annotations

import pytest

from clgraph.engines import opening
from clgraph.runtime.device import find_device, with_class

pytestmark = pytest.mark.opencl
UNOPTIMISED = "-cl-opt-disable"


def test_kernels_of_models_for_gpus_are_not_optimised_and_those_for_cpus_are(device: str) -> None:
    found = find_device(device)
    if not found.info.name.startswith("pocl"):
        pytest.skip("other drivers compile what users run")
    gpu, cpu = (opening._open(with_class(found, kind), None, False) for kind in ("gpu", "cpu"))
    assert UNOPTIMISED in gpu.build_options()
    assert UNOPTIMISED not in cpu.build_options() + cpu.build_options(library=True)
