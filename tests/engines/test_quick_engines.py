"""The tests' own engines: kernels for GPUs are compiled without the optimiser, all others as users have them."""

from __future__ import annotations

import pytest

from clgraph.engines import opening
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.engine import Engine
from tests.conftest import QUICK

pytestmark = [
    pytest.mark.opencl,
    pytest.mark.skipif(not QUICK, reason="CLGRAPH_TEST_OPTIMISED has them compiled as users have them"),
]
UNOPTIMISED = "-cl-opt-disable"


def test_kernels_of_models_for_gpus_are_not_optimised_and_those_for_cpus_are(device: str) -> None:
    found = find_device(device)
    if not found.info.name.startswith("pocl"):
        pytest.skip("other drivers compile what users run")
    gpu, cpu = (opening._open(with_class(found, kind), None, False) for kind in ("gpu", "cpu"))
    assert UNOPTIMISED in gpu.programs.options()
    assert UNOPTIMISED not in cpu.programs.options() + cpu.programs.options(library=True)


def test_kernels_for_gpus_meet_their_bounds_without_the_optimiser(engine: Engine, gpu_engine: Engine) -> None:
    if not gpu_engine.info.name.startswith("pocl"):
        pytest.skip("other drivers compile what users run")
    assert UNOPTIMISED in gpu_engine.programs.options()
    assert UNOPTIMISED not in engine.programs.options() + engine.programs.options(library=True)
