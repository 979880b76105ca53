"""Tensors of a model file as NumPy arrays, without a copy of the data where the file allows it."""

from __future__ import annotations

import stat
from math import prod
from pathlib import Path

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.mapped import MappedFile
from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.protobuf import TensorProto, onnx
from clgraph.graph.primitive import Array

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.F32,
    TensorProto.DOUBLE: DType.F64,
    TensorProto.FLOAT16: DType.F16,
    TensorProto.INT64: DType.I64,
    TensorProto.INT32: DType.I32,
    TensorProto.INT16: DType.I16,
    TensorProto.INT8: DType.I8,
    TensorProto.UINT64: DType.U64,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT16: DType.U16,
    TensorProto.UINT8: DType.U8,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.BFLOAT16: DType.BF16,
    TensorProto.FLOAT8E4M3FN: DType.F8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.F8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.F8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.F8E5M2FNUZ,
    # By their numbers in onnx.proto, for which releases of onnx from 1.16 on have names one after the other.
    21: DType.U4,
    22: DType.I4,
    23: DType.F4E2M1,
    24: DType.F8E8M0,
    25: DType.U2,
    26: DType.I2,
}

LFS_POINTER = b"version https://git-lfs"
"""How a file begins that stands for one in a repository of Git LFS."""

_CODES = {dtype: code for code, dtype in DTYPES.items()}
_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.INT32: "int32_data",
}
"""Where data lies that is not raw, of the types whose elements lie there as they are."""


def code_of(array: Array) -> int:
    """Return ONNX's element type of *array*, whose elements are numbers or ``str``."""
    return TensorProto.STRING if array.dtype == object else _CODES[DType.of(array.dtype)]


def dtype_of(code: int, what: str) -> DType:
    """Return the element type of an ONNX type *code*.

    Raises:
        ModelError: *code* is no ONNX element type.
        UnsupportedError: clgraph does not hold the type; *what* says whose it is.
    """
    if code in DTYPES:
        return DTYPES[code]
    if code not in TensorProto.DataType.values() or code == TensorProto.UNDEFINED:
        raise ModelError(f"{what} has element type {code}, which ONNX does not define")
    raise UnsupportedError(f"{what} has element type {TensorProto.DataType.Name(code)}, which clgraph does not hold")


def read_tensor(tensor: onnx.TensorProto, what: str, folder: Path | None, raw: Array | None = None) -> Array:
    """Return the data of *tensor* as a read-only array; strings as one of ``str``.

    Args:
        folder: Where external data may lie; nothing outside it is opened.
        raw: The bytes of ``raw_data``, where they were left out of *tensor*.

    Raises:
        ModelError: The data is missing, has another size than the shape says, or lies outside *folder*.
        UnsupportedError: clgraph does not hold the element type.
    """
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"{what} has shape {list(shape)}")
    if tensor.data_type == TensorProto.STRING:
        return _strings(tensor, what, shape)
    dtype = dtype_of(tensor.data_type, what)
    wanted = -(-prod(shape) * dtype.bits // 8)
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external(tensor, what, folder, wanted)
    elif raw is not None:
        data = raw
    elif tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        return _typed_fields(tensor, what, shape)
    if data.nbytes != wanted:
        raise ModelError(f"{what} has {data.nbytes} bytes of data; {dtype} of shape {list(shape)} takes {wanted}")
    if dtype.bits < 8:
        return _unpacked(data, dtype, prod(shape)).reshape(shape)
    array = data.view(dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)
    # With another object for the same type, NumPy's ufunc.at takes a hundred times as long.
    return array.view(dtype.numpy).reshape(shape)


def _strings(tensor: onnx.TensorProto, what: str, shape: tuple[int, ...]) -> Array:
    if len(tensor.string_data) != prod(shape):
        raise ModelError(f"{what} has {len(tensor.string_data)} strings; shape {list(shape)} takes {prod(shape)}")
    array = np.empty(len(tensor.string_data), object)
    array[:] = [text.decode("utf-8", "replace") for text in tensor.string_data]
    array.flags.writeable = False
    return array.reshape(shape)


def _unpacked(data: Array, dtype: DType, count: int) -> Array:
    """Return *count* elements, a byte each, of which *data* packs several into a byte, the first in its lowest bits."""
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    whole = (data[:, None] >> shifts & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    whole.flags.writeable = False
    return whole.view(dtype.numpy)


def _typed_fields(tensor: onnx.TensorProto, what: str, shape: tuple[int, ...]) -> Array:
    field = _FIELDS.get(tensor.data_type)
    try:
        if field is None:
            array = onnx.numpy_helper.to_array(tensor)
        else:
            array = np.array(getattr(tensor, field), DTYPES[tensor.data_type].numpy).reshape(shape)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{what} does not hold the data of shape {list(shape)}: {error}") from error
    array.flags.writeable = False
    return array


def _external(tensor: onnx.TensorProto, what: str, folder: Path | None, wanted: int) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(f"{what} lies in the file {location!r} beside the model: give the model's path, not its bytes")
    if not location or "\0" in location:
        raise ModelError(f"{what} lies in {location!r}, which is the name of no file")
    try:
        path = (folder / location).resolve()
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{what} lies in {location!r}, which cannot be read: {error}") from error
    if not path.is_relative_to(folder):
        raise ModelError(f"{what} lies in {location!r}, which is outside the model's folder")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", wanted))
        status = path.stat()
    except (OSError, ValueError) as error:
        raise ModelError(f"{what} lies in {path}, which cannot be read: {error}") from error
    size = status.st_size
    if not stat.S_ISREG(status.st_mode):  # whoever opens a pipe waits until somebody writes into it
        raise ModelError(f"{what} lies in {path}, which is no file but a folder, a pipe or a device")
    if offset < 0 or length < 0 or offset + length > size:
        pointer = size < 1024 and path.read_bytes().startswith(LFS_POINTER)
        more = " and stands for it in a repository of Git LFS: `git lfs pull` fetches it" if pointer else ""
        raise ModelError(f"{what} requires bytes {offset} to {offset + length} of {path}, which has {size}{more}")
    if length == 0:
        return np.empty(0, np.uint8)
    try:
        return np.frombuffer(MappedFile(path), np.uint8)[offset : offset + length]
    except (OSError, ValueError) as error:
        raise ModelError(f"{what} lies in {path}, which cannot be read: {error}") from error
