"""Caches whose keys and values are one tensor, as ONNX Runtime's Attention and its exporter of GPT-2 have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import clgraph
from clgraph.engines import opening
from clgraph.errors import InputError
from clgraph.runtime.device import find_device
from tests.support import oracle

pytestmark = pytest.mark.opencl

OPERATOR = """
    y, present = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, w, b, MASK, past)
"""
SPELLED = """
    xw = MatMul (x, w)
    xwb = Add (xw, b)
    q3, k3, v3 = Split <axis = 2> (xwb, thirds)
    q4 = Reshape (q3, heads)
    k4 = Reshape (k3, heads)
    v4 = Reshape (v3, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (q4)
    k = Transpose <perm = [0, 2, 1, 3]> (k4)
    v = Transpose <perm = [0, 2, 1, 3]> (v4)
    past_k = Gather <axis = 0> (past, first)
    past_v = Gather <axis = 0> (past, second)
    keys = Concat <axis = 2> (past_k, k)
    values = Concat <axis = 2> (past_v, v)
    keys1 = Unsqueeze (keys, front)
    values1 = Unsqueeze (values, front)
    present = Concat <axis = 0> (keys1, values1)
    turned = Transpose <perm = [0, 1, 3, 2]> (keys)
    scores = MatMul (q, turned)
    scaled = Div (scores, root)
    shares = Softmax <axis = -1> (scaled)
    mixed = MatMul (shares, values)
    rows = Transpose <perm = [0, 2, 1, 3]> (mixed)
    y = Reshape (rows, flat)
"""
NAMES = ("y", "present")


def stacked(body, *, masked=False):
    """Return a model of one attention of two heads of 8, whose keys and values are stacked."""
    mask = ", int32[batch,total] mask" if masked else ""
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    stacked (float[batch,tokens,16] x{mask}, float[2,batch,2,before,8] past)
        => (float[batch,tokens,16] y, float[2,batch,2,total,8] present)
        <int64[3] thirds = {{16, 16, 16}}, int64[4] heads = {{0, 0, 2, 8}}, int64[3] flat = {{0, 0, 16}},
         int64 first = {{0}}, int64 second = {{1}}, int64[1] front = {{0}}, float root = {{2.8284271}}>
    {{ {body.replace("MASK", "mask" if masked else "")} }}"""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(4)
    arrays = {"w": rng.standard_normal((16, 48)), "b": rng.standard_normal(48)}
    model.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items())
    return model


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("body", "masked"), [(OPERATOR, False), (OPERATOR, True), (SPELLED, False)])
def test_keys_and_values_in_one_tensor_are_caches_that_neither_copies_nor_compiles(body, masked, batch, rng):
    made = stacked(body, masked=masked)
    ort = oracle.session(made, threads=1)
    model = clgraph.compile(made)
    assert [(p.input, p.output, p.grows) for p in model.state] == [("past", "present", True)]
    session, past, theirs = model.session(), np.zeros((2, batch, 2, 0, 8), np.float32), None
    for tokens in (1 if body is SPELLED else 3, 1, 1):
        new = {"x": rng.standard_normal((batch, tokens, 16)).astype(np.float32)}
        if masked:
            new["mask"] = np.ones((batch, past.shape[3] + tokens), np.int32)
            new["mask"][-1, :2] = batch == 1
        got = model.run({**new, "past": past})
        want = dict(zip(NAMES, ort.run(None, {**new, "past": past if theirs is None else theirs}), strict=True))
        for name in NAMES:
            # Sums of 16 and 8 products, and a softmax: some tens of units of 6e-8 by values of a few tens.
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(session.run(new)["y"], got["y"])
        if past.size:
            assert got["present"].ctypes.data == past.ctypes.data, "the cache was copied"
        past, theirs = got["present"], want["present"]
    if masked:
        with pytest.raises(InputError, match="a column for each of the 6 tokens"):
            session.fork().run(new)  # the mask of the step before
    else:
        again = session.run(new, outputs=["present"])["present"]
        np.testing.assert_array_equal(again[..., : past.shape[3], :], past)
    assert not model.compiled, "a program was compiled that has no caches"


def test_a_tensor_that_is_no_stack_is_refused_and_the_next_run_goes(rng):
    model, x = clgraph.compile(stacked(OPERATOR)), rng.standard_normal((1, 2, 16)).astype(np.float32)
    for bad in ((1, 2, 0, 8), (3, 1, 2, 0, 8)):
        with pytest.raises(InputError, match=r"input 'past' is .*want to be stacked \[2, batch, heads, tokens, D\]"):
            model.run(x=x, past=np.zeros(bad, np.float32))
    with pytest.raises(InputError, match=r"input 'past \(keys\)' is a cache \[1, 4, 0, 8\]"):
        model.run(x=x, past=np.zeros((2, 1, 4, 0, 8), np.float32))
    assert model.run(x=x, past=np.zeros((2, 1, 2, 0, 8), np.float32))["present"].shape == (2, 1, 2, 2, 8)


def test_keys_and_values_in_one_tensor_lie_in_memory_of_the_devices_own(monkeypatch, rng):
    def copying(text="auto"):
        found = find_device(text)
        return replace(found, info=replace(found.info, features=found.info.features - {"host_memory"}))

    made, x = stacked(OPERATOR), rng.standard_normal((2, 3, 16)).astype(np.float32)
    none = np.zeros((2, 2, 2, 0, 8), np.float32)
    want = clgraph.compile(made).run(x=x, past=none)
    monkeypatch.setattr(opening, "find_device", copying)
    got = clgraph.compile(made, config={"executor": "stream"}).run(x=x, past=none)
    for name in NAMES:
        # The other executor has the same kernels and the same order of sums.
        np.testing.assert_array_equal(got[name], want[name])
