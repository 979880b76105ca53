"""Values as ONNX Runtime's programs hold them: ``OrtValue``."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from clgraph.model.numpy_arrays import given_as
from clgraph.model.tensor import Tensor
from clgraph.onnxruntime.devices import OrtMemoryInfo, check_host
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.statuses import MismatchError, RefusedError
from clgraph.onnxruntime.typing_of import as_dtype, check_numbers, element_type, sizes_of, type_of


class OrtValue:
    """A value in the host's memory: a tensor, or whatever else a model takes and returns.

    Attributes:
        value: The array; a sequence is a list, a map a dictionary.
        keeps: What must live as long as the value, as its memory is that one's.
    """

    keeps: Any = None

    def __init__(self, value: Any, numpy_obj: Any = None) -> None:
        """Hold *value*, itself; that of another ``OrtValue``."""
        self.value: Any = value.value if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> Self:
        """Return a value on the memory of an array, on a copy of one whose elements do not follow each other.

        Raises:
            RefusedError: It is none, or one of texts or objects (a ``RuntimeError``).
        """
        check_host(device_type, "a value")
        return cls(np.asarray(checked_array(numpy_obj), order="C"))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, /, onnx_element_type: int) -> Self:
        """Return a value of ONNX's element type on the bytes of an array; raises ``RuntimeError`` for other sizes."""
        array, dtype = np.asarray(data, order="C"), as_dtype(onnx_element_type)
        if array.itemsize != dtype.itemsize:
            raise RefusedError(
                f"elements of {array.dtype} have {array.itemsize} bytes, those of {dtype} another number"
            )
        return cls(array.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: Any = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> Self:
        """Return a value of zeros.

        Raises:
            RefusedError: A size is negative, there are too many elements, they are no numbers, or the memory is
                another device's (a ``RuntimeError``).
            MismatchError: The shape is not one, or *memory_info* something else.
        """
        if memory_info is not None and not isinstance(memory_info, OrtMemoryInfo):
            raise MismatchError(f"memory_info is an OrtMemoryInfo, not {type(memory_info).__name__}")
        check_host(device_type if memory_info is None else memory_info, "a value")
        sizes = sizes_of(shape)
        try:
            return cls(np.zeros(sizes, as_dtype(np.float32 if element_type is None else element_type)))
        except ValueError as error:
            raise RefusedError(f"a value of shape {list(sizes)}: {error}") from error

    @classmethod
    def ortvalue_from_shape_and_onnx_type(cls, shape: Sequence[int], onnx_element_type: int, device: Any) -> Self:
        """Return a value of zeros of ONNX's element type."""
        return cls.ortvalue_from_shape_and_type(shape, onnx_element_type, device)

    @classmethod
    def ortvalue_from_shape_and_type_for_memory_info(cls, shape: Sequence[int], element_type: Any, memory: Any) -> Self:
        """Return a value of zeros in the memory that is described; raises ``RuntimeError`` for another's."""
        return cls.ortvalue_from_shape_and_type(shape, element_type, memory)

    ortvalue_from_shape_and_onnx_type_for_memory_info = ortvalue_from_shape_and_type_for_memory_info

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> Self:
        """Return a value on the memory of what has ``__dlpack__``, or of its capsule."""
        try:
            found: Any = np.from_dlpack(data if hasattr(data, "__dlpack__") else _Capsule(data))
        except ValueError as error:
            raise MismatchError(f"a {type(data).__name__} is not a DLPack capsule: {error}") from error
        return cls(found.view(np.bool_) if is_bool_tensor else found)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> Self:
        """Return a value that holds a sparse tensor."""
        return cls(sparse_tensor)

    def as_sparse_tensor(self) -> SparseTensor:
        """Return the sparse tensor; raises ``RuntimeError`` for what is none."""
        if not isinstance(self.value, SparseTensor):
            raise RefusedError(f"the value is a {type(self.value).__name__}, not a sparse tensor")
        return self.value

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
        """Return the array, itself where it lies on the host; raises ``RuntimeError`` for what is not a tensor."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return given_as(self._array, dtype, copy)

    def shape(self) -> list[int]:
        """Return the sizes."""
        return self.value.dense_shape() if isinstance(self.value, SparseTensor) else list(self._array.shape)

    def data_type(self) -> str:
        """Return the type, as ``tensor(float)``."""
        if isinstance(self.value, SparseTensor):
            return self.value.data_type()
        if isinstance(self.value, list | tuple):
            return f"seq({type_of(_dtype_within(self.value))})"
        return type_of(self._array.dtype)

    def element_type(self) -> int:
        """Return ONNX's number of the element type, of a sequence that of its tensors."""
        if isinstance(self.value, list | tuple):
            return element_type(_dtype_within(self.value))
        held = self.value.values() if isinstance(self.value, SparseTensor) else self._array
        return element_type(held.dtype)

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
        """Whether it is a sparse tensor."""
        return isinstance(self.value, SparseTensor)

    def update_inplace(self, data: Any) -> None:
        """Copy as many elements of the same type into its memory.

        Raises:
            RefusedError: There are more or less, or of another type (a ``RuntimeError``).
            MismatchError: It is not an array and no value.
        """
        if not isinstance(data, np.ndarray | OrtValue):
            raise MismatchError(f"a value takes an array or a value, not {type(data).__name__}")
        given = data._array if isinstance(data, OrtValue) else data
        if given.size != self._array.size or given.dtype != self._array.dtype:
            held = f"{self._array.dtype} {self.shape()}"
            raise RefusedError(f"a value of {held} cannot hold {given.dtype} {list(given.shape)}")
        np.copyto(self._array, given.reshape(self._array.shape))

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule."""
        return self._array.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Capsule:
    """What NumPy takes a capsule of the host's memory from."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def checked_array(given: Any) -> np.ndarray[Any, Any]:
    """Return *given*, an array of numbers; raises ``RefusedError`` (a ``RuntimeError``) for anything else."""
    only = "Creation of OrtValues is currently only supported from non-string numpy arrays"
    if not isinstance(given, np.ndarray):
        raise RefusedError(f"{only}, not from a {type(given).__name__}")
    try:
        check_numbers(given.dtype)
    except RefusedError as error:
        raise RefusedError(f"{only}: {error}") from error
    return given


def array_at(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the memory at an address of the host as an array; whoever gave it keeps it alive.

    Raises:
        RefusedError: The address is that of nothing, or a size is negative.
        MismatchError: The address is not a whole number, or the shape is not one.
    """
    if not hasattr(address, "__index__"):
        raise MismatchError(f"a pointer to data memory is a whole number, not {address!r}")
    if not address:
        raise RefusedError("the pointer to data memory is 0")
    sizes = sizes_of(shape)
    count = math.prod(sizes) * dtype.itemsize
    memory: Any = (ctypes.c_byte * count).from_address(int(address)) if count else bytearray()
    return np.frombuffer(memory, dtype).reshape(sizes)


def _dtype_within(sequence: Sequence[Any]) -> np.dtype[Any]:
    """Return the type of the first tensor; an empty sequence counts as one of ``float32``."""
    return np.asarray(sequence[0]).dtype if sequence else np.dtype(np.float32)
