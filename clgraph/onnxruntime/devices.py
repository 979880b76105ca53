"""Devices and memory as ONNX Runtime's programs name them: ``OrtDevice``, ``OrtMemoryInfo``, ``OrtArenaCfg``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.onnxruntime.enumerations import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from clgraph.onnxruntime.statuses import InvalidArgument, MismatchError, RefusedError

_KINDS = {"cpu": 0, "cuda": 1, "gpu": 1, "webgpu": 1, "dml": 1, "fpga": 2, "npu": 3, "cann": 3}
"""Numbers of the kinds of devices in ONNX Runtime, by the names that :meth:`OrtDevice.make` takes."""
_HOST = ("cpu", "cpu_pinned", "cuda_pinned")
"""What programs call the host's memory."""
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI}


def get_ort_device_type(device_type: str) -> int:
    """Return the number of a kind of device; raises ``InvalidArgument`` for an unknown one."""
    if device_type not in _KINDS:
        raise InvalidArgument(f"no device is called {device_type!r}; there are {', '.join(_KINDS)}")
    return 4 if device_type == "dml" else _KINDS[device_type]


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId | None:
    """Return the vendor of a kind of device, ``None`` where there are several."""
    return OrtDeviceVendorId.NONE if device_type == "webgpu" else _VENDORS.get(device_type)


def check_host(device: Any, what: str) -> None:
    """Refuse what is not the host's memory: clgraph's devices are no others' memory.

    Args:
        device: A name, or an :class:`OrtDevice`.

    Raises:
        RefusedError: It is another's (a ``RuntimeError``, as where ONNX Runtime has no such device).
    """
    if isinstance(device, OrtDevice):
        there, name = device.device_type() == OrtDevice.cpu(), f"device {device.device_type()}"
    else:
        name = device if isinstance(device, str) else str(getattr(device, "name", device))
        there = name.lower() in _HOST
    if not there:
        raise RefusedError(
            f"{what}: can't allocate memory on the device {name!r}; clgraph's sessions read and write the host's (cpu)"
        )


def check_known(device: Any) -> None:
    """Refuse what is no device at all; raises ``InvalidArgument``."""
    if not isinstance(device, OrtDevice) and str(device).lower() not in _HOST:
        get_ort_device_type(device)


class OrtDevice:
    """A device: its kind, memory and number."""

    def __init__(self, device_type: Any = 0, memory: int = 0, device_id: int = 0, vendor_id: int = 0) -> None:
        """Take the numbers, or another device."""
        other = device_type if isinstance(device_type, OrtDevice) else None
        given = (int(memory), int(device_id), int(vendor_id))
        self._numbers: tuple[int, int, int, int] = (int(device_type), *given) if other is None else other._numbers

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """Return the device of a name, as ``cpu``; raises ``InvalidArgument`` for an unknown one."""
        get_ort_device_type(ort_device_name)
        vendor = int(_VENDORS.get(ort_device_name, 0)) if vendor_id < 0 else vendor_id
        return OrtDevice(_KINDS[ort_device_name], 0, device_id, vendor)

    cpu: Callable[[], int] = staticmethod(lambda: 0)
    cuda = gpu = webgpu = staticmethod(lambda: 1)
    fpga = staticmethod(lambda: 2)
    npu = cann = staticmethod(lambda: 3)
    dml = staticmethod(lambda: 4)
    default_memory = staticmethod(lambda: 0)

    def device_type(self) -> int:
        """Return the number of its kind."""
        return self._numbers[0]

    def device_mem_type(self) -> int:
        """Return the number of its memory."""
        return self._numbers[1]

    def device_id(self) -> int:
        """Return its number."""
        return self._numbers[2]

    def device_vendor_id(self) -> int:
        """Return its vendor."""
        return self._numbers[3]

    mem_type, vendor_id = device_mem_type, device_vendor_id

    def _get_c_device(self) -> OrtDevice:
        return self


@frozen
class OrtMemoryInfo:
    """A description of memory; clgraph plans its own."""

    name: str
    allocator_type: OrtAllocatorType
    device_id: int
    mem_type: OrtMemType
    device_mem_type: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT
    device_vendor_id: int = 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """Return the description of a device's memory."""
        return OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT, device_mem_type, vendor_id)


class OrtArenaCfg:
    """Wishes for an arena, -1 where there is none; clgraph plans its own."""

    _NAMES = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
    _FURTHER = ("initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")

    def __init__(self, *given: Any) -> None:
        """Take four numbers, or a dictionary of any; raises ``MismatchError`` for other arguments."""
        named = given[0] if len(given) == 1 else dict(zip(self._NAMES, given, strict=False))
        known = (*self._NAMES, *self._FURTHER)
        if not isinstance(named, Mapping) or len(given) not in (1, 4) or not set(named) <= set(known):
            raise MismatchError(f"an arena is four numbers, or a dictionary of {', '.join(known)}, not {given!r}")
        for name in known:
            setattr(self, name, int(named.get(name, -1)))
