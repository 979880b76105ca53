"""A batch in slices: the results of the slices, one behind the other, are those of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ProgramError, ShapeError
from clgraph.graph.check import check
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.attention import Attention
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand, Repeat
from clgraph.ops.gather import Gather
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.inverse import Inverse
from clgraph.ops.is_special import IsSpecial
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.rotation import Rotation
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.space import Shuffle
from clgraph.ops.split import Split
from clgraph.ops.top_k import TopK
from clgraph.ops.transpose import Transpose
from clgraph.ops.trigonometry import Trigonometric
from clgraph.ops.where import Where
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.memory import split_batch
from clgraph.passes.memory.split_batch import BatchSlice, SplitBatch, best_slices, slice_of
from clgraph.passes.observers import Verify
from clgraph.passes.reference import random_feeds, run_reference
from clgraph.passes.verify_numbers import VerifyNumbers
from clgraph.selector.query import DeviceInfo
from clgraph.selector.tuning import Tuning
from tests.passes.test_observers import Wrong
from tests.support.programs import MUL, RELU, Net, compile_all

CPU = DeviceInfo(features=frozenset({"host_memory"}))
SLOW = replace(CPU, bytes_per_second=1e6, tuning=Tuning(replace(CPU.costs, cache_bytes=3e4)))
"""What leaves the cache is slow: 131 KB of activations in all at 4 x 2 x 2 x 256, 1 MB of weights."""


def one(primitive, *shapes, inputs=1) -> Program:
    """Return a program of one node; the first *inputs* of *shapes* are inputs, the others constants."""
    topology, rng = Topology(), np.random.default_rng(0)
    names = [topology.input(f"x{i}", s) for i, s in enumerate(shapes[:inputs])]
    names += [
        topology.constant(f"c{i}", rng.standard_normal(s).astype(np.float32)) for i, s in enumerate(shapes[inputs:])
    ]
    topology.output(topology.add("y", primitive, *names))
    return topology.build()


def assert_sliced(program: Program, slices: int) -> None:
    """Assert that the slices' results are the whole's."""
    feeds = random_feeds(program)
    whole = run_reference(program, feeds)
    entries = program.inputs[0].layout.shape[0]
    cut = {v.name for v in program.inputs if v.layout.shape[:1] == (entries,)}
    found = slice_of(program, slices)
    assert isinstance(found, BatchSlice)
    found.apply(program)
    check(program)
    assert program.batch_slices == slices
    assert random_feeds(program).keys() == feeds.keys()
    split = {n: np.split(a, slices) if n in cut else [a] * slices for n, a in feeds.items()}
    program.batch_slices = 1
    each = [run_reference(program, {n: a[i] for n, a in split.items()}) for i in range(slices)]
    program.batch_slices = slices
    together = run_reference(program, feeds)
    for name, wanted in whole.items():
        np.testing.assert_allclose(np.concatenate([f[name] for f in each]), wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(together[name], np.concatenate([f[name] for f in each]))


KEPT = {
    "convolution": (Convolution(), (6, 4, 5, 5), (8, 4, 3, 3), (8,)),
    "pooling": (Pooling("max", (2, 2)), (6, 4, 6, 6)),
    "activation": (Activation("relu"), (6, 4)),
    "another type": (Reorder(DType.F16), (6, 4)),
    "broadcast constant": (Eltwise("add"), (6, 4), (4,)),
    "row for all": (Eltwise("sub"), (6, 4), (1, 4)),
    "softmax": (Softmax((1,)), (6, 4)),
    "reduce": (Reduce("sum", (1, 2), keepdims=False), (6, 4, 3)),
    "concat": (Concat(1), (6, 4), (6, 5)),
    "split": (Split(1, (1, 3)), (6, 4)),
    "slice": (Slice((1,), (3,), (1,), (1,)), (6, 4)),
    "pad": (Pad(((1, 2),), axes=(1,)), (6, 4)),
    "transpose": (Transpose((0, 2, 1)), (6, 4, 3)),
    "reshape": (Reshape((6, 12)), (6, 4, 3)),
    "reshape into rows": (Reshape((24, 3)), (6, 4, 3)),
    "look-up": (Gather(1), (6, 4), (2,)),
    "rows times matrix": (MatMul(), (6, 4), (4, 5)),
    "rows, transposed matrix, bias": (MatMul(transpose_b=True), (6, 4), (5, 4), (5,)),
    "matrices": (MatMul(), (6, 4, 3), (6, 3, 5)),
    "matrices times one": (MatMul(transpose_a=True), (6, 4, 3), (4, 5)),
    "layer normalization": (LayerNormalization(), (6, 4), (4,)),
    "choice": (Where(), (6, 1), (6, 4), (6, 4)),
    "larger planes": (Resize(shape=(6, 2, 6, 8), scales=(1.0, 1.0, 2.0, 2.0), mode="linear"), (6, 2, 3, 4)),
    "a copy for each row": (Expand((6, 5, 4)), (6, 1, 4)),
    "tiles of each entry": (Repeat((1, 3)), (6, 4)),
    "place of the largest": (ArgExtremum(axis=1), (6, 4)),
    "sums so far": (CumulativeSum(1), (6, 4)),
    "the best": (TopK(k=2), (6, 4)),
    "inverse matrices": (Inverse(), (6, 3, 3)),
    "pixels to channels": (Shuffle(2, to_depth=True), (6, 3, 4, 4)),
    "angles": (Trigonometric("tan"), (6, 4)),
    "tests": (IsSpecial(nan=True), (6, 4)),
    "one scale for all": (Quantize(), (6, 4), ()),
    "a scale a channel": (Quantize(axis=1), (6, 4), (4,)),
    "scales of blocks": (Quantize(axis=1, block=2), (6, 4), (6, 2)),
    "places": (GridSample(), (6, 2, 4, 4), (6, 3, 3, 2)),
    "angles for all": (Rotation(), (6, 2, 8), (1, 2, 4), (1, 2, 4)),
    "angles of each entry": (Rotation(), (6, 2, 8), (6, 2, 3), (6, 2, 3)),
    "attention": (Attention(), (6, 2, 3, 4), (6, 2, 4, 5), (6, 2, 5, 4), (1, 1, 3, 5)),
}
INPUTS = {"angles of each entry": 3, "concat": 2, "matrices": 2, "places": 2, "attention": 3, "scales of blocks": 2}
"""How many of the shapes are inputs; the first alone where nothing is said."""


@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("slices", [2, 3, 6])
def test_slices_of_what_keeps_entries_apart_make_up_the_whole(what, slices) -> None:
    primitive, *shapes = KEPT[what]
    if what == "choice":
        topology = Topology()
        flag = topology.input("flag", shapes[0], np.bool_)
        topology.output(
            topology.add("y", primitive, flag, *(topology.input(f"x{i}", s) for i, s in enumerate(shapes[1:])))
        )
        assert_sliced(topology.build(), slices)
        return
    if what == "look-up":
        topology = Topology()
        index = topology.constant("index", np.array([3, 1], np.int64))
        topology.output(topology.add("y", primitive, topology.input("x", shapes[0]), index))
        assert_sliced(topology.build(), slices)
        return
    assert_sliced(one(primitive, *shapes, inputs=INPUTS.get(what, 1)), slices)


MIXED = {
    "softmax over the batch": (Softmax((0,)), (6, 4)),
    "sum over the batch": (Reduce("sum", (0,)), (6, 4)),
    "sum of everything": (Reduce("sum", keepdims=False), (6, 4)),
    "concat along the batch": (Concat(0), (6, 4), (6, 4)),
    "split along the batch": (Split(0, (3, 3)), (6, 4)),
    "some of the batch": (Slice((0,), (3,), (1,), (0,)), (6, 4)),
    "the batch backwards": (Slice((5,), (-7,), (-1,), (0,)), (6, 4)),
    "pads around the batch": (Pad(((1, 1),), axes=(0,)), (6, 4)),
    "shifted batch": (Pad(((1, -1),), axes=(0,)), (6, 4)),
    "transposed batch": (Transpose((1, 0)), (6, 6)),
    "scan over the batch": (CumulativeSum(0), (6, 4)),
    "entries of a constant's own": (Eltwise("add"), (6, 4), (6, 4)),
    "both as matrices": (MatMul(), (6, 6), (6, 4)),
    "columns": (MatMul(transpose_a=True), (6, 4), (6, 5)),
    "bias for every row": (MatMul(), (6, 4), (4, 5), (6, 5)),
    "flattened away": (Reshape((3, 8)), (6, 4)),
    "a larger batch": (Resize(shape=(12, 4), scales=(2.0, 1.0)), (6, 4)),
    "the batch as it was, of others": (Resize(shape=(6, 4), scales=(2.0, 1.0)), (6, 4)),
    "a copy of all entries": (Expand((2, 6, 4)), (6, 4)),
    "tiles of the batch": (Repeat((2, 1)), (6, 4)),
    "place of the largest entry": (ArgExtremum(axis=0), (6, 4)),
    "the best entries": (TopK(axis=0, k=2), (6, 4)),
    "inverse of all": (Inverse(), (6, 6)),
    "a scale an entry": (Quantize(axis=0), (6, 4), (6,)),
    "scales of blocks of entries": (Quantize(axis=0, block=2), (6, 4), (3, 4)),
    "scales of blocks that are known": (Quantize(axis=1, block=2), (6, 4), (6, 2)),
    "places for all": (GridSample(), (6, 2, 4, 4), (1, 3, 3, 2)),
    "known angles of each entry": (Rotation(), (6, 2, 8), (6, 2, 4), (6, 2, 4)),
    "keys of all entries": (Attention(), (6, 4), (4, 6), (6, 4)),
}


@pytest.mark.parametrize("what", MIXED)
def test_what_mixes_entries_is_not_cut(what) -> None:
    primitive, *shapes = MIXED[what]
    inputs = {"concat along the batch": 2, "both as matrices": 2, "keys of all entries": 3}.get(what, 1)
    try:
        program = one(primitive, *shapes, inputs=inputs)
    except ShapeError:
        assert what == "places for all"  # the operator itself wants places for each entry
        return
    assert isinstance(slice_of(program, 6), str)


def test_an_input_with_another_first_axis_is_the_same_for_all_slices() -> None:
    assert_sliced(one(Eltwise("mul"), (6, 4), (1, 4), inputs=2), 3)


def test_an_input_that_is_whole_is_not_taken_for_a_slice() -> None:
    topology = Topology()
    topology.output(topology.add("y", MatMul(), topology.input("x", (6, 2)), topology.input("w", (2, 5))))
    assert isinstance(slice_of(topology.build(), 3), str)
    assert_sliced(topology.build(), 2)


def test_results_that_no_input_reaches_are_not_cut() -> None:
    topology = Topology()
    x, c = topology.input("x", (6, 4)), topology.constant("c", np.ones((6, 4), np.float32))
    topology.output(topology.add("y", Activation("relu"), x))
    topology.output("c")
    assert c == "c"
    assert isinstance(slice_of(topology.build(), 2), str)


def convolutions(batch: int, side: int, channels: int) -> Program:
    topology, rng = Topology(), np.random.default_rng(0)
    x = topology.input("x", (batch, channels, side, side))
    for i in range(4):
        w = topology.constant(f"w{i}", rng.standard_normal((channels, channels, 1, 1)).astype(np.float32))
        x = topology.add(f"conv{i}", Convolution(), x, w)
    topology.output(x)
    return topology.build()


def test_large_batches_are_cut_so_that_activations_stay_in_the_cache() -> None:
    program = convolutions(32, 56, 128)
    assert SplitBatch().run(program, Context({"null": CPU})) == program.batch_slices > 1
    check(program)
    moved = 2 * program.inputs[0].layout.nbytes
    assert moved <= CPU.costs.cache_bytes
    assert f"in {program.batch_slices} slices of {32 // program.batch_slices}" in program.notes["split_batch"]
    assert "x" + str(program.batch_slices) in str(program).splitlines()[0]


@pytest.mark.parametrize("count", [1, 2])
def test_what_comes_from_the_caller_and_goes_back_stays_in_no_cache(count) -> None:
    topology = Topology()
    x = topology.input("x", (1024, 8192))
    for i in range(count):
        x = topology.add(f"n{i}", Softmax((1,)), x)
    topology.output(x)
    program = topology.build()
    assert program.inputs[0].layout.nbytes > CPU.costs.cache_bytes
    assert (best_slices(program, CPU) > 1) is (count == 2)


def test_values_that_fit_the_cache_alone_and_not_together_leave_it() -> None:
    topology = Topology()
    x = topology.input("x", (1024, int(CPU.costs.cache_bytes * 0.75) // 4096))
    for i in range(2):
        x = topology.add(f"n{i}", Softmax((1,)), x)
    topology.output(x)
    program = topology.build()
    assert program.inputs[0].layout.nbytes < CPU.costs.cache_bytes
    assert best_slices(program, CPU) > 1


def test_weights_that_stay_in_the_cache_cost_nothing_again() -> None:
    roomy = replace(SLOW, tuning=Tuning(replace(CPU.costs, cache_bytes=3e4 + 1e6)))
    assert best_slices(convolutions(512, 2, 256), roomy) > 1


@pytest.mark.parametrize(
    ("batch", "side", "channels", "info"),
    [
        (1, 56, 128, CPU),
        (32, 7, 32, CPU),
        (4, 2, 256, SLOW),
        (32, 56, 128, replace(CPU, kind="gpu")),
        (32, 56, 128, replace(CPU, features=frozenset())),
    ],
    ids=["one image", "small", "heavy weights", "gpu", "memory of its own"],
)
def test_other_batches_stay_whole(batch, side, channels, info) -> None:
    program = convolutions(batch, side, channels)
    before = str(program)
    assert SplitBatch().run(program, Context({"null": info})) == 0
    assert str(program) == before
    assert "split_batch" not in program.notes


def test_the_option_leaves_a_batch_whole() -> None:
    assert SplitBatch().run(convolutions(32, 56, 128), Context({"null": CPU}, split_batch=False)) == 0


@pytest.fixture
def three(monkeypatch):
    """Let every batch be cut into three."""
    monkeypatch.setattr(split_batch, "best_slices", lambda program, device: 3)


def test_the_text_before_and_after(three) -> None:
    net = Net()
    x = net.add("rows", Reshape((24, 3)), net.input("x", (6, 4, 3)))
    program = net.program(net.add("y", MatMul(), x, net.data("w", 3, 5)))
    assert str(program).splitlines() == [
        "program built",
        "  input x f32:bfx:6x4x3",
        "  const w f32:bf:3x5",
        "  rows f32:bf:24x3 = reshape(shape=24x3)(x)",
        "  y f32:bf:24x5 = matmul(rows, w)",
        "  output y",
    ]
    PassManager([SplitBatch()], [Verify(), VerifyNumbers(Context())]).run(program, Context())
    assert str(program).splitlines() == [
        "program built x3",
        "  input x f32:bfx:2x4x3",
        "  const w f32:bf:3x5",
        "  rows f32:bf:8x3 = reshape(shape=8x3)(x)",
        "  y f32:bf:8x5 = matmul(rows, w)",
        "  output y",
    ]
    assert program.notes["split_batch"] == "computed in 3 slices of 2, one after another"


def test_numbers_are_verified_over_all_slices_and_after_every_later_pass(three, monkeypatch) -> None:
    net = Net()
    x = net.conv("conv", net.input("x", (6, 16, 8, 8)), 16, 16, kernel=3)
    program = net.program(net.add("y", RELU, net.add("scaled", MUL, x, net.data("s", 16, 1, 1))))
    compile_all(program, observers=[Verify(), VerifyNumbers(Context())])
    assert program.batch_slices == 3
    net = Net()
    net.add("y", Softmax((0,)), net.input("x", (6, 4)))
    monkeypatch.setattr(split_batch, "keeps_apart", lambda *_: True)
    with pytest.raises(ProgramError, match=r"pass \d\d split_batch changes output 'y'"):
        compile_all(net.program("y"), observers=[VerifyNumbers(Context())])


def test_a_pass_that_changes_one_slice_only_is_named(three) -> None:
    """A result that is right for the first slice of random feeds may be wrong for the others."""
    net = Net()
    net.conv("conv", net.input("x", (6, 16, 8, 8)), 16, 16)
    program = net.program(net.add("y", RELU, "conv"))
    feeds = random_feeds(program)
    feeds["x"][:2] = 0
    manager = PassManager([SplitBatch(), Wrong()], [VerifyNumbers(Context(), feeds)])
    with pytest.raises(ProgramError, match="wrong changes output 'y'"):
        manager.run(program, Context())
