"""Decoders without attention, as Mamba and RWKV: layers carry the latest columns and what a recurrence came to."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, VOCABULARY, TAPS = 32, 64, 4


def recurrent_decoder(
    layers: int = 2,
    tokens: str | int = "tokens",
    mask: str | int | None = None,
    names: tuple[str, str, str, str] = ("past_conv.%d", "present_conv.%d", "past_ssm.%d", "present_ssm.%d"),
) -> onnx.ModelProto:
    """Return a decoder of random weights whose layers are a causal convolution and a decaying sum of its results.

    Args:
        tokens: The axis of ``input_ids``.
        mask: The last axis of an ``attention_mask`` that the latest columns are multiplied by, if there is one.
        names: Of what layers are fed back, by the layer.
    """
    random, of = np.random.default_rng(3), helper.make_node
    constants, nodes = dict[str, np.ndarray](), list[onnx.NodeProto]()
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", tokens])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", tokens, VOCABULARY])]
    if mask is not None:
        # Sliced from behind, a mask of all tokens is that of the new ones.
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", mask]))
        constants |= {"count": np.array([1]), "first": np.array([0]), "last": np.array([1])}
        nodes += [
            of("Shape", ["input_ids"], ["asked"], start=1, end=2),
            of("Neg", ["asked"], ["from"]),
            of("Slice", ["attention_mask", "from", "end", "last"], ["own"]),
            of("Cast", ["own"], ["read"], to=TensorProto.FLOAT),
            of("Unsqueeze", ["read", "minus"], ["kept"]),
        ]
        constants["minus"] = np.array([-1])
    constants |= {
        "embedding": random.standard_normal((VOCABULARY, WIDTH)).astype(np.float32),
        "end": np.array([1 << 40]),
    }
    constants |= {"begin": np.array([1 - TAPS]), "axis": np.array([2])}
    nodes.append(of("Gather", ["embedding", "input_ids"], ["x0"]))
    for i in range(layers):
        past_conv, present_conv, past_sum, present_sum = (name % i for name in names)
        x = f"x{i}"
        if mask is not None:
            nodes.append(of("Mul", [x, "kept"], [x := f"read{i}"]))
        constants[f"taps{i}"] = random.standard_normal((WIDTH, 1, TAPS)).astype(np.float32) / TAPS
        constants[f"decay{i}"] = random.uniform(0.5, 0.95, WIDTH).astype(np.float32)
        nodes += [
            of("Transpose", [x], [f"columns{i}"], perm=[0, 2, 1]),
            of("Concat", [past_conv, f"columns{i}"], [f"all{i}"], axis=2),
            of("Slice", [f"all{i}", "begin", "end", "axis"], [present_conv]),
            of("Conv", [f"all{i}", f"taps{i}"], [f"mixed{i}"], group=WIDTH),
            of("Transpose", [f"mixed{i}"], [f"steps{i}"], perm=[2, 0, 1]),
            of("Scan", [past_sum, f"steps{i}"], [present_sum, f"sums{i}"], num_scan_inputs=1, body=_body(i)),
            of("Transpose", [f"sums{i}"], [f"rows{i}"], perm=[1, 0, 2]),
            of("Tanh", [f"rows{i}"], [f"x{i + 1}"]),
        ]
        for name, made, shape in (
            (past_conv, present_conv, ["batch", WIDTH, TAPS - 1]),
            (past_sum, present_sum, ["batch", WIDTH]),
        ):
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            outputs.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, shape))
    constants["head"] = random.standard_normal((WIDTH, VOCABULARY)).astype(np.float32)
    nodes.append(of("MatMul", [f"x{layers}", "head"], ["logits"]))
    held = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _body(layer: int) -> onnx.GraphProto:
    """Return a step: the sum decays, and the step's row is added."""
    state, row = (helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("sum", "row"))
    made, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("new", "out"))
    nodes = [
        helper.make_node("Mul", ["sum", f"decay{layer}"], ["less"]),
        helper.make_node("Add", ["less", "row"], ["new"]),
        helper.make_node("Identity", ["new"], ["out"]),
    ]
    return helper.make_graph(nodes, "step", [state, row], [made, out])
