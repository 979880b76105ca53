"""Models that declare halves on CPUs: computed in float32 by the tiles of floats."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.recurrent_steps import RecurrentSteps

HALVES = pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)


def draw(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers that both kinds of halves hold, in *dtype*."""
    return (np.random.default_rng(seed).integers(-60, 60, shape) / 128).astype(dtype.numpy)


def recurrent(dtype: DType) -> clgraph.Topology:
    made = clgraph.Topology()
    x = made.input("x", (5, 2, 128), dtype)
    r = made.constant("r", draw(dtype, 1, 128, 32))
    made.output("y", made.add("y", RecurrentSteps("lstm", 32), x, r))
    return made


def convolved(dtype: DType) -> clgraph.Topology:
    made = clgraph.Topology()
    x, w = made.input("x", (1, 16, 21, 20), dtype), made.constant("w", draw(dtype, 16, 16, 3, 3))
    y = made.add("conv", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, w)
    made.output("y", made.add("y", Activation("relu"), y))
    return made


@pytest.mark.opencl
@HALVES
@pytest.mark.parametrize("made", [recurrent, convolved])
def test_they_give_what_floats_give_rounded_once(made, dtype, device) -> None:
    """The same kernels read the same numbers, so that the results are the same but for their rounding."""
    model = clgraph.compile(made(dtype), device=device, config={"strict": True})
    x = draw(dtype, *model.topology.inputs["x"].shape, seed=9)
    want = clgraph.compile(made(DType.F32), device=device).run({"x": x.astype(np.float32)})["y"]
    np.testing.assert_array_equal(model.run({"x": x})["y"], want.astype(dtype.numpy))
    chosen = {node.choice.implementation.name for node in model.program}
    assert chosen & {"recurrent_steps.products", "convolution.fsv16", "convolution.winograd_fsv16"}
    # Casts and blocks are tiles, too; nothing converts halves element by element between formats.
    assert "reorder.ref" not in chosen
