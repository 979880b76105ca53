"""Random calls of ONNX Runtime's operators of decoders and detectors: experts, gates, places, boxes, n-grams."""

from __future__ import annotations

import numpy as np

from tests.support.drawing import INT, Call, Draw, F


def crop_and_resize(d: Draw) -> Call:
    """Return a call of CropAndResize with boxes in the image, beyond it and turned around."""
    count, boxes = d.size(1, 3), d.size(1, 4)
    inputs = (
        d.normal(count, d.size(1, 3), d.size(), d.size()),
        np.asarray(d.rng.uniform(-0.2, 1.2, (boxes, 4)), F),
        d.integers(0, count, boxes, INT),
        d.integers(1, 5, 2, INT),
    )
    attributes = d.some(mode=("bilinear", "nearest"), extrapolation_value=(0.0, -3.5))
    return Call(inputs, attributes, constant=(3,))


def decoder_attention(d: Draw) -> Call:
    """Return a call of DecoderMaskedMultiHeadAttention: of a token to those of a buffer, of beams or not; to others."""
    texts, beams, heads, size, past = d.size(1, 2), d.size(1, 3), d.size(1, 3), d.size(1, 4), d.size(0, 4)
    batch, hidden, crossed = texts * beams, heads * size, d.size(0, 1)
    keys = past + 1
    most = keys if crossed else keys + d.size(0, 3)
    before = [d.normal(batch, heads, most, size) for _ in "kv"]
    of_beams = not crossed and bool(d.size(0, 1))
    inputs = (
        d.normal(batch, 1, hidden),
        *(before if crossed else (d.normal(batch, 1, hidden) for _ in "kv")),
        d.maybe(lambda: d.mask(batch, keys)),
        None if crossed else d.maybe(lambda: d.normal(1, heads, 1, keys)),
        *((None, None) if crossed else before),
        None if crossed else np.asarray([past], INT),
        np.asarray([beams], INT) if of_beams else None,
        d.integers(0, beams, (texts, beams, most), INT) if of_beams else None,
        d.maybe(lambda: d.normal(3 * hidden)),
    )
    attributes = {"num_heads": heads, "past_present_share_buffer": int(not crossed), **d.some(scale=(0.3,))}
    return Call(inputs, attributes, 1 if crossed else 3)


def expand_dims(d: Draw) -> Call:
    """Return a call of ExpandDims."""
    rank = d.size(0, 3)
    axis = np.asarray(d.size(-rank - 1, rank), INT)
    return Call((d.normal(*(d.size() for _ in range(rank))), axis), {}, constant=(1,))


def gated_add(d: Draw) -> Call:
    """Return a call of GatedAdd."""
    shape = (d.size(), d.size(), d.size())
    return Call((d.normal(*shape), d.normal(*shape), d.normal(*shape[:2], 1)), {})


def gated_rms_norm(d: Draw) -> Call:
    """Return a call of GatedRMSNorm, of heads that are packed or not."""
    size = d.size(2, 5)
    shape = (d.size(), d.size(), size * d.size(1, 3))
    attributes = d.some(activation=("silu", "swish", "sigmoid"), epsilon=(1e-6, 0.1))
    return Call((d.normal(*shape), d.normal(size), d.normal(*shape)), attributes)


def linear_attention_gate(d: Draw) -> Call:
    """Return a call of LinearAttentionGate."""
    heads = d.size()
    shape = (d.size(), d.size(), heads)
    both = d.size(0, 1)
    inputs = (d.normal(*shape), d.normal(heads), d.normal(heads), d.normal(*shape) if both else None)
    return Call(inputs, {}, 1 + both)


def m_rotary_embedding(d: Draw) -> Call:
    """Return a call of MRotaryEmbedding: three and four axes, columns in sections and in turns."""
    batch, tokens, heads = d.size(1, 2), d.size(1, 4), d.size(1, 3)
    layout = d.size(0, 1)
    sections = d.one((2, 1, 1), (1, 2, 2), (3, 3, 2)) if not layout else d.one((2, 2, 1), (2, 1, 1), (4, 3, 3))
    half = sum(sections)
    size, partial = 2 * half, bool(d.size(0, 1))
    whole = size + 2 * d.size(1, 2) if partial else size
    shape = d.one((batch, tokens, heads * whole), (batch, heads, tokens, whole))
    attributes = {"mrope_section": sections, "mrope_layout": layout, **d.some(interleaved=(0, 1))}
    if partial:
        attributes |= {"rotary_embedding_dim": size, "num_heads": heads}
    elif len(shape) == 3 or d.size(0, 1):
        attributes["num_heads"] = heads
    places = d.integers(0, 7, (3, batch, tokens))
    return Call((d.normal(*shape), places, d.normal(7, half), d.normal(7, half)), attributes)


def matmul_integer_16(d: Draw) -> Call:
    """Return a call of MatMulInteger16, whose sums may wrap."""
    m, k, n = d.size(), d.size(), d.size()
    return Call(tuple(d.integers(-32768, 32768, shape, np.int16) for shape in ((m, k), (k, n))), {})


def moe(d: Draw) -> Call:
    """Return a call of MoE: few rows and many, one expert and several, biases, each activation."""
    rows, experts, width, inner = d.size(1, 5), d.size(2, 6), d.size(2, 6), d.size(2, 6)
    attributes = {"k": d.size(1, 2), "activation_type": d.one("relu", "gelu", "silu", "identity", "swiglu")}
    attributes |= d.some(normalize_routing_weights=(0, 1))
    first = inner
    if attributes["activation_type"] == "swiglu":
        first = 2 * inner
        attributes |= {"swiglu_fusion": 1, **d.some(activation_alpha=(1.702,), activation_beta=(1.0,))}
        attributes |= d.some(swiglu_limit=(0.7, 7.0))
    x = d.normal(rows, width) if d.size(0, 1) else d.normal(1, rows, width)
    biases = (d.normal(experts, first), d.normal(experts, width)) if d.size(0, 1) else (None, None)
    layers = (d.normal(experts, first, width), biases[0], d.normal(experts, width, inner), biases[1])
    return Call((x, d.normal(rows, experts), *layers), attributes)


def ngram_repeat_block(d: Draw) -> Call:
    """Return a call of NGramRepeatBlock whose few words come again."""
    batch, words = d.size(1, 3), d.size(2, 5)
    inputs = (d.integers(0, words, (batch, d.size(1, 9))), d.normal(batch, words))
    return Call(inputs, {"ngram_size": d.size(1, 4)})


def scaled_silu(d: Draw) -> Call:
    """Return a call of ScaledSiLU, scaled by an attribute or an input."""
    scale = d.maybe(lambda: np.asarray(1.7, F))
    return Call((d.normal(d.size(), d.size()), scale), d.some(alpha=(0.5, -2.0)))


def unfold_tensor(d: Draw) -> Call:
    """Return a call of UnfoldTensor."""
    shape = tuple(d.size() for _ in range(d.size(1, 3)))
    axis = d.size(-len(shape), len(shape) - 1)
    attributes = {"size": d.size(1, shape[axis]), **d.some(step=(1, 2, 3))}
    return Call((d.normal(*shape),), attributes | ({"dim": axis} if axis != -1 or d.size(0, 1) else {}))
