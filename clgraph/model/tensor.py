"""Arrays in the memory of a device, which models read and write without leaving it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.engines.opening import open_engines, options_of
from clgraph.errors import InputError, UnsupportedError
from clgraph.graph.primitive import Array
from clgraph.model.numpy_arrays import UNREADABLE, check_mask, given_as, numpy_array
from clgraph.network.tensors import empty
from clgraph.runtime import callers_buffer
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.runtime.memory import Memory

_CPU = (1, 0)
"""DLPack's device type and number of the host: https://dmlc.github.io/dlpack/latest/c_api.html."""


class Tensor:
    """A dense array in the memory of a device.

    ``Model.run`` reads it, writes to it, and returns it on request, so that models can be chained without a copy to the
    host and back. It owns its memory, whatever becomes of the model that made it.

    On devices that work on the host's memory (PoCL, ``host``) :meth:`numpy`, ``np.asarray`` and DLPack give the memory
    itself: what is written there, the tensor holds, and a model that is run into the tensor changes it. Its first byte
    is aligned, which an array that kernels write to must be. On other devices they copy.

    Attributes:
        shape: Sizes of the dimensions.
        dtype: NumPy's element type.
    """

    __slots__ = ("_array", "_engine", "_memory", "dtype", "shape")

    def __init__(self, array: Any, device: str | int = "auto") -> None:
        """Copy an array to a device.

        Args:
            array: A NumPy array, a tensor, or anything that NumPy or DLPack can make one of.
            device: As for :func:`clgraph.compile`.

        Raises:
            InputError: *array* is none, or of an element type that clgraph does not hold.
            DeviceError: There is no such device.
            DeviceMemoryError: The device has no memory left for it.
        """
        found = host_array(array, "the array")
        self._place(found.shape, _held_dtype(found.dtype), _engine_of(device))
        self.fill(found)

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any = np.float32, device: str | int = "auto") -> Tensor:
        """Return a tensor that holds anything; raises as the constructor."""
        return cls._on(_engine_of(device), shape, _held_dtype(dtype))

    @classmethod
    def from_dlpack(cls, source: Any, device: str | int = "auto") -> Tensor:
        """Return the memory of *source*, which has ``__dlpack__``, as a tensor; copied where the device is another.

        OpenCL's memory stays where it is, in its own context, whatever *device* says. Raises as the constructor.
        """
        from clgraph.runtime import dlpack

        check_mask(source, "the array")
        if hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] == dlpack.OPENCL:
            found = dlpack.taken(source.__dlpack__())
            made = cls.from_buffer(found.address, found.shape, found.dtype, offset=found.start)
            weakref.finalize(made._memory, found.release)
            return made
        try:
            array: Array = np.from_dlpack(source)
        except UNREADABLE as error:
            raise InputError(f"{type(source).__name__} cannot be taken over by DLPack: {error}") from error
        engine = _engine_of(device)
        if not _on_host(engine) or not array.flags.c_contiguous:
            return cls(array, device)
        _held_dtype(array.dtype)
        made = cls.__new__(cls)
        made.shape, made.dtype = array.shape, array.dtype
        made._engine, made._memory, made._array = engine, None, array
        return made

    @classmethod
    def from_buffer(
        cls, buffer: Any, shape: Sequence[int] = (), dtype: Any = np.float32, *, offset: int = 0, queue: Any = None
    ) -> Tensor:
        """Return memory that OpenCL code of the caller's has allocated as a tensor; it is never copied.

        Args:
            buffer: A ``pyopencl.Buffer``, a ``pyopencl.array.Array``, which has a shape, a type and an offset of its
                own, or the address of a ``cl_mem``.
            shape: Sizes of the dimensions; the elements lie densely, the last axis fastest.
            dtype: Their type.
            offset: Bytes in front of the first element.
            queue: The caller's queue, whose commands come before those on the tensor; that of an array by default.

        Raises:
            InputError: The buffer is none, too small, or of an element type that clgraph does not hold.
            DeviceError: It belongs to another context than the queue, or to no device that clgraph finds.
        """
        from clgraph.runtime import callers_image
        from clgraph.runtime.callers_queue import adopt

        if callers_buffer.is_array(buffer):
            shape, dtype = buffer.shape, buffer.dtype
            buffer, offset, own = callers_buffer.part_of_array(buffer)
            queue = own if queue is None else queue
        elif isinstance(buffer, int) and not isinstance(buffer, bool):
            buffer = callers_buffer.buffer_at(buffer)
        elif callers_image.is_image(buffer):
            raise InputError("an image is not a buffer: Tensor.from_image makes a tensor of it")
        elif not callers_buffer.is_buffer(buffer):
            raise InputError(f"a buffer is pyopencl's, or the address of one, not {type(buffer).__name__}")
        made = cls.__new__(cls)
        made.shape, made.dtype = tuple(int(n) for n in shape), _held_dtype(dtype)
        callers = adopt(buffer.context, queue)
        made._engine = engine = _engine_of(callers.name)
        assert isinstance(engine, Engine)
        made._memory = callers_buffer.memory_of(buffer, offset, made.nbytes)
        made._array = callers_buffer.mapped(engine, made._memory, made.shape, made.dtype) if _on_host(engine) else None
        return made

    @classmethod
    def from_image(cls, image: Any, *, queue: Any = None) -> Tensor:
        """Return the pixels of a ``pyopencl.Image`` as a tensor ``[rows, columns]``, or with four values a pixel.

        They are copied once, on the device; the values are those that the image stores. :class:`clgraph.Preprocess`
        says what a model makes of them.

        Args:
            image: Of two dimensions; R, RGBA or BGRA in 8 or 16 bits, or floats.
            queue: The caller's queue, whose commands come before the copy.

        Raises:
            InputError: It is none, or holds something else.
            DeviceError: The device has no images, or it belongs to another context than the queue.
        """
        from clgraph.runtime import callers_image
        from clgraph.runtime.callers_queue import adopt

        if not callers_image.is_image(image):
            raise InputError(f"an image is pyopencl's, not {type(image).__name__}")
        callers = adopt(image.context, queue)
        engine = _engine_of(callers.name)
        assert isinstance(engine, Engine)
        pixels = callers_image.pixels_of(image)
        buffer = callers_image.copied(image, engine.stream.queue)
        return cls.from_buffer(buffer, pixels.shape, pixels.dtype, queue=queue)

    @property
    def is_writable(self) -> bool:
        """Whether a run may leave a result in it: not in a buffer that kernels only read."""
        if self._memory is not None:
            return callers_buffer.is_writable(self._memory)
        return self._array is None or bool(self._array.flags.writeable)

    @classmethod
    def _on(cls, engine: Engine | HostEngine, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        made = cls.__new__(cls)
        made._place(shape, dtype, engine)
        return made

    @GATE
    def _place(self, shape: tuple[int, ...], dtype: np.dtype[Any], engine: Engine | HostEngine) -> None:
        self.shape, self.dtype, self._engine = shape, dtype, engine
        self._memory: Memory | None = None
        self._array: Array | None = None
        if isinstance(engine, HostEngine) or _on_host(engine):
            self._array = empty(shape, dtype)
        else:
            self._memory = engine.allocate(self.nbytes, f"a tensor {dtype} {list(shape)}")

    @property
    def device(self) -> str:
        """Name of the device that holds it, e.g. ``pocl:0``."""
        return self._engine.info.name

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def held(self) -> Array | Memory:
        """What holds the elements: an array of the host, or memory of the device."""
        if self._array is not None:
            return self._array
        assert self._memory is not None
        return self._memory

    @property
    def memory(self) -> Memory | None:
        """The buffer that it lies in, ``None`` for an array of the host."""
        return self._memory

    @GATE
    def numpy(self) -> Array:
        """Return it as a NumPy array: its memory itself where the device works on the host's, else a copy."""
        if self._array is not None:
            return self._array
        assert self._memory is not None
        assert isinstance(self._engine, Engine)
        found = np.empty(self.shape, self.dtype)
        self._engine.stream.read(self._memory, self._memory.start, found)
        return found

    @GATE
    def fill(self, array: Array) -> None:
        """Make the elements of *array*, of the same shape, the tensor's; raises ``InputError`` for another shape."""
        if array.shape != self.shape:
            raise InputError(f"a tensor of shape {list(self.shape)} cannot hold {list(array.shape)}")
        if self._array is not None:
            self._array[...] = array
            return
        assert self._memory is not None
        assert isinstance(self._engine, Engine)
        self._engine.stream.write(self._memory, self._memory.start, np.ascontiguousarray(array, self.dtype))
        self._engine.stream.finish()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return it for ``np.asarray``; raises ``ValueError`` where *copy* is ``False`` and one is needed."""
        if copy is False and self._array is None:
            raise ValueError(f"the tensor lies in the memory of {self.device}: a copy cannot be avoided")
        return given_as(self.numpy(), dtype, copy if self._array is not None else None)

    def __dlpack__(self, *, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **options: Any) -> Any:
        """Return a DLPack capsule of where it lies: the host's memory, else OpenCL's, which NumPy does not read.

        Raises:
            BufferError: It lies on a device, and a copy there or on another one was asked for; that on the host is
                ``dl_device=(1, 0)``.
        """
        if self._array is None and (dl_device is None or tuple(dl_device) != _CPU or copy is False):
            if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
                raise BufferError(
                    f"the tensor lies in the memory of {self.device}: ask for dl_device=(1, 0), or for numpy()"
                )
            assert self._memory is not None
            from clgraph.runtime import dlpack

            return dlpack.capsule(self._memory.handle, self._memory.start, self.shape, self.dtype)
        asked = {"dl_device": dl_device, "copy": copy}  # NumPy before 2.1 knows neither
        options |= {name: value for name, value in asked.items() if value is not None}
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type and number of the device."""
        from clgraph.runtime import dlpack

        return _CPU if self._array is not None else (dlpack.OPENCL, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype} {list(self.shape)} on {self.device}>"


def new_tensor(engine: Engine | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """Return a tensor that holds anything, on *engine* or for ``None`` on the host."""
    return Tensor._on(HostEngine() if engine is None else engine, shape, dtype)


def host_array(given: Any, what: str) -> Array:
    """Return *given*, a tensor or what :func:`numpy_array` takes, as a NumPy array; raises as that."""
    return given.numpy() if isinstance(given, Tensor) else numpy_array(given, what)


def taken(given: Any, what: str) -> Array | Tensor:
    """Return what a run is fed as a tensor where it lies on a device, else as an array; raises as :func:`host_array`.

    Raises:
        InputError: It is a buffer without shape and type.
    """
    if type(given) is np.ndarray or isinstance(given, Tensor):
        return given
    if callers_buffer.is_array(given):
        return Tensor.from_buffer(given)
    from clgraph.runtime import callers_image

    if callers_image.is_image(given):
        raise InputError(f"{what} is an image: clgraph.Tensor.from_image makes a tensor of it")
    if callers_buffer.is_buffer(given):
        raise InputError(f"{what} is a buffer, of unknown shape and type: clgraph.Tensor.from_buffer gives it both")
    return host_array(given, what)


def _engine_of(device: str | int) -> Engine | HostEngine:
    return next(iter(open_engines(options_of(device)).values()))


def _on_host(engine: Engine | HostEngine) -> bool:
    return isinstance(engine, HostEngine) or "host_memory" in engine.info.features


def _held_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        return DType.of(np.dtype(dtype).newbyteorder("=")).numpy
    except (UnsupportedError, TypeError) as error:
        raise InputError(f"a tensor cannot hold it: {error}") from error
