"""A decoder with a causal convolution beside its attention, as LFM2 and Qwen 3.5 have, and three positions a token."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.decoder_weights import Decoder
from tests.support.decoders import MICROSOFT, decoder_model

PAST, PRESENT = "past.7.conv", "present.7.conv"
"""What is carried beside the caches: the latest columns ``[texts, width, 2]`` of what the convolution reads."""

EMBEDDED = "embedded"


def hybrid_model(d: Decoder) -> onnx.ModelProto:
    """Return the decoder *d*, of the export ``genai``, with a convolution of three tokens behind the embedding.

    The sum of ``position_ids`` ``[3, texts, tokens]`` is added to each token.
    """
    model = decoder_model(d)
    graph = model.graph
    embedding = next(node for node in graph.node if node.op_type == "Gather" and node.input[1] == "input_ids")
    result, embedding.output[0] = embedding.output[0], EMBEDDED
    weights = np.random.default_rng(d.seed).standard_normal((d.width, 1, 3)).astype(d.dtype)
    graph.initializer.append(numpy_helper.from_array(weights, "conv.weight"))
    graph.initializer.extend([_ints("first", [0]), _ints("last", [-1])])
    texts, tokens = "batch_size", "sequence_length"
    graph.value_info.append(helper.make_tensor_value_info("columns", TensorProto.FLOAT, [texts, d.width, tokens]))
    at = list(graph.node).index(embedding) + 1
    of = helper.make_node
    nodes = [
        of("Cast", ["position_ids"], ["places"], to=TensorProto.FLOAT),
        of("ReduceSum", ["places", "first"], ["place"], keepdims=0),
        of("Unsqueeze", ["place", "last"], ["place_of_token"]),
        of("Add", [EMBEDDED, "place_of_token"], ["placed"]),
        of("Transpose", ["placed"], ["columns"], perm=[0, 2, 1]),
        of("CausalConvWithState", ["columns", "conv.weight", "", PAST], ["mixed", PRESENT], domain=MICROSOFT, ndim=1),
        of("Transpose", ["mixed"], [result], perm=[0, 2, 1]),
    ]
    for i, node in enumerate(nodes):
        graph.node.insert(at + i, node)
    state = [texts, d.width, 2]
    graph.input.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, [3, texts, tokens]))
    graph.input.append(helper.make_tensor_value_info(PAST, TensorProto.FLOAT, state))
    graph.output.append(helper.make_tensor_value_info(PRESENT, TensorProto.FLOAT, state))
    return model


def hybrid_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return *config*, the content of ``genai_config.json``, with the names of what is carried."""
    decoder = config["model"]["decoder"]
    decoder["inputs"] |= {"position_ids": "position_ids", "past_conv_names": PAST.replace("7", "%d")}
    decoder["outputs"] |= {"present_conv_names": PRESENT.replace("7", "%d")}
    return config


def _ints(name: str, values: list[int]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)
