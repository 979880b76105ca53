"""ONNX's Attention of operator sets 23 and 24 where implementations differ, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import Call, Draw, normal
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

F = np.float32
BATCH, HEADS, SHARED, SIZE = 2, 4, 2, 16
OPSETS = pytest.mark.parametrize("opset", [23, 24])


def inputs(rng, tokens, keys=None, *, past=0, mask=None, lengths=None, flat=False, width=SIZE):
    """Return queries, keys, values, mask, past keys and values, lengths; None for what is not there."""
    keys = keys or tokens
    sizes = ((HEADS, tokens, SIZE), (SHARED, keys, SIZE), (SHARED, keys, width))
    given = [normal(rng, BATCH, *size) for size in sizes]
    if flat:
        given = [x.transpose(0, 2, 1, 3).reshape(BATCH, x.shape[2], -1) for x in given]
    pasts = [normal(rng, BATCH, SHARED, past, n) for n in (SIZE, width)] if past else [None, None]
    found = [*given, mask, *pasts, None if lengths is None else np.array(lengths)]
    while found[-1] is None:
        found.pop()
    return found


@OPSETS
def test_a_query_sees_keys_from_the_first_on_unless_there_is_a_past(opset, rng):
    """The triangle begins at the first key where keys and queries differ in number, and behind the past with one."""
    for tokens, keys, past in ((3, 5, 0), (5, 3, 0), (1, 1, 4), (3, 3, 4)):
        more = {"outputs": 3 if past else 1}
        agree("Attention", inputs(rng, tokens, keys, past=past), opset=opset, is_causal=1, **more)


@OPSETS
def test_heads_side_by_side_are_turned_into_heads_one_behind_the_other(opset, rng):
    heads = {"q_num_heads": HEADS, "kv_num_heads": SHARED}
    agree("Attention", inputs(rng, 2, past=4, flat=True), opset=opset, is_causal=1, outputs=3, **heads)
    agree("Attention", inputs(rng, 2, flat=True, width=24), opset=opset, is_causal=1, **heads)


@OPSETS
def test_the_cap_comes_before_the_mask(opset, rng):
    for mask in (normal(rng, 3, 3), normal(rng, BATCH, 1, 3, 3), normal(rng, BATCH, HEADS, 3, 3)):
        agree("Attention", inputs(rng, 3, mask=mask), opset=opset, is_causal=1, softcap=1.5)
    seen = rng.random((3, 5)) > 0.4
    agree("Attention", inputs(rng, 3, past=2, mask=seen), opset=opset, is_causal=1, outputs=3, scale=0.3)


@OPSETS
def test_a_query_that_sees_no_key_gets_zeros(opset, rng):
    none = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], bool)
    first = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0]], bool)
    infinite = np.where(none, 0, -np.inf).astype(F)
    for mask, causal in ((none, 0), (first, 1), (infinite, 0)):
        given = inputs(rng, 3, mask=mask)
        agree("Attention", given, opset=opset, is_causal=causal)
        model, feeds = one_node("Attention", given, opset=opset, is_causal=causal)
        assert not reference_outputs(load_onnx(model).build(), feeds)[0][:, :, 0].any()


@OPSETS
def test_scores_are_returned_as_they_are_at_each_place(opset, rng):
    """Raw and scaled, behind the cap, behind the mask, and as shares."""
    given = inputs(rng, 3, past=4)
    for mode in (0, 1, 3):
        more = {"outputs": 4, "is_causal": 1, "softcap": 2.0, "qk_matmul_output_mode": mode}
        agree("Attention", given, opset=opset, **more)
    model, feeds = one_node(
        "Attention", given, opset=opset, outputs=4, is_causal=1, softcap=2.0, qk_matmul_output_mode=2
    )
    got, want = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
    # What is hidden is minus infinity, as ONNX says; ONNX Runtime has the lowest finite number.
    want[3][want[3] == np.finfo(F).min] = -np.inf
    np.testing.assert_allclose(got[3], want[3], rtol=1e-5, atol=1e-6)


def test_lengths_hide_what_is_behind_a_text(rng):
    for tokens, lengths, causal in ((1, (5, 3), 1), (2, (5, 3), 0), (2, (5, 3), 1), (4, (5, 3), 1), (2, (6, 1), 0)):
        agree("Attention", inputs(rng, tokens, 6, lengths=lengths), opset=24, is_causal=causal)
    given = inputs(rng, 2, 6, lengths=(5, 3), mask=normal(rng, 2, 6))
    agree("Attention", given, opset=24)


def test_a_mask_that_is_shorter_than_the_keys_hides_the_rest(rng):
    """As ONNX defines it; ONNX Runtime refuses it."""
    mask = normal(rng, 3, 4)
    short, long = (inputs(np.random.default_rng(3), 3, 6, mask=m) for m in (mask, np.pad(mask, ((0, 0), (0, 2)))))
    long[3][:, 4:] = -np.inf
    found = []
    for given in (short, long):
        model, feeds = one_node("Attention", given, opset=24)
        found += reference_outputs(load_onnx(model).build(), feeds)
    np.testing.assert_array_equal(*found)


def test_heads_that_are_no_groups_are_refused(rng):
    q, k = normal(rng, 1, 3, 2, SIZE), normal(rng, 1, 2, 2, SIZE)
    model, _ = one_node("Attention", [q, k, k], opset=23)
    with pytest.raises(ShapeError):
        load_onnx(model).build()


def drawn(d: Draw, opset: int) -> Call:
    """Return a random call: groups, depths, masks of every rank, a past or lengths, a cap, scores as a result."""
    batch, shared, tokens, depth = d.size(1, 3), d.size(1, 3), d.size(1, 4), d.one(4, 8)
    heads, width, flat = shared * d.size(1, 3), d.one(depth, depth, 6), d.one(0, 1)
    told = opset > 23 and d.one(0, 1)
    past = 0 if told else d.one(0, 0, 3)
    keys = tokens + (0 if past else d.one(0, 0, 3))
    given = [
        d.normal(batch, h, n, e) for h, n, e in ((heads, tokens, depth), (shared, keys, depth), (shared, keys, width))
    ]
    if flat:
        given = [x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) for x in given]
    # A mask of one row beside a triangle is refused by ONNX Runtime, and onnx.reference draws a triangle of one row.
    fronts = ((), (batch, 1), (batch, heads), (1, heads), (heads,))
    shape = (*d.one(*fronts), tokens, keys + past)
    mask = d.one(None, d.normal(*shape), d.integers(0, 3, shape) > 0)
    pasts = [d.normal(batch, shared, past, e) if past else None for e in (depth, width)]
    lengths = d.integers(1, keys + 1, (batch,)) if told else None
    attributes = d.some(is_causal=(0, 1), scale=(0.3,), softcap=(1.5,))
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    if past and d.one(0, 1):
        attributes["qk_matmul_output_mode"] = d.one(0, 1, 2, 3)
    outputs = 4 if "qk_matmul_output_mode" in attributes else 3 if past else 1
    return Call((*given, mask, *pasts, lengths), attributes, outputs)


@OPSETS
def test_random_calls_are_those_of_onnxruntime_or_of_the_reference(opset):
    """Where these two differ (scores beside a cap), one of them is met; else both."""
    for seed in range(60):
        call = drawn(Draw(seed), opset)
        inputs = list(call.inputs)
        while inputs[-1] is None:
            inputs.pop()
        model, feeds = one_node("Attention", inputs, opset=opset, outputs=call.outputs, **call.attributes)
        own = reference_outputs(load_onnx(model).build(), feeds)
        met = [alike(own, ReferenceEvaluator(model).run(None, feeds)), alike(own, onnxruntime_outputs(model, feeds))]
        assert all(met) or ("softcap" in call.attributes and call.outputs == 4 and any(met)), f"seed {seed}: {call}"


def alike(own, others):
    """Whether shapes are the same, and elements up to the roundings of sums of 8 and a softmax of scores below 32."""
    return all(a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5) for a, b in zip(own, others, strict=True))
