"""Valid values of ONNX attributes: the constraints of the operators' documentation beyond types.

Schemas of the onnx package know names and types of attributes, not that a stride of 0 or a ``ceil_mode`` of 7 means
nothing. The rules go by the attribute's name where that means the same everywhere, else by operator and name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan
from typing import Any

from clgraph.frontend.protobuf import AttributeProto, onnx

Rule = Callable[[Any], str | None]
"""Returns what was wanted of a value that does not fit, ``None`` for one that does."""

_FLOATING = (AttributeProto.FLOAT, AttributeProto.FLOATS)
"""Types of attributes that have to be finite where no rule says otherwise."""


def value_problem(op_type: str, attribute: onnx.AttributeProto) -> str | None:
    """Return why the value of an attribute means nothing to an operator of ONNX's own, ``None`` where it does."""
    rule = _BY_OPERATOR.get((op_type, attribute.name)) or _BY_NAME.get(attribute.name)
    if rule is None and attribute.type not in _FLOATING:
        return None
    value = plain_value(attribute)
    if value is None:
        return None
    wanted = _finite(value) if rule is None else rule(value)
    return None if wanted is None else f"attribute {attribute.name!r} is {_spell(value)}; expected {wanted}"


def plain_value(attribute: onnx.AttributeProto) -> Any:
    """Return a number, a text or a tuple of numbers; ``None`` for what is neither."""
    match attribute.type:
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
    return None


def _spell(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _finite(value: Any) -> str | None:
    numbers = value if isinstance(value, tuple) else (value,)
    return None if all(map(isfinite, numbers)) else "a finite number"


def _number(value: Any) -> str | None:
    return "a number" if isnan(value) else None


def _nonzero(value: Any) -> str | None:
    return _finite(value) or (None if value else "a number but 0")


def _any(value: Any) -> str | None:
    return None


def _one_of(*choices: Any) -> Rule:
    listed = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
    return lambda value: None if value in choices else listed


def _at_least(least: float) -> Rule:
    def rule(value: Any) -> str | None:
        numbers = value if isinstance(value, tuple) else (value,)
        return None if all(least <= n < float("inf") for n in numbers) else f"at least {least:g}"

    return rule


_FLAG = _one_of(0, 1)
_POSITIVE, _NATURAL = _at_least(1), _at_least(0)

_FLAGS = (
    *("align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad"),
    *("detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved"),
    *("inverse", "is_causal", "keepdims", "largest", "layout", "linear_before_reset", "new_axis"),
    *("noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate", "select_last_index", "sorted", "spatial"),
    *("storage_order", "training_mode", "transA", "transB", "upper"),
)

_BY_NAME: Mapping[str, Rule] = {
    **dict.fromkeys(_FLAGS, _FLAG),
    **dict.fromkeys(("kernel_shape", "strides", "dilations", "pooled_shape"), _POSITIVE),
    **dict.fromkeys(("group", "offset_group", "num_groups", "blocksize", "hidden_size", "num_outputs"), _POSITIVE),
    **dict.fromkeys(("output_height", "output_width", "p"), _POSITIVE),
    **dict.fromkeys(("epsilon", "clip", "sampling_ratio", "batch_dims", "block_size", "output_padding"), _NATURAL),
    **dict.fromkeys(("num_heads", "q_num_heads", "kv_num_heads", "rotary_embedding_dim", "softcap"), _NATURAL),
    "auto_pad": _one_of("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""),
    "approximate": _one_of("none", "tanh"),
    "keep_aspect_ratio_policy": _one_of("stretch", "not_larger", "not_smaller"),
    "nearest_mode": _one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"),
    "padding_mode": _one_of("zeros", "border", "reflection"),
    "reduction": _one_of("none", "add", "mul", "max", "min"),
    "round_mode": _one_of("up", "down", "nearest"),
    "qk_matmul_output_mode": _one_of(0, 1, 2, 3),
}

_DIRECTION = _one_of("forward", "reverse", "bidirectional")

_BY_OPERATOR: Mapping[tuple[str, str], Rule] = {
    ("BitShift", "direction"): _one_of("LEFT", "RIGHT"),
    ("CausalConvWithState", "activation"): _one_of("none", "silu", "swish"),
    ("Celu", "alpha"): _nonzero,
    ("Clip", "min"): _number,
    ("Clip", "max"): _number,
    ("DepthToSpace", "mode"): _one_of("DCR", "CRD"),
    ("GridSample", "mode"): _one_of("linear", "bilinear", "nearest", "cubic", "bicubic"),
    ("GRU", "direction"): _DIRECTION,
    ("LinearAttention", "update_rule"): _one_of("linear", "gated", "delta", "gated_delta"),
    ("LRN", "size"): _POSITIVE,
    ("LSTM", "direction"): _DIRECTION,
    ("Imputer", "replaced_value_float"): _any,
    ("LabelEncoder", "default_float"): _any,
    ("LabelEncoder", "keys_floats"): _any,
    ("LabelEncoder", "values_floats"): _any,
    ("LpNormalization", "p"): _one_of(1, 2),
    ("Pad", "mode"): _one_of("constant", "reflect", "edge", "wrap"),
    ("NegativeLogLikelihoodLoss", "reduction"): _one_of("none", "sum", "mean"),
    ("Pad", "value"): _any,
    ("RNN", "direction"): _DIRECTION,
    ("Resize", "coordinate_transformation_mode"): _one_of(
        *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
        *("tf_crop_and_resize", "tf_half_pixel_for_nn"),
    ),
    ("Resize", "mode"): _one_of("nearest", "linear", "cubic"),
    ("RoiAlign", "coordinate_transformation_mode"): _one_of("half_pixel", "output_half_pixel"),
    ("RoiAlign", "mode"): _one_of("avg", "max"),
    ("Scan", "num_scan_inputs"): _POSITIVE,
    ("SoftmaxCrossEntropyLoss", "reduction"): _one_of("none", "sum", "mean"),
    ("SpaceToDepth", "mode"): _one_of("DCR", "CRD"),
    ("TensorScatter", "mode"): _one_of("linear", "circular"),
    ("ThresholdedRelu", "alpha"): _number,
    ("TreeEnsembleClassifier", "nodes_hitrates"): _any,
    ("TreeEnsembleClassifier", "nodes_values"): _any,
    ("TreeEnsembleRegressor", "nodes_hitrates"): _any,
    ("TreeEnsembleRegressor", "nodes_values"): _any,
    ("Upsample", "mode"): _one_of("nearest", "linear", "bilinear"),
}
