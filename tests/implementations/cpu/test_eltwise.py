"""Elementwise tiles, blocked and plain, against float64, and every post-operation code."""

import numpy as np
import pytest

from clgraph.core.format import feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.activation import ActivationFsv16, ActivationRows
from clgraph.implementations.cpu.eltwise import EltwiseFsv16, EltwiseRows
from clgraph.ops.activation import FUNCTIONS, Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.implementation import Formats
from clgraph.selector.post import post_codes
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import U32, any_halo, check_tiles, pose, post_list, run_tiles, wanted

LISTS = ("", "relu", "add", "add sigmoid", "clip")

BINARY = ("add", "sub", "mul", "div", "min", "max", "prelu")


def draw_shape(rng, rank):
    return tuple(int(v) for v in rng.integers(1, [4, 40, 20, 20][:rank] if rank > 1 else [200]))


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [EltwiseFsv16, EltwiseRows])
@pytest.mark.parametrize("seed", range(40))
def test_binary_functions_agree_with_float64_for_every_broadcast(engine, implementation, seed):
    rng = np.random.default_rng(seed)
    rank = 3 + seed % 2 if implementation is EltwiseFsv16 else 1 + seed % 4
    shape, function = draw_shape(rng, rank), BINARY[seed % len(BINARY)]
    other = tuple(1 if rng.random() < 0.4 else d for d in shape)[int(rng.integers(0, rank)) if seed % 3 else 0 :]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, other)]
    if seed % 5 > 2 and function != "prelu":
        arrays.reverse()
    fused, slope = post_list(LISTS[seed % 5], shape, arrays, rng)
    layouts = [Layout.of(a) for a in arrays]
    formats = None
    if implementation is EltwiseFsv16 and seed % 2 and len(other) == rank:
        blocked = feature_blocked(rank)
        formats = Formats((blocked, blocked, *(None for _ in layouts[2:])), (blocked,))
    try:
        q = pose(engine.info, implementation, Eltwise(function), layouts, arity=2, fused=fused)
    except IndexError:
        pytest.skip("no blocked format")
    if "three axes" in str(implementation.refusal(q)):
        pytest.skip("more axes than a row, rows and images")
    # One rounding of the function, one of an addition to an operand below 4, six of a sigmoid.
    check_tiles(
        engine,
        implementation,
        Eltwise(function),
        arrays,
        slope * 10,
        arity=2,
        size=4,
        fused=fused,
        formats=formats,
        out_halo=any_halo(rng, rank) if implementation is EltwiseFsv16 else (),
        misalign=seed % 16 if implementation is EltwiseRows else 0,
    )


PARAMETERS = {
    "linear": (2.0, 0.5),
    "clip": (-1.0, 2.0),
    "leaky_relu": (0.125, 0.0),
    "elu": (1.25, 0.0),
    "celu": (1.25, 0.0),
    "hard_sigmoid": (0.25, 0.5),
    "hard_swish": (0.25, 0.5),
    "swish": (1.5, 0.0),
    "fake_quantize": (0.5, -100.0),
    "fake_quantize_wide": (0.001, -20000.0),
    "gated_steps": (0.0625, 3.0),
    "whole_steps": (0.001, -20000.0),
    "scaled_sum": (2.0, 0.5),
    "divided": (3.0, 0.0),
}


def roundings(function, x):
    """Return the bounds that ``post_apply.clh`` states, as multiples of 2^-24 |result|, and what they add to it."""
    if function in ("swish", "gelu_tanh"):
        return 8 + 3 * (1.5 * np.abs(x) if function == "swish" else 1.6 * np.abs(x) + 0.08 * np.abs(x) ** 3), 0.0
    if function in ("tanh", "erf", "gelu"):
        return 0.0, 6 * (np.abs(x) if function == "gelu" else 1.0)
    return {"softplus": (8, 2.0), "log": (6, 0.0), "sin": (8, 0.0), "cos": (8, 0.0)}.get(
        function, (8 if function in ("exp", "sigmoid", "elu", "celu", "mish") else 4, 0.0)
    )


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [ActivationFsv16, ActivationRows])
@pytest.mark.parametrize("function", sorted(FUNCTIONS.keys() & post_codes().keys()))
def test_every_unary_code_keeps_its_stated_error_bound(engine, implementation, function):
    rng = np.random.default_rng(3)
    parts = [rng.standard_normal(600) * 2, rng.standard_normal(600) * 30, rng.uniform(-0.01, 0.01, 600)]
    odd = [0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 4194304.5, -8388607.5, 3e9, np.inf, -np.inf, np.nan]
    x = np.resize(np.concatenate([*parts, odd]).astype(np.float32), (1, 17, 11, 11))
    primitive = Activation(function, *PARAMETERS.get(function, (0.0, 0.0)))
    q = pose(engine.info, implementation, primitive, [Layout.of(x)], arity=1)
    got, want = run_tiles(engine, implementation, q, [x]).astype(np.float64), wanted(q, [x])
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(rounded)], rounded[np.isinf(rounded)])
    ok = np.isfinite(rounded)
    relative, absolute = roundings(function, np.where(ok, x, 0).astype(np.float64))
    # hard_swish and linear round a product of the size of its terms; below 2^-126 results may be flushed to zero. The
    # float64 reference is itself off by 2^-53 times what cancels in it: 1 + tanh, 1 + erf.
    size = np.abs(np.where(ok, want, 0)) + (
        np.abs(x) + 1 if function in ("linear", "scaled_sum", "hard_sigmoid", "hard_swish") else 0
    )
    with np.errstate(all="ignore"):
        allowed = np.where(ok, U32 * (relative * size + absolute) + 2e-15 * np.fmax(np.abs(x), 0) + 1e-36, np.inf)
        error = np.abs(got - want)
    assert (error[ok] <= allowed[ok]).all(), f"{function}({x[ok][np.argmax(error[ok] / allowed[ok])]})"


def powers(rng):
    """Return bases and exponents: all magnitudes of results, bases near 1, tiny ones, and every pair of odd values."""
    near = 1 + rng.uniform(-0.3, 0.4, 3000) * 2.0 ** -rng.integers(0, 22, 3000)
    base = np.concatenate([2.0 ** rng.uniform(-148, 128, 3000), near, rng.uniform(0.01, 4, 3000)]).astype(np.float32)
    logs = np.log2(base.astype(np.float64))
    exponent = rng.uniform(-151, 129, base.size) / np.where(logs == 0, 1, logs)
    exponent[::3] = rng.uniform(-3, 3, exponent[::3].size)
    odd = [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, -1.5, 1e-40, 7e4, 1e38, -1e38, np.inf, -np.inf, np.nan]
    odd += [8388609.0, -16777215.0, 16777216.0, 1 - 2.0**-24, -1 - 2.0**-23, -0.25]
    pairs = np.array([(a, b) for a in odd for b in odd], np.float32).T
    return [np.resize(np.concatenate(of).astype(np.float32), 9632) for of in zip((base, exponent), pairs, strict=True)]


@pytest.mark.opencl
@pytest.mark.parametrize("implementation", [EltwiseFsv16, EltwiseRows])
def test_powers_keep_their_stated_error_bound_and_those_of_c_for_odd_values(engine, implementation, rng):
    a, b = (of.reshape(1, 4, 56, 43) for of in powers(rng))
    q = pose(engine.info, implementation, Eltwise("pow"), [Layout.of(a)] * 2, arity=2)
    got = run_tiles(engine, implementation, q, [a, b]).astype(np.float64)
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64))
        rounded = want.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    # Within the bound of the largest float, a result may be infinite or not.
    largest = float(np.finfo(np.float32).max)
    sure = np.isnan(want) | (np.abs(want) < largest * (1 - 4 * U32)) | (np.abs(want) > largest * (1 + 4 * U32))
    infinite = np.isinf(rounded) & sure
    np.testing.assert_array_equal(got[infinite], rounded[infinite])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    ok = np.isfinite(rounded) & sure
    error = np.abs(got[ok] - want[ok]) / (4 * U32 * np.abs(want[ok]) + 1.2e-38)
    worst = int(np.argmax(error))
    assert error[worst] <= 1, f"{a[ok][worst]} ** {b[ok][worst]}"


@pytest.mark.opencl
def test_minimum_and_maximum_keep_nan_of_either_side(engine):
    a = np.array([1, np.nan, 3, np.nan, -1], np.float32)
    b = np.array([np.nan, 2, 2, np.nan, 4], np.float32)
    for function, expected in (("min", np.minimum(a, b)), ("max", np.maximum(a, b))):
        q = pose(engine.info, EltwiseRows, Eltwise(function), [Layout.of(a)] * 2, arity=2)
        np.testing.assert_array_equal(run_tiles(engine, EltwiseRows, q, [a, b]), expected)


def test_functions_without_a_code_and_outer_broadcasts_are_refused():
    layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((4, 1), (1, 5))]
    assert EltwiseRows.refusal(pose(DeviceInfo(), EltwiseRows, Eltwise("add"), layouts, arity=2)) is not None
    same = [Layout.of(np.zeros((4, 5), np.float32))] * 2
    assert EltwiseRows.refusal(pose(DeviceInfo(), EltwiseRows, Eltwise("mod"), same, arity=2)) is not None
    assert EltwiseRows.refusal(pose(DeviceInfo(), EltwiseRows, Eltwise("mul"), same, arity=2)) is None
