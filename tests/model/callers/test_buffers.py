"""Models on the callers' buffers, from any byte of them, and on other libraries' through DLPack."""

import gc

import numpy as np
import pytest

import clgraph
from clgraph import Tensor
from clgraph.errors import InputError, UnsupportedError
from clgraph.runtime import dlpack
from tests.support.callers import BOUND, COLUMNS, ROWS

pytestmark = pytest.mark.opencl

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")
cla = pytest.importorskip("pyopencl.array", reason="the caller's programs are pyopencl's")


def test_an_array_in_a_buffer_outlives_what_named_it(queue):
    held = Tensor.from_buffer(cla.to_device(queue, np.arange(8, dtype="f")).data, (2, 4), queue=queue).numpy()[1:]
    gc.collect()
    cla.to_device(queue, np.full(8, 7, "f"))
    np.testing.assert_array_equal(held, [[4, 5, 6, 7]])


def test_only_device_memory_is_enqueued(case, queue, model):
    x, out = cla.to_device(queue, case[1]), cla.zeros(queue, (ROWS, COLUMNS), np.float32)
    with pytest.raises(InputError, match=r"input 'x0' .* lies in a buffer"):
        model.enqueue(case[1], outputs={"y0": out})
    with pytest.raises(InputError, match="no output is called 'z'"):
        model.enqueue(x, outputs={"z": out})
    with pytest.raises(UnsupportedError, match="compile the model with queue="):
        clgraph.compile(case[0], context=queue.context).enqueue(x, outputs={"y0": out})
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    loose = clgraph.compile(case[0], queue=cl.CommandQueue(queue.context, properties=out_of_order))
    with pytest.raises(UnsupportedError, match="any order"):
        loose.enqueue(x, outputs={"y0": out})


@pytest.mark.parametrize("start", [0, 12, 256])
def test_a_tensor_begins_anywhere_in_a_buffer(start, case, queue, model):
    nbytes = case[1].nbytes
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=start + nbytes)
    tensor = Tensor.from_buffer(buffer, case[1].shape, offset=start, queue=queue)
    tensor.fill(case[1])
    cl.enqueue_copy(queue, found := np.empty(nbytes // 4, np.float32), buffer, src_offset=start)
    np.testing.assert_array_equal(found.reshape(case[1].shape), case[1])
    np.testing.assert_allclose(model.run(tensor)["y0"], case[2], **BOUND)
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=start + case[2].nbytes)
    held = Tensor.from_buffer(out, case[2].shape, offset=start, queue=queue)
    model.run({"x0": tensor}, {"y0": held})
    np.testing.assert_allclose(held.numpy(), case[2], **BOUND)


def test_sub_buffers_and_addresses_are_buffers(case, queue, model):
    whole = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=4096 + case[1].nbytes)
    part = whole.get_sub_region(4096, case[1].nbytes)
    for buffer in (part, part.int_ptr):
        tensor = Tensor.from_buffer(buffer, case[1].shape, queue=queue)
        tensor.fill(case[1])
        np.testing.assert_allclose(model.run(tensor)["y0"], case[2], **BOUND)


def test_buffers_that_the_host_may_not_touch_are_copied_on_the_device(case, queue, model):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.HOST_NO_ACCESS
    buffer = cl.Buffer(queue.context, flags, size=case[1].nbytes)
    cl.enqueue_copy(queue, buffer, cla.to_device(queue, case[1]).data)
    tensor = Tensor.from_buffer(buffer, case[1].shape, queue=queue)
    np.testing.assert_allclose(model.run(tensor)["y0"], case[2], **BOUND)
    assert model._current().network.copies["x0"] == "copied on the device"


def test_what_is_no_memory_for_a_run_is_refused(case, queue, model):
    small = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=64)
    fixed = cl.Buffer(queue.context, cl.mem_flags.READ_ONLY, size=case[2].nbytes)
    x = cla.to_device(queue, case[1])
    for call, text in (
        (lambda: Tensor.from_buffer(small, (17,)), "64 bytes does not hold 68"),
        (lambda: Tensor.from_buffer(small, (16,), offset=-4), "from byte -4"),
        (lambda: Tensor.from_buffer("small", (16,)), "not str"),
        (lambda: Tensor.from_buffer(small, (4,), "complex64"), "cannot hold"),
        (lambda: model.run(small), "Tensor.from_buffer gives it both"),
        (lambda: model.run(x[:, ::2]), "strides"),
        (lambda: model.run(x.astype(np.float64)), "float64; the model requires float32"),
        (lambda: model.run(x, wait_for=[3]), "pyopencl events"),
        (lambda: model.run({"x0": x}, {"y0": Tensor.from_buffer(fixed, case[2].shape, queue=queue)}), "read-only"),
    ):
        with pytest.raises(InputError, match=text):
            call()
    np.testing.assert_allclose(model.run(x)["y0"], case[2], **BOUND)


class Producer:
    """Another library's array in OpenCL's memory."""

    def __init__(self, buffer, shape, start=0):
        self._about = buffer, start, shape, np.dtype(np.float32)

    def __dlpack__(self, **_):
        return dlpack.capsule(*self._about)

    def __dlpack_device__(self):
        return (4, 0)


def test_opencl_memory_is_exchanged_by_dlpack(case, queue, model):
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=8 + case[1].nbytes)
    cl.enqueue_copy(queue, buffer, case[1], dst_offset=8)
    gc.collect()  # what tests before have handed out
    dlpack.forget_unused()
    kept = len(dlpack._HANDED_OUT)
    tensor = Tensor.from_dlpack(Producer(buffer, case[1].shape, 8))
    np.testing.assert_allclose(model.run(tensor)["y0"], case[2], **BOUND)
    assert len(dlpack._HANDED_OUT) == kept + 1
    del tensor
    gc.collect()
    assert len(dlpack._HANDED_OUT) == kept
    Producer(buffer, (4,)).__dlpack__()  # nobody takes it
    dlpack.forget_unused()
    assert len(dlpack._HANDED_OUT) == kept


def test_capsules_say_what_they_hold(queue):
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.HOST_NO_ACCESS, size=64)
    tensor = Tensor.from_buffer(buffer, (3, 5), np.int16, offset=6)
    assert tensor.__dlpack_device__() == (4, 0)
    found = dlpack.taken(capsule := tensor.__dlpack__())
    assert (found.address, found.start) == (buffer.int_ptr, 6)
    assert (found.shape, found.dtype) == ((3, 5), np.int16)
    with pytest.raises(InputError, match="unused capsule"):
        dlpack.taken(capsule)
    found.release()
    with pytest.raises(InputError, match="device type 1, not of OpenCL"):
        dlpack.taken(np.zeros(3).__dlpack__())
    with pytest.raises(BufferError, match=r"numpy\(\)"):
        tensor.__dlpack__(dl_device=(2, 0))
