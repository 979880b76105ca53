"""What is not finite in one group of a grouped convolution does not reach the others, in whatever form it is computed.

All numbers are small integers, whose sums float32 holds: what is finite is equal, not close.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import clgraph
from tests.support.graphs import FLOAT, graph, model

pytestmark = pytest.mark.opencl

node = helper.make_node


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def agree(nodes, x: np.ndarray, device: str, device_class: str, **constants) -> clgraph.Model:
    source = model(graph(nodes, [("x", FLOAT, x.shape)], [("y", FLOAT, None)], **constants))
    with np.errstate(invalid="ignore"):
        (want,) = ReferenceEvaluator(source).run(None, {"x": x})
    made = clgraph.compile(source, device, config={"device_class": device_class})
    assert 0 < np.isfinite(want).sum() < want.size
    np.testing.assert_array_equal(made.run({"x": x})["y"], want)
    return made


def kinds(made: clgraph.Model) -> list[str]:
    return [n.primitive.kind for n in made.program if n.primitive.kind not in ("reorder", "reshape")]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("channels", "out", "groups", "kernel"),
    [
        (12, 12, 3, 3),
        (24, 24, 3, 1),
        (64, 128, 16, 3),
        (40, 40, 5, 1),
        (136, 136, 4, 1),
        (32, 32, 32, 3),
        (48, 96, 6, 2),
    ],
)
def test_a_group_keeps_to_itself(device, device_class, channels, out, groups, kernel, bad) -> None:
    x = whole(1, 2, channels, 13, 13)
    x[0, channels // groups, 6, 6] = x[1, 0, 0, 12] = bad
    pads = [(kernel - 1) // 2, (kernel - 1) // 2, kernel // 2, kernel // 2]
    nodes = [node("Conv", ["x", "w", "b"], ["y"], group=groups, pads=pads)]
    weights = whole(2, out, channels // groups, kernel, kernel)
    agree(nodes, x, device, device_class, w=weights, b=whole(3, out))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("behind", [[], [node("Clip", ["c", "low", "high"], ["y"])], [node("Add", ["c", "x"], ["y"])]])
def test_so_it_does_with_operations_behind_it(device, behind, bad) -> None:
    x = whole(1, 1, 24, 9, 31)
    x[0, 9, 6, 6] = bad
    nodes = [node("Conv", ["x", "w"], ["c" if behind else "y"], group=3), *behind]
    bounds = {"low": np.float32(-4), "high": np.float32(5)} if behind and behind[0].op_type == "Clip" else {}
    made = agree(nodes, x, device, "cpu", w=whole(2, 24, 8, 1, 1), **bounds)
    assert kinds(made) == ["convolution"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_so_it_does_where_channels_are_shuffled(device, bad) -> None:
    """As in ShuffleNet: the shuffle becomes an order of channels, that of the second convolution or of the first."""
    channels, groups, side = 40, 4, 7
    x = whole(1, 1, channels, side, side)
    x[0, 11, 3, 3] = bad
    split, joined = [1, groups, channels // groups, side, side], [1, channels, side, side]
    shuffle = [
        node("Conv", ["x", "w1"], ["a"], group=groups),
        node("Reshape", ["a", "split"], ["s"]),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["t", "joined"], ["j"]),
    ]
    shapes = {"split": np.int64(split), "joined": np.int64(joined), "w1": whole(2, channels, channels // groups, 1, 1)}
    deep = node("Conv", ["j", "d"], ["e"], group=channels, pads=[1, 1, 1, 1])
    last = node("Conv", ["e", "w2"], ["y"], group=groups)
    more = {"d": whole(3, channels, 1, 3, 3), "w2": whole(4, channels, channels // groups, 1, 1)}
    made = agree([*shuffle, deep, last], x, device, "cpu", **shapes, **more)
    assert kinds(made) == ["convolution"] * 3
    made = agree([*shuffle, node("Neg", ["j"], ["y"])], x, device, "cpu", **shapes)
    assert kinds(made) == ["convolution"]


def test_without_halos_the_general_kernel_keeps_groups_apart_too(device) -> None:
    x = whole(1, 1, 12, 9, 9)
    x[0, 2, 4, 4] = np.nan
    source = model(
        graph(
            [node("Conv", ["x", "w"], ["y"], group=3, pads=[1, 1, 1, 1])],
            [("x", FLOAT, x.shape)],
            [("y", FLOAT, None)],
            w=whole(2, 12, 4, 3, 3),
        )
    )
    made = clgraph.compile(source, device, config={"disable_passes": frozenset({"prepare_padding"})})
    (want,) = ReferenceEvaluator(source).run(None, {"x": x})
    np.testing.assert_array_equal(made.run({"x": x})["y"], want)
