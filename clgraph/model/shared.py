"""Memory of OpenGL and of dma-bufs as tensors, for the time of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from clgraph.model.tensor import Tensor
from clgraph.runtime import shared_objects


@contextmanager
def opengl_buffer(queue: Any, name: int, shape: Sequence[int], dtype: Any = np.float32) -> Iterator[Tensor]:
    """Give OpenGL's buffer object *name* as a tensor inside the block, in which OpenGL must leave it alone.

    Args:
        queue: A ``pyopencl.CommandQueue`` of a context that shares with OpenGL's; a model compiled with it copies
            nothing through the host.
        shape, dtype: Of the dense elements in the buffer.

    Raises:
        DeviceError: The device does not share with OpenGL (cl_khr_gl_sharing), or the driver refuses it.
        InputError: The buffer is too small.
    """
    buffer = shared_objects.gl_buffer(queue, name)
    with shared_objects.acquired(queue, buffer, shared_objects.GL_SHARING):
        yield Tensor.from_buffer(buffer, shape, dtype, queue=queue)


@contextmanager
def dma_buf(queue: Any, descriptor: int, shape: Sequence[int], dtype: Any = np.float32) -> Iterator[Tensor]:
    """Give the dma-buf of a file *descriptor*, a camera's or a decoder's, as a tensor inside the block.

    The descriptor stays the caller's. Arguments as for :func:`opengl_buffer`.

    Raises:
        DeviceError: The device imports no dma-bufs (cl_khr_external_memory_dma_buf), or the driver refuses it.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = shared_objects.dma_buf(queue, descriptor, nbytes)
    with shared_objects.acquired(queue, buffer, shared_objects.DMA_BUF):
        yield Tensor.from_buffer(buffer, shape, dtype, queue=queue)
