"""Fourier transforms and what speech models do around them: ONNX's DFT, STFT, windows and MelWeightMatrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known, known_ints, positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive


def _complex(x: Array) -> Array:
    """Return ``[..., 1]`` or ``[..., 2]`` as numbers ``[...]``."""
    return np.asarray(x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0])


def _pairs(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return numbers as pairs of their real and imaginary parts."""
    return np.stack([x.real, x.imag], -1).astype(dtype)


@primitive
@frozen
class FourierTransform(Primitive):
    """The discrete Fourier transform of x ``[..., 1]`` (real) or ``[..., 2]`` along *axis*, as pairs.

    Attributes:
        length: Elements along the axis, cut or filled up with zeros; ``None``: those of x.
        axis: ``None`` before ``bind``: the value of an input.
        onesided: The first half of the result of a real x; inverse: of what is the first half of a real result.
        reads: Names of the value inputs, before ``bind``: ``length``, ``axis``.
    """

    length: int | None = None
    axis: int | None = 1
    inverse: bool = False
    onesided: bool = False
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "fourier_transform"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        found = {name: known_ints(values, slot, name)[0] for slot, name in enumerate(self.reads, start=1)}
        axis = found.get("axis", -2 if self.axis is None else self.axis)
        bound = replace(self, axis=positive_axis(axis, inputs[0].rank), reads=())
        return Bound(replace(bound, length=found.get("length", self.length)), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,), axis = inputs, self.axis or 0
        if x.rank < 2 or x.shape[-1] not in (1, 2) or axis == x.rank - 1:
            raise ShapeError(f"{list(x.shape)} holds no real or complex numbers along axis {axis}")
        size = x.shape[axis] if self.length is None else self.length
        if self.onesided and self.inverse:
            size = size if self.length is not None else 2 * (x.shape[axis] - 1)
        elif self.onesided:
            size = size // 2 + 1
        pair = 1 if self.onesided and self.inverse else 2
        return (x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 : -1], pair)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), axis = inputs, self.axis or 0
        numbers = _complex(x)
        if self.onesided and self.inverse:
            return (np.fft.irfft(numbers, self.length, axis)[..., None].astype(x.dtype),)
        if self.onesided:
            return (_pairs(np.fft.rfft(numbers.real, self.length, axis), x.dtype),)
        transform = np.fft.ifft if self.inverse else np.fft.fft
        return (_pairs(transform(numbers, self.length, axis), x.dtype),)


@primitive
@frozen
class ShortTimeFourierTransform(Primitive):
    """Transforms of frames of a signal ``[batch, samples, 1 or 2]``: ``[batch, frames, bins, 2]``.

    Inputs: the signal, the step between frames, then as *given* says a window and the length of a frame.
    """

    onesided: bool = True
    given: tuple[str, ...] = ()
    step: int | None = None
    length: int | None = None

    kind: ClassVar[str] = "short_time_fourier_transform"

    def value_slots(self) -> tuple[int, ...]:
        return (
            () if self.step is not None else (1, *([2 + self.given.index("length")] if "length" in self.given else []))
        )

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if self.step is not None:
            return Bound(self, tuple(range(len(inputs))))
        step = known_ints(values, 1, "frame_step")[0]
        window = 2 + self.given.index("window") if "window" in self.given else None
        if "length" in self.given:
            length = known_ints(values, 2 + self.given.index("length"), "frame_length")[0]
        elif window is not None:
            length = inputs[window].shape[0]
        else:
            raise ShapeError("a transform of frames requires a window or a frame_length")
        kept = (0,) if window is None else (0, window)
        return Bound(ShortTimeFourierTransform(self.onesided, (), step, length), kept)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, step, length = inputs[0], self.step or 0, self.length or 0
        if x.rank != 3 or step < 1 or not 1 <= length <= x.shape[1]:
            raise ShapeError(f"{list(x.shape)} has no frames of {length} samples, {step} apart")
        bins = length // 2 + 1 if self.onesided else length
        return (x.with_shape((x.shape[0], 1 + (x.shape[1] - length) // step, bins, 2)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, step, length = inputs[0], self.step or 1, self.length or 1
        numbers = _complex(x)
        frames = np.lib.stride_tricks.sliding_window_view(numbers, length, axis=1)[:, ::step]
        if len(inputs) > 1:
            frames = frames * inputs[1]
        made = np.fft.rfft(frames.real) if self.onesided else np.fft.fft(frames)
        return (_pairs(made, x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 20.0 * outputs[0].count


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
        angle = np.arange(size) * 2 * np.pi / max(size if self.periodic else size - 1, 1)
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


@onnx("DFT", since=(17, 20))
def import_dft(node: OnnxNode) -> Sequence[str]:
    given = [(n, v) for n, v in zip(("length", "axis"), node.inputs[1:], strict=False) if v]
    axis = node.attribute("axis", 1) if node.since == 17 else -2
    reads = tuple(n for n, _ in given)
    onesided, inverse = bool(node.attribute("onesided", 0)), bool(node.attribute("inverse", 0))
    return node.emit(FourierTransform(None, axis, inverse, onesided, reads), node.inputs[0], *(v for _, v in given))


@onnx("STFT", since=(17,))
def import_stft(node: OnnxNode) -> Primitive:
    given = tuple(n for n, v in zip(("window", "length"), node.inputs[2:], strict=False) if v)
    return ShortTimeFourierTransform(bool(node.attribute("onesided", 1)), given)


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
