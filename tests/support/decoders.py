"""Decoders of Llama's kind with random weights, in the forms that exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.support.decoder_weights import Decoder, Quantised

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], Sequence[Array]]
"""Returns a model's results in their order."""

EPSILON = 1e-5
MICROSOFT = "com.microsoft"


def decoder_model(d: Decoder) -> onnx.ModelProto:
    """Return the model: ``input_ids``, ``attention_mask`` and ``position_ids`` (not all in every export) and
    ``past_key_values.N.key`` and ``.value`` to ``logits``, ``present.N.key`` and ``.value``.
    """
    return {"genai": _GenAI, "onnx23": _Plain, "optimum": _Spelled}[d.export](d).model()


def decoder_feeds(d: Decoder, ids: Array, caches: Sequence[Array] = ()) -> dict[str, Array]:
    """Return the feeds of *ids* ``[batch][tokens]`` behind *caches*, a key and a value a layer; none at first."""
    batch, count = ids.shape
    empty = np.zeros((batch, d.shared, 0, d.head_size), d.dtype)
    caches = caches or [empty] * 2 * d.layers
    past = caches[0].shape[2]
    found = {"input_ids": ids.astype(np.int64)}
    if d.export != "onnx23":
        found["attention_mask"] = np.ones((batch, past + count), np.int64)
    if d.export != "genai":
        found["position_ids"] = np.tile(np.arange(past, past + count), (batch, 1))
    names = [f"past_key_values.{i}.{part}" for i in range(d.layers) for part in ("key", "value")]
    return found | dict(zip(names, caches, strict=True))


def greedy_tokens(run: Run, d: Decoder, prompt: Sequence[int], count: int) -> list[int]:
    """Return the *count* tokens of the greatest logits behind *prompt*, each fed back with the caches."""
    ids, caches, tokens = np.array([prompt]), [], []
    for _ in range(count):
        logits, *caches = run(decoder_feeds(d, ids, caches))
        tokens.append(int(logits[0, -1].argmax()))
        ids = np.array([tokens[-1:]])
    return tokens


def onnxruntime_run(model: onnx.ModelProto, threads: int = 1) -> Run:
    """Return ONNX Runtime's run of *model*; products with quantised weights are computed in floats."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: made.run(None, dict(feeds))


class _Export:
    """A decoder that is being written; what exports have in common."""

    opset, ir_version = 21, 10
    masked, placed = True, True

    def __init__(self, d: Decoder) -> None:
        self.d = d
        self.type = helper.np_dtype_to_tensor_dtype(np.dtype(d.dtype))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        d = self.d
        self.initialize("cos_cache", d.rotations()[0].astype(d.dtype))
        self.initialize("sin_cache", d.rotations()[1].astype(d.dtype))
        self.start()
        x = self.node(
            "Gather", self.float("model.embed_tokens.weight", d.embedding()), "input_ids", path="embed_tokens"
        )
        y = ""
        for i in range(d.layers):
            x, normed = self.residual(x, y, f"layers.{i}.input_layernorm")
            y = self.product(self.attention(i, normed), f"layers.{i}.attn.o_proj")
            x, normed = self.residual(x, y, f"layers.{i}.post_attention_layernorm")
            gate, up = (self.product(normed, f"layers.{i}.mlp.{part}_proj") for part in ("gate", "up"))
            opened = self.node("Mul", gate, self.node("Sigmoid", gate, path=f"layers.{i}.mlp.act_fn"))
            y = self.product(self.node("Mul", opened, up, path=f"layers.{i}.mlp"), f"layers.{i}.mlp.down_proj")
        _, normed = self.residual(x, y, f"layers.{d.layers}.final_norm_layernorm")
        self.product(normed, "lm_head", result="logits")
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        graph = helper.make_graph(self.nodes, d.export, *self._ends(), list(self.initializers.values()))
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir_version, producer_name=d.export)

    def _ends(self) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
        d = self.d
        info, integers = helper.make_tensor_value_info, TensorProto.INT64
        inputs = [info("input_ids", integers, ("batch_size", "sequence_length"))]
        if self.masked:
            inputs.append(info("attention_mask", integers, ("batch_size", "total_sequence_length")))
        if self.placed:
            inputs.append(info("position_ids", integers, ("batch_size", "sequence_length")))
        outputs = [info("logits", self.type, ("batch_size", "sequence_length", d.vocabulary))]
        for i in range(d.layers):
            for part in ("key", "value"):
                for name, length, ends in (
                    (f"past_key_values.{i}.{part}", "past_sequence_length", inputs),
                    (f"present.{i}.{part}", "total_sequence_length", outputs),
                ):
                    ends.append(info(name, self.type, ("batch_size", d.shared, length, d.head_size)))
        return inputs, outputs

    def start(self) -> None:
        """Write what is in front of the layers."""

    def residual(self, x: str, y: str, path: str) -> tuple[str, str]:
        """Return x + y, x where y is none, and its normalisation."""
        x = self.node("Add", x, y) if y else x
        return x, self.norm(x, path)

    def norm(self, x: str, path: str) -> str:
        raise NotImplementedError

    def attention(self, layer: int, x: str) -> str:
        raise NotImplementedError

    def product(self, x: str, path: str, result: str = "") -> str:
        """Write x times the weights of *path*."""
        rows, columns = self._sizes(path)
        weights, d = self.d.weight(path, rows, columns), self.d
        if not d.bits:
            w = self.float(f"model.{path}.weight", weights)
        else:
            w = self.dequantised(Quantised.of(weights, d.bits, d.block, zero_points=d.zero_points), path, rows)
        return self.node("MatMul", x, w, path=path, results=[result] if result else ())

    def dequantised(self, q: Quantised, path: str, rows: int) -> str:
        kind = {2: TensorProto.UINT2, 4: TensorProto.UINT4, 8: TensorProto.UINT8}[q.bits]
        flat = q.integers.reshape(-1, q.integers.shape[-1])[:rows]
        self._packed(f"model.{path}.weight_quantized", flat, kind)
        self._packed(f"model.{path}.weight_zero_point", q.zero_points, kind)
        names = [f"model.{path}.weight_quantized", self.float(f"model.{path}.weight_scale", q.scales)]
        names.append(f"model.{path}.weight_zero_point")
        return self.node("DequantizeLinear", *names, path=path, axis=0, block_size=self.d.block)

    def node(
        self,
        op: str,
        *inputs: str,
        path: str = "",
        domain: str = "",
        results: Sequence[str] = (),
        **attributes: Any,
    ) -> str:
        """Add a node, and return its first result, which is called after its place where *results* do not tell."""
        name = f"/model/{path.replace('.', '/')}/{op}" if path else f"/model/{op}_{len(self.nodes)}"
        if any(n.name == name for n in self.nodes[-40:]):
            name += f"_{len(self.nodes)}"
        results = results or [f"{name}/output_0"]
        self.nodes.append(helper.make_node(op, list(inputs), list(results), name, domain=domain, **attributes))
        return results[0]

    def float(self, name: str, array: Array) -> str:
        """Add an initializer of the model's float type."""
        return self.initialize(name, array.astype(self.d.dtype))

    def integers(self, *values: int) -> str:
        """Add an int64 vector, once."""
        return self.initialize(f"/model/constants/INT64/{list(values)}", np.array(values, np.int64))

    def scalar(self, value: int) -> str:
        """Add an int64 scalar, once."""
        return self.initialize(f"/model/constants/INT64/{value}", np.array(value, np.int64))

    def initialize(self, name: str, array: Array) -> str:
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def _packed(self, name: str, values: Array, kind: int) -> None:
        self.initializers[name] = helper.make_tensor(name, kind, values.shape, values.ravel())

    def _sizes(self, path: str) -> tuple[int, int]:
        if path == "lm_head":
            return self.d.width, self.d.vocabulary
        sizes = {name: (rows, columns) for name, rows, columns in self.d.products}
        return sizes[path.split(".", 2)[2]]


class _GenAI(_Export):
    """As ONNX Runtime GenAI's builder writes models for CPUs."""

    placed = False

    def start(self) -> None:
        path = "attn_mask_reformat.attn_mask_subgraph"
        counts = self.node("ReduceSum", "attention_mask", self.integers(1), path=path, keepdims=0)
        last = self.node("Sub", counts, self.integers(1), path=path)
        self.last = self.node("Cast", last, path=f"{path}.Sub", to=TensorProto.INT32)
        total = self.node("Gather", self.node("Shape", "attention_mask", path=path), self.scalar(1), path=path, axis=0)
        self.total = self.node("Cast", total, path=f"{path}.Gather", to=TensorProto.INT32)

    def residual(self, x: str, y: str, path: str) -> tuple[str, str]:
        if not y:
            return x, self.norm(x, path)
        weight = self.float(f"model.{path}.weight", self.d.norm(path))
        name = f"/model/{path.replace('.', '/')}/SkipLayerNorm/output_"
        results = [f"{name}0", "", "", f"{name}3"] if "final" not in path else [f"{name}0"]
        normed = self.node(
            "SkipSimplifiedLayerNormalization", x, y, weight, domain=MICROSOFT, results=results, epsilon=EPSILON
        )
        return results[-1], normed

    def norm(self, x: str, path: str) -> str:
        weight = self.float(f"model.{path}.weight", self.d.norm(path))
        return self.node("SimplifiedLayerNormalization", x, weight, path=path, axis=-1, epsilon=EPSILON, stash_type=1)

    def product(self, x: str, path: str, result: str = "") -> str:
        d = self.d
        if not d.bits:
            return super().product(x, path, result)
        rows, columns = self._sizes(path)
        packed = Quantised.of(d.weight(path, rows, columns), d.bits, d.block, zero_points=d.zero_points).by_columns()
        names = [self.initialize(f"model.{path}.weight_Q{d.bits}", packed[0])]
        names.append(self.float(f"model.{path}.weight_scales", packed[1]))
        if d.zero_points:
            names.append(self.initialize(f"model.{path}.weight_zero_points", packed[2]))
        sizes = {"K": rows, "N": columns, "bits": d.bits, "block_size": d.block, "accuracy_level": d.accuracy}
        results = [result] if result else ()
        return self.node("MatMulNBits", x, *names, path=path, domain=MICROSOFT, results=results, **sizes)

    def attention(self, layer: int, x: str) -> str:
        d, path = self.d, f"layers.{layer}.attn"
        if d.packed_qkv:
            parts = [self.product(x, f"{path}.qkv_proj"), "", ""]
        else:
            parts = [self.product(x, f"{path}.{part}_proj") for part in "qkv"]
        past, present = ([f"{p}.{layer}.{part}" for part in ("key", "value")] for p in ("past_key_values", "present"))
        return self.node(
            "GroupQueryAttention",
            *parts,
            *past,
            self.last,
            self.total,
            "cos_cache",
            "sin_cache",
            domain=MICROSOFT,
            results=[f"/model/layers/{layer}/attn/GroupQueryAttention/output_0", *present],
            num_heads=d.heads,
            kv_num_heads=d.shared,
            scale=d.head_size**-0.5,
            local_window_size=d.window,
            softcap=d.softcap,
            do_rotary=1,
            rotary_interleaved=0,
        )


class _Plain(_Export):
    """Operator set 23: RMSNormalization, RotaryEmbedding, and Attention with past and present."""

    opset, ir_version = 23, 11
    masked = False

    def norm(self, x: str, path: str) -> str:
        weight = self.float(f"model.{path}.weight", self.d.norm(path))
        return self.node("RMSNormalization", x, weight, path=path, axis=-1, epsilon=EPSILON)

    def attention(self, layer: int, x: str) -> str:
        d, path = self.d, f"layers.{layer}.attn"
        q, k, v = (self.product(x, f"{path}.{part}_proj") for part in "qkv")
        q, k = (
            self.node("RotaryEmbedding", y, "cos_cache", "sin_cache", "position_ids", path=f"{path}.{p}", num_heads=n)
            for y, p, n in ((q, "q", d.heads), (k, "k", d.shared))
        )
        past, present = ([f"{p}.{layer}.{part}" for part in ("key", "value")] for p in ("past_key_values", "present"))
        results = [f"/model/layers/{layer}/attn/Attention/output_0", *present]
        heads = {"q_num_heads": d.heads, "kv_num_heads": d.shared}
        return self.node("Attention", q, k, v, "", *past, results=results, is_causal=1, **heads)


class _Spelled(_Export):
    """As Optimum exported models: normalisation, rotation, caches and attention in plain operators.

    Masked are what ``attention_mask`` says, of any place, and keys behind a query's own.
    """

    def start(self) -> None:
        """Write the bias of scores ``[batch][1][tokens][keys]``, 0 or the lowest number, and the angles' tables."""
        total = self._size("attention_mask", 1)
        tokens = self._size("input_ids", 1)
        zero, one = self.scalar(0), self.scalar(1)
        places = self.node("Range", self.node("Sub", total, tokens), total, one)
        column = self.node("Unsqueeze", places, self.integers(1))
        causal = self.node("LessOrEqual", self.node("Range", zero, total, one), column)
        seen = self.node("Cast", self.node("Unsqueeze", "attention_mask", self.integers(1, 2)), to=TensorProto.BOOL)
        low = self.initialize("low", np.array(np.finfo(self.d.dtype).min, self.d.dtype))
        self.bias = self.node(
            "Where", self.node("And", seen, causal), self.initialize("none", np.array(0, self.d.dtype)), low
        )
        angles = []
        for name in ("cos_cache", "sin_cache"):
            half = self.node("Gather", name, "position_ids")
            whole = self.node("Concat", half, half, axis=-1)
            angles.append(self.node("Unsqueeze", whole, self.integers(1)))
        self.cos, self.sin = angles

    def norm(self, x: str, path: str) -> str:
        squares = self.node("Pow", x, self.initialize("two", np.array(2, self.d.dtype)), path=path)
        mean = self.node("ReduceMean", squares, self.integers(-1), path=path, keepdims=1)
        epsilon = self.initialize("epsilon", np.array(EPSILON, self.d.dtype))
        root = self.node("Sqrt", self.node("Add", mean, epsilon, path=path), path=path)
        scaled = self.node("Mul", x, self.node("Reciprocal", root, path=path), path=path)
        return self.node("Mul", self.float(f"model.{path}.weight", self.d.norm(path)), scaled)

    def attention(self, layer: int, x: str) -> str:
        d, path = self.d, f"layers.{layer}.attn"
        made = []
        for part, heads in zip("qkv", (d.heads, d.shared, d.shared), strict=True):
            split = self.node(
                "Reshape", self.product(x, f"{path}.{part}_proj"), self.integers(0, 0, heads, d.head_size)
            )
            made.append(self.node("Transpose", split, perm=[0, 2, 1, 3]))
        q, k, v = self._rotated(made[0]), self._rotated(made[1]), made[2]
        k, v = (
            self.node(
                "Concat",
                f"past_key_values.{layer}.{p}",
                y,
                path=f"{path}.{p}",
                results=[f"present.{layer}.{p}"],
                axis=-2,
            )
            for p, y in (("key", k), ("value", v))
        )
        k, v = self._repeated(k), self._repeated(v)
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scale = self.initialize("scale", np.array(d.head_size**-0.5, d.dtype))
        biased = self.node("Add", self.node("Mul", scores, scale), self.bias)
        y = self.node("MatMul", self.node("Softmax", biased, axis=-1), v)
        joined = self.node("Transpose", y, perm=[0, 2, 1, 3])
        return self.node("Reshape", joined, self.integers(0, 0, d.heads * d.head_size))

    def _rotated(self, x: str) -> str:
        """Return ``x cos + (-x2, x1) sin`` of halves x1 and x2."""
        half, last = self.integers(self.d.head_size // 2), self.integers(-1)
        first = self.node("Slice", x, self.integers(0), half, last)
        second = self.node("Slice", x, half, self.integers(2**62), last)
        turned = self.node("Concat", self.node("Neg", second), first, axis=-1)
        whole = self.node("Add", self.node("Mul", x, self.cos), self.node("Mul", turned, self.sin))
        if not self.d.unturned:
            return whole
        rest = self.node("Slice", x, self.integers(self.d.head_size), self.integers(2**62), last)
        return self.node("Concat", whole, rest, axis=-1)

    def _repeated(self, x: str) -> str:
        """Return heads of keys or values once a head of queries."""
        d, group = self.d, self.d.heads // self.d.shared
        if group == 1:
            return x
        apart = self.node("Unsqueeze", x, self.integers(2))
        spread = self.node("Expand", apart, self.integers(1, 1, group, 1, 1))
        return self.node("Reshape", spread, self.integers(0, d.heads, -1, d.head_size))

    def _size(self, value: str, axis: int) -> str:
        return self.node("Gather", self.node("Shape", value), self.scalar(axis), axis=0)
