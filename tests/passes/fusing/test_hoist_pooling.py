from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.ops.pooling import Pooling
from clgraph.passes.fusing.fold_into_weights import FoldIntoWeights
from clgraph.passes.fusing.hoist_pooling import HoistPooling
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from tests.support.programs import ADD, MUL, RELU, Net, lines, names, run

HALF = Pooling("average", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))


def _transition(pool: Pooling = HALF, kernel: int = 1, stride: int = 1, **pooled):
    net = Net()
    net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4, kernel=kernel, stride=stride)
    net.add("pool", pool, "conv", **pooled)
    return net


def test_an_average_moves_in_front_of_the_points_it_follows() -> None:
    program = _transition().program("pool")
    conv = "convolution(strides=1x1, dilations=1x1, pads=((0, 0), (0, 0)))"
    pool = "pooling(function=average, kernel=2x2, strides=2x2, dilations=1x1, pads=((0, 0), (0, 0)))"
    assert lines(program) == [
        f"conv f32:bfyx:1x4x8x8 = {conv}(x, conv_w)",
        f"pool f32:bfyx:1x4x4x4 = {pool}(conv)",
    ]
    run(program, HoistPooling())
    assert lines(program) == [
        f"pool/pooling f32:bfyx:1x6x4x4 = {pool}(x) @null",
        f"pool f32:bfyx:1x4x4x4 = {conv}(pool/pooling, conv_w) @null",
    ]
    pool, conv = program
    assert (pool.name, conv.name) == ("pool", "conv")
    assert pool.inputs[0].name == "x"
    assert conv.inputs[0] is pool.output
    assert pool.output.layout.shape == (1, 6, 4, 4)
    assert [(name, v.layout.shape) for name, v in program.outputs] == [("pool", (1, 4, 4, 4))]
    assert "pool: in front of conv, which it followed" in program.notes["hoist_pooling"]


def test_constant_scales_and_shifts_between_come_along_and_are_folded_with_those_behind() -> None:
    net = Net()
    net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4)
    shifted = net.add("shifted", ADD, net.add("scaled", MUL, "conv", net.data("s", 4, 1, 1)), net.data("b", 4, 1, 1))
    net.add("pool", HALF, shifted)
    net.output(net.add("y", MUL, "pool", net.data("t", 4, 1, 1)))
    program = net.build()
    assert [line.partition(" = ")[2].partition("(")[0] for line in lines(program)] == [
        "convolution",
        "eltwise",
        "eltwise",
        "pooling",
        "eltwise",
    ]
    assert names(run(program, HoistPooling())) == ["pool", "conv", "scaled", "shifted", "y"]
    assert [v.name for _, v in program.outputs] == ["y"]
    assert program["scaled"].output.layout.shape == (1, 4, 4, 4)
    program = run(net.build(), HoistPooling(), FoldIntoWeights())
    assert names(program) == ["pool", "conv"]
    c = {n: a.astype(np.float64) for n, a in net.constants.items()}
    expected = c["conv_w"] * (c["s"] * c["t"]).reshape(4, 1, 1, 1)
    np.testing.assert_array_equal(program["conv"].inputs[1].constant, expected.astype(np.float32))


def test_an_operand_that_is_no_constant_a_channel_keeps_them_apart() -> None:
    for shape in ((8, 8), None):
        net = Net()
        net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4)
        other = net.data("image", *shape) if shape else net.input("gate", (1, 4, 1, 1))
        net.add("pool", HALF, net.add("scaled", MUL, "conv", other))
        program = net.program("pool")
        before = lines(program)
        assert lines(run(program, HoistPooling())) == [f"{line} @null" for line in before]


def test_padding_that_is_not_counted_stays_outside_of_every_average() -> None:
    program = _transition(replace(HALF, kernel=(3, 3), pads=((1, 1), (1, 1)))).program("pool")
    assert names(run(program, HoistPooling())) == ["pool", "conv"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"pool": replace(HALF, pads=((1, 1), (1, 1)), count_include_pad=True)}, "it counts its padding"),
        ({"pool": replace(HALF, strides=(1, 1), kernel=(3, 3), pads=((1, 1), (1, 1)))}, "it would be no less"),
        ({"stride": 2}, "the convolution has strides or pads"),
    ],
)
def test_what_would_change_the_result_or_cost_more_is_refused_in_words(given, reason) -> None:
    program = run(_transition(**given).program("pool"), HoistPooling())
    assert names(program) == ["conv", "pool"]
    assert f"pool: not in front of conv: {reason}" in program.notes["hoist_pooling"]


@pytest.mark.parametrize("pool", [replace(HALF, function="max"), HALF])
def test_a_maximum_and_wider_windows_stay_where_they_are(pool) -> None:
    program = run(_transition(pool, kernel=3 if pool is HALF else 1).program("pool"), HoistPooling())
    assert names(program) == ["conv", "pool"]


def test_an_activation_between_keeps_them_apart() -> None:
    net = Net()
    net.add("relu", RELU, net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4))
    net.add("pool", HALF, "relu")
    assert names(run(net.program("pool"), HoistPooling())) == ["conv", "relu", "pool"]


def test_a_convolution_that_is_read_elsewhere_keeps_its_place() -> None:
    net = _transition()
    program = run(net.program("pool", "conv"), HoistPooling())
    assert names(program) == ["conv", "pool"]
    assert "conv is an output of the graph" in program.notes["hoist_pooling"]


def test_different_annotations_keep_them_apart_until_they_are_retired() -> None:
    for passes in ((), (RemoveLayeringAnnotations(),)):
        net = Net()
        net.conv("conv", net.input("x", (1, 6, 8, 8)), 6, 4, annotation="a")
        net.add("pool", HALF, "conv", annotation="b")
        program = run(net.program("pool"), *passes, HoistPooling())
        assert names(program) == (["pool", "conv"] if passes else ["conv", "pool"])
        assert ("a and b differ" in program.notes["hoist_pooling"]) == (not passes)
