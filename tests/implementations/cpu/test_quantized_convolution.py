"""Convolution tiles of bytes against float64: every kernel, stride, pad, dilation, group and end of the sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.byte_end_fields import TWICE, End
from clgraph.implementations.cpu.byte_ends import end_of
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.quantized_convolution import QuantizedConvolutionBytes
from clgraph.implementations.cpu.quantized_convolution_depthwise import QuantizedDepthwise
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.selector.query import DeviceInfo
from tests.support.features import needs_bytes
from tests.support.run_tiles import U32, pose, run_tiles, with_weights

KERNELS = ((1, 1), (3, 3), (1, 3), (5, 5), (2, 2), (7, 7))
LAST = StaticQuantize(0.753, 130, DType.U8)
DIVIDES = StaticQuantize(0.75, 130, DType.U8)
"""Quotients by its scale are no products with two parts of its reciprocal: see quotient.clh."""
ENDS = {
    "floats": [],
    "floats of a list": [Fused(Activation("hard_swish", 1 / 6, 0.5)), Fused(Eltwise("add"), (5,))],
    "floats of lines and a hard swish": [
        Fused(Activation("linear", 1.9, 0.0)),
        Fused(Activation("linear", 1.0, 0.8)),
        Fused(Activation("hard_swish", 1 / 6, 0.5)),
        Fused(Activation("linear", 0.63, -0.55)),
    ],
    "floats of channels on a line": [Fused(Eltwise("mul"), (5,)), Fused(Activation("linear", 0.7, 3.0))],
    "floats of channels": [Fused(Eltwise("mul"), (5,)), Fused(Activation("sigmoid"))],
    "floats by one number, of channels": [
        Fused(Eltwise("mul"), (5,)),
        Fused(Eltwise("add"), (6,)),
        Fused(Activation("clip", -20.0, 31.0)),
    ],
    "bytes of one number": [Fused(Eltwise("mul"), (5,)), Fused(Activation("relu")), Fused(LAST)],
    "bytes": [Fused(LAST)],
    "bounded bytes": [Fused(Activation("clip", -20.0, 31.0)), Fused(LAST)],
    "bytes rounded twice": [Fused(Activation("fake_quantize", 0.4, -100.0)), Fused(Activation("relu")), Fused(LAST)],
    "a sum of bytes": [Fused(DequantizeAdd(0.3, 90), (5,)), Fused(DIVIDES)],
    "a sum of bytes, rounded twice": [
        Fused(Activation("fake_quantize", 0.4, -128.0)),
        Fused(DequantizeAdd(0.3, 90), (5,)),
        Fused(Activation("relu")),
        Fused(LAST),
    ],
    "a sum of bytes on known steps, rounded twice": [
        Fused(Activation("fake_quantize", 0.4, -128.0)),
        Fused(DequantizeAdd(0.3, 90, QuantizedSum((0.4, 0.3, 0.753), (0, -38, 2))), (5,)),
        Fused(Activation("relu")),
        Fused(LAST),
    ],
    "floats of a sum of bytes": [Fused(DequantizeAdd(0.3, 90), (5,)), Fused(Activation("relu"))],
    "floats that are rounded and bounded": [Fused(Activation("fake_quantize", 0.4, -100.0)), Fused(Activation("relu"))],
    "floats of channels and a sum of bytes, rounded": [
        Fused(Activation("fake_quantize", 0.4, -128.0)),
        Fused(QuantizedSum((0.4, 0.3, 0.5), (0, 3, -28)), (5,)),
        Fused(Activation("fake_quantize", 0.5, -100.0)),
        Fused(DequantizeAdd(0.3, 90), (6,)),
        Fused(Activation("fake_quantize", 0.753, -100.0)),
    ],
    "bytes of a list behind a sum of bytes": [
        Fused(DequantizeAdd(0.3, 90), (5,)),
        Fused(Activation("tanh")),
        Fused(LAST),
    ],
    "channels between two roundings": [
        Fused(Activation("fake_quantize", 0.4, -128.0)),
        Fused(Eltwise("mul"), (5,)),
        Fused(Eltwise("add"), (6,)),
        Fused(Activation("fake_quantize", 0.5, -100.0)),
        Fused(DequantizeAdd(0.3, 90), (7,)),
        Fused(LAST),
    ],
    "channels behind both roundings": [
        Fused(Activation("fake_quantize", 0.4, -128.0)),
        Fused(Eltwise("add"), (5,)),
        Fused(Activation("fake_quantize", 0.5, -100.0)),
        Fused(Eltwise("mul"), (6,)),
        Fused(Eltwise("add"), (7,)),
        Fused(Activation("relu")),
        Fused(LAST),
    ],
    "bytes of a list": [Fused(Activation("hard_swish", 1 / 6, 0.5)), Fused(Eltwise("add"), (5,)), Fused(LAST)],
}


def draw(rng: np.random.Generator, channels: int, outputs: int, groups: int, kernel: tuple[int, int]):
    """Return a primitive and its arrays, whose results are about 100 in size."""
    strides = tuple(int(s) for s in rng.integers(1, 4, 2))
    dilations = tuple(int(d) for d in rng.integers(1, 3, 2)) if rng.random() < 0.3 else (1, 1)
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2))) if rng.random() < 0.7 else ((0, 0), (0, 0))
    zero = int(rng.integers(256))
    x = rng.integers(0, 256, (int(rng.integers(1, 3)), channels, *rng.integers(14, 34, 2))).astype(np.uint8)
    w = rng.integers(-127, 128, (outputs, channels // groups, *kernel)).astype(np.int8)
    shift = int(rng.choice([0, 0, 1, -3, 100, -127]))
    start = (-zero * (w.astype(np.int64) + shift).sum((1, 2, 3))).astype(np.int32)
    scale = rng.uniform(0.8, 1.2, outputs) * 100 / (5400 * np.sqrt(w[0].size) + 64 * abs(shift) * w[0].size)
    bias = rng.uniform(-20, 20, outputs).astype(np.float32)
    primitive = QuantizedConvolution(strides, dilations, pads, groups, zero, shift=shift)
    return primitive, [x, w, start, scale.astype(np.float32), bias]


def _channels(primitive, out: tuple[int, ...]) -> tuple[int, ...]:
    return out[-1:] if isinstance(primitive, QuantizedMatMul) else (out[1], *(1,) * (len(out) - 2))


def check(engine, implementation, primitive, arrays, end, rng):
    """Assert that floats are within the roundings of their operations, and bytes a step of those beside a half."""
    fused, arity = ENDS[end], 5
    if end == "floats" and isinstance(primitive, QuantizedConvolution | QuantizedMatMul):
        # The network computes the zero point.
        convolves, w = isinstance(primitive, QuantizedConvolution), arrays[1]
        along = tuple(range(1, w.ndim)) if convolves or primitive.transpose_b else 0
        arrays[2], arity = (w.astype(np.int32) + primitive.shift).sum(along, dtype=np.int32), 6
        arrays.append(np.array(primitive.zero if convolves else rng.integers(256), np.uint8))
        primitive = replace(primitive, zero=99) if convolves else primitive
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    for f in fused:
        if isinstance(f.primitive, DequantizeAdd):
            arrays.append(rng.integers(0, 256, out).astype(np.uint8))
        elif f.operands:
            shape = _channels(primitive, out) if "channels" in end else out
            shape = () if "one number" in end and f.primitive == Eltwise("mul") else shape
            drawn = rng.uniform(0.5, 1.5, shape)
            if isinstance(f.primitive, QuantizedSum):
                drawn = np.rint(drawn / f.primitive.scales[1]) * f.primitive.scales[1]
            arrays.append(np.asarray(drawn, np.float32))
    of_channels = [
        f.operands[0] for f in fused if "channels" in end and isinstance(f.primitive, Eltwise | QuantizedSum)
    ]
    q = pose(
        engine.info,
        implementation,
        primitive,
        [Layout.of(a) for a in arrays],
        arity=arity,
        packed=False,
        fused=fused,
        constant=(1, 2, 3, 4, *of_channels),
    )
    rounds = bool(fused) and isinstance(fused[-1].primitive, StaticQuantize)
    if rounds:
        q = q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=DType.U8),))
    got = run_tiles(engine, implementation, with_weights(implementation, q), arrays).astype(np.float64)
    x, w, start, scale, bias = arrays[:5]
    given = arrays[5:arity]
    (value,) = primitive.reference(x, w, start, scale.astype(np.float64), bias.astype(np.float64), *given)
    for f in fused[: len(fused) - rounds]:
        value = f.apply(value, [None] * 5 + [a.astype(np.float64) for a in arrays[5:]])
    size = (
        np.abs(primitive.reference(x, w, start * 0, scale.astype(np.float64), bias * 0.0, *given)[0])
        + np.abs(value)
        + 64
    )
    if not rounds:
        # The sum, its product and sum with the bias, and three operations of each of two further ones.
        near = np.abs(got - value) <= 10 * U32 * size
        if "rounded" in end:
            # Beside a half of a rounding a value is a step further on, 0.753 in the last one.
            assert near.mean() >= 1 - 1e-3
            assert (np.abs(got - value) <= 0.76).all()
        else:
            assert near.all()
        return
    check_lookup(engine, implementation, primitive, arrays, arity, got, rng, fused)
    last = fused[-1].primitive
    exact = np.clip(value / last.scale + last.zero, 0, 255)
    # A value beside a half of the first rounding may be a step of it further on, 0.4 / 0.75 of the last one's.
    far = np.abs(got - exact) > 0.5 + 12 * U32 * size / last.scale
    assert (np.abs(got - exact) <= 1.1).all()
    assert far.mean() <= (1e-3 if "round" in end else 0), f"{far.mean():.2%} are rounded to another byte"


def test_packed_numbers_of_channels_are_applied_to_the_sums_as_plain_ones_are():
    """Those of 24 channels lie in whole blocks when the steps are made."""
    primitive, arrays = draw(np.random.default_rng(0), 24, 24, 1, (1, 1))
    fused = ENDS["channels behind both roundings"]
    arrays += [np.ones((1, 24, 1, 1), np.float32), *(np.ones((24, 1, 1), np.float32) for _ in range(2))]
    how = {"arity": 5, "packed": False, "fused": fused, "constant": (1, 2, 3, 4, 5, 6, 7)}
    q = pose(DeviceInfo(), QuantizedConvolutionBytes, primitive, [Layout.of(a) for a in arrays], **how)
    q = q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=DType.U8),))
    packed = replace(with_weights(QuantizedConvolutionBytes, q), constant=frozenset())
    for found in (end_of(q), end_of(packed)):
        assert isinstance(found, End)
        assert (found.mode, found.taken, found.by_after, found.plus_after) == (TWICE, 7, 6, 7)


def test_a_sum_on_known_steps_with_a_number_a_channel_is_no_list():
    primitive, arrays = draw(np.random.default_rng(0), 32, 32, 1, (1, 1))
    fused = ENDS["floats of channels and a sum of bytes, rounded"][:3]
    arrays.append(np.ones((1, 32, 1, 1), np.float32))
    how = {"arity": 5, "packed": False, "fused": fused, "constant": (1, 2, 3, 4, 5)}
    found = end_of(pose(DeviceInfo(), QuantizedConvolutionBytes, primitive, [Layout.of(a) for a in arrays], **how))
    assert isinstance(found, End)
    assert (found.taken, found.plus) == (3, 5)


def test_a_line_that_makes_anything_of_nothing_stays_in_the_list_of_partial_blocks():
    for outputs, summand, taken in ((32, 0.8, 1), (20, 0.8, 0), (20, 0.0, 1)):
        primitive, arrays = draw(np.random.default_rng(0), 32, outputs, 1, (1, 1))
        how = {
            "arity": 5,
            "packed": False,
            "fused": [Fused(Activation("linear", 1.9, summand))],
            "constant": (1, 2, 3, 4),
        }
        found = end_of(pose(DeviceInfo(), QuantizedConvolutionBytes, primitive, [Layout.of(a) for a in arrays], **how))
        assert isinstance(found, End)
        assert found.taken == taken


def check_lookup(engine, implementation, primitive, arrays, arity, rounded, rng, fused):
    """Assert that with a table behind the rounding the result has what stands there for the bytes *rounded*."""
    entries = rng.integers(0, 256, 256).astype(np.uint8)
    entries[: rng.integers(0, 200)] = entries[0]
    arrays = [*arrays, entries]
    fused = [*fused, Fused(ByteLookup(), (len(arrays) - 1,))]
    layouts = [Layout.of(a) for a in arrays]
    how = {"arity": arity, "packed": False, "fused": fused, "constant": (1, 2, 3, 4)}
    q = pose(engine.info, implementation, primitive, layouts, **how)
    q = with_weights(implementation, q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=DType.U8),)))
    np.testing.assert_array_equal(run_tiles(engine, implementation, q, arrays), entries[rounded.astype(np.uint8)])


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(6))
def test_sums_of_bytes_are_exact_and_end_as_they_are_told(engine, seed):
    needs_bytes(engine)
    rng = np.random.default_rng(seed)
    shapes = [
        (3, 20, 1),
        (16, 16, 1),
        (33, 70, 1),
        (64, 128, 1),
        (32, 64, 2),
        (48, 96, 3),
        (128, 32, 1),
        (5, 300, 1),
        (20, 64, 1),
    ]
    for i, end in enumerate(ENDS):
        channels, outputs, groups = shapes[(i + seed) % len(shapes)]
        if "channels" in end:
            outputs = 64 * groups
        primitive, arrays = draw(rng, channels, outputs, groups, KERNELS[(seed * 5 + i) % len(KERNELS)])
        check(engine, QuantizedConvolutionBytes, primitive, arrays, end, rng)


@pytest.mark.opencl
@pytest.mark.parametrize(("scales", "zeros"), [((0.149, 0.043, 0.174), (8, 5, 138)), ((0.5, 0.25, 1.0), (8, 5, 137))])
def test_sums_of_known_steps_are_those_of_all_pairs_of_bytes(engine, scales, zeros):
    """The second ones are halves of steps, which are rounded to even ones in front of an odd zero point."""
    needs_bytes(engine)
    own, other = (np.broadcast_to(p.astype(np.uint8), (1, 16, 256, 256)) for p in np.indices((256, 256)))
    scales, ties = np.array(scales, np.float32), scales[2] == 1
    primitive = QuantizedConvolution((1, 1), (1, 1), ((0, 0), (0, 0)), zero=zeros[0])
    sums = [np.full(16, -zeros[0], np.int32), np.full(16, scales[0]), np.zeros(16, np.float32)]
    arrays = [own, np.eye(16, dtype=np.int8)[:, :, None, None], *sums, other]
    floats = (own[0, :1].astype(np.float32) - zeros[0]) * scales[0]
    made = []
    # The integers of the model are the bytes, or 128 less; and the convolution's is either operand.
    for signed, slot in ((0, 0), (0, 1), (128, 0), (128, 1)):
        back = slice(None, None, -1) if slot else slice(None)
        two = (*scales[:2][back].tolist(),), tuple(z - signed for z in zeros[:2])[back]
        order = QuantizedSum((*two[0], float(scales[2])), (*two[1], zeros[2] - signed))
        sum_ = DequantizeAdd(float(scales[1]), zeros[1], order, swapped=bool(slot))
        last = StaticQuantize(float(scales[2]), zeros[2], DType.U8)
        rounded = Activation("fake_quantize", float(scales[0]), float(-zeros[0]))
        fused = [Fused(rounded), Fused(sum_, (5,))]
        (steps,) = sum_.reference(floats, other[0, :1])
        held = Activation("fake_quantize", last.scale, float(-last.zero))
        ends = (DType.F32, steps, []), (DType.F32, *held.reference(steps), [Fused(held)])
        for dtype, want, behind in (*ends, (DType.U8, *last.reference(steps), [Fused(last)])):
            how = {"arity": 5, "packed": False, "fused": [*fused, *behind], "constant": (1, 2, 3, 4)}
            q = pose(engine.info, QuantizedConvolutionBytes, primitive, [Layout.of(a) for a in arrays], **how)
            q = with_weights(QuantizedConvolutionBytes, q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=dtype),)))
            got = run_tiles(engine, QuantizedConvolutionBytes, q, arrays)[0]
            np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
        made.append(got[0])
    (plain,) = last.reference(*replace(sum_, order=None).reference(floats, other[0, :1]))
    assert ties or len({m.tobytes() for m in (*made, plain[0])}) == 5, "no order makes bytes of another or of floats"


@pytest.mark.opencl
def test_neighbouring_weights_whose_products_saturate_sixteen_bits_are_added_up_exactly(engine):
    needs_bytes(engine)
    rng = np.random.default_rng(3)
    pairs = [(64, 64), (65, 64), (127, 127), (1, 127), (2, 127), (-64, -64), (-65, -64), (-128, -1), (-128, -128)]
    for outputs, kernel in ((16, (1, 1)), (40, (1, 1)), (40, (3, 3))):
        primitive = QuantizedConvolution((1, 1), (1, 1), ((0, 0), (0, 0)))
        x = rng.integers(240, 256, (1, 52, 6, 20)).astype(np.uint8)
        x[..., ::2] = 255
        w = rng.integers(-20, 21, (outputs, 52, *kernel)).astype(np.int8)
        for pair in pairs:
            o, c = int(rng.integers(outputs)), 2 * int(rng.integers(26))
            w[o, c : c + 2, kernel[0] // 2, 0] = pair
        numbers = [np.zeros(outputs, np.int32), np.ones(outputs, np.float32), np.zeros(outputs, np.float32)]
        arrays = [x, w, *numbers]
        q = pose(
            engine.info,
            QuantizedConvolutionBytes,
            primitive,
            [Layout.of(a) for a in arrays],
            arity=5,
            packed=False,
            constant=(1, 2, 3, 4),
        )
        got = run_tiles(engine, QuantizedConvolutionBytes, with_weights(QuantizedConvolutionBytes, q), arrays)
        np.testing.assert_array_equal(got, *primitive.reference(*arrays))


@pytest.mark.opencl
@pytest.mark.parametrize("outputs", [32, 20])
def test_lines_and_a_hard_swish_in_registers_have_the_bits_of_the_list(engine, outputs):
    needs_bytes(engine)
    rng = np.random.default_rng(4)
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, -0.0, 0.0], np.float32)
    line, swish, last = (
        Fused(Activation(*a)) for a in (("linear", 1.9, 0.8), ("hard_swish", 1 / 6, 0.5), ("linear", 2.0))
    )
    turned = [Fused(Activation("neg"))] * 2
    for fused in ([line], [swish], [swish, last], [last, swish], [line, swish, last], [line, swish, line, swish]):
        for implementation, kernel in ((QuantizedConvolutionBytes, (1, 1)), (QuantizedDepthwise, (3, 3))):
            groups = 1 if kernel == (1, 1) else outputs
            primitive, arrays = draw(rng, outputs, outputs, groups, kernel)
            primitive = replace(primitive, dilations=(1, 1))
            arrays[3][5:7], arrays[4][: len(odd)] = 0.0, odd
            made = []
            for steps in (fused, [*turned, *fused]):
                how = {"arity": 5, "packed": False, "fused": steps, "constant": (1, 2, 3, 4)}
                q = pose(engine.info, implementation, primitive, [Layout.of(a) for a in arrays], **how)
                made.append(run_tiles(engine, implementation, with_weights(implementation, q), arrays))
            np.testing.assert_array_equal(*made)
            np.testing.assert_array_equal(*(np.signbit(m) & (m == 0) for m in made))


@pytest.mark.opencl
def test_depthwise_sums_of_bytes_are_exact_and_end_as_they_are_told(engine):
    needs_bytes(engine)
    rng = np.random.default_rng(0)
    for i, end in enumerate([*ENDS, *ENDS]):
        channels = 64 if "channels" in end else (16, 20, 35, 48)[i % 4]
        primitive, arrays = draw(rng, channels, channels, channels, KERNELS[i % len(KERNELS)])
        primitive = replace(primitive, dilations=(primitive.dilations[0], 1))
        check(engine, QuantizedDepthwise, primitive, arrays, end, rng)


@pytest.mark.opencl
def test_depthwise_windows_that_are_summed_two_rows_at_a_time_are_exact_to_the_last_row(engine):
    needs_bytes(engine)
    rng = np.random.default_rng(1)
    ends = ("bytes", "a sum of bytes", "bytes of a list")
    for i, (kernel, stride) in enumerate((k, s) for k in (3, 5) for s in (1, 2)):
        primitive, arrays = draw(rng, 24, 24, 24, (kernel, kernel))
        primitive = replace(primitive, strides=(stride, stride), dilations=(1, 1), pads=((kernel // 2,) * 2,) * 2)
        for rows in (1, 2, 15):
            arrays[0] = rng.integers(0, 256, (1, 24, rows, 15 + rows)).astype(np.uint8)
            check(engine, QuantizedDepthwise, primitive, list(arrays), ends[(i + rows) % len(ends)], rng)


@pytest.mark.opencl
def test_tickets_that_share_a_row_read_their_parts_of_it(engine):
    needs_bytes(engine)
    rng = np.random.default_rng(2)
    primitive, arrays = draw(rng, 48, 64, 1, (1, 1))
    primitive = replace(primitive, strides=(1, 1), dilations=(1, 1), pads=((0, 0), (0, 0)))
    arrays[0] = rng.integers(0, 256, (1, 48, 50, 50)).astype(np.uint8)
    check(engine, QuantizedConvolutionBytes, primitive, arrays, "bytes", rng)
    primitive, arrays = draw(rng, 48, 64, 1, (1, 3))
    primitive = replace(primitive, strides=(1, 1), dilations=(1, 1), pads=((0, 0), (1, 1)))
    arrays[0] = rng.integers(0, 256, (1, 48, 1, 2500)).astype(np.uint8)
    check(engine, QuantizedConvolutionBytes, primitive, arrays, "bytes", rng)


@pytest.mark.parametrize("simd", [8, 16])
def test_without_vnni_products_save_what_is_measured_of_their_instructions(simd):
    device = DeviceInfo(simd=simd, features=frozenset({"byte_pairs", "fma"}))
    window = ((1, 1), (1, 1), ((0, 0), (0, 0)))
    x, w, y = (1, 512, 40, 40), (96, 512, 1, 1), [Layout(t, (96,)) for t in (DType.I32, DType.F32, DType.F32)]
    floats = pose(device, ConvFsv16, Convolution(*window), [Layout(DType.F32, s) for s in (x, w)], arity=2)
    inputs = [Layout(DType.U8, x), Layout(DType.I8, w), *y]
    bytes_ = pose(device, QuantizedConvolutionBytes, QuantizedConvolution(*window), inputs, arity=5)
    # A core whose threads share it hides the latency of both; what sums end with is a tenth here.
    share = QuantizedConvolutionBytes.cost(bytes_) / ConvFsv16.cost(floats)
    assert 1.0 <= share * device.costs.byte_products < 1.1
