"""Device tensors: NumPy and DLPack both ways, and runs that read and write them."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.core.aligned import aligned
from clgraph.errors import ClosedError, DeviceError, InputError
from clgraph.model.numpy_arrays import given_as
from clgraph.model.tensor import Tensor, new_tensor
from clgraph.network.network import Network
from clgraph.ops.convolution import Convolution
from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine
from tests.support.models import image, small_model

SIZE = 128
SHAPE = (1, 3, SIZE, SIZE)
MADE = (1, 8, SIZE // 2, SIZE // 2)
"""41472 bytes: above the least that is lent, and whole vectors."""


class Foreign:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@pytest.fixture(params=["host", pytest.param("pocl", marks=pytest.mark.opencl)])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def at_64(shape: tuple[int, ...]) -> np.ndarray:
    return aligned(int(np.prod(shape)) * 4).view(np.float32).reshape(shape)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i8", "u1", "?"])
def test_an_array_comes_back_as_it_was(where: str, dtype: str) -> None:
    array = (image((3, 5, 7)) * 9).astype(dtype)
    tensor = clgraph.Tensor(array, device=where)
    assert (tensor.shape, tensor.dtype, tensor.nbytes) == (array.shape, array.dtype, array.nbytes)
    assert tensor.device.startswith(where)
    for back in (tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor), np.array(tensor, copy=True)):
        np.testing.assert_array_equal(back, array)
    kept = array.copy()
    array[...] = 0
    np.testing.assert_array_equal(tensor.numpy(), kept)


@pytest.mark.parametrize(
    "array",
    [np.float32(3), np.zeros((0, 4), np.float32), np.arange(6.0)[::-2], np.arange(4, dtype=">i4"), [[1, 2], [3, 4]]],
    ids=["scalar", "empty", "strided", "big-endian", "list"],
)
def test_any_array_makes_a_tensor(where: str, array: Any) -> None:
    tensor = Tensor(array, where)
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.dtype.isnative
    assert tensor.shape == np.shape(array)


@pytest.mark.parametrize(
    "array",
    ["text", None, object(), 1j, [[1], [1, 2]], np.ma.masked_array([1.0], [True])],
    ids=["text", "none", "object", "complex", "ragged", "masked"],
)
def test_what_is_no_array_is_one_input_error(array: Any) -> None:
    with pytest.raises(InputError):
        Tensor(array, "host")
    with pytest.raises(InputError):
        Tensor.from_dlpack(array, "host")


def test_a_device_that_is_not_there_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="no device is called 'nowhere'"):
        Tensor([1.0], "nowhere")


def test_memory_of_another_library_is_taken_over_without_a_copy(where: str) -> None:
    array = image((4, 5))
    tensor = Tensor.from_dlpack(Foreign(array), where)
    assert np.shares_memory(tensor.numpy(), array)
    np.testing.assert_array_equal(Tensor(Foreign(array), where).numpy(), array)
    assert not np.shares_memory(Tensor(Foreign(array), where).numpy(), array)
    np.testing.assert_array_equal(Tensor.from_dlpack(array.T, where).numpy(), array.T)


def test_np_asarray_obeys_dtype_and_copy() -> None:
    tensor = Tensor([1.0, 2.0], "host")
    assert np.asarray(tensor, np.float32).dtype == np.float32
    assert np.shares_memory(np.asarray(tensor, copy=False), tensor.numpy())
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    with pytest.raises(ValueError, match="the array is float64: as float32 a copy cannot be avoided"):
        np.asarray(tensor, np.float32, copy=False)
    assert tensor.__dlpack_device__() == (1, 0)


def test_versions_of_numpy_that_know_no_copy_are_asked_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(np.ndarray[tuple[int, ...], np.dtype[np.float32]]):
        """Has the methods of NumPy 1.26."""

        def __dlpack__(self, *, stream: None = None) -> Any:
            return super().__dlpack__()

    array = np.ones(3, np.float32).view(Old)
    tensor = Tensor(np.zeros(3, np.float32), "host")
    monkeypatch.setattr(type(tensor), "numpy", lambda _: array)
    monkeypatch.setattr(np, "array", lambda *_, **__: pytest.fail("it takes no None as copy"))
    assert given_as(array) is array
    assert np.shares_memory(np.from_dlpack(tensor), array)


def test_a_tensor_says_what_it_is() -> None:
    assert repr(Tensor.empty((2, 3), device="host")) == "<Tensor float32 [2, 3] on host>"


@pytest.mark.opencl
class TestModels:
    @pytest.fixture
    def model(self, device: str) -> clgraph.Model:
        return clgraph.compile(small_model(size=SIZE), device=device)

    def how(self, model: clgraph.Model) -> dict[str, str]:
        network = model._current().network
        assert network is not None
        return network.copies

    def test_a_tensor_is_as_good_a_feed_as_an_array(self, model: clgraph.Model, device: str) -> None:
        x = image(SHAPE)
        want = model(x)
        np.testing.assert_array_equal(model(Tensor(x, device)), want)
        np.testing.assert_array_equal(model(Foreign(x)), want)
        np.testing.assert_array_equal(model(Tensor(x, "host")), want)
        assert want.flags.owndata or want.base is not None
        with pytest.raises(InputError, match="float64; the model requires float32"):
            model(Tensor(x.astype(np.float64), device))
        with pytest.raises(InputError, match="does not fit"):
            model(Tensor(x[:, :, 1:], device))

    def test_results_are_left_in_what_is_given(self, model: clgraph.Model, device: str) -> None:
        x = image(SHAPE)
        want = model(x)
        for place in (at_64(MADE), np.empty(MADE, np.float32), np.empty(MADE[::-1], np.float32).T):
            place[...] = np.nan
            found = model.run({"x": x}, {"y": place})
            assert found["y"] is place
            np.testing.assert_array_equal(place, want)
        tensor = Tensor.empty(MADE, device=device)
        assert model.run({"x": x}, outputs={"y": tensor})["y"] is tensor
        np.testing.assert_array_equal(tensor.numpy(), want)
        other = Tensor.empty(MADE, device="host")
        np.testing.assert_array_equal(model.run({"x": x}, {"y": other})["y"].numpy(), want)

    def test_nothing_is_copied_where_the_device_works_on_the_hosts_memory(
        self, model: clgraph.Model, device: str, engine: Engine
    ) -> None:
        if "host_memory" not in engine.info.features:
            pytest.skip("the device copies")
        x, place = image(SHAPE), at_64(MADE)
        model.run({"x": x}, {"y": place})
        assert self.how(model) == {"x": "read in place", "y": "written in place"}
        model.run({"x": x}, {"y": at_64((1, *MADE))[0]})
        assert self.how(model)["y"] == "written in place"
        model.run({"x": x}, {"y": at_64((1 + place.size,))[1:].reshape(MADE)})
        assert self.how(model)["y"] == "copied"
        model.run({"x": x}, [])
        assert self.how(model)["y"] == "copied"

    def test_a_result_over_an_input_that_is_still_read_is_right(self, device: str, engine: Engine) -> None:
        """Two layers read the input; the first one's result would be there before the second one reads."""
        topology = clgraph.Topology()
        shape = (1, 3, 96, 96)
        x = topology.input("x", shape)
        for name, outputs, stride in (("first", 3, 1), ("second", 32, 2)):
            w = topology.constant(f"{name}_w", image((outputs, 3, 3, 3)))
            layer = Convolution((stride, stride), (1, 1), ((1, 1), (1, 1)))
            topology.output(name, topology.add(name, layer, x, w))
        planar = {"second": "convolution.planar"} if "host_memory" in engine.info.features else {}
        model = clgraph.compile(topology, device=device, config={"force_kernels": planar})
        array = at_64(shape)
        array[...] = image(shape)
        want = model.run({"x": array})
        found = model.run({"x": array}, {"first": array, "second": None})
        assert found["first"] is array
        for name in want:
            np.testing.assert_array_equal(found[name], want[name])

    def test_models_are_chained_without_leaving_the_device(self, model: clgraph.Model, device: str) -> None:
        second = clgraph.compile(second_model(), device=device)
        x = image(SHAPE)
        want = second(model(x))
        middle = model.run({"x": x}, tensors=True)
        assert isinstance(middle["y"], Tensor)
        assert middle["y"].device == model.device.name
        model.close()
        del model
        gc.collect()
        np.testing.assert_array_equal(second.run({"x": middle["y"]})["z"], want)

    @pytest.mark.parametrize(
        ("outputs", "message"),
        [
            (["z"], "no output is called 'z'; the outputs are 'y'"),
            ("y", "names, or arrays by name, not str"),
            (5, "not int"),
            ({"y": [1.0]}, "not into a list"),
            ({"y": np.empty(MADE, np.float64)}, "is float32 .* is float64"),
            ({"y": np.empty(MADE, ">f4")}, "is >f4"),
            ({"y": np.empty(MADE[1:], np.float32)}, r"\[1, 8, 64, 64\]; .* \[8, 64, 64\]"),
            ({"y": np.broadcast_to(np.float32(0), MADE)}, "read-only"),
            ({"y": np.lib.stride_tricks.as_strided(np.empty(MADE, np.float32), MADE, (0, 0, 4, 4))}, "same address"),
            ({"y": np.ma.zeros(MADE, np.float32)}, "has no mask"),
            ({"y": Tensor.empty((1,), device="host")}, r"float32 \[1\]"),
        ],
        ids=["unknown", "text", "number", "list", "type", "order", "rank", "read-only", "repeated", "masked", "tensor"],
    )
    def test_outputs_that_do_not_fit_are_one_input_error(
        self, model: clgraph.Model, outputs: Any, message: str
    ) -> None:
        x = image(SHAPE)
        want = model(x)
        with pytest.raises(InputError, match=message):
            model.run({"x": x}, outputs)
        np.testing.assert_array_equal(model(x), want)

    def test_outputs_by_name_are_all_that_is_returned(self, device: str) -> None:
        model = clgraph.compile(small_model(size=SIZE), device=device, outputs=["p0", "y"])
        x, place = image(SHAPE), at_64(MADE)
        both = model.run({"x": x})
        assert list(model.run({"x": x}, ["y"])) == ["y"]
        assert model.run({"x": x}, []) == {}
        assert list(model.run({"x": x}, {"y": place, "p0": None})) == ["y", "p0"]
        np.testing.assert_array_equal(place, both["y"])
        with pytest.raises(InputError, match="overlap"):
            model.run({"x": x}, {"y": place, "p0": place})
        np.testing.assert_array_equal(model.run({"x": x})["p0"], both["p0"])

    def test_profile_says_what_was_copied(self, model: clgraph.Model) -> None:
        assert model.profile({"x": image(SHAPE)}).copies.keys() == {"x", "y"}

    def test_a_closed_model_is_one_error_and_what_it_returned_lives_on(self, device: str) -> None:
        with clgraph.compile(small_model(size=SIZE), device=device) as model:
            x = image(SHAPE)
            array, tensor = model(x), model.run({"x": x}, tensors=True)["y"]
            kept = array.copy()
        model.close()
        for call in (lambda: model(x), lambda: model.run_async({"x": x}), model.clone, model.prepare):
            with pytest.raises(ClosedError, match="closed"):
                call()
        gc.collect()
        np.testing.assert_array_equal(array, kept)
        np.testing.assert_array_equal(tensor.numpy(), kept)


def second_model() -> clgraph.Topology:
    from clgraph.ops.activation import Activation

    topology = clgraph.Topology()
    topology.output("z", topology.add("z", Activation("tanh"), topology.input("x", MADE)))
    return topology


@pytest.mark.opencl
class TestDevicesThatCopy:
    """PoCL without the feature that its memory is the host's: as every GPU."""

    @pytest.fixture
    def copying(self, device: str) -> Engine:
        found = find_device(device)
        info = replace(found.info, features=found.info.features - {"host_memory"})
        return Engine(replace(found, info=info))

    def test_tensors_come_and_go_by_copies_on_the_device(self, copying: Engine, device: str) -> None:
        model = clgraph.compile(small_model(size=SIZE), device=device)
        x = image(SHAPE)
        want = model(x)
        network = Network(model.program, {copying.info.name: copying})
        feed = new_tensor(copying, SHAPE, np.dtype(np.float32))
        feed.fill(x)
        result = new_tensor(copying, MADE, np.dtype(np.float32))
        assert network.holds(feed.held)
        assert network.run({"x": feed.held}, {"y": result.held})["y"] is result.held
        assert network.copies == {"x": "copied on the device", "y": "copied on the device"}
        np.testing.assert_array_equal(result.numpy(), want)
        np.testing.assert_array_equal(network.run({"x": x})["y"], want)
        assert network.copies == {"x": "copied to the device", "y": "copied from the device"}
        odd = np.empty(MADE[::-1], np.float32).T
        np.testing.assert_array_equal(network.run({"x": x}, {"y": odd})["y"], want)

    def test_what_needs_the_hosts_memory_is_a_copy_or_a_refusal(self, copying: Engine) -> None:
        tensor = new_tensor(copying, (4,), np.dtype(np.float32))
        tensor.fill(np.float32([1, 2, 3, 4]))
        np.testing.assert_array_equal(np.asarray(tensor), [1, 2, 3, 4])
        with pytest.raises(ValueError, match="copy"):
            np.asarray(tensor, copy=False)
        with pytest.raises(BufferError, match="ask for dl_device"):
            tensor.__dlpack__(dl_device=(2, 0))
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(tensor)  # a capsule of OpenCL's memory
        np.testing.assert_array_equal(np.from_dlpack(tensor, device="cpu"), [1, 2, 3, 4])
        assert tensor.__dlpack_device__() == (4, 0)
        np.testing.assert_array_equal(Tensor(tensor, "host").numpy(), [1, 2, 3, 4])
