"""Casts, and changes of format."""

from itertools import product

import numpy as np
import pytest

import clgraph
from clgraph.core.conversion import ROUND_MODES, SATURATED, converted
from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout
from clgraph.core.packing import pack
from clgraph.implementations.portable.reorder import ReorderLines
from clgraph.ops.reorder import Reorder, ReorderRef
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op, run_raw
from tests.support.narrow import NARROW, every_code, numbers_beside
from tests.support.onnx_case import ONNX_TYPES, agree, one_node, onnxruntime_outputs

TYPES = [np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("opset", [9, 13, 19, 21])
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_casts_agree_with_onnxruntime(dtype, to, opset):
    x = (
        np.array([-3.7, -1.5, -0.2, 0, 0.5, 1, 2.5, 100.9])
        if np.dtype(dtype).kind == "f"
        else np.array([-3, -1, 0, 1, 2, 100])
    )
    if np.dtype(to).kind in "ub" or np.dtype(dtype).kind == "u":
        x = np.abs(x)
    agree("Cast", [x.astype(dtype)], opset=opset, to=ONNX_TYPES[np.dtype(to)])


STRANGE = [np.nan, np.inf, -np.inf, -1.5, 3e9, -3e9 - 77, 7.4e9, 1e19, -1e19, 2e19, 1e30, 300.7, -4e4, 7e4, 1e5]


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_that_an_integer_does_not_hold_are_what_an_x86_cpu_makes_of_them(dtype, device):
    with np.errstate(over="ignore"):
        x = np.array(STRANGE).astype(dtype)
    for to in "bBhHiIlL":
        model, feeds = one_node("Cast", [x], opset=13, to=ONNX_TYPES[np.dtype(to)])
        with clgraph.compile(model, device=device) as compiled:
            found = compiled.run(feeds)["y0"]
        np.testing.assert_array_equal(found, converted(x, DType.of(to)))
        if to != "I":  # of which onnxruntime's depend on how many there are
            np.testing.assert_array_equal(found, onnxruntime_outputs(model, feeds)[0])


@pytest.mark.parametrize("count", [1, 4, 33])
def test_uint32_of_floats_are_the_same_however_many_there_are(count):
    with np.errstate(invalid="ignore"):
        found = converted(np.full(count, 7.4e9, np.float32), DType.U32)
    np.testing.assert_array_equal(found, np.uint32(np.int64(np.float32(7.4e9)) % 2**32))


DTYPES = [dtype for dtype in DType if dtype not in NARROW]
FORMATS = [
    Format.plain(4),
    feature_blocked(4),
    channels_last(4),
    Format((0, 1, 2, 3), ((1, 16), (0, 32))),
    Format((1, 0, 3, 2), ((3, 4), (1, 8))),
]


F, H, D, B = DType.F32, DType.F16, DType.F64, DType.BOOL
KERNELS = {r.name: r for r in (ReorderRef, ReorderLines)}
FEW = {
    "reorder.ref": {
        *((F, to) for to in (F, B, D, DType.U8)),
        *((H, to) for to in (H, D, B, DType.I8)),
        *((D, to) for to in (F, H, B)),
        *((DType.U64, to) for to in (F, H, DType.I16)),
        *((DType.I64, H), (DType.I32, F), (DType.I16, DType.I32), (DType.I8, DType.I64)),
        *((DType.U32, DType.U16), (DType.U16, DType.U32), (DType.U8, B), (B, DType.U64), (B, B)),
    },
    "reorder.lines": {
        *((F, H), (H, F), (D, DType.I32), (DType.U64, B), (DType.I64, D), (DType.I32, DType.I64)),
        *((DType.I16, DType.U8), (DType.I8, DType.U16), (DType.U32, DType.I8), (DType.U16, DType.U32)),
        *((DType.U8, DType.I16), (B, DType.U64)),
    },
}
"""Pairs with each type on either side, of each kernel; of both, with each macro of a source beside each of a target."""


def test_few_pairs_have_each_type_on_either_side():
    for pairs in FEW.values():
        assert {x for x, _ in pairs} == {y for _, y in pairs} == set(DTYPES)
    # LOAD_X and V of a source, STORE and CONVERT of a target: other integers are read as longs, and stored by a cast.
    sources, targets = (F, H, D, DType.U64, DType.I64), (F, H, B, DType.I64)
    kind = lambda x, kinds: next((k for k in kinds if k is x), F if x is D else DType.I64)  # noqa: E731
    met = {(x if x is D else kind(x, sources), kind(y, targets)) for pairs in FEW.values() for x, y in pairs}
    assert met == set(product(sources, targets))


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("dtype", "to", "kernel"),
    [
        pytest.param(a, b, kernel, marks=[] if (a, b) in FEW[kernel] else pytest.mark.slow)
        for a, b, kernel in product(DTYPES, DTYPES, KERNELS)
        if a is not b or kernel == "reorder.ref"
    ],
)
def test_every_pair_of_types_converts_as_numpy_does(dtype, to, kernel, engine):
    values = [-100, -3.75, -1.5, -1, -0.25, 0, 0.5, 1, 2.5, 7, 100.875]
    values = [v for v in values if v >= 0 or (dtype.numpy.kind in "fi" and to.numpy.kind in "fi")]
    if not {dtype, to} & {F, H} and min(dtype.bits, to.bits) >= 32:
        values.append(2**24 + 1)  # no float holds it
    draw = {0: lambda rng, shape: np.resize(values, shape)}
    ulps = 1 if to.floating else 0
    check_op(engine, Reorder(to), (7, 11), dtype=dtype, draw=draw, families=["normal"], ulps=ulps, only=[kernel])


def run_cast(engine, array, cast, kernel):
    x = Layout.of(array)
    query = Query(cast, (x,), cast.infer([x]), engine.info, 1)
    return run_raw(engine, kernel, query, [array])[0]


def same_bits(found, wanted):
    assert found.dtype == wanted.dtype
    bits = DType.of(found.dtype) in NARROW
    np.testing.assert_array_equal(*(a.view(np.uint8) if bits else a for a in (found, wanted)))


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("reads", "writes"),
    [(ReorderLines, ReorderRef), pytest.param(ReorderRef, ReorderLines, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_number_of_a_narrow_type_is_read_and_written(dtype, reads, writes, engine):
    codes = every_code(dtype)
    np.testing.assert_array_equal(run_cast(engine, codes, Reorder(DType.F32), reads), codes.astype(np.float32))
    x = numbers_beside(dtype)
    same_bits(run_cast(engine, x, Reorder(dtype), writes), converted(x, dtype))
    if dtype in SATURATED:
        same_bits(run_cast(engine, x, Reorder(dtype, saturate=False), writes), converted(x, dtype, saturate=False))


@pytest.mark.opencl
@pytest.mark.parametrize("kernel", [ReorderRef, pytest.param(ReorderLines, marks=pytest.mark.slow)])
def test_powers_of_two_are_rounded_in_every_mode(kernel, engine):
    x = numbers_beside(DType.F8E8M0)
    for mode in ROUND_MODES:
        cast = Reorder(DType.F8E8M0, saturate=mode == "up", round_mode=mode)
        found = run_cast(engine, x, cast, kernel)
        same_bits(found, converted(x, DType.F8E8M0, saturate=cast.saturate, round_mode=mode))


KINDS = [
    (DType.F16, DType.F8E5M2),
    (DType.F64, DType.BF16),
    (DType.I64, DType.F8E4M3FN),
    (DType.U64, DType.BF16),
    (DType.I64, DType.I4),
    (DType.U8, DType.U2),
    (DType.I4, DType.I8),
    (DType.U4, DType.F4E2M1),
    (DType.I2, DType.F16),
    (DType.BF16, DType.F16),
    (DType.F8E4M3FNUZ, DType.F8E5M2FNUZ),
    (DType.F8E8M0, DType.F16),
    (DType.F4E2M1, DType.I64),
    (DType.F8E5M2, DType.BOOL),
    (DType.BOOL, DType.BF16),
]


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("source", "target", "kernel"),
    [
        # What reads and writes every number of a type above is the other kernel.
        pytest.param(*pair, kernel, marks=[] if (pair[0] in NARROW) == (kernel is ReorderRef) else pytest.mark.slow)
        for pair, kernel in product(KINDS, KERNELS.values())
    ],
)
def test_narrow_types_convert_to_and_from_all_kinds(source, target, kernel, engine):
    x = np.array([0, 1, 1, 0]) if DType.BOOL in (source, target) else np.array([0, 1, 2, 3, 5, 6, 7])
    if source.bits > 8:
        x = np.append(x, [3001, 65, 121])
        x = -x if source.bounds[0] < 0 or source.floating else x
    x = x.astype(source.numpy)
    same_bits(run_cast(engine, x, Reorder(target), kernel), converted(x, target))


@pytest.mark.parametrize(
    ("source", "target", "axes"),
    [
        (Layout(DType.F32, (2, 3, 4, 5)), Layout(DType.I64, (2, 3, 4, 5)), 1),
        (Layout(DType.F32, (2, 3, 4, 5), channels_last(4)), Layout(DType.I64, (2, 3, 4, 5), channels_last(4)), 1),
        (Layout(DType.F32, (2, 3, 4, 5), channels_last(4)), Layout(DType.I64, (2, 3, 4, 5)), 3),
        (Layout(DType.F32, (2, 3, 4, 5), pitches=(80, 20, 5, 1)), Layout(DType.I64, (2, 3, 4, 5)), 2),
        (Layout(DType.F32, ()), Layout(DType.I64, ()), 1),
    ],
)
def test_axes_that_lie_behind_one_another_in_both_are_one(source, target, axes):
    query = Query(Reorder(DType.I64, target.format), (source,), (target,), DeviceInfo(), 1)
    (step,) = ReorderRef.plan(query).steps
    assert dict(step.jit.macros)["RANK"] == str(axes)


@pytest.mark.opencl
@pytest.mark.parametrize("source", FORMATS, ids=str)
@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("halo", [(), ((0, 0), (0, 0), (1, 2), (3, 0))])
def test_the_memory_is_that_of_the_format_with_zeros_in_halo_and_tail_lanes(halo, target, source, engine):
    shape = (3, 19, 5, 6)
    x, y = Layout(DType.F32, shape, source, halo), Layout(DType.F32, shape, target, halo)
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    query = Query(Reorder(DType.F32, target, halo), (x,), (y,), engine.info, 1)
    (memory,) = run_raw(engine, ReorderRef, query, [pack(array, x)])
    np.testing.assert_array_equal(memory, pack(array, y))


@pytest.mark.opencl
def test_whole_blocks_are_moved_by_the_neighbours_that_both_formats_have(engine):
    shape = (32, 32, 3, 8)
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    moved = {}
    for source, target in product([*FORMATS, feature_blocked(4, 4)], repeat=2):
        x, y = Layout(DType.F32, shape, source), Layout(DType.F32, shape, target)
        query = Query(Reorder(DType.F32, target), (x,), (y,), engine.info, 1)
        (step,) = ReorderRef.plan(query).steps
        moved[source, target] = dict(step.jit.macros).get("MOVED")
        (memory,) = run_raw(engine, ReorderRef, query, [pack(array, x)])
        np.testing.assert_array_equal(memory, pack(array, y), f"{source} to {target}")
    assert moved[channels_last(4), feature_blocked(4, 4)] == moved[feature_blocked(4), channels_last(4)] == "uint4"
    assert moved[Format.plain(4), channels_last(4)] == "uint"
    assert moved[feature_blocked(4, 4), feature_blocked(4)] is None  # blocks of two sizes


@pytest.mark.opencl
@pytest.mark.parametrize("source", FORMATS, ids=str)
@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_every_implementation_keeps_the_values_between_any_two_formats(target, source, engine):
    halo = ((0, 0), (0, 0), (1, 2), (3, 0))
    for before, after in (((), halo), (halo, ())):
        laid_out = [Layout(DType.F32, (3, 19, 5, 6), source, before)]
        check_op(engine, Reorder(DType.F32, target, after), laid_out[0].shape, laid_out=laid_out, families=["normal"])
