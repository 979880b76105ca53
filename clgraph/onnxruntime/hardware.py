"""Devices as ONNX Runtime's programs choose them: ``OrtEpDevice``, a provider on a piece of hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from clgraph.core.frozen import frozen
from clgraph.onnxruntime.devices import OrtMemoryInfo
from clgraph.onnxruntime.enumerations import (
    OrtAllocatorType,
    OrtCompiledModelCompatibility,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtHardwareDeviceType,
    OrtMemType,
)
from clgraph.onnxruntime.names import __version__
from clgraph.onnxruntime.providers import CPU, OWN
from clgraph.onnxruntime.statuses import RefusedError
from clgraph.runtime.device import HOST, Device, devices

_TYPES = {"gpu": OrtHardwareDeviceType.GPU, "accelerator": OrtHardwareDeviceType.NPU}
_VENDORS = {"advanced micro": OrtDeviceVendorId.AMD, **{v.name.lower(): v for v in OrtDeviceVendorId if v}}
"""Vendors by a part of what OpenCL calls them."""

HOST_MEMORY = OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)
"""Where every input and result lies."""


@frozen
class OrtHardwareDevice:
    """A piece of hardware.

    Attributes:
        vendor_id: Its number on the PCI bus, 0 where it is unknown.
        device_id: Its place among clgraph's devices.
        metadata: What OpenCL calls it and its driver.
    """

    type: OrtHardwareDeviceType
    vendor_id: int
    vendor: str
    device_id: int
    metadata: dict[str, str]


@frozen
class OrtEpDevice:
    """A provider on a piece of hardware.

    Attributes:
        ep_options: What makes the provider use it.
    """

    ep_name: str
    ep_vendor: str
    ep_metadata: dict[str, str]
    ep_options: dict[str, str]
    device: OrtHardwareDevice

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:
        """Return where inputs and results lie: the host's memory, for a CPU as with ONNX Runtime ``None``."""
        return None if self.device.type is OrtHardwareDeviceType.CPU else HOST_MEMORY

    def create_sync_stream(self) -> NoReturn:
        """Raise ``RuntimeError``: results are in the host's memory when a run returns."""
        raise RefusedError("there is no stream to synchronise: results are in host memory when a run returns")


def get_ep_devices() -> list[OrtEpDevice]:
    """Return the CPU, and every OpenCL device that computes rightly, for clgraph's provider."""
    there = _usable()
    about = {"version": __version__}
    cpu = next((d for d in there if d.info.kind == "cpu"), HOST)
    return [
        OrtEpDevice(CPU, "clgraph", about, {}, _hardware(cpu, 0)),
        *(OrtEpDevice(OWN, "clgraph", about, {"device": d.info.name}, _hardware(d, i)) for i, d in enumerate(there)),
    ]


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """Return every piece of hardware that a provider can use."""
    return [_hardware(d, i) for i, d in enumerate(_usable() or [HOST])]


def get_hardware_device_ep_incompatibility_details(ep_name: str, device: OrtHardwareDevice) -> dict[str, Any]:
    """Return that nothing speaks against a device: those that compute wrongly are not listed."""
    return {"reasons_bitmask": 0, "notes": None, "error_code": 0}


def get_compatibility_info_from_model(path: str, ep_name: str) -> None:
    """Return what a provider has noted in a model that it compiled: nothing, clgraph writes no such models."""


get_compatibility_info_from_model_bytes = get_compatibility_info_from_model


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """Return that what a provider has noted in a model says nothing about these devices."""
    return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def device_of(name: str, device: str) -> list[OrtEpDevice]:
    """Return the device that a session of the provider *name* runs on, by clgraph's name; none where it is no other."""
    return [d for d in get_ep_devices() if d.ep_name == name and d.ep_options.get("device", device) == device][:1]


def _usable() -> list[Device]:
    return [d for d in devices() if d.handle is not None and not d.refusal]


def _hardware(device: Device, number: int) -> OrtHardwareDevice:
    vendor = device.info.vendor
    known = next((number for part, number in _VENDORS.items() if part in vendor.lower()), None)
    metadata: Mapping[str, str] = {"Description": device.label, "Driver": device.info.driver}
    return OrtHardwareDevice(
        _TYPES.get(device.info.kind, OrtHardwareDeviceType.CPU),
        0 if known is None else int(known),
        vendor if known is None else known.name.capitalize(),
        number,
        {key: text for key, text in metadata.items() if text},
    )
