"""Requests that one run computes side by side: which layers each has of its own, and that each gets its results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import clgraph
from clgraph import Batching
from clgraph.errors import DeviceMemoryError
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.run_queue import RunFuture
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.throughput.requests import Request
from clgraph.throughput.side_by_side import SideBySideModels, fed_name, feeds_of, side_by_side, side_by_side_models
from clgraph.throughput.streamed_model import StreamedModel

ROWS = 4096

NETWORK = """
<ir_version: 8, opset_import: ["": 17]>
network (float[1, 4, 16, 16] x) => (float[n, rows] y, float[n, c, a, b] map)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] rest = {-1}> {
    half = Mul(scale, scale)
    first = Conv(x, w0)
    map = Relu(first)
    second = Conv(map, w1)
    halved = Mul(second, half)
    sum = Add(halved, map)
    mean = GlobalAveragePool(sum)
    sizes = Shape(mean)
    batch = Slice(sizes, zero, one)
    shape = Concat <axis = 0> (batch, rest)
    flat = Flatten(mean)
    product = MatMul(flat, w2)
    y = Reshape(product, shape)
}
"""
"""A network of pictures whose last product has more weights than values; a shape is computed from the batch."""


def network() -> onnx.ModelProto:
    """Return that network, with whole numbers for weights: its sums are exact in any order."""
    model, random = parser.parse_model(NETWORK), np.random.default_rng(0)
    for name, shape in (("w0", (8, 4, 1, 1)), ("w1", (8, 8, 1, 1)), ("w2", (8, ROWS)), ("scale", (1, 8, 1, 1))):
        array = random.integers(-2, 3, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def requests(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    return [{"x": random.integers(-3, 4, (1, 4, 16, 16)).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def pictures() -> Any:
    batching = Batching(maximum=8, wait_ms=0)
    with clgraph.compile(
        network(), device="pocl", threads=2, hint="throughput", streams=2, batching=batching, config={"model_cache": 0}
    ) as model:
        yield model


@pytest.mark.opencl
def test_each_request_has_the_layers_of_its_own_whose_values_are_more_than_their_weights(
    pictures: StreamedModel,
) -> None:
    found = side_by_side(pictures.model.topology, 2)
    assert found is not None
    assert list(found.inputs) == [fed_name("x", 0), fed_name("x", 1)]
    own = ["first", "map", "second", "halved", "sum", "mean"]
    assert [layer.outputs[0] for layer in found.layers] == [
        "half",  # reads no request
        *(fed_name(name, number) for number in range(2) for name in own),
        *("map", "mean"),  # joined
        *("sizes", "batch", "shape", "flat", "product", "y"),  # the shape is that of the batch
    ]


def run(model: StreamedModel, feeds: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """Return the results of a batch of *feeds* that the first stream runs in this thread."""
    key, rows, length = model._key(feeds[0])
    batch = [Request(f, RunFuture(), key=key, rows=rows, length=length, **options) for f in feeds]
    return list(model.streams[0]._run(batch))


@pytest.mark.opencl
@pytest.mark.parametrize("runs", [[2], [4], [4, 4], [4, 2, 1]])
def test_each_request_gets_what_it_gets_alone(
    pictures: StreamedModel, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds, fed, whole = requests(sum(runs)), list[int](), Model.run
    wanted = [pictures.model.run(f) for f in feeds]
    monkeypatch.setattr(Model, "run", lambda model, given, **o: (fed.append(len(given)), whole(model, given, **o))[1])
    found = run(pictures, feeds)
    assert fed == runs, "at most four in a run, and no program but those of two and four"
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name])
    (some,) = {tuple(own) for own in run(pictures, feeds, outputs=["map"])}
    assert some == ("map",)


@pytest.mark.opencl
def test_streams_of_one_part_of_a_device_share_what_is_compiled(pictures: StreamedModel) -> None:
    first, second = pictures.streams
    assert first.side_by_side is second.side_by_side is not None
    one, other = first.side_by_side.model(2), first.side_by_side.model(2)
    assert one is not other
    for name, array in one.run(feeds_of(requests(2))).items():
        np.testing.assert_array_equal(array, other.run(feeds_of(requests(2)))[name])


@pytest.mark.opencl
def test_the_report_says_what_is_run_side_by_side(pictures: StreamedModel) -> None:
    assert "single ones side by side, 4 in a run" in pictures.throughput.batching


def test_a_model_that_its_stream_has_closed_is_made_again() -> None:
    made: list[Model] = []

    def make(count: int) -> Model:
        made.append(clgraph.compile(values(("batch", 4), 8), device="host"))
        return made[-1]

    side_by_side = SideBySideModels(make)
    side_by_side.model(2).close()
    assert side_by_side.model(2) is made[1]
    assert side_by_side.model(2) not in made


@pytest.mark.opencl
def test_requests_are_joined_where_there_is_no_room_for_that(
    pictures: StreamedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: int) -> Model:
        raise DeviceMemoryError("no room")

    stream, feeds = pictures.streams[0], requests(2)
    before = stream.side_by_side, stream._several, ""
    stream.side_by_side, stream._several = SideBySideModels(full), {}
    try:
        for one, other in zip(run(pictures, feeds), feeds, strict=True):
            np.testing.assert_array_equal(one["y"], pictures.model.run(other)["y"])
        assert stream.side_by_side is None
        assert "requests are not run side by side: no room" in caplog.text
        assert "not side by side: no room" in pictures.throughput.batching
    finally:
        stream.side_by_side, stream._several, stream.not_side_by_side = before


def values(shape: tuple[Any, ...], columns: int) -> Topology:
    """Return the product of the columns of x, summed along what is in the middle, with a matrix."""
    topology = Topology()
    name = topology.input("x", shape)
    if len(shape) > 2:
        name = topology.add("sums", Reduce("sum", (1,), keepdims=False), topology.add("relu", Activation("relu"), name))
    matrix = topology.constant("w", np.ones((shape[-1], columns), np.float32))
    topology.output(topology.add("y", MatMul(), name, matrix))
    return topology


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        (values(("batch", "length", 64), 512), "an open length has too many shapes to compile each"),
        (values(("batch", 64), 512), "its first layer has more weights than values"),
    ],
)
def test_other_requests_are_joined_before_the_first_layer(topology: Topology, why: str) -> None:
    assert side_by_side(topology, 2) is None, why


@pytest.mark.parametrize(
    ("kind", "features", "most", "is_run"),
    [
        ("cpu", {"host_memory"}, 4, True),
        ("cpu", {"host_memory"}, 1, False),
        ("cpu", set(), 4, False),
        ("gpu", {"host_memory"}, 4, False),
    ],
)
def test_a_device_that_has_room_for_a_batch_computes_it_whole(
    kind: str, features: set[str], most: int, is_run: bool
) -> None:
    model: Any = SimpleNamespace(
        device=SimpleNamespace(kind=kind, features=features), topology=values(("batch", 32, 64), 512)
    )
    assert (side_by_side_models(model, most) is not None) == is_run
