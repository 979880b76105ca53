"""Convolutions on the matrix units of Intel and AMD, in the emulator: what it runs is what a plan launches."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout
from clgraph.implementations.matrix_units.amd.convolution import ConvolutionAmdF16
from clgraph.implementations.matrix_units.amd.units import MATRIX
from clgraph.implementations.matrix_units.intel.convolution import ConvolutionIntelF16
from clgraph.implementations.matrix_units.intel.units import DPAS
from clgraph.implementations.matrix_units.units import MatrixUnits
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.query import DeviceInfo, Query
from tests.conftest import MATRIX_ENGINES
from tests.support.check_op import check_op
from tests.support.ptx.emulator import EmulationError

INTEL, AMD = DPAS.feature, MATRIX.feature
UNITS = {INTEL: DPAS, AMD: MATRIX}
NAMES = {INTEL: "convolution.intel_f16", AMD: "convolution.amd_f16"}


def _conv(strides, dilations, pads, groups=1):
    return Convolution(strides, dilations, pads, groups)


CASES = {
    "pointwise": ((2, 32, 5, 7), (37, 32, 1, 1), _conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 9, 8), (72, 16, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "uneven": ((2, 16, 9, 8), (11, 16, 3, 2), _conv((2, 1), (1, 2), ((1, 0), (1, 2)))),
    "groups": ((1, 96, 6, 6), (32, 48, 3, 3), _conv((1, 1), (1, 1), ((1, 1), (1, 1)), 2)),
    "one_axis": ((2, 16, 30), (12, 16, 4), _conv((2,), (3,), ((1, 4),))),
}


def _scale(primitive):
    return lambda x, w, b: primitive.reference(*map(np.abs, (x, w, b)))[0]


def _check(engine, vendor, x, w, primitive, extra=0, **more):
    # The header: two units a term, since sums may be truncated; one for the bias.
    units = 2 * int(np.prod(w[1:])) + 1 + extra
    check = {"scale": _scale(primitive), "families": ("normal", "wide"), "dtype": DType.F16, **more}
    count = len(engine.ran)
    check_op(engine, primitive, x, w, w[:1], ulps=units, constant=(1, 2), only=[NAMES[vendor]], **check)
    assert len(engine.ran) > count


@pytest.mark.opencl
@pytest.mark.parametrize("case", CASES)
def test_the_product_is_within_the_bound_of_its_sum(case, matrix_engine):
    engine, vendor = matrix_engine
    _check(engine, vendor, *CASES[case])


@pytest.mark.opencl
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.usefixtures("own_classes")
def test_every_tile_makes_the_sums(number, matrix_engine, monkeypatch):
    engine, vendor = matrix_engine
    units = UNITS[vendor]
    found = units.tiles(units.unit_of(engine.info))
    if number >= len(found):
        pytest.skip("there are fewer tiles")
    monkeypatch.setattr(MatrixUnits, "best_tile", lambda *_: (found[number], 1e-6))
    # Pixels and outputs beyond a tile; 40 terms a tap would not be whole units of Intel's.
    case = (1, 48, 12, 12), (found[number].columns + 5, 48, 3, 1), _conv((1, 1), (1, 1), ((1, 1), (0, 0)))
    _check(engine, vendor, *case, families=("normal",))


@pytest.mark.opencl
def test_bias_residual_and_activation_are_applied_in_order(matrix_engine):
    engine, vendor = matrix_engine
    x, w, primitive = CASES["three_by_three"]
    y = primitive.infer([Layout(DType.F32, s) for s in (x, w)])[0].shape
    fused = [(Eltwise("add"), [y], 0), (Activation("relu"), [], 0), (Eltwise("mul"), [(y[1], 1, 1)], 0)]
    scale = lambda x, w, b, r, m: (_scale(primitive)(x, w, b) + np.abs(r)) * np.abs(m)  # noqa: E731
    _check(engine, vendor, x, w, primitive, extra=3, fused=fused, scale=scale)


FAULTS = {
    INTEL: [
        ("row >= 0 ? word : 0", "word"),  # pixels beyond the edge are not zeros
        ("min(o0 / LANES + c, last)", "o0 / LANES + c"),  # weights behind the last are read
        ("BROADCAST(from[r], i)", "BROADCAST(from[r], i ^ 1)"),  # rows change places
        ("+ channel / 2 * LANES", "+ channel * LANES"),
    ],
    AMD: [
        ("    barrier(CLK_LOCAL_MEM_FENCE);\n  }\n#pragma", "  }\n#pragma"),  # tiles are overwritten early
        ("    barrier(CLK_LOCAL_MEM_FENCE);\n    if", "    if"),  # tiles are read early
        ("p + SUM_ROW(r), o", "p + r, o"),
        ("- lane % 16 + n", "+ n"),  # sums go to other pixels
    ],
}


@pytest.mark.opencl
@pytest.mark.parametrize(
    "matrix_engine",
    [pytest.param(engine, marks=pytest.mark.slow if " " in engine else []) for engine in MATRIX_ENGINES],
    indirect=True,
)
@pytest.mark.parametrize("number", range(4))
def test_planted_faults_are_found(number, matrix_engine, monkeypatch):
    engine, vendor = matrix_engine
    old, new = FAULTS[vendor][number]

    def change(text):
        assert old in text
        return text.replace(old, new)

    monkeypatch.setattr(engine, "change", change)
    x, _, primitive = CASES["three_by_three"]
    with pytest.raises((AssertionError, EmulationError)):
        # One output beyond a block of weights, more terms than a tile.
        _check(engine, vendor, (1, 48, *x[2:]), (65, 48, 3, 3), primitive, families=("normal",))


def _refusal(implementation, case, features, dtype=DType.F16, **fields):
    x, w, primitive = case
    last, device = channels_last(len(x)), DeviceInfo(kind="gpu", features=frozenset(features), **fields)
    layouts = (Layout(dtype, x, last), Layout(dtype, w))
    y = primitive.infer([v.plain() for v in layouts])[0].with_format(last)
    return implementation.refusal(Query(primitive, layouts, (y,), device, 2, constant=frozenset({1})))


def test_other_devices_and_shapes_are_refused_with_what_is_missing():
    intel, amd, case = ConvolutionIntelF16, ConvolutionAmdF16, CASES["three_by_three"]
    assert _refusal(intel, case, {INTEL}) is None
    assert _refusal(amd, case, {AMD}) is None
    assert _refusal(intel, case, {"intel_subgroups", "fp16"}) == "needs intel_dpas"
    assert _refusal(amd, case, {"fp16"}) == "needs amd_matrix"
    assert _refusal(intel, case, {INTEL}, DType.F32) == "serves f16, not f32"
    assert "groups of 128 work-items" in str(_refusal(amd, case, {AMD}, max_work_group=64))
    few = ((1, 8, 9, 8), (12, 8, 3, 3), case[2])
    assert _refusal(intel, few, {INTEL}) == "requires multiples of 16 inputs a group"
    assert _refusal(amd, few, {AMD}) is None
    assert _refusal(amd, few, {AMD, "amd_mfma"}, max_work_group=64) is not None
    narrow = ((1, 32, 9, 8), (24, 16, 3, 3), replace(case[2], groups=2))
    assert _refusal(intel, narrow, {INTEL}) == "requires multiples of 8 outputs a group"


def test_a_device_has_one_unit_of_a_vendor():
    for vendor, units in UNITS.items():
        for unit in units.units:
            assert units.unit_of(DeviceInfo(features=frozenset({vendor, unit.feature}))) is unit
