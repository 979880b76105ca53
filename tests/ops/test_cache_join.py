"""Caches as tensors of all their places: lengths are run-time values of one program."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.topology import Topology
from clgraph.ops.cache_join import CacheJoin


def topology_of(batch, heads, tokens, depth, places, at=0, dtype=np.float32):
    made = Topology()
    made.input("new", (batch, heads, tokens, depth), dtype)
    made.input("lengths", (1 + batch,), np.int32)
    made.input("state", (1,), dtype)
    made.input("shown", (places,), np.bool_)
    made.output("y", made.add("join", CacheJoin(at), "new", "lengths", "state", "shown"))
    return made


@pytest.mark.opencl
@pytest.mark.parametrize(
    "options",
    [{}, {"deny_kernels": ["cache_join.rows"]}, {"device_class": "gpu"}],
    ids=["tile", "general", "gpu"],
)
@pytest.mark.parametrize(
    ("sizes", "dtype"), [((2, 3, 1, 5, 9), np.float32), ((1, 2, 4, 40, 12), np.float32), ((2, 2, 3, 7, 8), np.float16)]
)
def test_new_rows_stand_behind_those_of_the_cache_and_the_newest_in_all_other_places(
    sizes, dtype, options, engine, rng
):
    """Where another cache lies in front of it; the last runs fill all places, or have too many rows."""
    batch, heads, tokens, depth, places = sizes
    model = clgraph.compile(topology_of(*sizes, at=4, dtype=dtype), config=options)
    (network,) = (found.network for found in model.compiled.values())
    state = rng.standard_normal(batch * places * (4 + heads * depth)).astype(dtype)
    memory = network.engine.allocate(state.nbytes, "what a run is given")
    network.engine.stream.write(memory, 0, state)
    network.engine.stream.finish()
    for first in (0, 2, places - tokens, places - 1):
        lengths = np.array([places, *(max(0, first - text) for text in range(batch))], np.int32)
        new = rng.standard_normal(sizes[:4]).astype(dtype)
        shown = np.ones(places, np.bool_)
        y = network.run({"new": new, "lengths": lengths, "shown": shown, "state": memory})["y"]
        (want,) = CacheJoin(4).reference(new, lengths, state, shown)
        np.testing.assert_array_equal(y, want)
        network.engine.stream.read(memory, 0, found := np.empty_like(state))
        np.testing.assert_array_equal(found, state)
    network.kept[0].forget(memory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: Layout(DType.F32, (1, 2, 0, 4))}, "new rows"),
        ({0: Layout(DType.I32, (1, 2, 3, 4))}, "new rows"),
        ({1: Layout(DType.I32, (3,))}, "lengths"),
        ({2: Layout(DType.F32, (1, 1))}, "state"),
        ({2: Layout(DType.I8, (1,))}, "state"),
        ({3: Layout(DType.BOOL, (2,))}, "how many places"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    fitting = (Layout(DType.F32, (1, 2, 3, 4)), Layout(DType.I32, (2,)), Layout(DType.F32, (1,)))
    given = dict(enumerate((*fitting, Layout(DType.BOOL, (8,)))))
    assert CacheJoin(0).infer(list(given.values()))[0].shape == (1, 2, 8, 4)
    with pytest.raises(ShapeError, match=message):
        CacheJoin(0).infer(list((given | change).values()))
