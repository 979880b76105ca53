"""Sizes of small decoders, and their random weights: the same for every export, in floats or packed in a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Decoder:
    """A decoder of Llama's kind: what it is made of, and how it is exported.

    Attributes:
        export: ``genai`` as ONNX Runtime GenAI's builder writes models, ``onnx23`` plain ONNX with Attention and its
            kin, ``optimum`` as Optimum did before: attention spelled out.
        shared: Heads of keys and values.
        head_size: A multiple of 16 where GroupQueryAttention turns it.
        inner: Width of the feed-forward layers.
        positions: Longest text.
        dtype: Of everything but packed weights: ``float32`` or ``float16``.
        bits: Of the weights of products: 0 for floats, else 2, 4 or 8 with a scale a *block* along the summed axis.
            MatMulNBits in ``genai``, DequantizeLinear in front of MatMul in the others, whose opsets have no 2 bits.
        zero_points: Whether blocks have one, instead of the middle of the range.
        accuracy: MatMulNBits' ``accuracy_level``.
        packed_qkv: One product makes queries, keys and values, and GroupQueryAttention takes them apart.
        window, softcap: Of GroupQueryAttention.
        unturned: In ``optimum``, the elements of heads that are not turned are joined to those that are, as Phi 3 has
            it: there are none.
    """

    export: Literal["genai", "onnx23", "optimum"] = "genai"
    layers: int = 2
    width: int = 64
    heads: int = 4
    shared: int = 2
    head_size: int = 16
    inner: int = 96
    vocabulary: int = 320
    positions: int = 512
    dtype: Literal["float32", "float16"] = "float32"
    bits: int = 0
    block: int = 32
    zero_points: bool = False
    accuracy: int = 0
    packed_qkv: bool = False
    window: int = -1
    softcap: float = 0.0
    unturned: bool = False
    seed: int = 0

    @property
    def products(self) -> Iterator[tuple[str, int, int]]:
        """Names, summed lengths and columns of the products of one layer."""
        queries, keys = self.heads * self.head_size, self.shared * self.head_size
        if self.packed_qkv:
            yield "attn.qkv_proj", self.width, queries + 2 * keys
        else:
            yield "attn.q_proj", self.width, queries
            yield "attn.k_proj", self.width, keys
            yield "attn.v_proj", self.width, keys
        yield "attn.o_proj", queries, self.width
        yield "mlp.gate_proj", self.width, self.inner
        yield "mlp.up_proj", self.width, self.inner
        yield "mlp.down_proj", self.inner, self.width

    @property
    def parameters(self) -> int:
        """How many weights there are, embeddings included, without the normalisations."""
        return self.layers * sum(k * n for _, k, n in self.products) + 2 * self.width * self.vocabulary

    def weight(self, name: str, rows: int, columns: int) -> Array:
        """Return the float32 weights ``[rows][columns]`` of a product, which keep the scale of what they multiply."""
        if name.endswith("attn.qkv_proj"):
            queries, keys = self.heads * self.head_size, self.shared * self.head_size
            parts = zip("qkv", (queries, keys, keys), strict=True)
            return np.concatenate([self.weight(name.replace("qkv", p), rows, n) for p, n in parts], 1)
        gain = 4.0 if name == "lm_head" else 1.0  # far apart, so that rounding does not change the greatest logit
        return self._random(name).standard_normal((rows, columns), np.float32) * np.float32(gain / np.sqrt(rows))

    def embedding(self) -> Array:
        """Return the table ``[vocabulary][width]``."""
        return self._random("embed").standard_normal((self.vocabulary, self.width), np.float32) / np.float32(2)

    def norm(self, name: str) -> Array:
        """Return the factors ``[width]`` of a normalisation."""
        return self._random(name).uniform(0.8, 1.2, self.width).astype(np.float32)

    def rotations(self) -> tuple[Array, Array]:
        """Return cos and sin ``[positions][head_size / 2]``."""
        frequencies = 10000.0 ** (-np.arange(self.head_size // 2) / (self.head_size // 2))
        angles = np.outer(np.arange(self.positions), frequencies)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def _random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, crc32(name.encode())])


@dataclass(frozen=True)
class Quantised:
    """Unsigned integers ``[blocks][block][columns]`` of weights, with a scale and perhaps a zero point a block.

    The last block is padded with weights of 0 where it is longer than what is left.
    """

    integers: Array
    scales: Array
    zero_points: Array
    bits: int

    @classmethod
    def of(cls, weights: Array, bits: int, block: int, *, zero_points: bool) -> Quantised:
        """Round *weights* ``[rows][columns]`` to *bits*."""
        rows, columns = weights.shape
        blocks, top = -(-rows // block), 2**bits - 1
        padded = np.pad(weights, ((0, blocks * block - rows), (0, 0))).reshape(blocks, block, columns)
        if zero_points:
            low, high = np.minimum(padded.min(1), 0), np.maximum(padded.max(1), 0)
            scales = np.maximum(high - low, 1e-6) / top
            zeros = np.rint(-low / scales)
        else:
            scales = np.maximum(np.abs(padded).max(1), 1e-6) / max(1, 2 ** (bits - 1) - 1)
            zeros = np.full_like(scales, 2 ** (bits - 1))
        integers = np.clip(np.rint(padded / scales[:, None]) + zeros[:, None], 0, top)
        return cls(integers.astype(np.uint8), scales.astype(np.float32), zeros.astype(np.uint8), bits)

    def by_columns(self) -> tuple[Array, Array, Array]:
        """Return MatMulNBits' B ``[columns][blocks][bytes]``, scales ``[columns][blocks]`` and packed zero points."""
        words = np.ascontiguousarray(self.integers.transpose(2, 0, 1))
        return self._packed(words), np.ascontiguousarray(self.scales.T), self._packed(self.zero_points.T)

    def _packed(self, values: Array) -> Array:
        """Return *values* with several in a byte along the last axis, the first in the lowest bits."""
        count = 8 // self.bits
        rest = -values.shape[-1] % count
        padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, rest)])
        parts = padded.reshape(*values.shape[:-1], -1, count)
        shifts = (np.arange(count) * self.bits).astype(np.uint8)
        return np.bitwise_or.reduce(parts << shifts, axis=-1).astype(np.uint8)
