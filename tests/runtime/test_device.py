import functools
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

import clgraph
from clgraph.errors import DeviceError
from clgraph.runtime import device, device_profile, driver, handles, pocl_devices
from clgraph.runtime.device import HOST, Device, find_device, with_class, with_workers
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo
from tests.support.models import image, small_model

POCL = Device(DeviceInfo(name="pocl:0", kind="cpu", workers=4, flops=4e11), "pthread-AMD EPYC", (), "pocl handle")
INTEL = Device(DeviceInfo(name="intel:0", kind="cpu"), "AMD EPYC", (), "intel handle")
NVIDIA = Device(DeviceInfo(name="nvidia:0", kind="gpu"), "NVIDIA H200", (), "nvidia handle")
SECOND = Device(DeviceInfo(name="nvidia:1", kind="gpu"), "NVIDIA H200", (), "second handle")


@pytest.fixture
def there(monkeypatch):
    def use(*devices, working=True):
        monkeypatch.setattr(device, "devices", lambda: [*devices, HOST])
        monkeypatch.setattr(device.handles, "works", lambda handle: working)

    return use


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("auto", NVIDIA),
        ("cpu", POCL),
        ("gpu", NVIDIA),
        ("pocl", POCL),
        ("POCL:0", POCL),
        ("intel", INTEL),
        ("nvidia:1", SECOND),
        ("host", HOST),
        ("0", INTEL),
        ("3", SECOND),
        ("h200", NVIDIA),
        ("pthread", POCL),
    ],
)
def test_a_device_is_found_by_class_name_index_and_part_of_its_label(there, text, found):
    there(INTEL, POCL, NVIDIA, SECOND)
    assert find_device(text) is found


def test_auto_passes_over_a_gpu_whose_driver_does_not_work(there):
    there(NVIDIA, INTEL, POCL, working=False)
    assert find_device("auto") is POCL
    assert find_device("gpu") is NVIDIA


@pytest.mark.parametrize("text", ["zork", "", "7", "gpu", "pocl:1"])
def test_a_device_that_is_not_there_is_an_error_that_lists_those_that_are(there, text):
    there(POCL)
    with pytest.raises(DeviceError, match=r"there are pocl:0 \(pthread-AMD EPYC\), host"):
        find_device(text)


def test_where_no_driver_shows_a_gpu_the_error_says_what_to_install(there):
    there(POCL)
    for text in ("gpu", "cuda"):
        with pytest.raises(DeviceError, match="lists a GPU: install the driver of the GPU's vendor"):
            find_device(text)


def test_without_any_driver_the_error_says_what_to_install(there):
    there()
    with pytest.raises(DeviceError, match="pip install pocl-binary-distribution"):
        find_device("auto")


def test_threads_set_the_workers_of_a_cpu_and_nothing_else():
    assert with_workers(POCL, None) is POCL
    assert with_workers(POCL, 4) is POCL
    assert with_workers(NVIDIA, 1) is NVIDIA
    cut = with_workers(POCL, 1).info
    assert (cut.workers, cut.flops) == (1, 1e11)
    more = with_workers(POCL, 9).info
    assert (more.workers, more.flops) == (9, 4e11)


def test_platforms_get_short_names():
    assert handles.prefix_of("Portable Computing Language", "The pocl project") == "pocl"
    assert handles.prefix_of("NVIDIA CUDA", "NVIDIA Corporation") == "nvidia"
    assert handles.prefix_of("Intel(R) OpenCL", "Intel(R) Corporation") == "intel"
    assert handles.prefix_of("AMD Accelerated Parallel Processing", "Advanced Micro Devices, Inc.") == "amd"
    assert handles.prefix_of("ARM Platform", "ARM") == "arm"
    assert handles.prefix_of("Oddware Compute", "Odd") == "oddware"


def test_a_model_on_the_host_asks_no_driver(monkeypatch):
    """The first that is asked on a machine is tried for seconds."""

    def asked(*_):
        pytest.fail("a driver was asked")

    for where, name in ((device, "_opencl_devices"), (handles, "named_handles"), (driver, "_prepare")):
        monkeypatch.setattr(where, name, functools.cache(asked))
    monkeypatch.setattr(driver.process, "CHOSEN", [])
    assert find_device(" Host") is HOST
    x = image((1, 3, 10, 10))
    assert clgraph.compile(small_model(), device="host")(x).shape == (1, 8, 5, 5)


@pytest.mark.opencl
def test_devices_lists_the_host_last_and_every_name_once():
    names = [d.info.name for d in device.devices()]
    assert names[-1] == "host"
    assert len(set(names)) == len(names)


@pytest.mark.opencl
def test_a_cpu_device_has_a_vector_width_that_kernels_are_written_for(engine):
    if engine.info.kind == "cpu":
        assert engine.info.simd in (16, 8, 4)
    assert engine.info.max_alloc > 0
    assert engine.info.workers >= 1


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("feature", "measured", "too_low", "high"),
    [("fetch_ahead", "fetching", (0.75, 1.02), 1.1), ("operand_loads", "loaded_products", (0.5, 14 / 15), 0.99)],
)
def test_a_feature_is_there_where_the_canary_has_measured_that_it_helps(
    feature, measured, too_low, high, engine, monkeypatch
):
    handle = engine.device.handle
    decided = handles.decision(engine.info.name, handle)

    def declared(rates):
        monkeypatch.setattr(handles, "decision", lambda name, handle: replace(decided, rates=rates))
        return feature in device._describe(handle, engine.info.name).info.features

    rates = Rates(1e11, ((1, 1e10),))
    assert declared(replace(rates, **{measured: high}))
    assert not any(map(declared, (*(replace(rates, **{measured: rate}) for rate in too_low), rates, None)))


def test_a_cpu_treated_as_a_gpu_offers_nothing_that_tiles_and_executors_ask_for():
    measured = {"fetch_ahead", "operand_loads"}
    features = frozenset({"fp64", "acq_rel", "host_memory", "yield", "prefetch", "cycle_counter", *measured})
    cpu = Device(DeviceInfo(name="pocl:0", kind="cpu", compute_units=4, simd=16, features=features), "CPU")
    gpu = with_class(cpu, "gpu")
    assert (gpu.info.kind, gpu.info.simd, gpu.info.features) == ("gpu", 1, {"fp64"})
    assert (gpu.info.name, gpu.notes) == ("pocl:0", ("treated as a GPU",))
    assert with_class(cpu, "cpu") is with_class(cpu, "auto") is cpu
    assert with_class(HOST, "gpu") is HOST
    assert with_class(NVIDIA, "cpu").info.kind == "cpu"


@pytest.mark.parametrize(
    ("major", "minor", "wanted"), [(9, 0, {"sm80", "sm90"}), (7, 5, {"sm75"}), (None, None, set())]
)
def test_compute_capabilities_are_features(major, minor, wanted):
    cl = driver.load()
    there = {"type": cl.device_type.GPU, "local_mem_type": cl.device_local_mem_type.LOCAL}
    handle = SimpleNamespace(version="OpenCL 3.0 CUDA", get_info=lambda _: 0, **there)
    if major is not None:
        handle.compute_capability_major_nv, handle.compute_capability_minor_nv = major, minor
    found = device_profile._features(
        handle, frozenset({"cl_nv_device_attribute_query"}), host_memory=False, clang=False
    )
    assert wanted | {"nvidia_ptx"} <= found
    assert ("sm90" in found) == (major == 9)
    assert ("sm80" in found) == (major == 9)


INTEL_MATRIX = "cl_intel_subgroup_matrix_multiply_accumulate"


@pytest.mark.parametrize(
    ("name", "extensions", "wanted"),
    [
        ("gfx1100", "cl_amd_device_attribute_query", {"amd_matrix"}),
        ("gfx1201", "cl_amd_device_attribute_query", {"amd_matrix", "amd_wmma12"}),
        ("gfx90a:sramecc+:xnack-", "cl_amd_device_attribute_query", {"amd_matrix", "amd_mfma"}),
        ("gfx1030", "cl_amd_device_attribute_query", set()),
        ("gfx906", "cl_amd_device_attribute_query", set()),
        ("AMD Radeon RX 7900 XTX (radeonsi, navi31)", "cl_khr_fp16", set()),
        ("Intel(R) Arc(TM) A770 Graphics", INTEL_MATRIX, {"intel_dpas"}),
        (
            "Intel(R) Arc(TM) B580 Graphics",
            f"{INTEL_MATRIX} cl_intel_subgroup_2d_block_io",
            {"intel_dpas", "intel_dpas16"},
        ),
        ("Intel(R) UHD Graphics", "cl_intel_subgroups cl_intel_subgroup_2d_block_io", set()),
    ],
)
def test_matrix_units_are_features(name, extensions, wanted):
    cl = driver.load()
    there = {"type": cl.device_type.GPU, "local_mem_type": cl.device_local_mem_type.LOCAL, "name": name}
    handle = SimpleNamespace(version="OpenCL 1.2", get_info=lambda _: 0, **there)
    found = device_profile._features(handle, frozenset(extensions.split()), host_memory=False, clang=False)
    assert {f for f in found if f.startswith(("amd_", "intel_dpas"))} == wanted


@pytest.mark.parametrize(
    ("kind", "where", "emulated"), [("GPU", "GLOBAL", 1), ("GPU", "LOCAL", 0), ("CPU", "GLOBAL", 0)]
)
def test_local_memory_in_ordinary_memory_is_a_feature_of_gpus(kind, where, emulated):
    cl = driver.load()
    there = {"type": getattr(cl.device_type, kind), "local_mem_type": getattr(cl.device_local_mem_type, where)}
    handle = SimpleNamespace(version="OpenCL 2.0", get_info=lambda _: 0, **there)
    assert (
        "emulated_local" in device_profile._features(handle, frozenset(), host_memory=False, clang=False)
    ) == emulated


def test_the_wheels_pocl_moves_no_thread_to_a_core_where_the_kernel_tells_of_caches(monkeypatch, tmp_path):
    variable, seen = "HWLOC_COMPONENTS", []
    wheel, other = (
        SimpleNamespace(name=name, get_devices=lambda: seen.append(os.environ.get(variable)) or [])
        for name in ("wheel", "other")
    )
    monkeypatch.delenv(variable, raising=False)
    for module in (handles, handles.calling_thread):
        monkeypatch.setattr(module, "is_wheel", lambda platform: platform is wheel)
    monkeypatch.setattr(handles, "library_of", lambda platform: tmp_path / "libpocl.so")
    for caches, platform in ((tmp_path, wheel), (tmp_path, other), (tmp_path / "none", wheel)):
        monkeypatch.setattr(pocl_devices, "_CACHES", caches)
        handles._devices_of(platform)
        assert variable not in os.environ
    monkeypatch.setenv(variable, "linux")
    monkeypatch.setattr(pocl_devices, "_CACHES", tmp_path)
    handles._devices_of(wheel)
    assert seen == ["-x86", None, None, "linux"]
