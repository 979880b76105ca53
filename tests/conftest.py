"""Fixtures of all tests: the devices that tests with the mark ``opencl`` run on."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import platform
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when NumPy is imported

import hypothesis
import numpy as np
import pytest
from hypothesis.internal.conjecture import providers

from clgraph.core import progress
from clgraph.errors import ClgraphError
from clgraph.settings import FOREIGN, PREFIX
from tests.support.of_a_kind import on_a_cpu
from tests.support.ordered import pytest_collection_modifyitems
from tests.support.ran import TESTS, note_what_networks_run, pytest_sessionfinish, pytest_testnodedown
from tests.support.selected import is_left_out, of, pytest_ignore_collect, pytest_pycollect_makeitem
from tests.support.told import pytest_sessionstart

__all__ = [
    "engine",
    "gpu_engine",
    "matrix_engine",
    "note_what_networks_run",
    "nvidia_engine",
    "pytest_collection_modifyitems",
    "pytest_ignore_collect",
    "pytest_pycollect_makeitem",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_testnodedown",
]

for variable in [v for v in os.environ if v.startswith(PREFIX) and v not in FOREIGN]:
    del os.environ[variable]  # what the shell sets for a user's own runs is not what is tested

if ISA := os.environ.get("CLGRAPH_TEST_ISA", ""):
    os.environ["CLGRAPH_POCL_ISA"] = ISA

QUICK = os.environ.get("CLGRAPH_TEST_OPTIMISED", "") in ("", "0")
"""Whether kernels, but not libraries, are compiled without LLVM's optimiser on PoCL."""

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Hundreds of processes would compile clgraph, 0.2-0.5 s each; each worker the tests with their assertions, 4 s.
    # Not in a folder of their own: all that is imported, 2,900 modules of other packages, would be compiled for it.
    sys.dont_write_bytecode = False

LINKER = "COMPILER_PATH"
"""Where clang, which PoCL links kernels by, looks for the linker first: ``tests/support/linker``."""
os.environ[LINKER] = str(Path(__file__).parent / "support" / "linker")

progress.PATIENCE_SECONDS = 3600.0  # what a test sees on the error stream must not depend on what has been compiled
os.environ["CLGRAPH_TUNING"] = "off"  # tests must not depend on what was tuned on the machine
os.environ["CLGRAPH_MODEL_CACHE"] = "0"  # what a test sees must not depend on what ran before

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("clgraph", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("clgraph")
# It would parse every module of clgraph in each worker, 2.5 s, for numbers to draw; which ones then depended on what
# other tests had imported, so that an example was not found again where a test ran alone.
providers._get_local_constants = lambda: providers._local_constants

DEVICES = [d.strip() for d in os.environ.get("CLGRAPH_TEST_DEVICES", "pocl").split(",") if d.strip()]
"""Names as ``clgraph.runtime.device.find_device`` takes them."""


KEEPING = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 28),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 29),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""Lets glibc keep what a worker has freed, weights above all: half of the system's time went into giving them back.

It is read when a process starts: the controller sets it for its workers, which take it out again for their children.
"""

CLASS = os.environ.get("CLGRAPH_TEST_CLASS", "auto")
"""What every device is to the tests: ``gpu`` shows without a GPU what they would say on one."""


def pytest_configure(config: pytest.Config) -> None:
    """Leave slow tests out of selections by marks that do not name them, such as ``-m "not opencl"``.

    Workers are given :data:`KEEPING`.
    """
    if CLASS != "auto":
        from clgraph.runtime import device

        described = device._describe
        device._describe = lambda handle, name: device.with_class(described(handle, name), CLASS)
    if os.environ.get("PYTEST_XDIST_WORKER"):
        for variable in KEEPING.keys() & os.environ:
            del os.environ[variable]
    elif getattr(config.option, "numprocesses", None):
        os.environ |= KEEPING
    marks = config.option.markexpr
    if marks and "slow" not in marks:
        config.option.markexpr = f"({marks}) and not slow"


def pytest_report_header() -> str | None:
    """Say what kernels are compiled for where ``CLGRAPH_TEST_ISA`` names it."""
    from clgraph.runtime.device import find_device

    return f"instruction set: {find_device('pocl').record.name}" if ISA else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, and spare it the ten thousand tests and the modules, which stay.

    Nothing may ask for devices meanwhile: with an empty cache all workers wait for the canary then.
    """
    from clgraph.runtime import device

    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device, "_opencl_devices", asked)
            if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
                import_from_the_end(session.config)
            return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 10)
        gc.enable()


def asked() -> NoReturn:
    """Fail the collecting of a file that asks for devices."""
    raise RuntimeError("devices are asked for while tests are collected: that is for fixtures, such as `several_units`")


def import_from_the_end(config: pytest.Config) -> None:
    """Import the modules of tests that pytest is to collect, the last first.

    Of two workers each so rewrites the assertions of half of the modules and reads the other half from the cache; they
    would both rewrite all, 6 s. What cannot be imported is reported when it is collected.
    """
    given = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    for path in sorted({f for g in given for f in ([g] if g.is_file() else g.rglob("test_*.py"))}, reverse=True):
        if TESTS in path.parents and not is_left_out(path, of(config)):
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run of a test."""
    return np.random.default_rng(0)


OPENING = {"engine", "gpu_engine", "device", "nvidia_engine", "matrix_engine", "several_units"}
"""Fixtures that open a device."""

OPTIMISED = (
    "tests/runtime",
    "tests/ops/test_extreme_numbers.py",
    "tests/models/test_onnx_suite.py::test_light_networks",
)
"""Where engines are looked at, and where models run over millions of numbers, which takes longer than to compile."""

TOGETHER = ("tests/network", "tests/implementations", "tests/ops", "tests/faults")
"""Where small programs, too, are run by all workers: what one may not read of another shows only there."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that has a fixture of a device and does not say so: ``-m "not opencl"`` runs where there is none."""
    if item.get_closest_marker("opencl") is None:
        assert not OPENING & set(getattr(item, "fixturenames", ())), UNMARKED


UNMARKED = "a test that opens a device or has a driver tried has the mark opencl"


NO_DRIVERS = str(TESTS / "no drivers")
"""A folder that is not there: OpenCL's loaders show no platform then, pyopencl's not even the wheel's PoCL."""


def refuse(*args: object, **named: object) -> NoReturn:
    """Fail the test that has made an engine or asks what a driver computes."""
    pytest.fail(UNMARKED)


def without_drivers(patch: pytest.MonkeyPatch) -> None:
    """Let a test see no OpenCL device: what ``-m "not opencl"`` runs is to pass where no driver is installed."""
    from clgraph.engines import opening
    from clgraph.runtime import device, driver, handles, opencl, wheel
    from clgraph.runtime.engine import Engine

    patch.setattr(Engine, "__init__", refuse)
    patch.setattr(device, "_opencl_devices", list)
    # pyopencl's constants are there; what drivers need of the environment is left for tests that have drivers.
    patch.setattr(driver, "load", opencl.load)
    patch.setattr(opening, "loading", contextlib.nullcontext)
    for module in (handles, wheel):
        patch.setattr(module, "decide", refuse)
    patch.setenv("OCL_ICD_VENDORS", NO_DRIVERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Surround a test and the fixtures that it is the first or last to use: an autouse fixture costs 0.1 ms a test.

    Tests without the mark ``opencl`` have no driver. Kernels that PoCL compiles in this process are not optimised by
    LLVM, which takes a quarter of the time, but in ``OPTIMISED``, where they are as users have them, and linked so.
    Under ``TOGETHER`` no program is run in the calling thread because that is sooner.
    """
    from clgraph.engines import opening
    from clgraph.network import waking
    from tests.support import quick_code, quick_engine

    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("opencl") is None:
            without_drivers(patch)
        if item.nodeid.startswith(OPTIMISED):
            patch.delenv(LINKER)
        elif QUICK:
            patch.setattr(opening, "_open", quick_engine.opened)
        quick_code.let(is_quick(item))
        if item.nodeid.startswith(TOGETHER):
            patch.setattr(waking, "WAKING_SECONDS", -1.0)
        return (yield)


def is_quick(node: pytest.Item | pytest.Collector) -> bool:
    """Whether kernels of a test, or of all tests of a file, are compiled without LLVM's optimiser on PoCL."""
    return QUICK and not node.nodeid.startswith(OPTIMISED)


def absent(name: str, error: ClgraphError) -> NoReturn:
    """Fail for a device that was asked for or that is installed with clgraph; skip for PoCL where it is not."""
    installed = sys.platform == "linux" and platform.machine() == "x86_64"
    if installed or "CLGRAPH_TEST_DEVICES" in os.environ:
        pytest.fail(f"no device {name!r}: {error}", pytrace=False)
    pytest.skip(f"no device {name!r}, which is installed on Linux x86_64 only: {error}")


@pytest.fixture(params=DEVICES, scope="module")
def engine(request: pytest.FixtureRequest):
    """An engine on each device of ``CLGRAPH_TEST_DEVICES``; a quick one on PoCL but in ``OPTIMISED``."""
    try:
        return _engine(request.param, is_quick(request.node))
    except ClgraphError as error:
        absent(request.param, error)


@functools.cache
def _engine(name: str, quick: bool):
    from clgraph.runtime.device import find_device
    from clgraph.runtime.engine import Engine
    from tests.support import quick_engine

    device = find_device(name)
    return (quick_engine.quick(device) if quick else Engine)(device)


@pytest.fixture(params=DEVICES, scope="session")
def gpu_engine(request: pytest.FixtureRequest):
    """An engine on each device of ``CLGRAPH_TEST_DEVICES``, treated as a GPU; a quick one on PoCL."""
    from clgraph.runtime.device import find_device, with_class
    from clgraph.runtime.engine import Engine
    from tests.support import quick_engine

    try:
        device = with_class(find_device(request.param), "gpu")
        return (quick_engine.quick(device) if QUICK else Engine)(device)
    except ClgraphError as error:
        absent(request.param, error)


@pytest.fixture(params=DEVICES, scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Return each device of ``CLGRAPH_TEST_DEVICES`` as ``clgraph.compile`` takes it."""
    from clgraph.runtime.device import find_device

    try:
        return find_device(request.param).info.name
    except ClgraphError as error:
        absent(request.param, error)


@pytest.fixture(autouse=True)
def what_is_compiled_for_cpus_is_for_cpus(request: pytest.FixtureRequest) -> None:
    """Leave a test with the parameter ``device_class`` ``cpu`` out on a GPU."""
    of_class = getattr(request.node, "callspec", None)
    if of_class is not None and of_class.params.get("device_class") == "cpu":
        for name in {"engine", "device"} & set(request.fixturenames):
            on_a_cpu(request.getfixturevalue(name))


@pytest.fixture(scope="session")
def nvidia_engine():
    """An NVIDIA GPU of ``CLGRAPH_TEST_DEVICES``.

    Where there is none, an engine that is one to those who choose kernels, with kernels that have PTX emulated.
    """
    from tests.support.ptx.compiler import why_no_machine
    from tests.support.ptx.on_device import NvidiaEngine, nvidia_gpu

    if (gpu := nvidia_gpu(DEVICES)) is not None:
        return NvidiaEngine(gpu, "tf32x3", "f16x3")
    if reason := why_no_machine():
        pytest.skip(reason)
    from tests.support.ptx.engine import EmulatedEngine

    try:
        return EmulatedEngine("tf32x3", "f16x3")
    except ClgraphError as error:
        absent("pocl", error)


@pytest.fixture(scope="session")
def several_units() -> None:
    """Skip tests that divide a device where the first one has a single compute unit."""
    import clgraph

    if clgraph.devices()[0].info.compute_units < 2:
        pytest.skip("one compute unit has no parts")


MATRIX_ENGINES = ["intel_dpas", "intel_dpas intel_dpas16", "amd_matrix", "amd_matrix amd_wmma12", "amd_matrix amd_mfma"]
"""Features of emulated matrix units; the first of each vendor's is alone."""


@pytest.fixture(params=MATRIX_ENGINES)
def matrix_engine(request: pytest.FixtureRequest):
    """An engine with one of Intel's or AMD's matrix units, emulated, and the first feature of that vendor's."""
    from tests.support.ptx.compiler import why_no_machine

    if reason := why_no_machine():
        pytest.skip(reason)
    features = request.param.split()
    try:
        return _matrix_engine(*features), features[0]
    except ClgraphError as error:
        absent("pocl", error)


@functools.cache
def _matrix_engine(*features: str):
    from tests.support.ptx.engine import emulated

    return emulated(*features)
