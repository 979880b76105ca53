"""Fourier transforms: ONNX's DFT and STFT, products of matrices on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.graph.topology import Inlinable, Topology
from clgraph.ops import fourier_products as products
from clgraph.ops.fourier_products import numbers, pairs
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice


@primitive
@frozen
class FourierTransform(Inlinable):
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
        if self.onesided and self.inverse:
            return (np.fft.irfft(numbers(x), self.length, axis)[..., None].astype(x.dtype),)
        if self.onesided:
            return (pairs(np.fft.rfft(numbers(x).real, self.length, axis)).astype(x.dtype),)
        transform = np.fft.ifft if self.inverse else np.fft.fft
        return (pairs(transform(numbers(x), self.length, axis)).astype(x.dtype),)

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        bound = self.bind(inputs, values).primitive
        assert isinstance(bound, FourierTransform)
        assert bound.axis is not None
        bound.infer(inputs[:1])
        length = bound.length
        if length is None:
            length = inputs[0].shape[bound.axis]
            length = 2 * (length - 1) if bound.onesided and bound.inverse else length
        if length < 1 or not products.divides(length):
            return None
        c = Composition(inputs, values)
        rows = replace(bound, axis=1, length=length)
        y = products.along_axis(
            c, products.in_floats(c, c.inputs[0]), bound.axis, lambda x: rows.composed(c, x, length)
        )
        return c.finish(y if c.layout(y).dtype == inputs[0].dtype else c.add(Reorder(inputs[0].dtype), y))

    def composed(self, c: Composition, x: str, length: int) -> str:
        """Add the layers that compute x ``[rows, n, p]`` along its axis 1, of *length* elements."""
        half, pair = length // 2 + 1, c.layout(x).shape[2]
        back = self.onesided and self.inverse
        x = products.fitted(c, x, half if back else length, 1 if self.onesided and not back else pair)
        if length <= products.ONE_PRODUCT:
            return products.product(c, x, lambda basis: self.reference(basis)[0])
        if back:
            x = products.mirrored(c, products.fitted(c, x, half, 2), length)
        y = products.transformed(c, x, self.inverse)
        return products.fitted(c, y, half if self.onesided and not back else length, 1 if back else 2)


@primitive
@frozen
class ShortTimeFourierTransform(Inlinable):
    """Transforms of frames of a signal ``[batch, samples, 1 or 2]``: ``[batch, frames, bins, 2]``.

    Inputs: the signal, also ``[batch, samples]``, the step between frames, then as *given* says a window and the length
    of a frame.
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
        if x.rank not in (2, 3) or step < 1 or not 1 <= length <= x.shape[1]:
            raise ShapeError(f"{list(x.shape)} has no frames of {length} samples, {step} apart")
        bins = length // 2 + 1 if self.onesided else length
        return (x.with_shape((x.shape[0], 1 + (x.shape[1] - length) // step, bins, 2)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, step, length = inputs[0], self.step or 1, self.length or 1
        signal = numbers(x if x.ndim == 3 else x[..., None])
        frames = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
        if len(inputs) > 1:
            frames = frames * inputs[1]
        made = np.fft.fft(frames)
        return (pairs(made[..., : length // 2 + 1] if self.onesided else made).astype(x.dtype),)

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        found = self.bind(inputs, values)
        bound, kept = found.primitive, found.keep
        assert isinstance(bound, ShortTimeFourierTransform)
        bound.infer([inputs[i] for i in kept])
        length, step = bound.length or 1, bound.step or 1
        if (other := self._of_pairs(inputs, values, length)) is not None:
            return other
        if not products.divides(length):
            return None
        c = Composition(inputs, values)
        x, *window = [products.in_floats(c, c.inputs[i]) for i in kept]
        known = values[kept[1]] if window else np.ones(1)
        whole = FourierTransform(length, 1, onesided=bound.onesided)
        # Of doubles products have tiles, and convolutions have none.
        if known is not None and length <= products.PRIME and c.layout(x).dtype == DType.F32:
            pair = inputs[0].shape[2]
            basis = np.eye(length * pair).reshape(length * pair, length, pair) * known.astype(np.float64)[:, None]
            matrix = whole.reference(basis)[0].reshape(length, pair, -1, 2)
            y = products.convolved(c, x, step, matrix)
        else:
            frames = products.frames(c, x, length, step, window[0] if window else "")
            (shape,) = (layout.shape for layout in bound.infer([inputs[i] for i in kept]))
            y = c.add(Reshape(shape, zero_is_zero=True), whole.composed(c, frames, length))
        return c.finish(y if c.layout(y).dtype == inputs[0].dtype else c.add(Reorder(inputs[0].dtype), y))

    def _of_pairs(self, inputs: Sequence[Layout], values: Sequence[Array | None], length: int) -> Topology | None:
        """Return the transform of a signal without pairs, or half of one of complex numbers, by others."""
        shape = inputs[0].shape
        half = self.onesided and shape[2:] == (2,)
        if len(shape) == 3 and not half:
            return None
        c = Composition(inputs, values)
        x, *others = c.inputs
        if len(shape) == 2:
            x = c.add(Reshape((*shape, 1), zero_is_zero=True), x)
        y = c.add(replace(self, onesided=self.onesided and not half), x, *others)
        return c.finish(c.add(Slice((0,), (length // 2 + 1,), axes=(2,)), y) if half else y)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 20.0 * outputs[0].count


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
