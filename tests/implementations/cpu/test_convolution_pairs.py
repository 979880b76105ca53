"""Convolutions of pixels and weights rounded to bfloat16, and on which devices and problems they are refused."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest

import clgraph
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.convolution_pairs import ConvPairs
from clgraph.ops.convolution import Convolution
from clgraph.selector.choose import choose
from clgraph.selector.costs import Rates
from clgraph.selector.query import BFLOATS, DeviceInfo
from tests.support.features import needs
from tests.support.graphs import FLOAT, graph
from tests.support.graphs import model as model_of
from tests.support.run_tiles import POSTS, any_halo, check_tiles, pose, post_list, with_weights

F = np.float32
ABLE = frozenset({"bf16", "fma", BFLOATS})


def bfloats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return floats that bfloat16 holds."""
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16).astype(F)


@pytest.mark.opencl
@pytest.mark.parametrize("tiles", [False, True])
def test_sums_of_rounded_numbers_agree_with_float64(engine, tiles):
    """Where nothing is left to round the inputs lose nothing: any window, stride, pad, dilation, channels, list."""
    needs(engine, "amx_bf16" if tiles else "bf16")
    info = replace(engine.info, features=(engine.info.features | {BFLOATS}) - ({"amx_bf16"} if not tiles else set()))
    wide = type("Wide", (), {"info": info, "__getattr__": lambda _, name: getattr(engine, name)})()
    for seed in range(24):
        rng = np.random.default_rng(seed)
        kernel = ((1, 1), (3, 3), (1, 3), (5, 5), (2, 2))[seed % 5]
        strides = tuple(int(s) for s in rng.integers(1, 4, 2)) if seed % 3 else (1, 1)
        dilations = tuple(int(d) for d in rng.integers(1, 3, 2)) if seed % 4 == 3 else (1, 1)
        pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2))) if seed % 2 else ((0, 0), (0, 0))
        channels, outputs = (int(n) for n in rng.choice((32, 64, 96) if tiles else (3, 16, 17, 40, 64, 70, 130), 2))
        outputs -= 17 * (tiles and seed % 2)
        primitive = Convolution(strides, dilations, pads, 1)
        shape = (int(rng.integers(1, 3)), channels, *(int(s) for s in rng.integers(9, 48 if tiles else 24, 2)))
        arrays = [bfloats(rng, *shape), bfloats(rng, outputs, channels, *kernel), bfloats(rng, outputs)][: 2 + seed % 2]
        if seed % 8 == 7:
            primitive = Convolution(strides[:1], dilations[:1], pads[:1], 1)
            arrays[:2] = arrays[0][:, :, 0], arrays[1][:, :, 0]
        arity = len(arrays)
        out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
        (size,) = primitive.reference(*(np.abs(a).astype(np.float64) for a in arrays))
        words = POSTS[seed % len(POSTS)] if len(out) == 4 else "add relu"
        fused, slope = post_list(words, out, arrays, rng)
        # An addition for each product, one for the other half of a last pair; bias, residual and list round, too.
        check_tiles(
            wide,
            ConvPairs,
            primitive,
            arrays,
            slope * (arrays[1][0].size + 21),
            arity=arity,
            size=size + 4,
            constant=tuple(range(1, arity)),
            fused=fused,
            out_halo=any_halo(rng, len(out)),
        )


def test_sums_of_whole_registers_are_made_by_tile_registers():
    """Of 32 channels, or three neighbours of as many; others by vectors of pairs."""
    for channels, kernel, wanted in ((64, (3, 3), True), (48, (1, 1), False), (32, (1, 3), True), (16, (1, 2), True)):
        q = problem((1, channels, 28, 28), (64, channels, *kernel), ABLE | {"amx_bf16"})
        plan = ConvPairs.plan(with_weights(ConvPairs, q))
        assert (plan.steps[1].descriptor.tiles_id >= 0) == wanted
        assert (
            ConvPairs.cost(q) < ConvPairs.cost(problem(q.inputs[0].shape, q.inputs[1].shape, ABLE, 0.5)) or not wanted
        )


def problem(x=(1, 64, 28, 28), w=(64, 64, 3, 3), features=ABLE, gain=2.0, **attributes):
    """Return a convolution on a device whose pairs take that share of the time of floats."""
    device = DeviceInfo("pocl:0", features=features, rates=Rates(1.7e11, ((1, 2e10),), gain))
    spread = {"strides": (1, 1), "dilations": (1, 1), "pads": ((1, 1), (1, 1)), "groups": 1} | attributes
    layouts = [Layout.of(np.zeros(s, F)) for s in (x, w)]
    return pose(device, ConvPairs, Convolution(**spread), layouts, arity=2, constant=(1,), packed=False)


def test_what_it_does_not_serve_is_refused_with_a_reason():
    assert ConvPairs.refusal(problem()) is None
    assert "bf16" in str(ConvPairs.refusal(problem(features=frozenset({BFLOATS}))))
    assert BFLOATS in str(ConvPairs.refusal(problem(features=frozenset({"bf16"}))))
    assert "groups" in str(ConvPairs.refusal(problem(w=(64, 32, 3, 3), groups=2)))
    assert "rounds" in str(ConvPairs.refusal(problem(exact=True)))


def test_pairs_are_chosen_where_the_cpu_multiplies_them_faster_than_floats():
    for w, stride in (((256, 64, 1, 1), 1), ((128, 64, 1, 1), 2), ((128, 64, 3, 3), 2)):
        case = {"w": w, "strides": (stride, stride), "pads": ((0, 0), (0, 0))}
        assert choose(problem(**case)).implementation is ConvPairs
        assert choose(problem(gain=0.5, **case)).implementation is not ConvPairs


@pytest.mark.opencl
def test_a_model_rounds_where_the_option_says_so_and_nodes_that_are_kept_do_not(engine, rng):
    needs(engine, "bf16")
    v, w = rng.standard_normal((64, 64, 5, 5)).astype(F), rng.standard_normal((64, 64, 1, 1)).astype(F)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "v"], ["a"], name="first", pads=[2, 2, 2, 2]),
        onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Conv", ["b", "w"], ["y"], name="second"),
    ]
    x = rng.standard_normal((1, 64, 20, 20)).astype(F)
    model = model_of(graph(nodes, [("x", FLOAT, x.shape)], [("y", FLOAT, None)], v=v, w=w))
    wanted = clgraph.compile(model, engine.info.name).run({"x": x})["y"]
    for kept in ((), ("first",), ("first", "sec*")):
        made = clgraph.compile(model, engine.info.name, precision="bf16", config={"keep_f32": frozenset(kept)})
        ran = [n.implementation for n in made.explain().nodes if n.implementation.startswith("convolution")]
        assert [name == "convolution.bf16_pairs" for name in ran] == [n >= len(kept) for n in range(2)], ran
        # Products move by 2^-7 at most, each its own way, in one layer and then in the other.
        far = np.abs(made.run({"x": x})["y"] - wanted).max() / np.abs(wanted).max()
        assert far < 2 * 2.0**-7
        assert (far < 1e-5) == (len(kept) == 2)
