"""The tests' own engines: kernels are compiled without the optimiser, libraries as users have them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from clgraph.engines import opening
from clgraph.ops.softmax import Softmax
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.engine import Engine
from clgraph.runtime.pocl import ProcessMemory
from tests.conftest import QUICK
from tests.support import quick_code
from tests.support.check_op import optimised_at_times

pytestmark = [
    pytest.mark.opencl,
    pytest.mark.skipif(not QUICK, reason="CLGRAPH_TEST_OPTIMISED has them compiled as users have them"),
]
UNOPTIMISED = "-cl-opt-disable"


def _of_pocl(engine: Engine) -> None:
    if not engine.info.name.startswith("pocl"):
        pytest.skip("other drivers compile what users run")


def test_kernels_of_models_are_not_optimised_and_libraries_are(device: str) -> None:
    for kind in ("gpu", "cpu"):
        opened = opening._open(with_class(find_device(device), kind), None, False)
        _of_pocl(opened)
        assert UNOPTIMISED in opened.programs.options()
        assert UNOPTIMISED not in opened.programs.options(library=True)


def test_kernels_of_the_shared_engines_meet_their_bounds_without_the_optimiser(
    engine: Engine, gpu_engine: Engine
) -> None:
    _of_pocl(gpu_engine)
    for shared in (engine, gpu_engine):
        assert UNOPTIMISED in shared.programs.options()
        assert UNOPTIMISED not in shared.programs.options(library=True)


def test_pocl_runs_no_passes_and_generates_code_quickly(engine: Engine) -> None:
    _of_pocl(engine)
    assert quick_code.found(ProcessMemory()) == [quick for _, quick in quick_code.INSTRUCTIONS.values()]


def test_some_problems_on_cpus_are_computed_by_kernels_of_users(engine: Engine, gpu_engine: Engine) -> None:
    _of_pocl(engine)
    quick = [code for _, code in quick_code.INSTRUCTIONS.values()]

    def compiled(given: Engine, *problem: Any, **named: Any) -> dict[str, float]:
        usual = UNOPTIMISED not in given.programs.options()
        assert (quick_code.found(ProcessMemory()) != quick) == usual
        return {"usual": float(usual)}

    check = optimised_at_times(compiled)
    for of, wanted in ((engine, {0.0, 1.0}), (gpu_engine, {0.0})):
        assert {check(of, Softmax((0,)), (n,))["usual"] for n in range(64)} == wanted
    assert quick_code.found(ProcessMemory()) == quick


class Memory:
    """What a process holds around PoCL, as one without devices has it."""

    def __init__(self, origin: int) -> None:
        self.held = {origin + place: usual for place, (usual, _) in quick_code.INSTRUCTIONS.items()}
        self.held |= {origin + place + 8: bytes(range(i, i + 40)) for i, place in enumerate(quick_code.MAPS)}

    def read(self, address: int, count: int) -> bytes:
        return self.held[address][:count]

    def write(self, address: int, data: bytes) -> None:
        self.held[address] = data


def test_what_was_turned_down_is_turned_up_again_and_each_has_passes_of_its_own() -> None:
    origin, kept = 0x7F0000000000, {}
    memory = Memory(origin)
    usual = dict(memory.held)
    quick_code.switch(memory, origin, kept, down=True)
    assert all(memory.held[address] != content for address, content in usual.items())
    headers = [origin + place + 8 for place in quick_code.MAPS]
    for header in headers:
        assert struct.unpack("<5Q", memory.held[header]) == (0, 0, header, header, 0)
        memory.held[header] = header.to_bytes(40, "little")
    turned_down = dict(memory.held)
    quick_code.switch(memory, origin, kept, down=False)
    assert memory.held == usual
    quick_code.switch(memory, origin, kept, down=True)
    assert memory.held == turned_down


def test_nothing_is_written_to_a_pocl_of_other_instructions() -> None:
    memory = Memory(0)
    last = list(quick_code.INSTRUCTIONS)[-1]
    memory.held[last] = b"\x6a\x02"
    before = dict(memory.held)
    with pytest.raises(AssertionError, match=r"PoCL has .*6a02"):
        quick_code.switch(memory, 0, {}, down=True)
    assert memory.held == before
