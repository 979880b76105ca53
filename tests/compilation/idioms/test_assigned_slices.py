"""Slices that are assigned by a ScatterND over ranges are joined, and are what ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import clgraph
from clgraph.compilation.idioms.assigned_slices import with_assigned_slices
from clgraph.frontend.onnx_loader import load_onnx
from tests.support import oracle

MOVED = """
    data = Transpose <perm = [2, 1, 0]> (x)
    updates = Transpose <perm = [2, 1, 0]> (u)
    n = Gather <axis = 0> (sizes, two)
    every = Range (nought, n, step)
    own = Slice (every, begin, end, zero, by)
    indices = Unsqueeze (own, last)
    found = ScatterND <reduction = "none"> (data, indices, updates)
    y = Transpose <perm = [2, 1, 0]> (found)
"""
"""The axis that is cut becomes the first one, as PyTorch's exporter of today writes it."""

GRID = """
    n0 = Gather <axis = 0> (sizes, nought)
    n1 = Gather <axis = 0> (sizes, step)
    n2 = Gather <axis = 0> (sizes, two)
    r0 = Range (nought, n0, step)
    r1 = Range (nought, n1, step)
    r2 = Range (nought, n2, step)
    c0 = Reshape (r0, deep)
    c1 = Reshape (r1, high)
    own = Slice (r2, begin, end, zero, by)
    sum = Add (c0, c1)
    whole = Add (sum, own)
    all = Shape (whole)
    e0 = Expand (c0, all)
    e1 = Expand (c1, all)
    e2 = Expand (own, all)
    i0 = Unsqueeze (e0, last)
    i1 = Unsqueeze (e1, last)
    i2 = Unsqueeze (e2, last)
    indices = Concat <axis = -1> (i0, i1, i2)
    y = ScatterND <reduction = "none"> (x, indices, u)
"""
"""Every axis has indices, as tracing writes it."""


def assigned(body: str, start: int, end: int, step: int = 1, sizes: str = "x", rows: str = "t") -> onnx.ModelProto:
    """Return ``x[:, :, start:end:step] = u`` of tensors of open sizes."""
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
    assigned (float[b,s,6] x, float[b,{rows},{len(range(6)[start:end:step])}] u) => (float[b,s,6] y)
        <int64 nought = {{0}}, int64 step = {{1}}, int64 two = {{2}}, int64 many = {{100}},
         int64[1] zero = {{0}}, int64[1] last = {{-1}},
         int64[1] begin = {{{start}}}, int64[1] end = {{{end}}}, int64[1] by = {{{step}}},
         int64[3] deep = {{-1, 1, 1}}, int64[2] high = {{-1, 1}}> {{ sizes = Shape ({sizes}) {body} }}""")


def has_scatter(made: onnx.ModelProto) -> bool:
    layers = with_assigned_slices(load_onnx(made).plain()).layers
    return any(x.primitive.kind == "scatter_nd" for x in layers)


@pytest.mark.opencl
@pytest.mark.parametrize("body", [MOVED, GRID], ids=["moved", "grid"])
@pytest.mark.parametrize(("start", "end"), [(0, 4), (4, 6), (1, 5), (0, 6), (-2, 1 << 60)])
def test_parts_of_an_axis_are_joined_with_what_stays(body, start, end, rng):
    made = assigned(body, start, end)
    assert not has_scatter(made)
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    for texts, tokens in ((1, 3), (2, 5)):
        x = rng.standard_normal((texts, tokens, 6)).astype(np.float32)
        u = rng.standard_normal(x[:, :, start:end].shape).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x, "u": u})["y"], ort.run(None, {"x": x, "u": u})[0])


OTHERS = {
    "every second": assigned(MOVED, 0, 6, 2),
    "backwards": assigned(MOVED, 5, -7, -1),
    "of few places": assigned(
        GRID.replace("n1 = Gather", "m1 = Gather").replace("r0 =", "n1 = Min (m1, many) r0 ="), 0, 4
    ),
    "of another tensor": assigned(GRID, 0, 4, sizes="u"),
    "sums": assigned(GRID.replace('"none"', '"add"'), 0, 4),
    "computed": assigned(
        MOVED.replace("own = Slice", "cut = Slice")
        .replace("(own", "(own")
        .replace("indices =", "own = Mod (cut, begin) indices ="),
        3,
        6,
    ),
    "two axes": assigned(
        GRID.replace("c1 = Reshape (r1, high)", "few = Slice (r1, zero, by, zero) c1 = Reshape (few, high)"),
        0,
        4,
        rows="1",
    ),
}


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS)
def test_other_places_stay_scattered(made):
    assert has_scatter(made)
