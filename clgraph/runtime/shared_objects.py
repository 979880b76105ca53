"""Buffers of OpenGL and of Linux' dma-buf as OpenCL's, where a device declares the extensions for them.

cl_khr_gl_sharing and cl_khr_external_memory_dma_buf, OpenCL 3.0 Extension Specification, sections 8 and 46.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clgraph.errors import DeviceError
from clgraph.runtime import driver

GL_SHARING = "cl_khr_gl_sharing"
DMA_BUF = "cl_khr_external_memory_dma_buf"
_DMA_BUF_HANDLE = 0x2067
_READ_WRITE = 1

_INT, _UINT, _POINTER, _SIZE = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t
_ENQUEUE = (_INT, (_POINTER, _UINT, _POINTER, _UINT, _POINTER, _POINTER))
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "clCreateFromGLBuffer": (_POINTER, (_POINTER, ctypes.c_uint64, _UINT, _POINTER)),
    "clEnqueueAcquireGLObjects": _ENQUEUE,
    "clEnqueueReleaseGLObjects": _ENQUEUE,
    "clCreateBufferWithProperties": (_POINTER, (_POINTER, _POINTER, ctypes.c_uint64, _SIZE, _POINTER, _POINTER)),
    "clEnqueueAcquireExternalMemObjectsKHR": _ENQUEUE,
    "clEnqueueReleaseExternalMemObjectsKHR": _ENQUEUE,
}


def gl_buffer(queue: Any, name: int) -> Any:
    """Return OpenGL's buffer object *name* as a buffer of the queue's context, which shares with OpenGL's.

    Raises:
        DeviceError: The device does not share with OpenGL, or the driver refuses it.
    """
    _require(queue, GL_SHARING, "buffers of OpenGL")
    code = _INT(0)
    made = _function(queue, "clCreateFromGLBuffer")(queue.context.int_ptr, _READ_WRITE, name, ctypes.byref(code))
    return _buffer(made, code.value, f"OpenGL's buffer {name}")


def dma_buf(queue: Any, descriptor: int, nbytes: int) -> Any:
    """Return *nbytes* bytes of the dma-buf of a file *descriptor* as a buffer of the queue's context.

    Raises:
        DeviceError: The device imports no dma-bufs, or the driver refuses it.
    """
    _require(queue, DMA_BUF, "dma-bufs")
    code, properties = _INT(0), (ctypes.c_uint64 * 3)(_DMA_BUF_HANDLE, descriptor, 0)
    create = _function(queue, "clCreateBufferWithProperties")
    made = create(queue.context.int_ptr, properties, _READ_WRITE, nbytes, None, ctypes.byref(code))
    return _buffer(made, code.value, f"the dma-buf {descriptor}")


@contextmanager
def acquired(queue: Any, buffer: Any, extension: str) -> Iterator[None]:
    """Let OpenCL have *buffer* inside the block, and the others, behind a finished queue, again after it.

    Raises:
        DeviceError: The driver refuses it.
    """
    objects = "GLObjects" if extension == GL_SHARING else "ExternalMemObjectsKHR"
    _enqueue(queue, f"clEnqueueAcquire{objects}", buffer)
    try:
        yield
    finally:
        _enqueue(queue, f"clEnqueueRelease{objects}", buffer)
        queue.finish()


def _require(queue: Any, extension: str, what: str) -> None:
    if extension not in queue.device.extensions.split():
        raise DeviceError(f"{queue.device.name} does not share {what}: it has no {extension}; copy through the host")


def _buffer(address: int | None, code: int, what: str) -> Any:
    if code or not address:
        raise DeviceError(f"the driver does not share {what}: error {code}")
    return driver.load().Buffer.from_int_ptr(address, False)


def _enqueue(queue: Any, name: str, buffer: Any) -> None:
    objects = (_POINTER * 1)(buffer.int_ptr)
    if code := _function(queue, name)(queue.int_ptr, 1, objects, 0, None, None):
        raise DeviceError(f"{name} failed: error {code}")


def _function(queue: Any, name: str) -> Any:
    """Return a function of the loader's, or of an extension of the queue's platform."""
    result, arguments = _SIGNATURES[name]
    library = driver.load().library
    if hasattr(library, name):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        return function
    find = library.clGetExtensionFunctionAddressForPlatform
    find.restype, find.argtypes = _POINTER, (_POINTER, ctypes.c_char_p)
    address = find(queue.device.platform.int_ptr, name.encode())
    if not address:
        raise DeviceError(f"the driver of {queue.device.name} has no {name}")
    return ctypes.CFUNCTYPE(result, *arguments)(address)
