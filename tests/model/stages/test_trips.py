"""Trips of loops whose steps are joined: with shapes that grow, with other slices in each, with bodies in bodies."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import clgraph
from clgraph.model.stages import host_layers
from clgraph.model.stages.runner import PieceRunner
from tests.support.graphs import agrees
from tests.support.stages import ENOUGH

pytestmark = pytest.mark.opencl


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')


APPENDING = """g (int64 n, float[2] x) => (float[k] y) {
  yes = Constant<value = bool {1}>()
  none = Constant<value = float[0] {}>()
  y = Loop<body = b (int64 i, bool on, float[0] a) => (bool going, float[m] made) {
    going = Identity(on)
    number = Cast<to = 1>(i)
    more = Add(x, number)
    made = Concat<axis = 0>(a, more)
  }>(n, yes, none)
}"""
"""A loop that appends, and declares what it carries as PyTorch does: with the shape of the first trip."""


def test_trips_of_other_shapes_than_the_body_declares_have_plans(device: str, decided: list[PieceRunner]) -> None:
    source = parsed(APPENDING)
    with clgraph.compile(source, device) as made:
        for run in range(ENOUGH):
            agrees(made, source, {"n": np.array(5), "x": np.float32([run, 2])})
        decided.clear()
        for n in (5, 3, 5):
            agrees(made, source, {"n": np.array(n), "x": np.float32([1, n])})
        assert not decided


BAGS = """g (int64[n] begins, float[m, 2] x) => (float[n, 2] y) {
  count = Size(begins)
  yes = Constant<value = bool {1}>()
  y = Loop<body = b (int64 i, bool on) => (bool going, float[2] sum) {
    going = Identity(on)
    one = Constant<value_ints = [1]>()
    begin = Gather(begins, i)
    row = Reshape(begin, one)
    long = Add(row, begin)
    end = Add(long, one)
    zero = Constant<value_ints = [0]>()
    bag = Slice(x, row, end, zero)
    sum = ReduceSum<keepdims = 0>(bag, zero)
  }>(count, yes)
}"""
"""Sums of slices whose places and sizes are elements."""


def test_slices_of_the_places_that_elements_tell_are_bound_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, x = parsed(BAGS), np.arange(16, dtype=np.float32).reshape(8, 2)
    with clgraph.compile(source, device) as made:
        for _ in range(ENOUGH):
            agrees(made, source, {"begins": np.array([0, 2, 1]), "x": x})
        monkeypatch.setattr(host_layers, "compute", None)  # what binds
        for begins in ([0, 2, 1], [2, 1, 0], [1, 1, 2]):
            agrees(made, source, {"begins": np.array(begins), "x": x})


INNER = """g (int64 n, float[2] x) => (float[2] y, float[n, 2] all) {
  yes = Constant<value = bool {1}>()
  y, all = Loop<body = b (int64 i, bool on, float[2] a) => (bool going, float[2] c, float[2] d) {
    going = Identity(on)
    sum = ReduceSum<keepdims = 0>(a)
    zero = Constant<value = float {0}>()
    up = Greater(zero, sum)
    c = If<then_branch = t () => (float[2] e) { e = Add(a, x) },
           else_branch = u () => (float[2] f) { f = Sub(a, x) }>(up)
    d = If<then_branch = v () => (float[2] g) { g = Identity(c) },
           else_branch = w () => (float[2] h) { h = Neg(c) }>(up)
  }>(n, yes, x)
}"""


@pytest.mark.parametrize("n", [3, 6])
def test_branches_in_trips_are_chosen_anew(device: str, decided: list[PieceRunner], n: int) -> None:
    source = parsed(INNER)
    with clgraph.compile(source, device) as made:
        for run in range(2 * ENOUGH):
            agrees(made, source, {"n": np.array(n), "x": np.float32([1, run % 3 - 2])})
        decided.clear()
        for x in ([1, 3], [-4, 2], [0, -1]):
            agrees(made, source, {"n": np.array(n), "x": np.float32(x)})
        assert not decided


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("back", [0, 1])
def test_scans_walk_and_stack_along_any_axis(device: str, axis: int, back: int) -> None:
    source = parsed(f"""g (float[3] s, float[n, m] x, float[k] z) => (float[3] t, float[a, b] y) {{
      t, y = Scan<num_scan_inputs = 2, scan_input_axes = [{axis}, 0], scan_output_axes = [{axis}],
                  scan_input_directions = [{back}, 0], scan_output_directions = [{back}],
                  body = b (float[3] c, float[3] row, float w) => (float[3] d, float[3] e) {{
        sum = Add(c, row)
        d = Mul(sum, w)
        e = Sub(d, c)
      }}>(s, x, z)
    }}""")
    rng = np.random.default_rng(0)
    with clgraph.compile(source, device) as made:
        for _ in range(ENOUGH + 2):
            s, x, z = (rng.standard_normal(shape).astype(np.float32) for shape in ((3,), (3, 3), (3,)))
            agrees(made, source, {"s": s, "x": x, "z": z})
