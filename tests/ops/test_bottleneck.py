"""Bottlenecks against float64: rows in tickets, what lies between the convolutions in scratch."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.cpu.bottleneck import BottleneckFsv16
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.run_tiles import any_halo, check_tiles, pose, post_list, run_tiles

RELU6, SWISH = Activation("clip", 0.0, 6.0), Activation("hard_swish", 1 / 6, 0.5)
HALF = Activation("linear", 0.5, 0.0)


def made(channels, hidden, outputs, side, kernel=3, stride=1, pad=None, expanded=(RELU6,), filtered=(RELU6,), batch=1):
    """Return the primitive and the shapes of its inputs; no expansion for 0 channels, no projection for 0 outputs."""
    pad = kernel // 2 if pad is None else pad
    pads = ((pad, pad), (pad, pad)) if isinstance(pad, int) else pad
    strides = (stride, stride) if isinstance(stride, int) else stride
    depthwise = Convolution(strides, (1, 1), pads, hidden)
    primitive = Bottleneck(
        depthwise, expanded if channels else (), filtered if outputs else (), bool(channels), bool(outputs)
    )
    shapes = [(batch, channels or hidden, *side)]
    shapes += [(hidden, channels, 1, 1), (hidden,)] if channels else []
    shapes += [(hidden, 1, kernel, kernel), (hidden,)]
    shapes += [(outputs, hidden, 1, 1), (outputs,)] if outputs else []
    return primitive, shapes


def bounds(primitive, shapes):
    """Return ulps and scale for check_op, for activations that are at most |v| with slopes up to 1.5.

    Let s be what the primitive makes of absolute values without activations: no value between is larger. A sum of
    n products has n + 1 roundings of values whose sizes sum to its part of s, and passes on the error of what it reads,
    magnified by no more than s is; activations add 7 roundings and magnify the error by 1.5, at most twice.
    """
    counts = [int(np.prod(s[1:])) for s in shapes[1::2]]

    def scale(*inputs):
        bare = replace(primitive, expanded=(), filtered=())
        (size,) = bare.reference(*(np.abs(a) for a in inputs[: len(shapes)]))
        return 1.5**2 * size

    return sum(n + 8 for n in counts), scale


CASES = {
    "one strip": (16, 96, 24, (9, 9)),
    "odd channels": (17, 50, 33, (13, 15)),
    "stride": (24, 72, 24, (15, 17), 3, 2),
    "window 5": (12, 40, 40, (14, 11), 5),
    "window 5, stride 2": (20, 70, 18, (21, 23), 5, 2),
    "no pads": (16, 32, 16, (12, 12), 3, 1, 0),
    "uneven pads": (16, 33, 16, (12, 13), 3, 2, ((0, 1), (0, 1))),
    "wide pads": (16, 32, 16, (6, 7), 3, 1, 3),
    "window 2": (5, 18, 7, (10, 9), 2, (2, 1)),
    "stride over window": (8, 24, 8, (17, 19), 3, (4, 5)),
    "window 1": (16, 32, 16, (10, 10), 1, 1),
    "nothing expands": (0, 40, 24, (15, 13)),
    "nothing expands, stride": (0, 40, 24, (15, 13), 5, 2),
    "nothing projects": (17, 72, 0, (19, 17)),
    "nothing projects, stride": (24, 96, 0, (16, 18), 5, 2),
    "one pixel": (16, 32, 16, (1, 1)),
    "more rows than the ring": (3, 40, 10, (37, 130)),
    "more rows than the ring, stride": (3, 32, 0, (61, 150), 5, 2),
}


@pytest.mark.opencl
@pytest.mark.parametrize("name", CASES)
def test_every_implementation_agrees_with_float64(engine, name):
    primitive, shapes = made(
        *CASES[name], **({"expanded": (SWISH,), "filtered": (SWISH, HALF)} if len(name) % 2 else {})
    )
    ulps, scale = bounds(primitive, shapes)
    constant = range(1, len(shapes))
    families = ("normal",) if "more" in name else ("normal", "wide", "equal", "zeros")
    found = check_op(engine, primitive, *shapes, ulps=ulps, scale=scale, constant=constant, families=families)
    assert set(found) == {"bottleneck.ref", *(["bottleneck.fsv16"] if engine.info.kind == "cpu" else [])}


def arrays_of(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [np.clip(rng.standard_normal(s), -4, 4).astype(np.float32) for s in shapes]


@pytest.mark.opencl
@pytest.mark.parametrize("words", ["", "add", "add relu", "gate", "row sigmoid", "clip", "hard_swish"])
@pytest.mark.parametrize("outputs", [40, 0])
def test_tiles_take_operations_behind_and_halos_of_the_result(engine, words, outputs):
    rng = np.random.default_rng(len(words) + outputs)
    primitive, shapes = made(17, 50, outputs, (14, 11), 3, 1 + outputs // 40, batch=2)
    arrays = arrays_of(shapes)
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    (size,) = replace(primitive, expanded=(), filtered=()).reference(*map(np.abs, arrays))
    own = len(arrays)
    fused, slope = post_list(words, out, arrays, rng)
    check_tiles(
        engine,
        BottleneckFsv16,
        primitive,
        arrays,
        # As in `bounds`; operations behind magnify by `slope` and add 20 roundings of values below the size and 4.
        slope * (bounds(primitive, shapes)[0] * 1.5**2 + 20),
        arity=own,
        size=size.max() + 4,
        constant=tuple(range(1, own)),
        fused=fused,
        out_halo=any_halo(rng, 4),
    )


@pytest.mark.opencl
@pytest.mark.parametrize("case", [(24, 96, 24, (30, 28)), (24, 96, 0, (30, 28)), (0, 96, 24, (31, 28), 5, 2)])
def test_any_number_of_workers_makes_the_same_bits(engine, case):
    primitive, shapes = made(*case)
    arrays = arrays_of(shapes)
    found = []
    for workers in (1, 2, 3, 7, 64):
        info = replace(engine.info, workers=workers)
        constant = tuple(range(1, len(arrays)))
        q = pose(info, BottleneckFsv16, primitive, [Layout.of(a) for a in arrays], arity=len(arrays), constant=constant)
        (tile,) = BottleneckFsv16.plan(q).steps
        assert tile.tickets >= min(workers, 16)
        found.append(run_tiles(engine, BottleneckFsv16, q, arrays))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def query_on(primitive, shapes, constant=None, **changes):
    layouts = [Layout(DType.F32, s) for s in shapes]
    constant = tuple(range(1, len(shapes))) if constant is None else constant
    q = pose(DeviceInfo(), BottleneckFsv16, primitive, layouts, arity=len(layouts), constant=constant)
    return replace(q, **changes)


def test_what_tiles_do_not_serve_is_refused_with_the_reason():
    primitive, shapes = made(16, 32, 16, (9, 9))
    assert BottleneckFsv16.refusal(query_on(primitive, shapes)) is None
    spread = replace(primitive, depthwise=replace(primitive.depthwise, dilations=(2, 2), pads=((2, 2), (2, 2))))
    assert "without dilation" in str(BottleneckFsv16.refusal(query_on(spread, shapes)))
    assert "constant weights" in str(BottleneckFsv16.refusal(query_on(primitive, shapes, constant=(1, 2))))
    wide, shapes = made(16, 4096, 16, (2, 999))
    assert "bytes between the convolutions" in str(BottleneckFsv16.refusal(query_on(wide, shapes)))
    alone, shapes = made(16, 32, 0, (9, 9))
    listed = replace(alone, filtered=(RELU6,))
    assert "as a fused operation" in str(BottleneckFsv16.refusal(query_on(listed, shapes)))


@pytest.mark.parametrize("simd", [16, 8])
@pytest.mark.parametrize("workers", [1, 2, 8, 32])
def test_scratch_fits_the_second_level_cache_for_real_layers(simd, workers):
    for case in (
        (16, 96, 24, (112, 112), 3, 2),
        (24, 144, 24, (56, 56)),
        (96, 576, 96, (14, 14)),
        (0, 32, 16, (112, 112)),
    ):
        q = query_on(*made(*case))
        (tile,) = BottleneckFsv16.plan(replace(q, device=DeviceInfo(simd=simd, workers=workers))).steps
        assert tile.scratch <= 640 * 1024
        assert tile.tickets >= min(workers, case[3][0] // case[5] if len(case) > 5 else case[3][0])


def test_a_wrong_number_of_inputs_is_refused():
    primitive, shapes = made(16, 32, 16, (9, 9))
    with pytest.raises(ShapeError, match="weights and bias of 3"):
        primitive.infer([Layout(DType.F32, s) for s in shapes[:-1]])
