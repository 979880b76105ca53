from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.ops.pooling import Pooling
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from tests.support.programs import MUL, RELU, Net, run

HALF = Pooling("average", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))


def _transition(pool: Pooling = HALF, kernel: int = 1, stride: int = 1, **pooled):
    net = Net()
    net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4, kernel=kernel, stride=stride)
    net.add("pool", pool, "conv", **pooled)
    return net


def _names(program) -> list[str]:
    return [n.name for n in program]


def test_an_average_moves_in_front_of_the_points_it_follows() -> None:
    program = _transition().program("pool")
    assert _names(program) == ["conv", "pool"]
    run(program, PreparePrimitiveFusing())
    pool, conv = program
    assert (pool.name, conv.name) == ("pool", "conv")
    assert pool.inputs[0].name == "x"
    assert conv.inputs[0] is pool.output
    assert pool.output.layout.shape == (1, 6, 4, 4)
    assert [(name, v.layout.shape) for name, v in program.outputs] == [("pool", (1, 4, 4, 4))]
    assert "pool: in front of conv, which it followed" in program.notes["prepare_primitive_fusing"]


def test_what_scales_the_pooled_channels_ends_in_the_weights() -> None:
    net = _transition()
    net.add("scaled", MUL, "pool", net.data("s", 4, 1, 1))
    program = run(net.program("scaled"), PreparePrimitiveFusing())
    assert _names(program) == ["pool", "conv"]
    expected = net.constants["conv_w"] * net.constants["s"].reshape(4, 1, 1, 1)
    np.testing.assert_array_equal(program["conv"].inputs[1].constant, expected)


def test_padding_that_is_not_counted_stays_outside_of_every_average() -> None:
    program = _transition(replace(HALF, kernel=(3, 3), pads=((1, 1), (1, 1)))).program("pool")
    assert _names(run(program, PreparePrimitiveFusing())) == ["pool", "conv"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pool": replace(HALF, pads=((1, 1), (1, 1)), count_include_pad=True)}, "it counts its padding"),
        ({"pool": replace(HALF, strides=(1, 1), kernel=(3, 3), pads=((1, 1), (1, 1)))}, "it would be no less"),
        ({"stride": 2}, "the convolution has strides or pads"),
    ],
)
def test_what_would_change_the_result_or_cost_more_is_refused_in_words(given, reason) -> None:
    program = run(_transition(**given).program("pool"), PreparePrimitiveFusing())
    assert _names(program) == ["conv", "pool"]
    assert f"pool: not in front of conv: {reason}" in program.notes["prepare_primitive_fusing"]


@pytest.mark.parametrize("pool", [replace(HALF, function="max"), HALF])
def test_a_maximum_and_wider_windows_stay_where_they_are(pool) -> None:
    program = run(_transition(pool, kernel=3 if pool is HALF else 1).program("pool"), PreparePrimitiveFusing())
    assert _names(program) == ["conv", "pool"]


def test_an_activation_between_keeps_them_apart() -> None:
    net = Net()
    net.add("relu", RELU, net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4))
    net.add("pool", HALF, "relu")
    assert _names(run(net.program("pool"), PreparePrimitiveFusing())) == ["conv", "pool"]


def test_a_convolution_that_is_read_elsewhere_keeps_its_place() -> None:
    net = _transition()
    program = run(net.program("pool", "conv"), PreparePrimitiveFusing())
    assert _names(program) == ["conv", "pool"]
    assert "conv is an output of the graph" in program.notes["prepare_primitive_fusing"]


def test_different_annotations_keep_them_apart_until_they_are_retired() -> None:
    for passes in ((), (RemoveLayeringAnnotations(),)):
        net = Net()
        net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4, annotation="a")
        net.add("pool", HALF, "conv", annotation="b")
        program = run(net.program("pool"), *passes, PreparePrimitiveFusing())
        assert _names(program) == (["pool", "conv"] if passes else ["conv", "pool"])
        assert ("a and b differ" in program.notes["prepare_primitive_fusing"]) == (not passes)
