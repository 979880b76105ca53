"""What a network computes does not depend on how many workers share its tickets."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.ops.convolution import Convolution
from clgraph.ops.pooling import Pooling
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from tests.support.programs import ADD, RELU, Net
from tests.support.zoo import ZOO

pytestmark = pytest.mark.opencl

WORKERS = (2, 3, 5, 8)
NONE, SAME = ((0, 0), (0, 0)), ((1, 1), (1, 1))


def shuffled_groups() -> Net:
    """Return a unit of ShuffleNet: groups of partial blocks, a shuffle, a depthwise convolution, groups, a sum."""
    net = Net()
    x = net.add("first", RELU, net.input("x", (1, 136, 14, 14)))
    y = net.add("conv1", Convolution((1, 1), (1, 1), NONE, 4), x, net.data("w1", 136, 34, 1, 1), net.data("b1", 136))
    y = net.add("split", Reshape((1, 4, 34, 14, 14)), net.add("relu1", RELU, y))
    y = net.add("joined", Reshape((1, 136, 14, 14)), net.add("turned", Transpose((0, 2, 1, 3, 4)), y))
    y = net.add("conv2", Convolution((1, 1), (1, 1), SAME, 136), y, net.data("w2", 136, 1, 3, 3))
    y = net.add("conv3", Convolution((1, 1), (1, 1), NONE, 4), y, net.data("w3", 136, 34, 1, 1))
    net.output(net.add("relu3", RELU, net.add("sum", ADD, x, y)))
    return net


def odd_blocks() -> Net:
    """Return convolutions of 15 and 7 blocks of channels, by Winograd and direct, and a pooling."""
    net = Net()
    x = net.conv("conv1", net.input("x", (2, 3, 29, 31)), 3, 112, 3, 2)
    x = net.conv("conv2", net.add("relu1", RELU, x), 112, 240)
    x = net.conv("conv3", net.add("relu2", RELU, x), 240, 48, 3)
    net.output(net.add("pool", Pooling("max", (3, 3), (2, 2), (1, 1), SAME), x))
    return net


def bottlenecks() -> Net:
    """Return two blocks of MobileNetV2: one with a stride, one with a residual."""
    net = Net()
    x = net.add("r1", RELU, net.conv("expand1", net.input("x", (1, 16, 63, 61)), 16, 96))
    y = net.add("depthwise1", Convolution((2, 2), (1, 1), SAME, 96), x, net.data("w1", 96, 1, 3, 3))
    x = net.conv("project1", net.add("r2", RELU, y), 96, 24)
    y = net.add("r3", RELU, net.conv("expand2", x, 24, 144))
    y = net.add("depthwise2", Convolution((1, 1), (1, 1), SAME, 144), y, net.data("w2", 144, 1, 3, 3))
    net.output(net.add("sum", ADD, net.conv("project2", net.add("r4", RELU, y), 144, 24), x))
    return net


@pytest.mark.parametrize("make", [shuffled_groups, odd_blocks, bottlenecks])
def test_any_number_of_workers_computes_the_same_bits(device, make) -> None:
    net = make()
    x = np.random.default_rng(0).standard_normal(net.inputs["x"].shape).astype(np.float32)
    wanted = clgraph.compile(net, device, threads=1).run({"x": x})
    for workers in WORKERS:
        found = clgraph.compile(net, device, threads=workers).run({"x": x})
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, f"{workers} workers")


@pytest.mark.parametrize("name", ["small_mobilenet_v3", "small_efficientnet", "small_yolov8", "small_encoder"])
def test_any_number_of_workers_computes_the_same_bits_of_a_model(device, name) -> None:
    model, feeds = ZOO[name].make()
    wanted = clgraph.compile(model, device, threads=1).run(feeds)
    for workers in WORKERS:
        found = clgraph.compile(model, device, threads=workers).run(feeds)
        for key, array in wanted.items():
            np.testing.assert_array_equal(found[key], array, f"{workers} workers")
