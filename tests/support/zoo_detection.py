"""An object detector of the shape of YOLOv8, as its exporter writes it, with random weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tests.support.graph_writer import GraphWriter

BINS = 16
"""Steps of the distribution that a box's side is the mean of."""


def detector(size: int = 640, width: float = 0.25, classes: int = 80, seed: int = 0) -> onnx.ModelProto:
    """Return the detector with what follows it: suppression, and the kept boxes, scores and classes.

    How many boxes there are depends on the image and on the second input, the ``threshold`` of the scores, [1].
    """
    g = GraphWriter("detector", seed)
    found = _network(g, size, width, classes)
    boxes, scores = g.split("Split", found, g.integers(4, classes), results=2, axis=1)
    boxes = g.add("Transpose", boxes, perm=[0, 2, 1])
    limit, overlap = g.integers(100), g.constant(np.array([0.45], np.float32))
    threshold = g.input("threshold", (1,))
    kept = g.add("NonMaxSuppression", boxes, scores, limit, overlap, threshold, center_point_box=1)
    column = {"axis": 1}
    image, label, box = (g.add("Gather", kept, g.constant(np.array(i, np.int64)), **column) for i in range(3))
    places = [g.add("Unsqueeze", x, g.integers(1)) for x in (image, label, box)]
    chosen = g.add("GatherND", boxes, g.add("Concat", places[0], places[2], axis=1))
    score = g.add("GatherND", scores, kept)
    centre, sides = g.split("Split", chosen, g.integers(2, 2), results=2, axis=1)
    half = g.add("Mul", sides, g.number(0.5))
    corners = g.add("Concat", g.add("Sub", centre, half), g.add("Add", centre, half), axis=1)
    rows = [corners, g.add("Unsqueeze", score, g.integers(1)), g.add("Cast", places[1], to=onnx.TensorProto.FLOAT)]
    return g.model(g.add("Concat", *rows, axis=1))


def yolov8n(size: int = 640, width: float = 0.25, classes: int = 80, seed: int = 0) -> onnx.ModelProto:
    """Return the detector for images of *size*: C2f stages, SPPF, two up- and two downward paths, box decoding.

    The result is [1, 4 + classes, boxes]: centre and size of each box in pixels, then the classes' scores.

    Args:
        size: Height and width of the image, a multiple of 32.
        width: Of the network; 0.25 is the smallest model of the family.
    """
    g = GraphWriter("yolov8n", seed)
    return g.model(_network(g, size, width, classes))


def _network(g: GraphWriter, size: int, width: float, classes: int) -> str:
    """Add the network; return its result [1, 4 + classes, boxes]."""
    w = [max(BINS, round(c * width)) for c in (64, 128, 256, 512, 1024)]
    net = _Stages(g)
    x = net.conv(g.input("images", (1, 3, size, size)), 3, w[0], 3, 2)
    x = net.c2f(net.conv(x, w[0], w[1], 3, 2), w[1], w[1], 1, True)
    third = net.c2f(net.conv(x, w[1], w[2], 3, 2), w[2], w[2], 2, True)
    fourth = net.c2f(net.conv(third, w[2], w[3], 3, 2), w[3], w[3], 2, True)
    x = net.c2f(net.conv(fourth, w[3], w[4], 3, 2), w[4], w[4], 1, True)
    fifth = net.sppf(x, w[4], w[4])
    fourth = net.c2f(net.join(net.up(fifth), fourth), w[4] + w[3], w[3], 1, False)
    third = net.c2f(net.join(net.up(fourth), third), w[3] + w[2], w[2], 1, False)
    middle = net.c2f(net.join(net.conv(third, w[2], w[2], 3, 2), fourth), w[2] + w[3], w[3], 1, False)
    coarse = net.c2f(net.join(net.conv(middle, w[3], w[3], 3, 2), fifth), w[3] + w[4], w[4], 1, False)
    levels = ((third, w[2], 8), (middle, w[3], 16), (coarse, w[4], 32))
    return _decoded(g, net, levels, size, classes)


class _Stages:
    """The parts that the network repeats; every activation is x times its sigmoid."""

    def __init__(self, g: GraphWriter) -> None:
        self.g = g

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> str:
        y = self.g.conv(x, inputs, outputs, kernel, stride)
        return self.g.add("Mul", y, self.g.add("Sigmoid", y))

    def join(self, *values: str) -> str:
        return self.g.add("Concat", *values, axis=1)

    def up(self, x: str) -> str:
        scales = self.g.constant(np.array([1, 1, 2, 2], np.float32))
        modes = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
        return self.g.add("Resize", x, "", scales, **modes)

    def c2f(self, x: str, inputs: int, outputs: int, repeats: int, shortcut: bool) -> str:
        half = outputs // 2
        sizes = self.g.integers(half, half)
        parts = self.g.split("Split", self.conv(x, inputs, outputs), sizes, results=2, axis=1)
        for _ in range(repeats):
            y = self.conv(self.conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(self.g.add("Add", parts[-1], y) if shortcut else y)
        return self.conv(self.join(*parts), half * len(parts), outputs)

    def sppf(self, x: str, inputs: int, outputs: int) -> str:
        parts = [self.conv(x, inputs, inputs // 2)]
        for _ in range(3):
            pool = {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2], "strides": [1, 1], "ceil_mode": 0}
            parts.append(self.g.add("MaxPool", parts[-1], **pool))
        return self.conv(self.join(*parts), inputs * 2, outputs)


def _decoded(g: GraphWriter, net: _Stages, levels: Sequence[tuple[str, int, int]], size: int, classes: int) -> str:
    """Add the heads and what turns their results to boxes and scores."""
    finest = levels[0][1]
    boxes, scores = max(16, finest // 4, 4 * BINS), max(finest, min(classes, 100))
    flat = []
    for x, channels, _ in levels:
        box = net.conv(net.conv(x, channels, boxes, 3), boxes, boxes, 3)
        score = net.conv(net.conv(x, channels, scores, 3), scores, scores, 3)
        both = net.join(g.conv(box, boxes, 4 * BINS, gain=1.0), g.conv(score, scores, classes, gain=1.0))
        flat.append(g.add("Reshape", both, g.integers(1, 4 * BINS + classes, -1)))
    sides, logits = g.split("Split", g.add("Concat", *flat, axis=2), g.integers(4 * BINS, classes), results=2, axis=1)
    count = sum((size // stride) ** 2 for _, _, stride in levels)
    bins = g.add("Transpose", g.add("Reshape", sides, g.integers(1, 4, BINS, count)), perm=[0, 2, 1, 3])
    steps = g.constant(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    mean = g.add("Conv", g.add("Softmax", bins, axis=1), steps, kernel_shape=[1, 1])
    distances = g.add("Reshape", mean, g.integers(1, 4, count))
    near = g.add("Slice", distances, g.integers(0), g.integers(2), g.integers(1))
    far = g.add("Slice", distances, g.integers(2), g.integers(4), g.integers(1))
    centres, strides = _anchors(levels, size)
    anchors = g.constant(centres)
    low, high = g.add("Sub", anchors, near), g.add("Add", anchors, far)
    centre = g.add("Div", g.add("Add", low, high), g.number(2))
    pixels = g.add("Concat", centre, g.add("Sub", high, low), axis=1)
    return g.add("Concat", g.add("Mul", pixels, g.constant(strides)), g.add("Sigmoid", logits), axis=1)


def _anchors(levels: Sequence[tuple[str, int, int]], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells' centres [1, 2, boxes], x and y in cells, and their strides [1, boxes]."""
    centres, strides = [], []
    for _, _, stride in levels:
        cells = np.arange(size // stride, dtype=np.float32) + 0.5
        y, x = np.meshgrid(cells, cells, indexing="ij")
        centres.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full((1, cells.size**2), stride, np.float32))
    return np.concatenate(centres, axis=1)[None], np.concatenate(strides, axis=1)
