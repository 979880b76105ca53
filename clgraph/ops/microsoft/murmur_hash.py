"""Numbers and texts as 32 bits: ONNX Runtime's MurmurHash3, by which features are hashed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_BITS = 0xFFFFFFFF

_BY_NUMBER = 256
"""Bytes of texts, and eight for each, up to which Python's numbers take less than NumPy's calls."""

_FAR = 4
"""How many times longer than the mean a text is that others are not padded to."""


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
            made = self._of_texts(list(map(str.encode, x.ravel().tolist())))
        else:
            made = self._of_bytes(np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8))
        return (made.reshape(x.shape).view(np.uint32 if self.positive else np.int32),)

    def result_types(self) -> tuple[str]:
        return ("tensor(uint32)" if self.positive else "tensor(int32)",)

    def _of_texts(self, texts: Sequence[bytes]) -> Array:
        """Return the hashes of *texts*: of few one by one, of many word by word, far longer ones apart."""
        total = sum(map(len, texts))
        if total + 8 * len(texts) <= _BY_NUMBER:
            return np.array([self._of_text(text) for text in texts], np.uint32)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        far = lengths > _FAR * (total / len(texts) + 4)
        if far.any():
            made = np.empty(len(texts), np.uint32)
            for which in (far, ~far):
                made[which] = self._of_texts([texts[place] for place in which.nonzero()[0].tolist()])
            return made
        most = int(lengths.max())
        words = np.array(texts, f"S{most // 4 * 4 + 4}").view("<u4").reshape(len(texts), -1)
        state, whole = np.full(len(texts), self.seed & _BITS, np.uint32), lengths >> 2
        least = int(whole.min())
        for at in range(most // 4):
            mixed = _mixed(state, words[:, at])
            state = mixed if at < least else np.where(whole > at, mixed, state)
        # Zeros stand behind a text; what is left of none is scrambled to 0.
        state ^= _scrambled(words[np.arange(len(texts)), whole])
        return _finished(state, lengths.astype(np.uint32))

    def _of_text(self, text: bytes) -> int:
        """Return the hash of a text by Python's numbers."""
        state, length = self.seed & _BITS, len(text)
        for at in range(0, length, 4):
            word = int.from_bytes(text[at : at + 4], "little") * 0xCC9E2D51 & _BITS
            state ^= ((word << 15 | word >> 17) & _BITS) * 0x1B873593 & _BITS
            if at + 4 <= length:
                state = ((state << 13 | state >> 19) & _BITS) * 5 + 0xE6546B64 & _BITS
        state ^= length
        state = (state ^ state >> 16) * 0x85EBCA6B & _BITS
        state = (state ^ state >> 13) * 0xC2B2AE35 & _BITS
        return state ^ state >> 16

    def _of_bytes(self, rows: Array) -> Array:
        """Return the hash of every row of bytes ``[rows][length]``."""
        count, length = rows.shape
        padded = np.zeros((count, -(-length // 4) * 4), np.uint8)
        padded[:, :length] = rows
        words = padded.view("<u4").reshape(count, -1)
        state = np.full(count, self.seed & _BITS, np.uint32)
        for at in range(length // 4):
            state = _mixed(state, words[:, at])
        if length % 4:
            state ^= _scrambled(words[:, -1])
        return _finished(state, np.uint32(length))


def _rotated(x: Array, count: int) -> Array:
    made: Array = (x << np.uint32(count)) | (x >> np.uint32(32 - count))
    return made


def _scrambled(words: Array) -> Array:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mixed(state: Array, words: Array) -> Array:
    made: Array = _rotated(state ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return made


def _finished(state: Array, size: Array | np.uint32) -> Array:
    state = state ^ size
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    made: Array = state ^ state >> np.uint32(16)
    return made


@onnx("MurmurHash3", since=(1,), domain=MICROSOFT)
def import_murmur_hash(node: OnnxNode) -> Primitive:
    return MurmurHash(node.attribute("seed", 0), bool(node.attribute("positive", 1)))
