from __future__ import annotations

import itertools
import tracemalloc
from math import inf

import numpy as np
import onnx.parser
import pytest

from clgraph.core.dtype import DType
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.band_mask import band_mask


def test_a_token_sees_the_keys_within_its_reach():
    reaches = itertools.product((0, 1, 3, inf), (-1, 0, 2, inf))
    for rows, keys, before, (ahead, behind) in itertools.product((0, 1, 2, 5), (0, 1, 3, 7), (0, 2, 6), reaches):
        distance = np.arange(keys) - (np.arange(rows)[:, None] + before)
        want = np.where((-behind <= distance) & (distance <= ahead), 0, -inf).astype(np.float32)
        got = band_mask(rows, keys, before, ahead=ahead, behind=behind, low=-inf, dtype=DType.F32)
        np.testing.assert_array_equal(got, want, strict=True)


HEADS = "num_heads = 1"
ATTENTIONS = {
    "Attention": "y = Attention <is_causal = 1, left_window_size = 4> (x, x, x)",
    "GroupQueryAttention": f"y, k, v = m.GroupQueryAttention <{HEADS}, kv_num_heads = 1> (f, f, f, , , last, total)",
    "MultiHeadAttention": f"y = m.MultiHeadAttention <{HEADS}, unidirectional = 1> (f, f, f)",
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_causal_attention_is_built_without_memory_for_its_mask(name):
    """Families of shapes build programs of the largest sizes."""
    tokens = 8192
    text = f"""<ir_version: 11, opset_import: ["" : 25, "m" : 1]>
        long (float[1,1,{tokens},8] x) => (float y) {{
            shape = Constant <value = int64[3] {{1, {tokens}, 8}}> ()
            f = Reshape (x, shape)
            last = Constant <value = int32[1] {{{tokens - 1}}}> ()
            total = Constant <value = int32[1] {{{tokens}}}> ()
            {ATTENTIONS[name]}
        }}"""
    made = onnx.parser.parse_model(text.replace("m.", "com.microsoft.").replace('"m"', '"com.microsoft"'))
    topology = load_onnx(made)
    tracemalloc.start()
    topology.build()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One byte for each pair of tokens would be more.
    assert most < tokens**2 / 4


@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_is_built_without_memory_for_it(upper):
    rows = 8192
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{rows},{rows}] x) => (float[{rows},{rows}] y)'
        f" {{ y = Trilu <upper = {upper}> (x) }}"
    )
    topology = load_onnx(made)
    tracemalloc.start()
    topology.build()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A number for each distance, of which there are two times as many as rows, and a few objects.
    assert most < 100 * rows
