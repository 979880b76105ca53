"""Recorded launches: on devices with cl_khr_command_buffer the same results, on others an error that says so."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import DeviceError
from clgraph.runtime import command_buffers
from clgraph.runtime.device import find_device
from tests.models.test_gpu_class import siblings
from tests.support.zoo import ZOO

pytestmark = pytest.mark.opencl

INCREMENT = (
    "__kernel void increment(__global int* x, const int by) { x[get_global_id(0)] = x[get_global_id(0)] * 2 + by; }"
)
RECORDED = {"device_class": "gpu", "command_buffers": True}


@pytest.fixture
def recording(engine):
    if (why := engine.stream.records) is not None:
        pytest.skip(why)
    return engine


def test_recorded_launches_run_in_order_each_time_they_are_enqueued(recording):
    memory = recording.upload(np.arange(8, dtype=np.int32), "x")
    kernels = [recording.kernel(INCREMENT, "increment", [memory, np.int32(by)]) for by in (3, 5)]
    step = recording.stream.recorded([(k.handle, (8,), group) for k, group in zip(kernels, (None, (4,)), strict=True)])
    for _ in range(2):
        step()
    found = np.empty(8, np.int32)
    recording.stream.read(memory, 0, found)
    want = np.arange(8)
    for by in (3, 5, 3, 5):
        want = want * 2 + by
    np.testing.assert_array_equal(found, want)


def test_what_the_driver_refuses_to_record_is_an_error_with_its_number(recording):
    memory = recording.upload(np.arange(8, dtype=np.int32), "x")
    kernel = recording.kernel(INCREMENT, "increment", [memory, np.int32(1)])
    with pytest.raises(DeviceError, match=r"recording increment failed with OpenCL's error -53"):
        recording.stream.recorded([(kernel.handle, (1, 1, 1, 1), None)])


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_a_recorded_model_computes_the_same_bits(recording, device, device_class):
    for topology, feeds in (siblings(), ZOO["small_encoder"].make()):
        shapes = {n: a.shape for n, a in feeds.items()}
        config = {"device_class": device_class}
        plain = clgraph.compile(topology, device, shapes=shapes, config=config)
        recorded = clgraph.compile(topology, device, shapes=shapes, config={**config, "command_buffers": True})
        assert f"{device}: launches recorded in 1 command buffers" in recorded.program.notes["executor"]
        other = {n: a[..., ::-1].copy() for n, a in feeds.items()}
        for given in (feeds, other, feeds):
            for model in (recorded, recorded.clone()):
                for name, array in plain.run(given).items():
                    np.testing.assert_array_equal(model.run(given)[name], array)
        assert recorded.profile(feeds).commands


def test_a_device_without_them_is_an_error_that_says_so():
    topology, _ = siblings()
    if command_buffers.refusal(find_device("pocl").handle) is None:
        pytest.skip("this PoCL records launches")
    with pytest.raises(DeviceError, match=r"records launches: pocl:0: .* has no cl_khr_command_buffer"):
        clgraph.compile(topology, "pocl", config=RECORDED)


def test_a_queue_that_runs_out_of_order_records_nothing(recording):
    assert command_buffers.refusal(recording.stream.queue.device, out_of_order=True) == "its queue runs out of order"
