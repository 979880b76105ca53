"""Averages that divide by all elements of a window, wherever it ends, as ONNX Runtime's of bytes do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import primitive
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling


@primitive
@frozen
class WholeWindows(Composite):
    """*pooling*, an average that counts its pads, of windows that count what is beyond these as zeros, too."""

    pooling: Pooling

    kind: ClassVar[str] = "whole_windows"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        layout = c.layout(x)
        pooling = self.pooling.bind([layout], [None]).primitive
        assert isinstance(pooling, Pooling)
        pooling.infer([layout])
        spatial = layout.shape[2:]
        steps = zip(pooling.sizes(spatial), pooling.strides, pooling.kernel, pooling.dilations, strict=True)
        reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in steps]
        pads = [
            (before, max(r - before - n, 0)) for (before, _), r, n in zip(pooling.pads, reach, spatial, strict=True)
        ]
        padded = c.add(Pad(((0, 0), (0, 0), *pads)), x)
        inside = replace(pooling, pads=((0, 0),) * len(spatial), ceil_mode=False)
        return (c.add(inside, padded),)
