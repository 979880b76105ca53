"""Elements left out at random: ONNX's Dropout, which changes nothing unless a model is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.cast_like import CastLike
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill
from clgraph.ops.random import Random, drawn
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.shape import ShapeOf
from clgraph.ops.where import Where


@primitive
@frozen
class Dropout(Composite):
    """``y = x / (1 - ratio)`` where a number in [0, 1) is not below the ratio, else 0; and where that is, as a bool.

    Inputs: x, then those of *reads*, then the key. Where the training mode, one bool, is false, y is x, and all of it
    is kept.

    Attributes:
        ratio: Where it is not an input.
        reads: Which of ``ratio`` and ``training`` are inputs.
    """

    random: Random
    ratio: float = 0.5
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "dropout"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.reads, c.inputs[1:], strict=False))
        x, key, dtype = c.inputs[0], c.inputs[-1], c.layout(c.inputs[0]).dtype
        ratio = self._scalar(c, given["ratio"]) if "ratio" in given else c.constant(np.asarray(self.ratio, np.float32))
        numbers = c.add(replace(self.random, shape=c.layout(x).shape), key)
        kept = c.add(Eltwise("greater_equal"), numbers, c.add(Reorder(DType.F32), ratio))
        rest = c.add(Activation("linear", -1.0, 1.0), c.add(Reorder(dtype), ratio))
        zero = c.constant(np.zeros((), dtype.numpy))
        y = c.add(Where(), kept, c.add(Eltwise("div"), x, rest), zero)
        if "training" not in given:
            return y, kept
        training = self._scalar(c, given["training"])
        return c.add(Where(), training, y, x), c.add(Eltwise("or"), kept, c.add(Activation("not"), training))

    def _scalar(self, c: Composition, name: str) -> str:
        if c.layout(name).count != 1:
            raise ShapeError(f"ratio and training_mode are one value each, not {list(c.layout(name).shape)}")
        return c.add(Reshape(()), name)


@onnx("Dropout", since=(1, 6, 7, 10, 12, 13, 22))
def import_dropout(node: OnnxNode) -> Sequence[str]:
    """Return x itself where the node does not train.

    Before version 7 ``is_test`` says that, in versions 7 and 10 nothing trains, then an input says that it does.
    """
    x, *others = (*node.inputs, "", "")[:3]
    ratio, training = others if node.since >= 12 else ("", "")
    known = node.constant(2) if node.since >= 12 else None
    trains = not node.attribute("is_test", 0) if node.since < 7 else bool(training) and (known is None or known.any())
    boolean = node.since >= 10
    if not trains:
        if node.output_count < 2:
            return (x,)
        shape = node.emit(ShapeOf(), x)
        kept = node.emit(Fill(True, DType.BOOL), *shape)
        return (x, *(kept if boolean else node.emit(CastLike(), *kept, x)))
    reads = {"ratio": ratio, "training": training if known is None else ""}
    names = [name for name in reads.values() if name]
    random, key = drawn(node, normal=False, first=0.0, second=1.0)
    dropout = Dropout(random, node.attribute("ratio", 0.5), tuple(what for what, name in reads.items() if name))
    y, mask = node.emit(dropout, x, *names, key, outputs=2)
    return (y, mask) if boolean else (y, *node.emit(CastLike(), mask, x))
