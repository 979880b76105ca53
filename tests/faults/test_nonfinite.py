"""NaN and infinities through every implementation: they stand where the reference has them, and nowhere else.

What is finite is left to the tests of each operator.
Winograd's algorithm is apart: it adds what lies in one tile, so that one NaN makes the whole tile NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.attention import Attention
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.resize import Resize
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where
from clgraph.runtime.engine import Engine
from clgraph.selector.implementation import IMPLEMENTATIONS
from tests.support.check_op import FAMILIES as DRAWN
from tests.support.check_op import Draw, check_op

pytestmark = [pytest.mark.opencl, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def with_one(value: float) -> Draw:
    """Return ordinary numbers with *value* at one place."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        array = rng.standard_normal(shape)
        array.flat[int(rng.integers(array.size))] = value
        return array

    return draw


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return ordinary numbers with a few of everything else."""
    array = rng.standard_normal(shape)
    odd = [np.nan, np.inf, -np.inf, -0.0, 1e-40]
    places = rng.choice(array.size, min(array.size, max(5, array.size // 16)), replace=False)
    array.flat[places] = [odd[i % 5] for i in range(places.size)]
    return array


def rows_of_one(value: float) -> Draw:
    """Return ordinary numbers, with *value* alone in the first and the last row of the last axis."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        array = rng.standard_normal(shape)
        array.reshape(-1, shape[-1])[[0, -1]] = value
        return array

    return draw


FAMILIES: dict[str, Draw] = {
    "nan": with_one(np.nan),
    "inf": with_one(np.inf),
    "-inf": with_one(-np.inf),
    "rows of -inf": rows_of_one(-np.inf),
    "rows of nan": rows_of_one(np.nan),
    "mixed": mixed,
}

PADS = ((1, 1), (1, 1))
IMAGE = (1, 20, 14, 18)
HALF = (1, 20, 7, 18)
"""Fewer rows where kernels that are not optimised add long sums."""
ACTIVATIONS = ("relu", "sigmoid", "tanh", "exp", "sqrt", "abs", "neg", "erf", "floor", "hard_sigmoid", "hard_swish")

CASES: dict[str, tuple[Primitive, list[tuple[int, ...]], dict[str, Any]]] = {
    **{f"activation {f}": (Activation(f), [IMAGE], {}) for f in ACTIVATIONS},
    "activation clip": (Activation("clip", -1.0, 1.0), [IMAGE], {}),
    "activation leaky": (Activation("leaky_relu", 0.1), [IMAGE], {}),
    **{f"eltwise {f}": (Eltwise(f), [IMAGE, IMAGE], {}) for f in ("add", "sub", "mul", "div", "min", "max")},
    "eltwise broadcast": (Eltwise("max"), [IMAGE, (1, 20, 1, 1)], {}),
    **{f"eltwise {f}": (Eltwise(f), [IMAGE, IMAGE], {}) for f in ("equal", "less", "greater", "less_equal")},
    "max pooling": (Pooling("max", (3, 3), (2, 2), (), PADS), [IMAGE], {}),
    "average pooling": (Pooling("average", (3, 3), (2, 2), (), PADS), [IMAGE], {}),
    "convolution": (Convolution((1, 1), (1, 1), PADS), [HALF, (24, 20, 3, 3), (24,)], {"constant": (1, 2)}),
    "strided convolution": (Convolution((2, 2), (1, 1), PADS), [IMAGE, (24, 20, 3, 3)], {"constant": (1,)}),
    "1x1 convolution": (Convolution((1, 1), (1, 1), ((0, 0),) * 2), [HALF, (24, 20, 1, 1)], {"constant": (1,)}),
    "first convolution": (Convolution((2, 2), (1, 1), PADS), [(1, 3, 19, 22), (24, 3, 3, 3)], {"constant": (1,)}),
    "depthwise": (Convolution((1, 1), (1, 1), PADS, 20), [IMAGE, (20, 1, 3, 3)], {"constant": (1,)}),
    "transposed convolution": (ConvTranspose((2, 2), (1, 1), PADS), [HALF, (20, 24, 3, 3)], {"constant": (1,)}),
    "product": (MatMul(), [(3, 10, 33), (33, 40)], {}),
    "product by constants": (MatMul(), [(10, 33), (33, 40)], {"constant": (1,)}),
    "softmax of rows": (Softmax((1,)), [(10, 37)], {}),
    "softmax of channels": (Softmax((1,)), [IMAGE], {}),
    "log softmax": (Softmax((1,), log=True), [(10, 37)], {}),
    "layer normalization": (LayerNormalization(), [(10, 37), (37,), (37,)], {"constant": (1, 2)}),
    "batch normalization": (BatchNormalization(), [IMAGE, (20,), (20,), (20,), (20,)], {"constant": (1, 2, 3, 4)}),
    "lrn": (Lrn(5), [IMAGE], {}),
    "attention": (Attention(0.3), [(2, 12, 16), (2, 16, 20), (2, 20, 16)], {}),
    **{f"reduce {f}": (Reduce(f, (1,)), [(10, 37)], {}) for f in ("sum", "mean", "max", "min", "prod", "l1", "l2")},
    "global average": (Reduce("mean", (2, 3)), [IMAGE], {}),
    "global maximum": (Reduce("max", (2, 3)), [IMAGE], {}),
    "cumulative sum": (CumulativeSum(1), [(4, 9)], {}),
    "transpose": (Transpose((0, 2, 3, 1)), [IMAGE], {}),
    "concat": (Concat(1), [IMAGE, (1, 16, 14, 18)], {}),
    "slice": (Slice((1,), (13,), (1,), (1,)), [IMAGE], {}),
    "split": (Split(1, (16, 4)), [IMAGE], {}),
    "pad": (Pad(((0, 0), (0, 0), (1, 1), (1, 1))), [IMAGE], {}),
    "expand": (Expand((4, 9, 7)), [(9, 1)], {}),
    "nearest": (Resize("nearest", shape=(1, 20, 28, 36)), [IMAGE], {}),
    "bilinear": (Resize("linear", shape=(1, 20, 28, 36)), [IMAGE], {}),
    "first of the largest": (ArgExtremum(False, 1), [(9, 37)], {}),
    "last of the smallest": (ArgExtremum(True, 1, True, True), [(9, 37)], {}),
    "where": (Where(), [(9, 37), (9, 37), (37,)], {"dtype": (DType.BOOL, DType.F32, DType.F32)}),
    "gather": (Gather(0), [(9, 37), (6,)], {"dtype": (DType.F32, DType.I64), "indices": 1}),
    "to blocks": (Reorder(DType.F32, feature_blocked(4)), [IMAGE], {}),
    "from blocks": (
        Reorder(DType.F32, Format.plain(4)),
        [IMAGE],
        {"posed": [Layout(DType.F32, IMAGE, feature_blocked(4))]},
    ),
    "half precision": (Reorder(DType.F16), [IMAGE], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_finite_stands_where_the_reference_has_it(engine: Engine, case: str) -> None:
    check_families(engine, case)


@pytest.mark.parametrize("case", CASES)
def test_gpu_kernels_have_what_is_not_finite_there_too(gpu_engine: Engine, case: str) -> None:
    check_families(gpu_engine, case)


def check_families(engine: Engine, case: str) -> None:
    """Run every implementation that serves *case* on an engine, on every family."""
    primitive, shapes, options = CASES[case]
    constant = options.get("constant", ())
    ordinary = dict.fromkeys(constant, DRAWN["normal"])
    if case == "batch normalization":
        ordinary |= {4: lambda rng, shape: rng.uniform(0.5, 1.5, shape)}
    if "indices" in options:
        ordinary[options["indices"]] = lambda rng, shape: rng.integers(0, 9, shape)
    check_op(
        engine,
        primitive,
        *shapes,
        draw=ordinary,
        families={
            name: draw for name, draw in FAMILIES.items() if not (name.startswith("rows") and len(shapes[0]) > 2)
        },
        ulps=np.inf,
        only=[name for name in IMPLEMENTATIONS if "winograd" not in name and "strassen" not in name],
        seed=5,  # others put a denormal, which devices take for 0, beside an infinity of a product
        constant=constant,
        dtype=options.get("dtype", DType.F32),
        laid_out=options.get("posed"),
    )


def test_strassen_spreads_what_is_not_finite_over_two_rows_of_pixels(engine: Engine) -> None:
    """Blocks are of two rows and of a pixel each; the rows around them, and the pixels beside, are as without it."""
    random = np.random.default_rng(3)
    topology = clgraph.Topology()
    x = topology.input("x", (1, 64, 6, 40))
    w = topology.constant("w", (random.standard_normal((64, 64, 1, 1)) / 8).astype(np.float32))
    topology.output("y", topology.add("conv", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), x, w))
    config = {"force_kernels": {"conv": "convolution.strassen_fsv16"}}
    model = clgraph.compile(topology, device=engine.info.name, config=config)
    array = random.standard_normal((1, 64, 6, 40)).astype(np.float32)
    want = model(array)
    array[0, 5, 2, 20] = np.inf
    got = model(array)
    assert not np.isfinite(got[:, :, 2, 20]).any()
    apart = np.ones((6, 40), bool)
    apart[2:4, 20] = False
    np.testing.assert_array_equal(got[..., apart], want[..., apart])


def test_winograd_spreads_what_is_not_finite_over_its_tile_and_no_further(engine: Engine) -> None:
    """Tiles make 4x4 results of 6x6 elements: what lies 6 elements from all that is not finite is as without it."""
    random = np.random.default_rng(3)
    topology = clgraph.Topology()
    x = topology.input("x", (1, 32, 40, 40))
    w = topology.constant("w", (random.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32))
    topology.output("y", topology.add("conv", Convolution((1, 1), (1, 1), PADS), x, w))
    name = "convolution.winograd_fsv16"
    model = clgraph.compile(topology, device=engine.info.name, config={"force_kernels": {"conv": name}})
    assert name in [getattr(node.choice, "name", "") for node in model.program]
    array = random.standard_normal((1, 32, 40, 40)).astype(np.float32)
    want = model(array)
    array[0, 5, 20, 20] = np.nan
    got = model(array)
    assert np.isnan(got[:, :, 19:22, 19:22]).all()
    apart = np.ones((40, 40), bool)
    apart[15:26, 15:26] = False
    np.testing.assert_array_equal(got[..., apart], want[..., apart])
