"""Numbers and texts as 32 bits: ONNX Runtime's MurmurHash3, by which features are hashed."""

from __future__ import annotations

from typing import Any, ClassVar

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
            made = np.array([self._of_text(str(text).encode()) for text in x.flat], np.uint32)
        else:
            size = x.dtype.itemsize
            words = np.ascontiguousarray(x).reshape(-1, 1).view(np.uint32)
            made = np.full(len(words), self.seed & 0xFFFFFFFF, np.uint32)
            for at in range(words.shape[1]):
                made = _mixed(made, words[:, at])
            made = _finished(made, size)
        return (made.reshape(x.shape).view(np.uint32 if self.positive else np.int32),)

    def result_types(self) -> tuple[str]:
        return ("tensor(uint32)" if self.positive else "tensor(int32)",)

    def _of_text(self, data: bytes) -> Any:
        whole, rest = np.frombuffer(data[: len(data) // 4 * 4], "<u4"), data[len(data) // 4 * 4 :]
        state = np.array([self.seed & 0xFFFFFFFF], np.uint32)
        for word in whole:
            state = _mixed(state, word)
        if rest:
            state ^= _scrambled(np.array([int.from_bytes(rest, "little")], np.uint32))
        return _finished(state, len(data))[0]


def _rotated(x: Array, count: int) -> Array:
    made: Array = (x << np.uint32(count)) | (x >> np.uint32(32 - count))
    return made


def _scrambled(words: Array) -> Array:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mixed(state: Array, words: Array) -> Array:
    made: Array = _rotated(state ^ _scrambled(np.atleast_1d(words)), 13) * np.uint32(5) + np.uint32(0xE6546B64)
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
