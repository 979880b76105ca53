"""Images of the callers' programs as tensors and as inputs."""

import numpy as np
import pytest

import clgraph
from clgraph import Tensor
from clgraph.errors import DeviceError, InputError
from clgraph.runtime import callers_image
from tests.support.callers import COLUMNS, ROWS
from tests.support.onnx_case import one_node

pytestmark = pytest.mark.opencl

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")


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
