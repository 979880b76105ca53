"""What ONNX Runtime's optimiser and quantiser write and onnx does not know: the signatures of its own operators.

They are ONNX Runtime's schemas, which ``tests/frontend/test_microsoft.py`` compares with. A text has the letters of the
inputs' types, ``?`` where one may be left out, ``*`` where it repeats and ``#`` where it is a sparse tensor, those of
the outputs, and the attributes with the kinds of their values, ``!`` where there must be one.
"""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.frontend.protobuf import AttributeProto, TensorProto
from clgraph.frontend.signatures import NO_LIMIT, OperatorSignature, Place
from clgraph.frontend.value_types import tensor_of
from clgraph.graph.importing import MICROSOFT

NCHWC = "com.microsoft.nchwc"

_FOREIGN: Mapping[str, str] = {
    "Affine": "T -> T | alpha:f beta:f",
    "Crop": "T -> T | border:I scale:I",
    "DynamicSlice": "T Tind Tind Tind? -> T",
    "ImageScaler": "T -> T | bias:F scale:f",
    "LayerNormalization": "T V V? -> V U? U? | axis:i epsilon:f stash_type:i",
    "ParametricSoftplus": "T -> T | alpha:f beta:f",
    "Scale": "T -> T | scale:f",
    "ScaledTanh": "T -> T | alpha:f beta:f",
    "SimplifiedLayerNormalization": "T V -> V U? | axis:i epsilon:f stash_type:i",
}
"""Operators that ONNX Runtime has in ONNX's domain, whatever the version of the operator set."""

_MICROSOFT: Mapping[str, str] = {
    "Attention": "T T T? M? T? T? M? -> T T? | do_rotary:i mask_filter_value:f num_heads:i! "
    "past_present_share_buffer:i qkv_hidden_sizes:I rotary_embedding_dim:i scale:f unidirectional:i",
    "BeamSearch": "F I I? I I T? T? M? M? I? I? I? -> I T? T? | decoder:g! decoder_start_token_id:i early_stopping:i "
    "encoder:g eos_token_id:i! init_decoder:g model_type:i no_repeat_ngram_size:i pad_token_id:i! vocab_size:i",
    "BiasAdd": "T T T -> T",
    "BiasGelu": "T T -> T",
    "BiasSplitGelu": "T T -> T",
    "CDist": "T T -> T | metric:s",
    "ConvTransposeWithDynamicPads": "T T tensor(int64)? T? -> T | auto_pad:s dilations:I group:i kernel_shape:I "
    "output_padding:I strides:I",
    "CropAndResize": "T1 T1 T2 T2 -> T1 | extrapolation_value:f mode:s",
    "DecoderMaskedMultiHeadAttention": "T T? T? M? T? T? T? M? M? M? T? -> T T? T? QK? | mask_filter_value:f "
    "num_heads:i! output_qk:i past_present_share_buffer:i scale:f",
    "DequantizeLinear": "T1 T2 T1? -> T2 | axis:i",
    "DynamicQuantizeLSTM": "T T2 T2 T? T1? T? T? T? T T2 T T2 -> T? T? T? | activation_alpha:F activation_beta:F "
    "activations:S clip:f direction:s hidden_size:i input_forget:i",
    "DynamicQuantizeMatMul": "T1 T2 T1 T2? T1? -> T1",
    "DynamicTimeWarping": "F -> I",
    "EmbedLayerNormalization": "T1 T1? T T T? T T T1? T1? -> T T1? T? | epsilon:f mask_index_type:i",
    "ExpandDims": "T tensor(int32) -> T",
    "FastGelu": "T T? -> T",
    "FusedConv": "T T T? T? -> T | activation:s activation_params:F auto_pad:s dilations:I group:i kernel_shape:I "
    "pads:I strides:I",
    "FusedGemm": "T T T? -> T | activation:s activation_alpha:f activation_beta:f activation_gamma:f alpha:f beta:f "
    "transA:i transB:i",
    "FusedMatMul": "T T -> T | alpha:f transA:i transB:i transBatchA:i transBatchB:i",
    "FusedMatMulActivation": "T T -> T | activation:s! activation_alpha:f activation_axis:i activation_beta:f "
    "activation_gamma:f alpha:f transA:i transB:i transBatchA:i transBatchB:i",
    "GatedAdd": "T T T T? -> T",
    "GatedRMSNorm": "T T T -> T | activation:s epsilon:f",
    "GatherBlockQuantized": "T1 Tind T2 T1? -> T2 | bits:i block_size:i gather_axis:i quantize_axis:i",
    "GatherND": "T Tind -> T",
    "Gelu": "T -> T",
    "GreedySearch": "I I I? T? I? I? I? -> I | decoder:g! decoder_start_token_id:i encoder:g eos_token_id:i! "
    "init_decoder:g model_type:i no_repeat_ngram_size:i pad_token_id:i! vocab_size:i",
    "GridSample": "T1 T1 -> T2 | align_corners:i mode:s padding_mode:s",
    "GroupNorm": "T M M -> T | activation:i! channels_last:i epsilon:f groups:i!",
    "GroupQueryAttention": "T T? T? T_CACHE? T_CACHE? M M T? T? tensor(int64)? T? T? T_KV_SCALE? T_KV_SCALE? T? T? M? "
    "-> T T_CACHE? T_CACHE? T? | causal:i do_rotary:i k_norm_epsilon:f k_quant_type:s kv_cache_bit_width:i "
    "kv_num_heads:i! local_window_size:i num_heads:i! q_norm_epsilon:f qk_norm_epsilon:f qk_output:i "
    "rotary_interleaved:i scale:f sliding_window_cache:i smooth_softmax:i softcap:f v_quant_type:s",
    "Inverse": "T -> T",
    "LinearAttention": "T T T S? T? T? -> T S | chunk_size:i kv_num_heads:i! q_num_heads:i! scale:f state_window:i "
    "update_rule:s",
    "LinearAttentionGate": "T TF TF T? -> T T?",
    "MRotaryEmbedding": "T M T T -> T | interleaved:i is_packed_batching:i mrope_layout:i mrope_section:I! "
    "num_heads:i rotary_embedding_dim:i scale:f",
    "MatMulBnb4": "T1 T2 T1 -> T1 | K:i! N:i! block_size:i! quant_type:i! training_mode:i transB:i",
    "MatMulInteger16": "T1 T2 -> T3",
    "MatMulIntegerToFloat": "T1 T2 T3 T3 T1? T2? T3? -> T3",
    "MatMulNBits": "T1 T2 T1 T3? T4? T1? -> T1 | K:i! N:i! accuracy_level:i bits:i block_size:i! weight_prepacked:i",
    "MoE": "T T T T? T T? T? T? -> T | activation_alpha:f activation_beta:f activation_type:s k:i "
    "normalize_routing_weights:i swiglu_fusion:i swiglu_limit:f swiglu_limit_after_activation:i use_sparse_mixer:i",
    "MultiHeadAttention": "T T? T? T? M? T? T? T? M? M? -> T T? T? QK? | mask_filter_value:f num_heads:i! scale:f "
    "unidirectional:i",
    "MurmurHash3": "T1 -> T2 | positive:i seed:i",
    "NGramRepeatBlock": "Tid T -> T | ngram_size:i!",
    "NhwcConv": "T T T? -> T | auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I",
    "NhwcFusedConv": "T T T? T? -> T | activation:s activation_params:F auto_pad:s dilations:I group:i kernel_shape:I "
    "pads:I strides:I",
    "NhwcMaxPool": "T -> T | auto_pad:s ceil_mode:i dilations:I kernel_shape:I! pads:I strides:I",
    "Pad": "T tensor(int64) T? -> T | mode:s",
    "QAttention": "T1 T2 T3 T3 T3 T4? T1? T2? T3? -> T3 T3? | do_rotary:i mask_filter_value:f num_heads:i! "
    "past_present_share_buffer:i scale:f unidirectional:i",
    "QEmbedLayerNormalization": "T1 T1? T2 T2 T2? T2 T2 T1? T T T? T T T2 T2 T2? T2 T2 -> T T1 | epsilon:f",
    "QGemm": "TA T TA TB T TB TC? T? TYZ? -> TY | alpha:f transA:i transB:i",
    "QLinearAdd": "T tensor(float) T? T tensor(float) T? tensor(float) T? -> T",
    "QLinearAveragePool": "T tensor(float) T? tensor(float) T? -> T | auto_pad:s ceil_mode:i channels_last:i "
    "count_include_pad:i kernel_shape:I! pads:I strides:I",
    "QLinearConcat": "TF T8 TV** -> T8 | axis:i!",
    "QLinearConv": "T1 tensor(float) T1 T2 tensor(float) T2 tensor(float) T3 T4? -> T3 | auto_pad:s channels_last:i "
    "dilations:I group:i kernel_shape:I pads:I strides:I",
    "QLinearGlobalAveragePool": "T tensor(float) T tensor(float) T -> T | channels_last:i",
    "QLinearLeakyRelu": "T tensor(float) T? tensor(float) T? -> T | alpha:f",
    "QLinearMul": "T tensor(float) T? T tensor(float) T? tensor(float) T? -> T",
    "QLinearReduceMean": "T tensor(float) T? tensor(float) T? -> T | axes:I! keepdims:i!",
    "QLinearSigmoid": "T tensor(float) T? tensor(float) T? -> T",
    "QLinearSoftmax": "T tensor(float) T? tensor(float) T -> T | axis:i opset:i!",
    "QLinearWhere": "B T TF T T TF T TF T -> T",
    "QMoE": "T T T1 T2? T? T1 T2? T? T1? T2? T? T1? T1? T1? T? T4? T4? T4? T4? T2? T2? -> T | accuracy_level:i "
    "activation_alpha:f activation_beta:f activation_type:s block_size:i expert_weight_bits:i "
    "fc1_expert_weight_bits:i fc2_expert_weight_bits:i fc3_expert_weight_bits:i k:i normalize_routing_weights:i "
    "quant_type:s swiglu_fusion:i swiglu_limit:f swiglu_limit_after_activation:i use_sparse_mixer:i "
    "weights_prepacked:i",
    "QuantizeLinear": "T1 T1 T2? -> T2 | axis:i",
    "QuickGelu": "T -> T | alpha:f",
    "Range": "T T T? -> T",
    "RotaryEmbedding": "T M T T -> T | interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
    "ScaledSiLU": "T M? -> T | alpha:f",
    "SkipGroupNorm": "T M M T T? -> T T? | activation:i! channels_last:i epsilon:f groups:i!",
    "SkipLayerNormalization": "T T T T? T? -> T U? U? T? | epsilon:f",
    "SkipSimplifiedLayerNormalization": "T T T T? -> T U? U? T? | epsilon:f",
    "SparseToDenseMatMul": "T# T1 -> T1 | alpha:f transA:i transB:i",
    "SwiGLU": "T T? -> T | activation_alpha:f activation_beta:f limit:f round_activation:i",
    "Tokenizer": "T -> T | mark:i! mincharnum:i! pad_value:s! separators:S tokenexp:s",
    "TransposeMatMul": "T T -> T | alpha:f transA:i transB:i",
    "Trilu": "T tensor(int64)? -> T | upper:i",
    "UnfoldTensor": "T -> T | dim:i size:i! step:i",
    "Unique": "T -> T tensor(int64) tensor(int64)",
}

_TENSORS = frozenset(filter(None, map(tensor_of, TensorProto.DataType.values())))
_SPARSE = frozenset(f"sparse_{tensor}" for tensor in _TENSORS)

_KINDS = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "g": AttributeProto.GRAPH,
    "F": AttributeProto.FLOATS,
    "I": AttributeProto.INTS,
    "S": AttributeProto.STRINGS,
}


def is_foreign(op_type: str, domain: str) -> bool:
    """Whether ONNX Runtime writes the operator in ONNX's domain under operator sets that do not have it."""
    return not domain and op_type in _FOREIGN


def microsoft_signature(op_type: str, domain: str) -> OperatorSignature | None:
    """Return the signature of an operator of ONNX Runtime's own, ``None`` where it is none that clgraph reads."""
    table = {"": _FOREIGN, MICROSOFT: _MICROSOFT}.get(domain, {})
    return _signature(op_type, table[op_type]) if op_type in table else None


def advice(domain: str) -> str | None:
    """Return what to do about operators of *domain* that clgraph cannot read, if there is something."""
    if domain == NCHWC:
        return (
            "onnxruntime has optimised the model at the level 'layout' or 'all', whose weights are in blocks for the "
            "processor of the machine that wrote it, which the file does not name: write it at the level 'extended'"
        )
    return None


def _signature(op_type: str, text: str) -> OperatorSignature:
    places, _, attributes = text.partition(" | ")
    inputs, outputs = (
        tuple(map(_place, letters.split())) if letters else () for letters in places.split(" -> ", maxsplit=1)
    )
    names = [a.partition(":") for a in attributes.split()]
    return OperatorSignature(
        op_type,
        inputs,
        outputs,
        _counts(inputs, places.partition(" -> ")[0]),
        _counts(outputs, places.partition(" -> ")[2]),
        {name: _KINDS[kind[0]] for name, _, kind in names},
        frozenset(name for name, _, kind in names if kind.endswith("!")),
    )


def _place(letter: str) -> Place:
    name = letter.rstrip("?*#")
    types = frozenset({name}) if name.startswith("tensor(") else _SPARSE if "#" in letter else _TENSORS
    return Place(name, types, "*" not in letter, letter.endswith("?"))


def _counts(places: tuple[Place, ...], letters: str) -> tuple[int, int]:
    """Return fewest and most: optional places at the end may be left out."""
    needed = [i for i, place in enumerate(places) if not place.optional]
    return max(needed, default=-1) + 1, NO_LIMIT if "*" in letters else len(places)
