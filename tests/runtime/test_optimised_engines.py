"""What kernels are compiled with where engines are looked at."""

from __future__ import annotations

import pytest

from clgraph.engines import opening
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.engine import Engine
from clgraph.runtime.pocl import ProcessMemory
from tests.support import quick_code


@pytest.mark.opencl
def test_engines_that_are_looked_at_are_those_of_users(device: str, engine: Engine) -> None:
    opened = opening._open(with_class(find_device(device), "gpu"), None, False)
    assert "-cl-opt-disable" not in opened.programs.options() + engine.programs.options()


@pytest.mark.opencl
def test_pocl_runs_all_passes_and_generates_code_with_care(engine: Engine) -> None:
    quick_code.know(engine.device.handle.platform)
    if not (found := quick_code.found(ProcessMemory())):
        pytest.skip("only the wheel's PoCL is turned down elsewhere")
    assert found == [usual for usual, _ in quick_code.INSTRUCTIONS.values()]
