"""What speech models put around Fourier transforms: ONNX's windows and MelWeightMatrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.attributes import known, known_ints
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive

COEFFICIENTS = {"hann": (0.5, 0.5, 0.0), "hamming": (25 / 46, 21 / 46, 0.0), "blackman": (0.42, 0.5, 0.08)}
"""Of 1, of -cos and of the cosine of twice the angle."""


@primitive
@frozen
class Window(Primitive):
    """A window of as many elements as input 0 says.

    Attributes:
        function: A key of ``COEFFICIENTS``.
        size: ``None`` before ``bind``.
    """

    function: str
    periodic: bool = True
    dtype: DType = DType.F32
    size: int | None = None

    kind: ClassVar[str] = "window"

    def value_slots(self) -> tuple[int, ...]:
        return (0,) if self.size is None else ()

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(replace(self, size=known_ints(values, 0, "size")[0]) if self.size is None else self, ())

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, (self.size or 0,)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        size, (a, b, c) = self.size or 0, COEFFICIENTS[self.function]
        # A symmetric window of one element is 0 / 0, as in ONNX's reference and in ONNX Runtime.
        with np.errstate(invalid="ignore"):
            angle = np.arange(size) * 2 * np.pi / np.float64(size if self.periodic else size - 1)
            return ((a - b * np.cos(angle) + c * np.cos(2 * angle)).astype(self.dtype.numpy),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return self.reference()


@primitive
@frozen
class MelWeights(Primitive):
    """Triangular weights from bins of a spectrum to bands of the mel scale: ``[bins, bands]``; all inputs are known."""

    dtype: DType = DType.F32
    numbers: tuple[float, ...] = ()

    kind: ClassVar[str] = "mel_weights"

    def value_slots(self) -> tuple[int, ...]:
        return () if self.numbers else tuple(range(5))

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
        found = self.numbers or tuple(float(known(values, i, n).ravel()[0]) for i, n in enumerate(names))
        return Bound(MelWeights(self.dtype, found), ())

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, (int(self.numbers[1]) // 2 + 1, int(self.numbers[0]))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        bands, length, rate, low, high = self.numbers
        count = int(bands)
        mels = 2595 * np.log10(1 + np.array([low, high]) / 700)
        edges = mels[0] + np.arange(count + 2) * (mels[1] - mels[0]) / (count + 2)
        bins = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(np.int64)
        y = np.zeros((int(length) // 2 + 1, count))
        for i in range(count):
            first, middle, last = bins[i : i + 3]
            if middle == first:
                y[middle, i] = 1
            else:
                y[first : middle + 1, i] = np.arange(middle - first + 1) / (middle - first)
            if last > middle:
                y[middle:last, i] = (last - np.arange(middle, last)) / (last - middle)
        return (y.astype(self.dtype.numpy),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return self.reference()


@onnx("HannWindow", since=(17,))
@onnx("HammingWindow", since=(17,))
@onnx("BlackmanWindow", since=(17,))
def import_window(node: OnnxNode) -> Primitive:
    function = node.op_type.removesuffix("Window").lower()
    dtype = node.attribute("output_datatype", DType.F32)
    return Window(function, bool(node.attribute("periodic", 1)), dtype)


@onnx("MelWeightMatrix", since=(17,))
def import_mel_weights(node: OnnxNode) -> Primitive:
    return MelWeights(node.attribute("output_datatype", DType.F32))
