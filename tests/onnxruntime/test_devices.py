"""Devices: what is listed, and what policies and functions of the program select."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import clgraph.onnxruntime as ort
from clgraph.onnxruntime import hardware
from clgraph.onnxruntime.selecting import selected
from clgraph.runtime.device import HOST
from tests.support.ort_models import identity

POLICIES = ort.OrtExecutionProviderDevicePolicy


def device(name: str, kind: str, vendor: str, refusal: str = "") -> hardware.Device:
    info = replace(HOST.info, name=name, kind=kind, vendor=vendor, driver="1.0")
    return replace(HOST, info=info, handle=object(), refusal=refusal)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU, a GPU that computes wrongly, and one that computes rightly."""
    cpu, gpu = device("pocl:0", "cpu", "GenuineIntel"), device("clover:0", "gpu", "Mesa", "wrong sums")
    there = [cpu, gpu, device("rocm:0", "gpu", "Advanced Micro Devices, Inc."), HOST]
    monkeypatch.setattr(hardware, "devices", lambda: there)


@pytest.mark.usefixtures("machine")
def test_devices_that_compute_rightly_are_listed_and_selected() -> None:
    found = ort.get_ep_devices()
    assert [(d.ep_name, d.ep_options, d.device.type.name, d.device.vendor) for d in found] == [
        ("CPUExecutionProvider", {}, "CPU", "Intel"),
        ("ClgraphExecutionProvider", {"device": "pocl:0"}, "CPU", "Intel"),
        ("ClgraphExecutionProvider", {"device": "rocm:0"}, "GPU", "Amd"),
    ]
    assert [d.device.vendor_id for d in found] == [0x8086, 0x8086, 0x1002]
    gpu = {"ClgraphExecutionProvider": {"device": "rocm:0"}}
    for policy in (POLICIES.PREFER_GPU, POLICIES.MAX_PERFORMANCE):
        assert selected(policy, identity()) == gpu
    for policy in (POLICIES.DEFAULT, POLICIES.PREFER_CPU, POLICIES.PREFER_NPU):
        assert selected(policy, identity()) == {"CPUExecutionProvider": {}}
    assert selected(lambda devices, *_: devices[:0:-1], identity()) == gpu
    options = ort.SessionOptions()
    options.add_provider_for_devices(found[2:], {"precision": "f16"})
    assert options.providers == {"ClgraphExecutionProvider": {"device": "rocm:0", "precision": "f16"}}
    with pytest.raises(Exception, match="same execution provider"):
        options.add_provider_for_devices(found[:2], {})


def test_a_program_decides_where_initialisers_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("CLGRAPH_DEVICE", "host")
    model = onnx.ModelProto.FromString(identity())
    small, large = np.ones(2, np.float32), np.arange(400, dtype=np.float32)
    model.graph.initializer.extend([numpy_helper.from_array(large, "large"), numpy_helper.from_array(small, "small")])
    seen = {}

    def place(name, value, info):
        seen[name] = info
        if value.tensor_size_in_bytes() < 64:
            return None
        (tmp_path / "weights.bin").write_bytes(b"head" + value.numpy().tobytes())
        return ort.OrtExternalInitializerInfo("weights.bin", 4, value.tensor_size_in_bytes())

    def compiled(source, path, function):
        ort.ModelCompiler(ort.SessionOptions(), source, get_initializer_location_func=function).compile_to_file(path)

    compiled(model.SerializeToString(), str(tmp_path / "made.onnx"), place)
    assert seen == {"large": None, "small": None}
    made = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "made.onnx").graph.initializer
    }
    np.testing.assert_array_equal(made["large"], large)
    np.testing.assert_array_equal(made["small"], small)
    compiled(
        str(tmp_path / "made.onnx"), str(tmp_path / "again.onnx"), lambda name, value, info: seen.update({name: info})
    )
    assert seen == {"large": ort.OrtExternalInitializerInfo("weights.bin", 4, 1600), "small": None}
