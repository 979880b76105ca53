"""Models in contexts and on queues of programs that know nothing of clgraph, and on their buffers."""

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import clgraph
from clgraph import Tensor
from clgraph.errors import DeviceError, InputError, OptionError, UnsupportedError
from clgraph.model.shared import dma_buf, opengl_buffer
from clgraph.runtime import callers_image, dlpack, shared_objects
from tests.support.onnx_case import one_node

pytestmark = pytest.mark.opencl

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")
cla = pytest.importorskip("pyopencl.array", reason="the caller's programs are pyopencl's")

ROWS, INNER, COLUMNS = 192, 256, 128
"""Inputs and results of 96 KiB and more are used where they lie."""
BOUND = {"rtol": 0, "atol": 2 * INNER * 2.0**-24 * INNER * 4 * 4}
"""Sums of 256 products of numbers below 4."""


@pytest.fixture(scope="module")
def handle(engine):
    return next(d for p in cl.get_platforms() for d in p.get_devices() if d == engine.device.handle)


@pytest.fixture(scope="module")
def queue(handle):
    return cl.CommandQueue(cl.Context([handle]))


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((ROWS, INNER)).astype("f"), rng.standard_normal((INNER, COLUMNS)).astype("f")
    model, _ = one_node("MatMul", [x, w], opset=17, constant=(1,))
    return model, x, x @ w


@pytest.fixture(scope="module")
def doubling(queue):
    text = "__kernel void doubled(__global float* x) { x[get_global_id(0)] *= 2; }"
    return cl.Kernel(cl.Program(queue.context, text).build(), "doubled")


@pytest.fixture(scope="module", params=["auto", "gpu"])
def model(request, case, queue):
    return clgraph.compile(case[0], queue=queue, config={"device_class": request.param})


def test_a_model_runs_on_the_callers_queue(case, queue, model):
    np.testing.assert_allclose(model.run(case[1])["y0"], case[2], **BOUND)
    engine = model._current().network.engine
    assert engine.stream.queue == queue
    assert queue.context.reference_count > 0


@pytest.mark.parametrize("given", ["context", "address of the context", "address of the queue", "any order"])
def test_contexts_and_queues_come_in_every_form(given, case, queue, handle):
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    options = {
        "context": lambda: {"context": queue.context},
        "address of the context": lambda: {"context": queue.context.int_ptr},
        "address of the queue": lambda: {"queue": queue.int_ptr},
        "any order": lambda: {"queue": cl.CommandQueue(queue.context, properties=out_of_order)},
    }[given]()
    found = clgraph.compile(case[0], **options)
    np.testing.assert_allclose(found.run(case[1])["y0"], case[2], **BOUND)
    assert found._current().network.engine._context == queue.context


def test_models_of_one_context_share_kernels(case, queue):
    first = clgraph.compile(case[0], queue=queue)
    second = clgraph.compile(case[0], queue=cl.CommandQueue(queue.context))
    engines = [m._current().network.engine for m in (first, second)]
    assert engines[0].programs is engines[1].programs
    assert engines[0].stream.queue != engines[1].stream.queue


def test_nothing_of_the_callers_is_kept_when_the_model_is_gone(case, handle):
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    counts = []
    for _ in range(3):  # PoCL keeps a context itself, once something has run in it
        with clgraph.compile(case[0], queue=queue, config={"model_cache": 0}) as model:
            model.run(case[1])
        del model
        gc.collect()
        counts.append((context.reference_count, queue.reference_count))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0][1] == 1


def test_wrong_pairs_are_refused(case, queue, handle):
    other = cl.Context([handle])
    for options, error, text in (
        ({"context": other, "queue": queue}, DeviceError, "belongs to another context"),
        ({"queue": 5}, DeviceError, "not 5"),
        ({"context": "mine"}, DeviceError, "not 'mine'"),
        ({"queue": queue, "device": "cpu"}, OptionError, "leave out device='cpu'"),
        ({"queue": queue, "hint": "throughput"}, OptionError, "queues of their own"),
    ):
        with pytest.raises(error, match=text):
            clgraph.compile(case[0], **options)


def test_arrays_of_pyopencl_go_in_and_out(case, queue, model):
    x, out = cla.to_device(queue, case[1]), cla.zeros(queue, (ROWS, COLUMNS), np.float32)
    found = model.run({"x0": x}, {"y0": out})
    assert found["y0"] is out
    np.testing.assert_allclose(out.get(), case[2], **BOUND)
    used = model._current().network.copies
    assert used["y0"] == ("written in place" if model.device.kind == "cpu" else "copied on the device")


def test_what_the_caller_has_enqueued_comes_first(case, queue, model, doubling):
    x = cla.to_device(queue, case[1])
    doubling(queue, (x.size,), None, x.data)
    np.testing.assert_allclose(model.run(x)["y0"], 2 * case[2], **BOUND)
    elsewhere = cl.CommandQueue(queue.context)
    event = doubling(elsewhere, (x.size,), None, x.data)
    np.testing.assert_allclose(model.run(x, wait_for=[event])["y0"], 4 * case[2], **BOUND)


def test_a_run_is_enqueued_between_the_callers_kernels(case, queue, model, doubling):
    x, out = cla.to_device(queue, case[1]), cla.zeros(queue, (ROWS, COLUMNS), np.float32)
    before = doubling(queue, (x.size,), None, x.data)
    event = model.enqueue(x, outputs={"y0": out}, wait_for=[before])
    doubling(cl.CommandQueue(queue.context), (out.size,), None, out.data, wait_for=[event]).wait()
    np.testing.assert_allclose(out.get(), 4 * case[2], **BOUND)
    again = model.run(x)["y0"]
    np.testing.assert_allclose(again, 2 * case[2], **BOUND)


def test_a_run_of_any_size_is_enqueued(case, queue):
    proto = onnx.load_model_from_string(case[0].SerializeToString())
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    proto.graph.output[0].type.tensor_type.shape.ClearField("dim")
    model = clgraph.compile(proto, queue=queue)
    for rows in (ROWS, 3, 5, 3):
        out = cla.zeros(queue, (rows, COLUMNS), np.float32)
        model.enqueue(cla.to_device(queue, case[1][:rows]), outputs={"y0": out}).wait()
        np.testing.assert_allclose(out.get(), case[2][:rows], **BOUND)


def test_threads_read_one_array(case, queue, model):
    x = cla.to_device(queue, case[1])

    def runs(_):
        return [model.run({"x0": x})["y0"] for _ in range(15)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(runs, range(4)):
            for y in found:
                np.testing.assert_allclose(y, case[2], **BOUND)


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


def _image(queue, order, kind, pixels):
    form = cl.ImageFormat(order, kind)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    return cl.create_image(queue.context, flags, form, shape=pixels.shape[1::-1], hostbuf=pixels)


def test_images_are_tensors_of_their_pixels(queue, rng):
    order, kind = cl.channel_order, cl.channel_type
    for channels, data, shape, dtype in (
        (order.RGBA, kind.UNORM_INT8, (5, 7, 4), np.uint8),
        (order.BGRA, kind.UNORM_INT8, (5, 7, 4), np.uint8),
        (order.R, kind.UNSIGNED_INT8, (6, 9), np.uint8),
        (order.R, kind.FLOAT, (6, 9), np.float32),
    ):
        pixels = rng.integers(0, 256, shape).astype(dtype)
        for given in (queue, None):
            tensor = Tensor.from_image(_image(queue, channels, data, pixels), queue=given)
            assert tensor.dtype == dtype
            np.testing.assert_array_equal(tensor.numpy(), pixels)


def test_a_kernels_image_is_an_input_of_a_model(queue, case):
    """A program without clgraph paints an image; a model on its queue reads it."""
    text = """
        __kernel void paint(write_only image2d_t image) {
          const int x = get_global_id(0), y = get_global_id(1);
          write_imageui(image, (int2)(x, y), (uint4)(3 * x, 5 * y, x + y, 255));
        }"""
    image = cl.create_image(
        queue.context,
        cl.mem_flags.READ_WRITE,
        cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8),
        shape=(40, 30),
    )
    cl.Kernel(cl.Program(queue.context, text).build(), "paint")(queue, (40, 30), None, image)
    graph, _ = one_node("Neg", [np.zeros((1, 3, 30, 40), np.float32)], opset=17)
    found = clgraph.compile(graph, queue=queue, preprocess=clgraph.Preprocess("RGBA"))
    (y,) = found.run(Tensor.from_image(image, queue=queue)).values()
    at, down = np.arange(40), np.arange(30)[:, None]
    wanted = np.stack(np.broadcast_arrays(3 * at, 5 * down, at + down))[None]
    np.testing.assert_array_equal(y, -wanted.astype(np.float32))


def test_what_is_no_image_of_an_array_is_refused(queue, model, monkeypatch, case):
    image = _image(queue, cl.channel_order.RGBA, cl.channel_type.UNORM_INT8, np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(InputError, match="an image is pyopencl's, not ndarray"):
        Tensor.from_image(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(InputError, match="an image is not a buffer"):
        Tensor.from_buffer(image, (4, 4, 4), np.uint8)
    with pytest.raises(InputError, match=r"is an image: clgraph\.Tensor\.from_image"):
        model.run(image)
    deep = cl.create_image(queue.context, cl.mem_flags.READ_ONLY, image.format, shape=(4, 4, 4))
    with pytest.raises(InputError, match="of two dimensions"):
        Tensor.from_image(deep)
    packed = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.SIGNED_INT8)
    with pytest.raises(InputError, match=r"channel order 0x10b5 and type 0x10d7 is not supported"):
        Tensor.from_image(cl.create_image(queue.context, cl.mem_flags.READ_ONLY, packed, shape=(4, 4)))

    class Queue:
        class device:  # noqa: N801
            name, image_support = "a device", False

    with pytest.raises(DeviceError, match=r"a device has no images: give it a buffer"):
        callers_image.copied(image, Queue)
    assert model.run(case[1])["y0"].shape == (ROWS, COLUMNS)


def _retained(buffer):
    """Return the address of *buffer* with one reference more, as what creates one gives it."""
    retain = shared_objects.driver.load().library.clRetainMemObject
    retain.argtypes = (ctypes.c_void_p,)
    retain(buffer.int_ptr)
    return buffer.int_ptr
