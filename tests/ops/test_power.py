"""Powers whose base and exponent have two element types."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.power import Power
from clgraph.ops.reorder import Reorder
from tests.support.onnx_case import agree

BASES = np.array([[1.5, 0.5, 2.0, 3.0], [1.0, 2.5, 1.25, 0.25]])
EXPONENTS = np.array([2, 3, -1, 0])


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("base", "exponent"),
    [("f4", "i8"), ("f4", "i4"), ("f8", "i8"), ("f4", "f8"), ("f8", "f4"), ("i4", "f4"), ("i8", "f4"), ("i4", "i8")],
)
def test_powers_of_two_types_agree_with_onnxruntime(base, exponent, known):
    bases, exponents = (2 * BASES if base[0] == "i" else BASES).astype(base), np.abs(EXPONENTS).astype(exponent)
    agree("Pow", [bases, exponents], opset=15, **({"constant": (1,)} if known else {}))


@pytest.mark.opencl
def test_halves_to_the_power_of_integers_are_computed_in_floats(device):
    made = clgraph.Topology()
    x = made.input("x", (64, 4), DType.F16)
    for name, exponent in (("cube", np.int64(3)), ("each", EXPONENTS)):
        made.output(name, made.add(name, Power(), x, made.constant(f"{name}/exponent", np.asarray(exponent))))
    model = clgraph.compile(made, device=device)
    halves = np.resize(BASES, (64, 4)).astype(np.float16)
    for (name, found), exponent in zip(model.run({"x": halves}).items(), (3.0, EXPONENTS), strict=True):
        want = halves.astype(np.float64) ** exponent
        # A rounding to 11 bits, and what float32 is off before it.
        np.testing.assert_allclose(found, want, rtol=2**-11 + 2**-19, err_msg=name)


@pytest.mark.opencl
def test_an_exponent_of_another_type_is_no_operand_of_what_makes_the_base(device):
    made = clgraph.Topology()
    x = made.input("x", (64, 4), DType.F16)
    base = made.add("base", Reorder(DType.F32), x)
    made.output("y", made.add("y", Eltwise("pow"), base, made.constant("exponent", np.array(EXPONENTS))))
    halves = np.resize(BASES, (64, 4)).astype(np.float16)
    found = clgraph.compile(made, device=device).run({"x": halves})["y"]
    np.testing.assert_allclose(found, halves.astype(np.float64) ** EXPONENTS, rtol=32 * 2**-24)
