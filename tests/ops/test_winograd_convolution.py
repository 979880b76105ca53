"""The primitive that a convolution becomes when its weights are transformed: it computes the same and is explained."""

import numpy as np
import pytest

import clgraph
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.check import check
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.winograd_convolution import WinogradConvolution
from clgraph.ops.winograd_weights import WinogradWeights
from tests.support.of_a_kind import on_a_cpu

PADS = ((1, 1), (0, 2))
NAME = "convolution.winograd_fsv16"


@pytest.mark.parametrize("stride", [1, 2])
def test_it_computes_the_convolution_of_the_original_weights(rng, stride):
    x, w, bias = (rng.standard_normal(s) for s in ((2, 21, 9, 7), (37, 21, 3, 3), (37,)))
    (u,) = WinogradWeights(2, stride).reference(w)
    transformed, plain = WinogradConvolution(PADS, 37, stride), Convolution((stride, stride), (1, 1), PADS)
    (expected,) = plain.reference(x, w, bias)
    np.testing.assert_allclose(transformed.reference(x, u, bias)[0], expected, atol=1e-11)
    layouts, of_plain = ([Layout.of(a.astype(np.float32)) for a in (x, v, bias)] for v in (u, w))
    assert transformed.infer(layouts) == plain.infer(of_plain)
    assert transformed.flops(layouts, transformed.infer(layouts)) == plain.flops(of_plain, plain.infer(of_plain))


def test_weights_of_other_channels_do_not_fit(rng):
    x = Layout.of(np.zeros((1, 40, 9, 7), np.float32))
    (u,) = WinogradWeights(2).infer([Layout.of(np.zeros((37, 21, 3, 3), np.float32))])
    with pytest.raises(ShapeError, match="do not fit"):
        WinogradConvolution(PADS, 37).infer([x, u])


def two_layers(rng):
    """Two convolutions of 64 channels that share their weights, and one whose output channels do not fill a block."""
    topology = clgraph.Topology()
    y = topology.input("x", (1, 64, 24, 26))
    shared = topology.constant("w", (rng.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32))
    for name in ("first", "second"):
        y = topology.add(
            f"{name}_relu", Activation("relu"), topology.add(name, Convolution(pads=((1, 1),) * 2), y, shared)
        )
    w = topology.constant("v", (rng.standard_normal((24, 64, 3, 3)) / 24).astype(np.float32))
    topology.output("y", topology.add("third", Convolution(pads=((0, 0),) * 2), y, w))
    return topology


def kernels(model):
    return {n.name: n.choice.implementation.name for n in model.program if n.choice.implementation.name == NAME}


def test_a_compiled_program_holds_its_invariants_and_says_what_it_has_become(rng):
    model = clgraph.compile(two_layers(rng), device="null")
    assert set(kernels(model)) == {"first", "second", "third"}
    check(model.program)
    names = {v.name for v in model.program.constants}
    assert len([n for n in names if "winograd_weights" in n]) == 2, "the shared weights are transformed twice"
    report = model.explain()["second"]
    assert report.primitive == "winograd_convolution(pads=((1, 1), (1, 1)), outputs=64)"
    assert report.implementation == NAME
    assert report.steps == ("winograd_fsv16",)
    assert "convolution.fsv16" in report.slower


@pytest.mark.parametrize("config", [{"winograd": False}, {"deny_kernels": frozenset({NAME})}])
def test_it_can_be_turned_off(rng, config):
    assert not kernels(clgraph.compile(two_layers(rng), device="null", config=config))


@pytest.mark.opencl
@pytest.mark.parametrize(
    "left_out", [{}, {"stop_after": "partition"}, {"disable_passes": frozenset({"prepare_padding"})}]
)
def test_every_pass_keeps_the_numbers_of_programs_with_transformed_weights(rng, device, left_out):
    on_a_cpu(device)
    model = clgraph.compile(two_layers(rng), device=device, config={"verify_passes": True, **left_out})
    if not left_out:
        assert len(kernels(model)) == 3


@pytest.mark.opencl
def test_memory_that_holds_nothing_is_not_read(rng, device):
    on_a_cpu(device)
    topology, x = two_layers(rng), rng.standard_normal((1, 64, 24, 26)).astype(np.float32)
    clean, poisoned = (clgraph.compile(topology, device=device, config={"poison": p}) for p in (False, True))
    assert len(kernels(poisoned)) == 3
    np.testing.assert_array_equal(clean.run({"x": x})["y"], poisoned.run({"x": x})["y"])


def one_layer(inputs, outputs, side, stride=1):
    topology = clgraph.Topology()
    w = topology.constant("w", np.ones((outputs, inputs, 3, 3), np.float32))
    primitive, x = Convolution((stride, stride), pads=((1, 1),) * 2), topology.input("x", (1, inputs, side, side))
    topology.output("y", topology.add("conv", primitive, x, w))
    return kernels(clgraph.compile(topology, device="null"))


def test_small_maps_of_many_channels_are_left_to_direct_convolution():
    assert not one_layer(512, 512, 7)


def test_with_stride_2_what_few_channels_save_does_not_pay_for_the_transforms():
    assert one_layer(64, 64, 40, stride=2)
    assert not one_layer(8, 32, 40, stride=2)
