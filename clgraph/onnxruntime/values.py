"""Values and devices as ONNX Runtime's programs hold them: ``OrtValue`` and ``OrtDevice``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from clgraph.model.tensor import Tensor
from clgraph.onnxruntime.statuses import InvalidArgument, RefusedError
from clgraph.onnxruntime.statuses import NotImplemented as NotHere
from clgraph.onnxruntime.typing_of import as_dtype, element_type, type_of

_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 4, "webgpu": 5}
"""Numbers of the kinds of devices in ONNX Runtime."""


def check_host(device_type: str, what: str) -> None:
    """Raise ``InvalidArgument`` unless *device_type* is the host's memory: clgraph's devices are no others' memory."""
    name = device_type if isinstance(device_type, str) else getattr(device_type, "name", str(device_type))
    if name.lower() not in ("cpu", "cpu_pinned", "cuda_pinned"):
        raise InvalidArgument(f"{what} in the memory of {name!r}: clgraph's sessions read and write the host's (cpu)")


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
        if ort_device_name not in _DEVICES:
            raise InvalidArgument(f"no device is called {ort_device_name!r}; there are {', '.join(_DEVICES)}")
        return OrtDevice(_DEVICES[ort_device_name], 0, device_id, max(vendor_id, 0))

    @staticmethod
    def cpu() -> int:
        """Return the number of the host's kind."""
        return _DEVICES["cpu"]

    @staticmethod
    def cuda() -> int:
        """Return the number of CUDA's kind."""
        return _DEVICES["cuda"]

    @staticmethod
    def default_memory() -> int:
        """Return the number of ordinary memory."""
        return 0

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

    def _get_c_device(self) -> OrtDevice:
        return self


class OrtValue:
    """A value in the host's memory: a tensor, or whatever else a model takes and returns.

    Attributes:
        value: The array; a sequence is a list, a map a dictionary.
    """

    def __init__(self, value: Any, numpy_obj: Any = None) -> None:
        """Hold *value*, itself; that of another ``OrtValue``."""
        self.value: Any = value.value if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, *_: Any) -> Self:
        """Return a value on the memory of an array."""
        check_host(device_type, "a value")
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int, /) -> Self:
        """Return a value of ONNX's element type on the bytes of an array."""
        return cls(np.asarray(data).view(as_dtype(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu", device_id: int = 0, *_: Any
    ) -> Self:
        """Return a value of zeros."""
        check_host(device_type, "a value")
        return cls(np.zeros(tuple(shape), as_dtype(np.float32 if element_type is None else element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> Self:
        """Return a value on the memory of what has ``__dlpack__``."""
        found: Any = np.from_dlpack(data)
        return cls(found.view(np.bool_) if is_bool_tensor else found)

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> OrtValue:
        """Refuse. Raises ``NotImplemented``, always."""
        raise NotHere("clgraph has no sparse tensors: give a dense array")

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    @property
    def _array(self) -> np.ndarray[Any, Any]:
        if isinstance(self.value, Tensor):
            return self.value.numpy()
        if not isinstance(self.value, np.ndarray):
            raise RefusedError(f"the value is a {type(self.value).__name__}, not a tensor")
        return self.value

    def numpy(self) -> Any:
        """Return the array, itself where it lies on the host; raises ``RuntimeError`` for what is no tensor."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._array, dtype, copy=copy)

    def shape(self) -> list[int]:
        """Return the sizes."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Return the type, as ``tensor(float)``."""
        if isinstance(self.value, list | tuple):
            inner = type_of(np.asarray(self.value[0]).dtype) if self.value else "tensor(float)"
            return f"seq({inner})"
        return type_of(self._array.dtype)

    def element_type(self) -> int:
        """Return ONNX's number of the element type."""
        return element_type(self._array.dtype)

    def tensor_size_in_bytes(self) -> int:
        """Return the bytes of its elements."""
        return int(self._array.nbytes)

    def device_name(self) -> str:
        """Return the kind of memory it lies in."""
        return "cpu"

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.ctypes.data)

    def has_value(self) -> bool:
        """Whether there is one: an optional may have none."""
        return self.value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self.value, np.ndarray | Tensor)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self.value, list | tuple)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor: never."""
        return False

    def update_inplace(self, np_arr: Any) -> None:
        """Copy an array of the same shape and type into its memory; raises ``InvalidArgument`` for another."""
        given = np_arr.value if isinstance(np_arr, OrtValue) else np.asarray(np_arr)
        if given.shape != self._array.shape or given.dtype != self._array.dtype:
            held = f"{self._array.dtype} {self.shape()}"
            raise InvalidArgument(f"a value of {held} cannot hold {given.dtype} {list(given.shape)}")
        np.copyto(self._array, given)

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule."""
        return self._array.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OrtValueVector(list[OrtValue]):
    """A list of values."""

    def push_back(self, value: Any) -> None:
        """Append a value, or an array."""
        self.append(value if isinstance(value, OrtValue) else OrtValue(value))


class SparseTensor:
    """Refused: clgraph has no sparse tensors. The class is there to be named."""

    def __init__(self, *_: Any) -> None:
        """Raise ``NotImplemented``."""
        raise NotHere("clgraph has no sparse tensors: give a dense array")

    sparse_coo_from_numpy = sparse_csr_from_numpy = classmethod(lambda cls, *_, **__: cls())


def array_at(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the memory at an address of the host as an array; whoever gave it keeps it alive."""
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_byte * count).from_address(int(address)) if count else bytearray()
    return np.frombuffer(memory, dtype).reshape(tuple(shape))


def copy_tensors(src: Iterable[OrtValue], dst: Iterable[OrtValue], stream: Any = None) -> None:
    """Copy each value of *src* into that of *dst*."""
    for given, held in zip(src, dst, strict=True):
        held.update_inplace(given)
