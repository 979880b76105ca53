"""Buffers of OpenGL and of other drivers (dma-buf), acquired for a run and released."""

import ctypes

import numpy as np
import pytest

from clgraph.errors import DeviceError
from clgraph.model.shared import dma_buf, opengl_buffer
from clgraph.runtime import shared_objects

pytestmark = pytest.mark.opencl

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")


def test_opengl_and_dma_bufs_are_for_devices_that_declare_them(queue):
    with (
        pytest.raises(DeviceError, match="cl_khr_gl_sharing; copy through the host"),
        opengl_buffer(queue, 1, (4,)),
    ):
        pass
    with pytest.raises(DeviceError, match="cl_khr_external_memory_dma_buf"), dma_buf(queue, 3, (4,)):
        pass


def test_shared_objects_are_acquired_and_released(queue, monkeypatch):
    """As a driver does that has the extension: there is none here, so that its functions are made up."""
    calls = []
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=16)
    monkeypatch.setattr(shared_objects, "_require", lambda *_: None)

    def function(_, name):
        def call(*arguments):
            calls.append((name, arguments))
            return _retained(buffer) if "Create" in name else 0

        return call

    monkeypatch.setattr(shared_objects, "_function", function)
    with opengl_buffer(queue, 7, (4,)) as tensor:
        tensor.fill(np.arange(4, dtype=np.float32))
    cl.enqueue_copy(queue, found := np.empty(4, np.float32), buffer)
    np.testing.assert_array_equal(found, np.arange(4))
    with dma_buf(queue, 9, (2, 2)):
        pass
    names = [name for name, _ in calls]
    assert names == [
        "clCreateFromGLBuffer",
        "clEnqueueAcquireGLObjects",
        "clEnqueueReleaseGLObjects",
        "clCreateBufferWithProperties",
        "clEnqueueAcquireExternalMemObjectsKHR",
        "clEnqueueReleaseExternalMemObjectsKHR",
    ]
    assert calls[0][1][2] == 7
    assert list(calls[3][1][1]) == [0x2067, 9, 0]
    assert calls[3][1][3] == 16


def _retained(buffer):
    """Return the address of *buffer* with one reference more, as what creates one gives it."""
    retain = shared_objects.driver.load().library.clRetainMemObject
    retain.argtypes = (ctypes.c_void_p,)
    retain(buffer.int_ptr)
    return buffer.int_ptr
