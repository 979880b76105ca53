"""Models that declare a batch of one entry: what tools have worked out for it is left to be computed."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph import Batching
from clgraph.errors import ShapeError
from clgraph.graph.open_batch import with_open_sizes
from clgraph.graph.topology import Topology
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from tests.support.zoo import ZOO

SHAPE = Reshape(reads=("shape",))
SIZES = Resize(reads=("sizes",))


def exported() -> Topology:
    """Return a network as exporters write it that have worked out every size for the batch of one."""
    topology = Topology()
    x = topology.input("x", (1, 2, 4, 4))
    heads = topology.constant("heads", np.array([2, 16], np.int64))
    back = topology.constant("back", np.array([1, 2, 4, 4], np.int64))
    sizes = topology.constant("sizes", np.array([1, 2, 8, 8], np.int64))
    rows = topology.constant("rows", np.array([1, -1], np.int64))
    w = topology.constant("w", np.arange(128 * 3, dtype=np.float32).reshape(128, 3) % 7)
    x = topology.add("merged", SHAPE, x, heads)
    x = topology.add("parted", SHAPE, x, back)
    x = topology.add("again", Reshape((1, 2, 4, 4)), x)
    x = topology.add("larger", SIZES, x, sizes)
    x = topology.add("flat", SHAPE, x, rows)
    topology.output(topology.add("y", MatMul(), x, w))
    return topology


def test_the_text_before_and_after() -> None:
    before = [line for line in str(exported()).splitlines() if " = " in line]
    opened = with_open_sizes(exported())
    after = [line for line in str(opened).splitlines() if " = " in line]
    assert before == [
        "  merged = reshape(reads=('shape',))(x, heads)",
        "  parted = reshape(reads=('shape',))(merged, back)",
        "  again = reshape(shape=1x2x4x4)(parted)",
        "  larger = resize(reads=('sizes',))(again, sizes)",
        "  flat = reshape(reads=('shape',))(larger, rows)",
        "  y = matmul(flat, w)",
    ]
    assert after == [
        "  merged = reshape(reads=('shape',))(x, heads/merged/opened)",
        "  parted = reshape(reads=('shape',))(merged, back/parted/opened)",
        "  again = reshape(shape=(-1, 2, 4, 4))(parted)",
        "  larger = resize(axes=1x2x3, reads=('sizes',))(again, sizes/larger/opened)",
        "  flat = reshape(reads=('shape',))(larger, rows/flat/opened)",
        "  y = matmul(flat, w)",
    ]
    made = {name: array.tolist() for name, array in opened.constants.items() if name.endswith("opened")}
    assert list(made.values()) == [[-1, 16], [-1, 2, 4, 4], [2, 8, 8], [0, -1]]
    assert [n.outputs[0].layout for n in opened.build()] == [n.outputs[0].layout for n in exported().build()]


def test_what_is_open_or_may_mean_something_else_stays() -> None:
    topology = Topology()
    x = topology.input("x", (1, 4))
    row = topology.add("row", Reshape((2, -1)), x)  # of one entry two rows: of which sizes nobody says
    topology.output(topology.add("y", Reshape((-1, 4)), row))
    topology.output(topology.add("z", Reshape((1, -1)), topology.add("t", Reshape((4, 1)), x)))  # not of entries
    topology.output(
        topology.add("none", Reshape((1, 0, 4), zero_is_zero=True), topology.constant("c", np.ones((0, 4))))
    )
    assert [x.primitive for x in with_open_sizes(topology).layers] == [
        Reshape((2, -1)),
        Reshape((-1, 4)),
        Reshape((-1, 1)),
        Reshape((1, -1)),
        Reshape((1, 0, 4), zero_is_zero=True),
    ]
    open_already = Topology()
    open_already.output(open_already.add("y", Reshape((1, 4)), open_already.input("x", ("batch", 4))))
    assert with_open_sizes(open_already) is open_already


def test_requests_of_such_a_network_are_joined_and_each_gets_its_own() -> None:
    feeds = [{"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4) + i} for i in range(6)]
    alone = clgraph.compile(exported(), device="host")
    with clgraph.compile(
        exported(), device="host", hint="throughput", streams=1, batching=Batching(maximum=4, wait_ms=200)
    ) as model:
        futures = [model.submit(f) for f in feeds]
        for future, feed in zip(futures, feeds, strict=True):
            np.testing.assert_array_equal(future.result(30)["y"], alone.run(feed)["y"])  # whole numbers
        assert model.throughput.batches.keys() - {1}, model.throughput.batching


@pytest.mark.opencl
@pytest.mark.parametrize("name", ["small_yolov8", "small_encoder"])
def test_models_exported_for_one_entry_give_each_what_it_gets_alone(name: str) -> None:
    proto, feeds = ZOO[name].make()
    random = np.random.default_rng(3)
    many = [
        {
            n: a + random.standard_normal(a.shape).astype(a.dtype) / 8 if a.dtype.kind == "f" else a
            for n, a in feeds.items()
        }
        for _ in range(5)
    ]
    with clgraph.compile(
        proto, device="pocl", threads=1, hint="throughput", streams=1, batching=Batching(maximum=4, wait_ms=500)
    ) as model:
        got = [f.result(60) for f in [model.submit(f) for f in many]]
        want = [model.model.run(f) for f in many]
        assert model.throughput.batches.keys() - {1}, model.throughput.batching
    for one, other in zip(got, want, strict=True):
        for result, wanted in other.items():
            # Kernels of another size may add up in another order: about 60 sums of at most 1,152 products.
            bound = 60 * 1152 * 2**-24 * float(np.abs(wanted).max())
            np.testing.assert_allclose(one[result], wanted, rtol=0, atol=bound)


def test_the_largest_batch_of_a_model_exported_for_one_entry_is_known() -> None:
    found = clgraph.estimate(exported(), "null", memory_limit="1 MiB")
    assert found.largest_batch is not None, found.why
    assert found.largest_batch > 8


def test_reshape_gives_such_a_model_any_batch_and_leaves_other_sizes() -> None:
    feed = np.arange(3 * 32, dtype=np.float32).reshape(3, 2, 4, 4)
    with clgraph.compile(exported(), device="host") as model:
        want = np.concatenate([model.run(x=one[None])["y"] for one in feed])
        np.testing.assert_array_equal(model.reshape({"x": (3, 2, 4, 4)}).run(x=feed)["y"], want)  # whole numbers
        np.testing.assert_array_equal(model.reshape({"x": ("n", 2, 4, 4)}).run(x=feed)["y"], want)
        with pytest.raises(ShapeError, match=r"do not fit the shape \[2, 16\]"):
            model.reshape({"x": (1, 2, 8, 8)})
