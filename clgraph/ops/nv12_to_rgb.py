"""Video frames as RGB: NV12, a plane of luma and one of chroma pairs for every two by two pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

WEIGHTS = {"BT.601": (0.299, 0.114), "BT.709": (0.2126, 0.0722)}
"""Of red and blue in luma: ITU-R BT.601-7, 2.5.1, and BT.709-6, 3.2."""
RANGES = ("limited", "full")
SHIFT = 20
"""Bits behind the point, as OpenCV has them: results are the same bytes everywhere."""


@primitive
@frozen
class Nv12ToRgb(Primitive):
    """The RGB images ``[N][H][W][3]`` of NV12, every two by two pixels with one chroma. All are U8.

    Inputs: frames ``[N][3 H / 2][W]``, the rows of luma and then those of chroma, Cb and Cr in turn; or luma
    ``[N][H][W]`` and chroma ``[N][H / 2][W / 2][2]``. Sizes are even.

    Attributes:
        matrix: One of ``WEIGHTS``.
        range: Whether luma has 16 to 235 and chroma 16 to 240, ``limited``, or all bytes, ``full``. Luma below 16 is
            taken for 16 then, as OpenCV takes it.
    """

    matrix: str = "BT.601"
    range: str = "limited"

    kind: ClassVar[str] = "nv12_to_rgb"
    holds_sizes: ClassVar[bool] = False
    keeps_types: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        luma = inputs[0]
        if self.matrix not in WEIGHTS or self.range not in RANGES:
            raise ShapeError(f"matrix {self.matrix!r} and range {self.range!r}: want {[*WEIGHTS]} and {RANGES}")
        if any(x.dtype != DType.U8 for x in inputs) or luma.rank != 3:
            raise ShapeError(f"NV12 is u8 [count, rows, columns], not {luma}")
        n, rows, width = luma.shape
        if len(inputs) == 1:
            if rows % 3 or rows == 0 or width % 2 or width == 0:
                raise ShapeError(
                    f"NV12 of {rows} rows and {width} columns: it has two rows of luma for each of chroma, so that "
                    "rows are a multiple of 3, and an even number of columns"
                )
            return (Layout(DType.U8, (n, rows // 3 * 2, width, 3)),)
        if rows % 2 or width % 2 or 0 in luma.shape or inputs[1].shape != (n, rows // 2, width // 2, 2):
            raise ShapeError(
                f"luma {list(luma.shape)} with chroma {list(inputs[1].shape)}: for even rows and columns of luma, "
                "chroma is [count, rows / 2, columns / 2, 2]"
            )
        return (Layout(DType.U8, (n, rows, width, 3)),)

    def factors(self) -> tuple[int, ...]:
        """Return the offset of luma and, times 2^20, its factor, that of Cr in red, Cr and Cb in green, Cb in blue."""
        red, blue = WEIGHTS[self.matrix]
        green = 1 - red - blue
        luma, chroma = (255 / 219, 255 / 224) if self.range == "limited" else (1.0, 1.0)
        cr, cb = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
        exact = (luma, cr, cr * red / green, cb * blue / green, cb)
        return (16 if self.range == "limited" else 0, *(round(f * 2**SHIFT) for f in exact))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (layout,) = self.infer([Layout.of(a) for a in inputs])
        n, height, width, _ = layout.shape
        frames = inputs[0].reshape(n, -1, width)
        chroma = inputs[1] if len(inputs) > 1 else frames[:, height:].reshape(n, height // 2, width // 2, 2)
        cb, cr = np.moveaxis(chroma.repeat(2, 1).repeat(2, 2).astype(np.int64) - 128, 3, 0)
        offset, of_luma, red, green, green_of_cb, blue = self.factors()
        luma = np.maximum(frames[:, :height].astype(np.int64) - offset, 0) * of_luma + (1 << SHIFT - 1)
        sums = (luma + red * cr, luma - green * cr - green_of_cb * cb, luma + blue * cb)
        return (np.stack([np.clip(s >> SHIFT, 0, 255) for s in sums], 3).astype(np.uint8),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 4.0 * outputs[0].count


@implements(Nv12ToRgb, name="nv12_to_rgb.ref", serves=Serves(dtypes=frozenset({DType.U8})), general=True)
class Nv12ToRgbRef(General[Nv12ToRgb]):
    """One work-item two pixels of two rows."""

    @classmethod
    def further_limits(cls, q: Query[Nv12ToRgb]) -> str | None:
        dense = all(x.is_dense_plain for x in (*q.own, *q.outputs))
        return None if dense else "requires frames and images side by side"

    @classmethod
    def plan(cls, q: Query[Nv12ToRgb]) -> Plan:
        n, height, width, _ = q.outputs[0].shape
        two = len(q.own) > 1
        # Bytes of a frame of luma and of chroma, and where chroma begins.
        places = (height * width, height // 2 * width, 0) if two else (3 * height // 2 * width,) * 2 + (height * width,)
        numbers = table((height // 2, width // 2, *places, *q.primitive.factors()))
        count = n * (height // 2) * (width // 2)
        step = launch("nv12_to_rgb/nv12_to_rgb_ref", Jit(), count, "in0", "in1" if two else "in0", "out0", numbers)
        return Plan((step,))
