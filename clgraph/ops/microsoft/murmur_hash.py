"""Numbers and texts as 32 bits: ONNX Runtime's MurmurHash3, by which features are hashed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive


@primitive
@frozen
class MurmurHash(OfHostValues):
    """MurmurHash3 of 32 bits (Appleby 2011) of every element's bytes, of a text's in UTF-8: uint32, or int32.

    Attributes:
        seed: 32 bits.
        positive: Whether results are unsigned.
    """

    seed: int = 0
    positive: bool = True

    kind: ClassVar[str] = "murmur_hash"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.dtype.kind in "OUS":
            made = self._of_texts([str(text).encode() for text in x.flat])
        else:
            made = self._of_bytes(np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8))
        return (made.reshape(x.shape).view(np.uint32 if self.positive else np.int32),)

    def result_types(self) -> tuple[str]:
        return ("tensor(uint32)" if self.positive else "tensor(int32)",)

    def _of_texts(self, texts: Sequence[bytes]) -> Array:
        """Return the hashes of *texts*, those of one length at once."""
        made = np.empty(len(texts), np.uint32)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        for length in np.unique(lengths).tolist():
            places = (lengths == length).nonzero()[0]
            joined = b"".join([texts[place] for place in places])
            made[places] = self._of_bytes(np.frombuffer(joined, np.uint8).reshape(len(places), length))
        return made

    def _of_bytes(self, rows: Array) -> Array:
        """Return the hash of every row of bytes ``[rows][length]``."""
        count, length = rows.shape
        padded = np.zeros((count, -(-length // 4) * 4), np.uint8)
        padded[:, :length] = rows
        words = padded.view("<u4").reshape(count, -1)
        state = np.full(count, self.seed & 0xFFFFFFFF, np.uint32)
        for at in range(length // 4):
            state = _mixed(state, words[:, at])
        if length % 4:
            state ^= _scrambled(words[:, -1])
        return _finished(state, length)


def _rotated(x: Array, count: int) -> Array:
    made: Array = (x << np.uint32(count)) | (x >> np.uint32(32 - count))
    return made


def _scrambled(words: Array) -> Array:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mixed(state: Array, words: Array) -> Array:
    made: Array = _rotated(state ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return made


def _finished(state: Array, size: int) -> Array:
    state = state ^ np.uint32(size)
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    made: Array = state ^ state >> np.uint32(16)
    return made


@onnx("MurmurHash3", since=(1,), domain=MICROSOFT)
def import_murmur_hash(node: OnnxNode) -> Primitive:
    return MurmurHash(node.attribute("seed", 0), bool(node.attribute("positive", 1)))
