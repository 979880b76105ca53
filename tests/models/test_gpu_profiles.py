"""Dry runs for GPUs of all sizes: what they are given they can run, and what they cannot is refused with a reason."""

from __future__ import annotations

import functools
from math import prod

import numpy as np
import pytest

import clgraph
from clgraph.engines import opening
from clgraph.errors import DeviceMemoryError, UnsupportedError
from clgraph.graph.program import Program
from clgraph.network.node_steps import steps_of
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.passes.chosen import choice_of
from clgraph.selector.plan import Launch
from clgraph.selector.query import DeviceInfo
from tests.support.models import FEW, light_model, light_names, without_repeats
from tests.support.zoo import ZOO, Made


def gpu(vendor: str, group: int, local: int, alloc: int, features: str, units: int, flops: float) -> DeviceInfo:
    return DeviceInfo(
        name="null",
        kind="gpu",
        vendor=vendor,
        compute_units=units,
        workers=units,
        simd=1,
        max_work_group=group,
        local_bytes=local,
        max_alloc=alloc,
        features=frozenset(features.split()),
        flops=flops,
        bytes_per_second=flops / 30,
        launch_seconds=1e-5,
    )


PROFILES = {
    "amd": gpu("AMD", 256, 64 << 10, 14 << 30, "fp64 fp16 subgroups amd_matrix", 60, 2e13),
    "intel": gpu("Intel", 512, 64 << 10, (4 << 30) - 4096, "fp16 subgroups intel_dpas", 96, 2e12),
    "nvidia": gpu("NVIDIA", 1024, 48 << 10, 6 << 30, "fp64 nvidia_ptx sm70 sm75 sm80", 46, 1e13),
    "mali": gpu("ARM", 384, 32 << 10, 1 << 30, "fp16 emulated_local", 4, 3e11),
    # A quarter of 1 GiB at once, and no halves but as storage.
    "adreno": gpu("QUALCOMM", 256, 32 << 10, 1 << 28, "", 2, 4e11),
    # A group of 128 and 16 MiB at once: no tile of 16 x 16 work-items.
    "small": gpu("QUALCOMM", 128, 16 << 10, 16 << 20, "fp16", 2, 1e11),
    "no_local": gpu("none", 64, 0, 64 << 20, "", 1, 1e10),
}
NAMES = ["resnet50", "shufflenet", "small_mobilenet_v3", "small_yolov8", "small_encoder"]
HALVES = ("amd", "intel", "nvidia", "mali", "small")


def is_slow(name: str, profile: str, precision: str) -> bool:
    """Whether the profile is given the network in the other precision by default: f16 the large one, else by turns."""
    if profile not in HALVES or profile == "amd":
        return False
    turn = name == "resnet50" or (NAMES.index(name) + HALVES.index(profile)) % 2 == 0
    return precision != ("f16" if turn else "f32")


CASES = [
    pytest.param(name, p, precision, marks=[pytest.mark.slow] * is_slow(name, p, precision))
    for name in NAMES
    for precision, profiles in (("f16", HALVES), ("f32", [p for p in PROFILES if p != "amd"]))
    for p in profiles
]


@functools.lru_cache(maxsize=1)
def made(name: str) -> Made:
    """Return a model, one for all profiles, of which a block more of the same sizes tells nothing."""
    return (without_repeats(light_model(name, drawn=FEW)), {}) if name in light_names() else ZOO[name].make()


def planned(name: str, profile: DeviceInfo, precision: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(opening, "recorded", lambda options: profile)
    model, feeds = made(name)
    shapes = {n: a.shape for n, a in feeds.items()}
    return clgraph.compile(model, "null", shapes=shapes, config={"precision": precision, "strict": True}).program


@pytest.mark.parametrize(("name", "profile", "precision"), CASES)
def test_what_a_gpu_is_given_it_can_run(
    name: str, profile: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = PROFILES[profile]
    program = planned(name, device, precision, monkeypatch)
    for node in program:
        assert choice_of(node).implementation.serves.features <= device.features
        for step in steps_of(node):
            assert isinstance(step, Launch)
            assert prod(step.group or (1,)) <= device.max_work_group
            assert all(grid % group == 0 for grid, group in zip(step.grid, step.group or step.grid, strict=True))
            assert device.local_bytes or "gpu_tiled" not in step.entry
        for value in (*node.inputs, *node.outputs):
            assert value.layout.nbytes <= device.max_alloc


def test_what_does_not_fit_into_one_allocation_together_lies_in_several_none_in_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "recorded", lambda options: PROFILES["small"])
    net, bank = clgraph.Topology(), PROFILES["small"].max_alloc
    x = net.input("x", (1, 3 << 19))
    for function in ("exp", "tanh", "erf", "relu"):
        net.output(net.add(function, Activation(function), x))
    buffers = {v.buffer for node in clgraph.compile(net, "null").program for v in node.outputs}
    places = [(b.offset, b.offset + b.nbytes - 1) for b in buffers if b is not None and b.offset is not None]
    # Of 6 MiB each: two in 16 MiB.
    assert {first // bank for first, _ in places} == {0, 1, 2}
    assert all(first // bank == last // bank for first, last in places)


def test_a_gpu_of_too_small_groups_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = gpu("none", 32, 1024, 16 << 20, "", 1, 1e10)
    with pytest.raises(UnsupportedError, match="requires groups of 64 work-items, the device has 32"):
        planned("small_mobilenet_v2", tiny, "f32", monkeypatch)


def test_what_does_not_fit_into_one_allocation_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "recorded", lambda options: PROFILES["small"])
    net = clgraph.Topology()
    x = net.input("x", (1, 5 << 20))
    net.output(net.add("y", Activation("relu"), net.add("h", Activation("exp"), x)))
    with pytest.raises(DeviceMemoryError, match="takes 20971520 bytes; the device allocates at most 16777216 at once"):
        clgraph.compile(net, "null")
    net = clgraph.Topology()
    weights = net.constant("w", np.ones((1024, 5 << 10), np.float32))
    net.output(net.add("y", MatMul(), net.input("x", (1, 1024)), weights))
    with pytest.raises(DeviceMemoryError, match="constant 'w' of node 'y' takes 20971520 bytes; null allo"):
        clgraph.compile(net, "null")


def test_tensors_that_32_bits_do_not_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "recorded", lambda options: PROFILES["amd"])
    net = clgraph.Topology()
    net.output(net.add("y", Activation("relu"), net.input("x", (3, 1 << 30))))
    with pytest.raises(UnsupportedError, match="counts elements in 32 bits"):
        clgraph.compile(net, "null")
