"""Elements of every size moved as NumPy moves them: axes in any order, steps, repetitions, pads, parts."""

from math import prod

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.pad import PadElements
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.expand import Expand, Repeat
from clgraph.ops.pad import Pad
from clgraph.ops.reduce import Reduce
from clgraph.ops.slice import Slice
from clgraph.ops.space import Shuffle
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where
from clgraph.selector.choose import candidates
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op

pytestmark = pytest.mark.opencl

CASES = {
    "reversed axes": (Transpose((4, 3, 2, 1, 0)), (2, 3, 2, 5, 4)),
    "a long row": (Transpose((1, 0, 2)), (2, 3, 5000)),
    "columns": (Transpose((1, 0)), (70, 33)),
    "broadcast": (Expand((3, 2, 5, 4)), (2, 1, 4)),
    "one element": (Expand((4, 4500)), (1, 1)),
    "few columns": (Slice((0, 1), (700, 4)), (700, 5)),
    "few columns backwards": (Slice((2, 0, 3), (0, 300, 0), (-1, 1, -1)), (3, 300, 4)),
    "neighbours exchanged": (Slice((0, 1), (700, -3), (1, -1)), (700, 2)),
    "short rows again and again": (Expand((3, 700, 3)), (3, 1, 3)),
    "a few columns of one": (Expand((3, 600, 3)), (600, 1)),
    "tiles": (Repeat((2, 1, 3)), (3, 4, 5)),
    "tiles of short rows": (Repeat((2, 1, 3)), (3, 600, 5)),
    "tiles of a row": (Repeat((8,)), (3,)),
    "short rows along several axes": (Expand((4, 80, 2, 6, 4, 2)), (80, 2, 1, 4, 1)),
    "all axes of one element": (Expand((3, 1, 2, 5)), (1, 1, 1, 1)),
    "tiles of tiles of short rows": (Repeat((2, 3, 2)), (90, 2, 6)),
    "tiles of tiles of columns": (Repeat((3, 3, 3, 2)), (3, 5, 1, 4)),
    "tiles of columns": (Repeat((2, 3, 5)), (7, 9, 1)),
    "steps": (Slice((1, 0), (12, 30), (2, 3)), (12, 30)),
    "backwards": (Slice((11, 28), (-13, 2), (-3, -2)), (12, 30)),
    "constant": (Pad(((1, 0), (2, 3), (0, 1)), value=7), (2, 3, 4)),
    "constant around much": (Pad(((1, 2), (0, 3), (5, 0)), value=7), (3, 40, 1000)),
    "constant behind rows, some cut": (Pad(((0, -1), (-2, 0), (0, 5)), value=7), (3, 40, 1000)),
    "cut": (Pad(((-1, 2), (1, -2)), value=1), (4, 5)),
    "edge": (Pad(((1, 0), (2, 3), (0, 1)), "edge"), (2, 3, 4)),
    "reflect": (Pad(((0, 0), (2, 2), (3, 1)), "reflect"), (2, 3, 4)),
    "wrap": (Pad(((0, 2), (3, 1)), "wrap"), (3, 4)),
    "edges of four axes, some cut": (Pad(((2, 1), (-1, 2), (1, 1), (3, -2)), "edge"), (2, 3, 4, 5)),
    "reflected along four axes": (Pad(((1, 1), (2, 0), (1, 3), (2, 2)), "reflect"), (2, 3, 4, 5)),
    "wrapped along four axes": (Pad(((1, 2), (2, 0), (1, 3), (2, 2)), "wrap"), (2, 3, 4, 5)),
    "space to depth": (Shuffle(2, to_depth=True), (2, 3, 4, 6)),
    "space to depth by channels": (Shuffle(2, True, True), (2, 3, 4, 6)),
    "depth to space": (Shuffle(3), (1, 18, 2, 5)),
    "depth to space by channels": (Shuffle(3, channels_first=True), (1, 18, 2, 5)),
}


@pytest.mark.parametrize("dtype", [DType.U8, DType.F16, DType.F32, DType.I64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_elements_of_every_size_are_where_numpy_has_them(engine, case, dtype):
    primitive, shape = CASES[case]
    name = f"{primitive.kind}.elements"
    draw = {0: lambda rng, of: rng.integers(0, 250, of).astype(dtype.numpy)}
    assert check_op(engine, primitive, shape, dtype=dtype, draw=draw, families=("normal",), only=[name]) == {name: 0.0}


@pytest.mark.parametrize("dtype", [DType.BOOL, DType.I16, DType.F64], ids=str)
def test_parts_are_joined_and_cut(engine, dtype):
    draw = {slot: lambda rng, of: rng.integers(0, 2, of).astype(dtype.numpy) for slot in range(3)}
    for primitive, shapes in ((Concat(1), ((2, 3, 4), (2, 1, 4), (2, 5, 4))), (Split(1, (2, 1, 4)), ((3, 7, 5),))):
        name = f"{primitive.kind}.elements"
        found = check_op(engine, primitive, *shapes, dtype=dtype, draw=draw, families=("normal",), only=[name])
        assert found == {name: 0.0}


def test_what_goes_round_an_axis_twice_is_left_to_others():
    x = Layout(DType.F32, (2, 3))
    twice = Pad(((5, 0), (0, 0)), "wrap")
    q = Query(twice, (x,), twice.infer((x,)), DeviceInfo(kind="cpu"), 1)
    assert PadElements.refusal(q) == "goes round an axis once"
    assert np.array_equal(twice.reference(np.zeros((2, 3)))[0], np.zeros((7, 3)))


@pytest.mark.parametrize(
    "primitive", [Expand((1 << 31, 2)), Transpose((1, 0)), Activation("neg"), Reduce("sum", (0,)), Where()], ids=str
)
def test_more_elements_than_32_bits_count_are_left_to_others(primitive):
    x = Layout(DType.I64, (1 << 31, 1 if primitive.kind == "expand" else 2))
    inputs = (Layout(DType.BOOL, x.shape), x, x) if primitive.kind == "where" else (x,)
    device = DeviceInfo(kind="cpu", features=frozenset({"fp64"}))
    q = Query(primitive, inputs, primitive.infer(inputs), device, len(inputs))
    (made,) = (i for i in candidates(q) if i.name == f"{primitive.kind}.elements")
    assert made.refusal(q) == "counts elements in 32 bits"


def test_what_is_around_much_is_filled_and_not_what_is_moved_over() -> None:
    def filled(shape, pads):
        x, p = Layout(DType.F32, shape), Pad(pads, value=7)
        q = Query(p, (x,), p.infer([x]), DeviceInfo("cpu", "cpu"), 1)
        return sum(prod(a.size for a in m.axes) for m in PadElements.moves(q) if m.inp is None)

    assert filled((1024, 2048), ((0, 0), (0, 5))) == 1024 * 5
    assert filled((300, 1000), ((1, 2), (3, 0))) == 3 * 1003 + 300 * 3
    assert filled((2, 3), ((1, 2), (3, 0))) == 5 * 6  # one step is sooner there


def test_of_short_rows_one_repetition_is_walked_and_the_others_copy_blocks() -> None:
    def steps(primitive, shape):
        x = Layout(DType.F32, shape)
        q = Query(primitive, (x,), primitive.infer((x,)), DeviceInfo("cpu", "cpu"), 1)
        (made,) = (i for i in candidates(q) if i.name == f"{primitive.kind}.elements")
        return [
            prod((d.count_1, d.count_2, d.count_3, d.count_4)) * d.width
            for d in (t.descriptor for t in made.plan(q).steps)
        ]

    # All copies but the first are of blocks: of 8 elements in 80 rows, then of all of them.
    assert steps(Expand((4, 80, 2, 6, 4, 2)), (80, 2, 1, 4, 1)) == [160 * 4 * 2, 160 * 5 * 8, 3 * 160 * 6 * 8]
    assert len(steps(Expand((3, 700, 3)), (3, 1, 3))) == 1, "one repetition"
    assert len(steps(Repeat((2, 3, 2)), (90, 2, 60))) == 1, "long rows"
