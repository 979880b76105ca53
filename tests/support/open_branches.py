"""Random models of open sizes in which sizes decide what is computed: bodies, cuts or pads, and their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.graphs import FLOAT, graph
from tests.support.open_graphs import OpenGraph, picture_step

LIMITS = (1, 2, 6, 20, 50, 90, 200, 350, 700)
"""Among the sizes of representatives and members, and beyond them."""


def random_branching_model(seed: int, steps: int = 3) -> onnx.ModelProto:
    """Return a model of pictures ``x`` [n, 8, h, w], every other step of which is another for other sizes."""
    g = OpenGraph(seed)
    g.input("x", "n", 8, "h", "w")
    values = [g.value(("n", 8, "h", "w"), "Relu", "x")]
    for step in range(steps):
        made = picture_step if step % 2 else g.pick.choice(_BY_SIZE)
        values.append(made(g, values[-1]))
    return g.made()


def _condition(g: OpenGraph, x: str) -> str:
    """Return whether a size is above a limit, above another size, or odd."""
    first, second = g.pick.sample((0, 2, 3), 2)
    kind = g.pick.randrange(3)
    if kind == 0:
        return g.add("Greater", g.size(x, first), g.ints(g.pick.choice(LIMITS)))
    if kind == 1:
        return g.add("Less", g.size(x, first), g.size(x, second))
    return g.add("Equal", g.add("Mod", g.size(x, first), g.ints(2)), g.ints(1))


def _either(g: OpenGraph, x: str, then: Any, other: Any, shape: Any = None) -> str:
    """Add the body *then* or *other*, each the nodes that make ``o``, and their constants."""
    bodies = {
        f"{name}_branch": graph(nodes, [], [("o", FLOAT, None)], **constants)
        for name, (nodes, constants) in (("then", then), ("else", other))
    }
    return g.value(shape or g.shapes[x], "If", _condition(g, x), **bodies)


def _operands(g: OpenGraph, x: str) -> str:
    """One difference, or the other."""
    a, b = g.add("Sigmoid", x), g.add("Tanh", x)
    return _either(g, x, ([helper.make_node("Sub", [a, b], ["o"])], {}), ([helper.make_node("Sub", [b, a], ["o"])], {}))


def _values(g: OpenGraph, x: str) -> str:
    """One value, or another, as it is."""
    a, b = g.add("Sigmoid", x), g.add("Tanh", x)
    then, other = (([helper.make_node("Identity", [n], ["o"])], {}) for n in (a, b))
    return g.value(g.shapes[x], "Neg", _either(g, x, then, other))


def _numbers(g: OpenGraph, x: str) -> str:
    """Behind a convolution that may take it in, one slope or another."""
    y = g.value(g.shapes[x], "Conv", x, g.weights(8, 8, 3, 3), pads=[1] * 4)
    then, other = (([helper.make_node("LeakyRelu", [y], ["o"], alpha=a)], {}) for a in (0.1, 0.5))
    return _either(g, x, then, other)


def _weights(g: OpenGraph, x: str) -> str:
    """One convolution or another, by constants of the same name in the body or around it."""
    around = [g.weights(8, 8, 1, 1) for _ in range(2)]
    inside = g.pick.random() < 0.5
    bodies = []
    for name in around:
        constants = {"w": g.constants[name]} if inside else {}
        bodies.append(([helper.make_node("Conv", [x, "w" if inside else name], ["o"])], constants))
    return _either(g, x, *bodies)


def _longer(g: OpenGraph, x: str) -> str:
    """One step, or two."""
    node = helper.make_node
    return _either(
        g, x, ([node("Sigmoid", [x], ["o"])], {}), ([node("Sigmoid", [x], ["p"]), node("Sigmoid", ["p"], ["o"])], {})
    )


def _picked(g: OpenGraph, x: str) -> str:
    """Rows and columns of a transposed picture, in an order that its sizes decide, by constants of one name."""
    rows, columns = (np.array([g.pick.randrange(6) - 3 for _ in range(6)]) for _ in range(2))
    turned = g.add("Transpose", x, perm=[0, 2, 3, 1])
    node = helper.make_node
    bodies = []
    for axes, numbers in (((1, 2), (rows, columns)), ((2, 1), (columns, rows))):
        nodes = [node("Gather", [turned, "i"], ["p"], axis=axes[0]), node("Gather", ["p", "j"], ["o"], axis=axes[1])]
        bodies.append((nodes, {"i": numbers[0], "j": numbers[1]}))
    back = g.add("Transpose", _either(g, x, *bodies), perm=[0, 3, 1, 2])
    return g.value(("n", 8, 6, 6), "Conv", back, g.weights(8, 8, 1, 1))


def _centred(g: OpenGraph, x: str) -> str:
    """A frame, cut out of the middle or filled up around it."""
    frame = [g.pick.choice((6, 20, 33)) for _ in range(2)]
    return g.value(("n", 8, *frame), "CenterCropPad", x, g.ints(*frame), axes=[2, 3])


def _spectrum(g: OpenGraph, x: str) -> str:
    """The real part of as many frequencies as the table says, whatever the width is."""
    wide = g.add("Unsqueeze", x, g.ints(4))
    length = g.constant(np.int64(g.pick.choice((12, 40, 100))))
    both = g.add("DFT", wide, length, axis=3)
    return g.value(("n", 8, "h", "?"), "Gather", both, g.constant(np.int64(0)), axis=4)


_BY_SIZE: tuple[Callable[[OpenGraph, str], str], ...] = (
    _operands, _values, _numbers, _weights, _longer, _picked, _centred, _spectrum,
)  # fmt: skip
