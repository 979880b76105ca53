"""Random calls of ONNX Runtime's own operators: attributes at their values, optional inputs in their combinations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.decoder_cases import (
    crop_and_resize,
    decoder_attention,
    expand_dims,
    gated_add,
    gated_rms_norm,
    linear_attention_gate,
    m_rotary_embedding,
    matmul_integer_16,
    moe,
    ngram_repeat_block,
    scaled_silu,
    unfold_tensor,
)
from tests.support.drawing import INT, Array, Call, Draw, F
from tests.support.quantised_cases import (
    dequantize,
    dynamic_quantize_lstm,
    dynamic_quantize_matmul,
    gather_block_quantized,
    matmul_integer_to_float,
    matmul_n_bits,
    nhwc_max_pool,
    qgemm,
    qlinear_average_pool,
    qlinear_binary,
    qlinear_concat,
    qlinear_global_average_pool,
    qlinear_leaky_relu,
    qlinear_softmax,
    qlinear_unary,
    qlinear_where,
    quantize,
)


def unary(d: Draw) -> Call:
    """Return a call with one input of any shape."""
    return Call((d.normal(*(d.size() for _ in range(d.size(0, 4)))),), {})


def quick_gelu(d: Draw) -> Call:
    """Return a call of QuickGelu."""
    return Call((d.normal(d.size(), d.size()),), d.some(alpha=(0.0, 1.0, 1.702, -2.5)))


def bias_gelu(d: Draw) -> Call:
    """Return a call of BiasGelu."""
    n = d.size()
    return Call((d.normal(*(d.size(),) * d.size(0, 3), n), d.normal(n)), {})


def fast_gelu(d: Draw) -> Call:
    """Return a call of FastGelu."""
    n = d.size()
    return Call((d.normal(*(d.size(),) * d.size(0, 3), n), d.maybe(lambda: d.normal(n))), {})


def fused_matmul(d: Draw) -> Call:
    """Return a call of FusedMatMul: transposes of matrices and of batches."""
    m, k, n = d.size(), d.size(), d.size()
    batch = tuple(d.size() for _ in range(d.size(0, 2)))
    attributes = d.some(alpha=(0.5, -2.0, 0.0), transA=(0, 1), transB=(0, 1))
    if batch and d.size(0, 1):
        attributes |= d.some(transBatchA=(0, 1), transBatchB=(0, 1))

    def matrix(rows: int, columns: int, side: str) -> Array:
        if attributes.get(f"trans{side}", 0):
            rows, columns = columns, rows
        shape = (rows, *batch, columns) if attributes.get(f"transBatch{side}", 0) else (*batch, rows, columns)
        return d.normal(*shape)

    return Call((matrix(m, k, "A"), matrix(k, n, "B")), attributes)


def fused_gemm(d: Draw) -> Call:
    """Return a call of FusedGemm with each activation and its parameters."""
    m, k, n = d.size(), d.size(), d.size()
    attributes = d.some(alpha=(0.5, -2.0), beta=(0.5, 0.0, -1.5), transA=(0, 1), transB=(0, 1))
    attributes["activation"] = d.one(
        "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign"
    )
    if attributes["activation"] in ("LeakyRelu", "Elu", "HardSigmoid"):
        attributes |= d.some(activation_alpha=(0.1, 0.7))
    if attributes["activation"] == "HardSigmoid":
        attributes |= d.some(activation_beta=(0.1, 0.7))
    a = d.normal(*((k, m) if attributes.get("transA") else (m, k)))
    b = d.normal(*((n, k) if attributes.get("transB") else (k, n)))
    c = d.maybe(lambda: d.normal(*d.one((n,), (1, n), (m, 1), (m, n), (1,), ())))
    return Call((a, b, c), attributes)


def fused_conv(d: Draw) -> Call:
    """Return a call of FusedConv: pads, strides, groups, a sum and an activation."""
    groups = d.one(1, 1, 2)
    channels, makes = groups * d.size(1, 3), groups * d.size(1, 3)
    kernel, size = (d.size(1, 3), d.size(1, 3)), (d.size(4, 8), d.size(4, 8))
    attributes = d.some(strides=((1, 1), (2, 1), (2, 2)), dilations=((1, 1), (1, 2)))
    attributes |= {"group": groups, "activation": d.one("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid")}
    attributes |= d.one({"pads": (1, 0, 1, 2)}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "VALID"}, {})
    if attributes.get("auto_pad") == "SAME_UPPER":
        attributes.pop("dilations", None)
    parameters = {"LeakyRelu": [0.2], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]}
    if attributes["activation"] in parameters:
        attributes["activation_params"] = parameters[attributes["activation"]]
    x, w = d.normal(d.size(1, 2), channels, *size), d.normal(makes, channels // groups, *kernel)
    return Call((x, w, d.maybe(lambda: d.normal(makes))), attributes)


def skip_layer_normalization(d: Draw) -> Call:
    """Return a call of SkipLayerNormalization."""
    batch, rows, n = d.size(1, 3), d.size(), d.size(2, 8)
    skip = d.one((batch, rows, n), (1, rows, n), (rows, n))
    optional = d.maybe(lambda: d.normal(n)), d.maybe(lambda: d.normal(n))
    inputs = (d.normal(batch, rows, n), d.normal(*skip), d.normal(n), *optional)
    return Call(inputs, d.some(epsilon=(1e-5, 0.1, 0.0)), d.one(1, 2, 3, 4))


def skip_simplified(d: Draw) -> Call:
    """Return a call of SkipSimplifiedLayerNormalization."""
    whole = skip_layer_normalization(d)
    return Call((*whole.inputs[:3], whole.inputs[4]), whole.attributes, whole.outputs)


def attention(d: Draw) -> Call:
    """Return a call of Attention: masks of each form, a past, a bias of the scores."""
    batch, tokens, heads, size, width = d.size(1, 3), d.size(1, 5), d.size(1, 3), d.size(1, 4), d.size(1, 6)
    past = d.one(0, 0, d.size(1, 3))
    keys, hidden = tokens + past, heads * size
    attributes = {"num_heads": heads}
    attributes |= d.some(unidirectional=(0, 1), scale=(0.3, 1.0), mask_filter_value=(-3.0, -1e9))
    value = hidden
    if not past and d.size(0, 1):
        value = heads * d.size(1, 4)
        attributes["qkv_hidden_sizes"] = [hidden, hidden, value]
    masks = (
        None,
        lambda: d.integers(1, keys + 1, batch, INT),
        lambda: np.concatenate([d.integers(1, keys + 1, batch, INT), np.zeros(batch, INT)]),
        lambda: d.mask(batch, keys),
        lambda: d.mask(batch, tokens, keys),
        lambda: d.mask(batch, 1, keys + 2, keys + 2),
    )
    mask = d.one(*masks)
    bias = d.maybe(lambda: d.normal(d.one(1, batch), d.one(1, heads), tokens, keys))
    inputs = (
        d.normal(batch, tokens, width),
        d.normal(width, 2 * hidden + value),
        d.normal(2 * hidden + value),
        None if mask is None else mask(),
        d.normal(2, batch, heads, past, size) if past else None,
        bias,
    )
    return Call(inputs, attributes, 2 if past else d.one(1, 1, 2) if value == hidden else 1)


def multi_head_attention(d: Draw) -> Call:
    """Return a call of MultiHeadAttention: packed and crossed forms, a bias, masks, a past."""
    batch, tokens, heads, size = d.size(1, 2), d.size(1, 4), d.size(1, 3), d.size(1, 4)
    form = d.one("own", "crossed", "packed", "packed keys", "heads")
    others, value = (tokens, size) if form in ("own", "packed") else (d.size(1, 5), size)
    if form in ("own", "crossed") and d.size(0, 1):
        value = d.size(1, 4)
    hidden, past = heads * size, d.one(0, 0, d.size(1, 3)) if form == "own" and value == size else 0
    keys = others + past
    inputs: list[Array | None] = {
        "own": lambda: [*(d.normal(batch, tokens, hidden) for _ in "qk"), d.normal(batch, tokens, heads * value)],
        "crossed": lambda: [
            d.normal(batch, tokens, hidden),
            d.normal(batch, others, hidden),
            d.normal(batch, others, heads * value),
        ],
        "packed": lambda: [d.normal(batch, tokens, heads, 3, size), None, None],
        "packed keys": lambda: [d.normal(batch, tokens, hidden), d.normal(batch, others, heads, 2, size), None],
        "heads": lambda: [d.normal(batch, tokens, hidden), *(d.normal(batch, heads, others, size) for _ in "kv")],
    }[form]()
    inputs.append(d.maybe(lambda: d.normal(2 * hidden + heads * value)) if form in ("own", "crossed") else None)
    mask = d.one(
        None,
        lambda: d.integers(1, keys + 1, batch, INT),
        lambda: d.mask(batch, keys),
        lambda: d.mask(batch, tokens, keys),
    )
    inputs.append(None if mask is None else mask())
    inputs.append(d.maybe(lambda: d.normal(d.one(1, batch), d.one(1, heads), tokens, keys)))
    inputs += [d.normal(batch, heads, past, size) for _ in "kv"] if past else []
    attributes = {"num_heads": heads, **d.some(unidirectional=(0, 1), scale=(0.3,), mask_filter_value=(-3.0, -1e9))}
    return Call(tuple(inputs), attributes, 3 if past or (d.size(0, 1) and form == "own") else 1)


def rotary_embedding(d: Draw) -> Call:
    """Return a call of RotaryEmbedding: three and four axes, positions of each form."""
    batch, tokens, heads, half = d.size(1, 2), d.size(1, 4), d.size(1, 3), d.size(1, 4)
    most = tokens + 3
    size, partial = 2 * half, bool(d.size(0, 1))
    whole = size + 2 * d.size(1, 2) if partial else size
    shape = d.one((batch, tokens, heads * whole), (batch, heads, tokens, whole))
    attributes = d.some(interleaved=(0, 1))
    if partial:
        attributes |= {"rotary_embedding_dim": size, "num_heads": heads}
    elif d.size(0, 1):
        attributes["num_heads"] = heads
    places = d.one(lambda: d.integers(0, 3, 1), lambda: d.integers(0, most, (batch, tokens)))()
    return Call((d.normal(*shape), places, d.normal(most, half), d.normal(most, half)), attributes)


def embed_layer_normalization(d: Draw) -> Call:
    """Return a call of EmbedLayerNormalization: segments, a mask, places."""
    batch, tokens, n, words = d.size(1, 3), d.size(1, 4), d.size(2, 6), d.size(2, 6)
    segments = d.size(0, 1)
    inputs = (
        d.integers(0, words, (batch, tokens), INT),
        d.integers(0, 2, (batch, tokens), INT) if segments else None,
        d.normal(words, n),
        d.normal(tokens + 2, n),
        d.normal(2, n) if segments else None,
        d.normal(n),
        d.normal(n),
        d.maybe(lambda: (np.arange(tokens) < d.integers(1, tokens + 1, (batch, 1))).astype(INT)),
        d.maybe(lambda: d.integers(0, tokens, (d.one(1, batch), tokens), INT)),
    )
    return Call(inputs, d.some(epsilon=(1e-5, 0.1)), d.one(2, 3))


def grid_sample(d: Draw) -> Call:
    """Return a call of GridSample."""
    batch = d.size(1, 2)
    x = d.normal(batch, d.size(1, 3), d.size(2, 5), d.size(2, 5))
    grid = np.asarray(d.rng.uniform(-1.4, 1.4, (batch, d.size(), d.size(), 2)), F)
    attributes = d.some(align_corners=(0, 1), mode=("bilinear", "nearest", "bicubic"))
    return Call((x, grid), attributes | d.some(padding_mode=("zeros", "border", "reflection")))


def cdist(d: Draw) -> Call:
    """Return a call of CDist."""
    n = d.size()
    return Call((d.normal(d.size(), n), d.normal(d.size(), n)), {"metric": d.one("euclidean", "sqeuclidean")})


def trilu(d: Draw) -> Call:
    """Return a call of Trilu."""
    shape = tuple(d.size() for _ in range(d.size(2, 4)))
    return Call((d.normal(*shape), d.maybe(lambda: d.integers(-5, 6))), d.some(upper=(0, 1)), constant=(1,))


def inverse(d: Draw) -> Call:
    """Return a call of Inverse."""
    n = d.size()
    return Call((d.normal(*(d.size(1, 2),) * d.size(0, 2), n, n) + 4 * np.eye(n, dtype=F),), {})


def pad(d: Draw) -> Call:
    """Return a call of Pad: modes, negative pads, a value."""
    shape = tuple(d.size(3, 5) for _ in range(d.size(1, 3)))
    mode = d.one("constant", "reflect", "edge")
    pads = d.integers(-1 if mode == "constant" else 0, 3, 2 * len(shape))
    value = d.maybe(lambda: d.normal(1)) if mode == "constant" else None
    return Call((d.normal(*shape), pads, value), {"mode": mode}, constant=(1, 2))


CALLS: dict[str, Callable[[Draw], Call]] = {
    "Attention": attention,
    "BiasGelu": bias_gelu,
    "CDist": cdist,
    "CropAndResize": crop_and_resize,
    "DecoderMaskedMultiHeadAttention": decoder_attention,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "EmbedLayerNormalization": embed_layer_normalization,
    "ExpandDims": expand_dims,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "GatedAdd": gated_add,
    "GatedRMSNorm": gated_rms_norm,
    "GatherBlockQuantized": gather_block_quantized,
    "Gelu": unary,
    "GridSample": grid_sample,
    "Inverse": inverse,
    "LinearAttentionGate": linear_attention_gate,
    "MRotaryEmbedding": m_rotary_embedding,
    "MatMulInteger16": matmul_integer_16,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MatMulNBits": matmul_n_bits,
    "MoE": moe,
    "MultiHeadAttention": multi_head_attention,
    "NGramRepeatBlock": ngram_repeat_block,
    "NhwcMaxPool": nhwc_max_pool,
    "Pad": pad,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_binary,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearLeakyRelu": qlinear_leaky_relu,
    "QLinearMul": qlinear_binary,
    "QLinearSigmoid": qlinear_unary,
    "QLinearSoftmax": qlinear_softmax,
    "QLinearWhere": qlinear_where,
    "QuantizeLinear": quantize,
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": rotary_embedding,
    "ScaledSiLU": scaled_silu,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified,
    "Trilu": trilu,
    "UnfoldTensor": unfold_tensor,
}
"""What draws a call, by operators of ``com.microsoft``."""
