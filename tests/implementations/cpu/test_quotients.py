"""Roundings to steps of a scale: quotients are those of a division, bit for bit, where halves decide."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.activation import ActivationFsv16, ActivationRows
from clgraph.implementations.cpu.quantize import QuantizeElements
from clgraph.implementations.cpu.static_quantize import StaticQuantizeRows
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.static_quantize import StaticQuantize
from tests.support.run_tiles import pose, run_tiles

F = np.float32
SCALES = (1.0, 0.3, 1 / 3, 0.0078431377, float(np.nextafter(F(1), F(0))), float(np.nextafter(F(2), F(0))))
NEAR_MULTIPLES = (0.2656249701976776, 0.2851562201976776, 0.3906249403953552)
"""Significands next to multiples of 2^16: floats lie nearer to a middle than a reciprocal in two parts can tell."""
NEAR_MIDDLES = (
    (0.9084014296531677, 46690.47265625),
    (0.7124785780906677, 36423.6875),
    (0.8419951796531677, 41445.109375),
)
"""Significands next to multiples of 2^8, with a float each of which the same is true among 2^16 steps."""
FAR = (3e-31, 1e30, 2e-39, 3e38, 2e-12, 3e12)
"""Scales that quotients are divided by, and at both sides of where they begin to be."""


def hard_to_round(scale: np.float32, rng: np.random.Generator) -> np.ndarray:
    """Return floats at and next to every half of a step, at random, and what is not finite or far away."""
    halves = ((np.arange(-700, 700) + 0.5) * float(scale)).astype(F)
    beside = [halves]
    for towards in (np.inf, -np.inf):
        v = halves
        for _ in range(3):
            v = np.nextafter(v, F(towards))
            beside.append(v)
    drawn = (rng.standard_normal(4096) * 100 * float(scale)).astype(F)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-38, 1e-31, 1e20], F)
    found = np.concatenate([*beside, drawn, odd])
    return np.resize(found, (1, -(-found.size // 64) * 64))


@pytest.mark.opencl
def test_what_lies_at_a_half_is_rounded_as_its_quotient_is(engine):
    rng = np.random.default_rng(5)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for scale in (*map(F, SCALES + NEAR_MULTIPLES + FAR), *np.exp(rng.uniform(-9, 3, 8)).astype(F)):
            x = hard_to_round(scale, rng)
            x = x[:, : x.size // 64 * 64]
            steps = np.rint(x / scale)
            q = pose(
                engine.info, ActivationRows, Activation("fake_quantize", float(scale), -100.0), [Layout.of(x)], arity=1
            )
            want = scale * np.clip(np.fmax(steps, F(-100)), F(-100), F(155))
            np.testing.assert_array_equal(run_tiles(engine, ActivationRows, q, [x]), want, f"{scale!r}")
            if "vnni" in engine.info.features:
                p = StaticQuantize(float(scale), 100, DType.U8)
                q = pose(engine.info, StaticQuantizeRows, p, [Layout.of(x)], arity=1)
                np.testing.assert_array_equal(run_tiles(engine, StaticQuantizeRows, q, [x]), p.reference(x)[0])


def rounded(x: np.ndarray, scale: float, low: float) -> np.ndarray:
    """Return *x* on 8 bits of steps."""
    return F(scale) * (np.clip(np.fmax(np.rint(x / F(scale)), F(low)), F(low), F(low + 255)) + F(0))


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["add", "mul"])
@pytest.mark.parametrize("operand", [(1, 20, 9, 64), (1, 20, 1, 1), (1, 1, 9, 64)], ids=str)
@pytest.mark.parametrize("first", ["fake_quantize", "neg"])
def test_what_is_computed_between_roundings_is_rounded_as_its_quotient_is(engine, first, operand, function):
    rng = np.random.default_rng(8)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for scale, behind in ((0.3, 0.0078431377), (0.0078431377, 1 / 3), (NEAR_MULTIPLES[0], 0.3), (0.3, FAR[0])):
            x = np.resize(hard_to_round(F(scale), rng), (1, 20, 9, 64))
            other = rounded(rng.standard_normal(operand).astype(F), 0.03, -128)
            alone = Activation(first, *((float(F(scale)), -120.0) if first == "fake_quantize" else ()))
            fused = [Fused(Eltwise(function), (1,)), Fused(Activation("fake_quantize", float(F(behind)), -90.0))]
            layouts = [Layout.of(x), Layout.of(other)]
            q = pose(engine.info, ActivationFsv16, alone, layouts, arity=1, fused=fused)
            met = rounded(x, scale, -120) if first == "fake_quantize" else -x
            want = rounded(met + other if function == "add" else met * other, behind, -90)
            got = run_tiles(engine, ActivationFsv16, q, [x, other])
            np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32), f"{scale}, {behind}")


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.I16, DType.U16], ids=str)
def test_quotients_by_a_scale_that_is_an_input_are_rounded_so(engine, dtype):
    rng = np.random.default_rng(7)
    zero = np.array(dtype.bounds[0] + 100, dtype.numpy)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for scale, *near in (*((F(s),) for s in SCALES + NEAR_MULTIPLES + FAR), *NEAR_MIDDLES):
            x = hard_to_round(F(scale), rng)
            x[0, : len(near)] = near
            given = [x, np.asarray(scale, F), zero]
            q = pose(engine.info, QuantizeElements, Quantize(dtype=dtype), [Layout.of(v) for v in given], arity=3)
            want = Quantize(dtype=dtype).reference(*given)[0]
            np.testing.assert_array_equal(run_tiles(engine, QuantizeElements, q, given), want, f"{scale!r}")


@pytest.mark.opencl
def test_what_lies_at_a_half_of_65536_steps_is_rounded_as_its_quotient_is(engine):
    rng = np.random.default_rng(6)
    scales = (*((F(scale), [v]) for scale, v in NEAR_MIDDLES), (F(1.6284e-05), []), (F(1 / 3), []))
    for scale, near in scales:
        halves = ((rng.choice(140000, 2000, replace=False) - 70000 + 0.5) * float(scale)).astype(F)
        beside = [np.nextafter(halves, F(end)) for end in (np.inf, -np.inf)]
        x = np.concatenate([halves, *beside, np.array([*near, np.nan, np.inf, -np.inf, 0.0, 1e30], F)])
        x = np.resize(x, (1, 6080))
        p = Activation("fake_quantize_wide", float(scale), -10000.0)
        q = pose(engine.info, ActivationRows, p, [Layout.of(x)], arity=1)
        np.testing.assert_array_equal(run_tiles(engine, ActivationRows, q, [x]), p.reference(x)[0], f"{scale!r}")
