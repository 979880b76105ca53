"""GroupQueryAttention of prompts and of further tokens, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import normal
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

F, INT = np.float32, np.int32
HEADS, SHARED, WIDTH = 4, 2, 16
GROUPS = {"opset": 17, "domain": "com.microsoft", "outputs": 3, "num_heads": HEADS, "kv_num_heads": SHARED}
ANGLES = np.linspace(0, 6, 12 * 8).reshape(12, 8)
TABLES = [np.cos(ANGLES).astype(F), np.sin(ANGLES).astype(F)]

OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.4},
    "cap": {"softcap": 0.5},
    "window": {"local_window_size": 2},
    "rotary": {"do_rotary": 1},
    "interleaved": {"do_rotary": 1, "rotary_interleaved": 1},
    "smooth": {"smooth_softmax": 1},
}


def inputs(rng, batch, tokens, past, last, *, packed=False, rotates=False):
    parts = [normal(rng, batch, tokens, n * WIDTH) for n in (HEADS, SHARED, SHARED)]
    parts = [np.concatenate(parts, 2), None, None] if packed else parts
    pasts = [normal(rng, batch, SHARED, past, WIDTH) for _ in range(2)]
    total = np.array(max(last) + 1, INT)
    return [*parts, *pasts, np.array(last, INT), total, *(TABLES if rotates else [])]


@pytest.mark.parametrize("option", OPTIONS)
def test_prompts_and_further_tokens_are_onnxruntimes(option, rng):
    more = {**GROUPS, **OPTIONS[option], "constant": (6,)}
    rotates = "do_rotary" in more
    agree("GroupQueryAttention", inputs(rng, 2, 4, 0, [3, 3], rotates=rotates), **more)
    agree("GroupQueryAttention", inputs(rng, 1, 1, 5, [5], packed=True, rotates=rotates), **more)
    agree("GroupQueryAttention", inputs(rng, 2, 1, 5, [5, 5], rotates=rotates), **more)
    agree("GroupQueryAttention", inputs(rng, 1, 3, 5, [7], rotates=rotates), **more)


def test_a_bias_places_and_sinks_are_onnxruntimes(rng):
    given = inputs(rng, 1, 2, 3, [4], rotates=True)
    more = {**GROUPS, "constant": (6,), "do_rotary": 1}
    agree("GroupQueryAttention", [*given, np.array([[3, 4]]), normal(rng, 1, HEADS, 2, 5)], **more)
    agree("GroupQueryAttention", [*given, None, None, normal(rng, HEADS)], **more)


def test_places_of_a_whole_text_that_follow_one_another_are_onnxruntimes(rng):
    given = inputs(rng, 2, 3, 0, [2, 2], rotates=True)
    places = np.tile(np.arange(4, 7), (2, 1))
    agree("GroupQueryAttention", [*given, places], **GROUPS, constant=(6,), do_rotary=1)


def test_every_token_may_see_all_of_its_text(rng):
    agree("GroupQueryAttention", inputs(rng, 2, 4, 0, [3, 3]), **GROUPS, constant=(6,), causal=0)


def test_texts_of_several_lengths_are_onnxruntimes_as_far_as_they_go(rng):
    prompt = inputs(rng, 2, 4, 0, [1, 3])
    further = inputs(rng, 2, 1, 5, [3, 5], rotates=True)
    whole = inputs(rng, 2, 1, 8, [3, 5], rotates=True)
    for given, lengths, more in ((prompt, (2, 4), {}), (further, (4, 6), {"do_rotary": 1}), (whole, (4, 6), {})):
        model, feeds = one_node("GroupQueryAttention", given, **GROUPS, constant=(6,), **more)
        got, want = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
        for row, length in enumerate(lengths):
            rows = slice(0, min(length, given[0].shape[1]))
            np.testing.assert_allclose(got[0][row, rows], want[0][row, rows], rtol=1e-5, atol=1e-6)
            for mine, theirs in zip(got[1:], want[1:], strict=True):
                assert mine.shape == theirs.shape
                np.testing.assert_allclose(mine[row, :, :length], theirs[row, :, :length], rtol=1e-5, atol=1e-6)


def test_the_first_part_of_wide_heads_may_be_turned_alone(rng):
    more = {**GROUPS, "constant": (6,), "do_rotary": 1}
    for interleaved in (0, 1):
        parts = [normal(rng, 1, 2, n * 32) for n in (HEADS, SHARED, SHARED)]
        pasts = [normal(rng, 1, SHARED, 3, 32) for _ in range(2)]
        given = [*parts, *pasts, np.array([4], INT), np.array(5, INT), *TABLES]
        agree("GroupQueryAttention", given, **more, rotary_interleaved=interleaved)


def test_presents_have_zeros_behind_the_end_of_each_text(rng):
    """Whatever the past has there: of one text and of several, as long as they will be or longer; at a prompt all."""
    more = {**GROUPS, "constant": (6,), "do_rotary": 1}
    for batch, tokens, past, last in (
        (2, 1, 12, [7, 4]),
        (2, 1, 7, [7, 4]),
        (2, 4, 12, [3, 3]),
        (1, 4, 12, [3]),
        (1, 4, 12, [8]),
        (1, 1, 12, [8]),
        (1, 3, 4, [6]),
    ):
        agree("GroupQueryAttention", inputs(rng, batch, tokens, past, last, rotates=True), **more)


def test_windows_and_caps_go_with_any_form_of_cache(rng):
    """A window has as many keys as it says, the token's own among them; the cap comes before the bias."""
    for window in (1, 3, 20):
        more = {**GROUPS, "constant": (6,), "local_window_size": window}
        for batch, tokens, past, last in ((1, 1, 9, [9]), (1, 6, 0, [5]), (1, 3, 6, [8]), (1, 1, 12, [9])):
            agree("GroupQueryAttention", inputs(rng, batch, tokens, past, last), **more)
    capped = {**GROUPS, "constant": (6,), "softcap": 0.5}
    for heads, window in ((1, -1), (HEADS, 4)):
        given = [*inputs(rng, 1, 1, 9, [9]), None, None, None, normal(rng, 1, heads, 1, 10)]
        agree("GroupQueryAttention", given, **capped, local_window_size=window)
    agree("GroupQueryAttention", [*inputs(rng, 1, 2, 4, [5]), None, None, None, None, normal(rng, HEADS)], **capped)


def with_integers(rng, bits, given, *, channels=False):
    """Return *given* with pasts of integers, of which two are in a byte where they have 4 *bits*, and their scales."""
    given = [*given, *[None] * (12 - len(given))]
    for i in (3, 4):
        shape = np.array(given[i].shape) // (1, 1, 1, 8 // bits)
        given[i] = rng.integers(0, 256, shape).astype(np.uint8).view(np.int8 if bits == 8 else np.uint8)
    shape = (1, SHARED, 1, WIDTH) if channels else (1,)
    return [*given, *(rng.uniform(0.5, 1, shape).astype(F) * F(4 / 2**bits) for _ in range(2))]


@pytest.mark.parametrize("bits", [8, 4])
def test_caches_of_integers_are_onnxruntimes(bits, rng):
    """New keys and values are rounded, some from halfway and beyond the ends, before any token sees them."""
    for channels, batch, tokens, past, last, more in (
        (False, 2, 4, 0, [3, 3], {}),
        (True, 1, 3, 5, [7], {"do_rotary": 1}),
        (False, 2, 1, 5, [5, 5], {"do_rotary": 1, "local_window_size": 3}),
        (True, 1, 1, 12, [5], {"softcap": 0.5}),
        (True, 2, 1, 7, [7, 4], {"smooth_softmax": 1}),
    ):
        given = inputs(rng, batch, tokens, past, last, rotates="do_rotary" in more)
        given = with_integers(rng, bits, given, channels=channels)
        if not more:
            given[1] = (rng.integers(-20, 20, given[1].shape) + 0.5).astype(F) * given[12]
        kind = "PER_CHANNEL" if channels else "PER_TENSOR"
        more |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind, "constant": (6, 12, 13)}
        agree("GroupQueryAttention", given, **GROUPS, **more, by_definition=False, atol=1e-5)


def test_what_is_not_there_is_refused_by_name(rng):
    given = inputs(rng, 1, 1, 5, [5])
    kinds = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    for more, what in (
        ({"kv_cache_bit_width": 8}, "kv_cache_bit_width=8 is for caches of integers"),
        ({"k_quant_type": "PER_TENSOR"}, "k_quant_type=PER_TENSOR with v_quant_type=NONE"),
        ({**kinds, "kv_cache_bit_width": 2}, "kv_cache_bit_width=2"),
        ({**kinds, "kv_cache_bit_width": 8}, "caches of integers want k_scale and v_scale"),
        ({"qk_output": 1}, "qk_output=1"),
    ):
        model, _ = one_node("GroupQueryAttention", given, **GROUPS, **more)
        with pytest.raises(UnsupportedError, match=f"'node' \\(GroupQueryAttention\\): {what}"):
            load_onnx(model)
    model, _ = one_node("GroupQueryAttention", with_integers(rng, 8, given), **GROUPS)
    with pytest.raises(UnsupportedError, match="k_scale is for caches of integers"):
        load_onnx(model)
    for bits, places, wrong, what in (
        (8, slice(12, 13), [np.ones(3, F)], "a scale"),
        (4, slice(3, 5), [np.zeros((1, SHARED, 5, WIDTH), np.int8)] * 2, "a past of integers of 4 bits"),
    ):
        broken = with_integers(rng, bits, given)
        broken[places] = wrong
        more = {**kinds, "kv_cache_bit_width": bits, "constant": (6,)}
        model, _ = one_node("GroupQueryAttention", broken, **GROUPS, **more)
        with pytest.raises(ShapeError, match=what):
            load_onnx(model).build()


def test_heads_are_normalised_before_they_are_turned(rng):
    """Only GPUs of ONNX Runtime's know the weights: the same is made of heads that are normalised in front."""
    more = {**GROUPS, "constant": (6,), "do_rotary": 1}
    given = inputs(rng, 1, 3, 2, [4], rotates=True)
    weights = [rng.uniform(0.5, 2, WIDTH).astype(F) for _ in range(2)]
    normed = []
    for x, weight, epsilon in zip(given, weights, (1e-3, 1e-2), strict=False):
        heads = x.reshape(1, 3, -1, WIDTH)
        root = np.sqrt((heads**2).mean(-1, keepdims=True) + F(epsilon))
        normed.append((heads / root * weight).reshape(x.shape))
    model, feeds = one_node("GroupQueryAttention", [*normed, *given[2:]], **more)
    want = onnxruntime_outputs(model, feeds)
    norms = {"q_norm_epsilon": 1e-3, "qk_norm_epsilon": 1e-2}
    model, feeds = one_node("GroupQueryAttention", [*given, *[None] * 5, *weights], **more, **norms)
    program = load_onnx(model).build()
    for got, expected in zip(reference_outputs(program, feeds), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    model, _ = one_node("GroupQueryAttention", [*given, *[None] * 5, weights[0]], **more)
    with pytest.raises(UnsupportedError, match="q_norm_weight and k_norm_weight must be given together"):
        load_onnx(model)
