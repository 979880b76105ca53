"""Whole models on the matrix units of Intel and AMD: kernels chosen by cost or asked for, those of units emulated."""

import numpy as np
import pytest

import clgraph
from clgraph.graph.interpret import interpret
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.runtime.host import HostEngine
from tests.support.programs import Net


def _classes(channels):
    net = Net()
    net.input("x", (1, channels, 10, 9))
    x = net.add("first", Activation("relu"), net.conv("a", "x", channels, 2 * channels, 3))
    x = net.add("pool", Pooling("max", (2, 2), (2, 2)), x)
    x = net.add("second", Activation("relu"), net.conv("b", x, 2 * channels, 2 * channels, 1))
    x = net.add("mean", Reduce("mean", (2, 3), keepdims=False), x)
    net.output(net.add("classes", MatMul(), x, net.data("classes_w", 2 * channels, 21), net.data("classes_b", 21)))
    return net


@pytest.mark.opencl
def test_a_network_of_halves_runs_on_matrix_units_and_gives_what_references_give(matrix_engine, monkeypatch):
    engine, vendor = matrix_engine
    places = {engine.info.name: engine, "host": HostEngine()}
    monkeypatch.setattr("clgraph.compilation.compiler.open_engines", lambda options: places)
    net = _classes(32)
    x = (1e-3 * np.random.default_rng(1).standard_normal((1, 32, 10, 9))).astype(np.float32)
    name = "intel" if vendor == "intel_dpas" else "amd"
    forced = {"a": f"convolution.{name}_f16", "classes": f"matmul.{name}_f16"}
    model = clgraph.compile(net, precision="f16", config={"force_kernels": forced})
    (got,) = model.run({"x": x}).values()
    (want,) = interpret(net, {"x": x}).values()
    # Four layers, whose results and weights are rounded to 2^-11; a mean of their errors.
    assert np.abs(got - want).max() <= 2e-2 * np.abs(want).max()
    chosen = {node.choice.implementation.name for node in model.program}
    assert chosen >= set(forced.values())
