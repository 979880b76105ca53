"""Whole models as an NVIDIA GPU would run them: kernels chosen by cost, those with PTX in the emulator."""

import numpy as np
import pytest

import clgraph
from clgraph.graph.interpret import interpret
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.runtime.host import HostEngine
from tests.support.programs import Net
from tests.support.zoo_text import Encoder, encoder, tokens


@pytest.fixture
def compiled(nvidia_engine, monkeypatch):
    """Return what compiles a topology for the emulated GPU."""
    places = {nvidia_engine.info.name: nvidia_engine, "host": HostEngine()}
    monkeypatch.setattr("clgraph.compilation.compiler.open_engines", lambda options: places)
    return lambda model, **options: clgraph.compile(model, **options)


def _block(net, name, x, channels):
    """Add two convolutions and a shortcut, as in a residual network."""
    first = net.add(f"{name}_relu", Activation("relu"), net.conv(f"{name}_1", x, channels, channels, 3))
    second = net.conv(f"{name}_2", first, channels, channels, 3)
    return net.add(f"{name}_out", Activation("relu"), net.add(f"{name}_add", Eltwise("add"), second, x))


def _residual(channels):
    net = Net()
    net.input("x", (2, 3, 18, 18))
    x = net.add("stem_relu", Activation("relu"), net.conv("stem", "x", 3, channels, 3, 2))
    x = net.add("pool", Pooling("max", (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))), x)
    x = _block(net, "a", x, channels)
    x = net.add("grow_relu", Activation("relu"), net.conv("grow", x, channels, 2 * channels, 1, 2))
    x = _block(net, "b", x, 2 * channels)
    x = net.add("mean", Reduce("mean", (2, 3), keepdims=False), x)
    net.output(net.add("classes", MatMul(), x, net.data("classes_w", 2 * channels, 24), net.data("classes_b", 24)))
    return net


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("precision", "kernels", "allowed"),
    # A result is a sum of at most 2^9 products, in eight layers; storing halves rounds each of them once.
    [
        ("f32", ["nvidia_f32"], 1e-4),
        ("tf32x3", ["nvidia_tf32x3"], 1e-4),
        ("f16x3", ["nvidia_f16x3"], 1e-4),
        ("f16", ["nvidia_gather_f16", "nvidia_f16"], 2e-2),
    ],
)
def test_a_residual_network_runs_on_tiles_and_gives_what_references_give(precision, kernels, allowed, compiled):
    net = _residual(16)
    # The weights of a layer are normal: its results are up to a hundred times as large as what it reads.
    x = (1e-3 * np.random.default_rng(1).standard_normal((2, 3, 18, 18))).astype(np.float32)
    # So few products are not worth the launch that finds what to scale them by, and float tiles are too large for them.
    kernel = {"f16x3": "convolution.nvidia_f16x3", "f32": "convolution.nvidia_f32"}.get(precision)
    forced = {"a_1": kernel, "grow": kernel} if kernel else {}
    model = compiled(net, precision=precision, config={"force_kernels": forced})
    (got,) = model.run({"x": x}).values()
    (want,) = interpret(net, {"x": x}).values()
    assert np.abs(got - want).max() <= allowed * np.abs(want).max()
    chosen = {node.choice.implementation.name for node in model.program}
    assert chosen.issuperset(f"convolution.{kernel}" for kernel in kernels)


@pytest.mark.opencl
def test_an_encoder_attends_in_one_launch(nvidia_engine, request):
    model = encoder(Encoder(1, 64, 2, 96, vocabulary=40, positions=16), 2, 12)
    references = clgraph.compile(model, device="host")
    compiled = request.getfixturevalue("compiled")
    feeds = tokens(2, 12, vocabulary=40, hidden=3)
    found = compiled(model, precision="f16")
    count = len(nvidia_engine.ran)
    (got,) = found.run(feeds).values()
    ran = [entry for entry, *_ in nvidia_engine.ran[count:]]
    assert ran.count("attention_nvidia") == 1
    assert ran.count("matmul_nvidia") >= 4
    (want,) = references.run(feeds).values()
    # One layer rounds every value to a half about ten times; the results are normalised.
    assert np.abs(got - want).max() <= 30 * 2.0**-11 * np.abs(want).max()
