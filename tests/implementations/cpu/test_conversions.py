"""Conversions of plain tensors between all element types, against NumPy's."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.element_functions import FUNCTIONS, Computation
from clgraph.implementations.cpu.element_types import CONVERTED, DOUBLE
from clgraph.implementations.cpu.reorder_elements import ReorderElements
from clgraph.ops.reorder import Reorder
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op


@pytest.mark.opencl
@pytest.mark.parametrize("source", CONVERTED, ids=str)
def test_conversions_are_numpys(engine, source):
    most = 2 if source == DType.BOOL else 100
    draw = {} if source.floating else {0: (lambda rng, shape: rng.integers(0, most, shape).astype(source.numpy))}
    for target in CONVERTED:
        # A 64-bit integer that a float rounds could be rounded to another neighbour after that.
        if target != source and (source, target) != (DType.U64, DType.BF16):
            positive = {0: lambda rng, shape: rng.uniform(0, 100, shape)} if source.floating else draw
            found = check_op(
                engine, Reorder(target), (3, 701), dtype=source, draw=positive, families=("normal",),
                only=["reorder.elements"],
            )  # fmt: skip
            assert "reorder.elements" in found, target


def test_conversions_without_a_loop_are_refused(monkeypatch):
    """A type that is missing in a switch of the kernel would leave what was in memory before."""

    def of_doubles(q):
        return Computation(FUNCTIONS["same"], DOUBLE, (0,), q.inputs[0].dtype, q.outputs[0].dtype)

    monkeypatch.setattr(ReorderElements, "computation", of_doubles)
    x, y, z = (Layout(dtype, (2, 3)) for dtype in (DType.BF16, DType.F64, DType.F32))
    device = DeviceInfo(features=frozenset({"fp64"}))
    for source, target, served in ((x, y, False), (y, x, False), (z, y, True), (y, z, True)):
        refused = ReorderElements.limits(Query(Reorder(target.dtype), (source,), (target,), device, 1))
        assert (refused is None) == served, refused
        assert served or "computes nothing of" in str(refused)


@pytest.mark.opencl
@pytest.mark.parametrize(("target", "infinite"), [(DType.F16, 0x7C00), (DType.BF16, 0x7F80)], ids=str)
def test_doubles_become_halves_in_one_rounding_and_others_by_way_of_floats(engine, target, infinite):
    halves = np.arange(infinite, dtype=np.uint16).view(target.numpy).astype(np.float64)
    middles = (halves[:-1] + halves[1:]) / 2
    found = [
        halves,
        middles,
        *(np.nextafter(middles, end) for end in (-np.inf, np.inf)),
        *(middles * (1 + e) for e in (-1e-9, 1e-9)),
    ]
    odd = [np.nan, np.inf, 65519.999999, 65520.0, 1e30, 1e300, 1e-300, 5e-324, 2.0**-25, np.nextafter(2.0**-25, 1)]
    numbers = np.concatenate([*found, odd])
    draw = {0: lambda rng, shape: np.resize(np.concatenate([numbers, -numbers]), shape)}
    with np.errstate(over="ignore"):
        made = check_op(
            engine, Reorder(target), (401, 933), dtype=DType.F64, draw=draw, families=("normal",),
            only=["reorder.elements"],
        )  # fmt: skip
    assert made == {"reorder.elements": 0.0}
