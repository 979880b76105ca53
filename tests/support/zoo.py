"""Models by name, each with inputs: known architectures with random weights, and small ones for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.support.models import image
from tests.support.zoo_detection import yolov8n
from tests.support.zoo_mobile import efficientnet_b0, mobilenet_v2, mobilenet_v3_small
from tests.support.zoo_text import BERT_BASE, MINILM_L6, Encoder, encoder, tokens

Feeds = dict[str, NDArray[np.float32] | NDArray[np.int64]]
Made = tuple[onnx.ModelProto, Feeds]

TINY = Encoder(layers=2, width=32, heads=4, inner=64, vocabulary=50, positions=40)


@dataclass(frozen=True)
class Entry:
    """How a model and its inputs are made, and whether it takes only a moment to make and run."""

    make: Callable[[], Made]
    small: bool = False


def _seeing(build: Callable[[], onnx.ModelProto], small: bool = False) -> Entry:
    def make() -> Made:
        model = build()
        value = model.graph.input[0]
        return model, {value.name: image(tuple(d.dim_value for d in value.type.tensor_type.shape.dim))}

    return Entry(make, small)


def _reading(sizes: Encoder, batch: int, count: int, *, open_shapes: bool = False, small: bool = False) -> Entry:
    def make() -> Made:
        shape = ("batch", "sequence") if open_shapes else (batch, count)
        feeds = tokens(batch, count, sizes.vocabulary, hidden=count // 4 if small else 0)
        return encoder(sizes, *shape), dict(feeds)

    return Entry(make, small)


ZOO: dict[str, Entry] = {
    "mobilenet_v2": _seeing(mobilenet_v2),
    "mobilenet_v2_bn": _seeing(lambda: mobilenet_v2(normalized=True)),
    "mobilenet_v3_small": _seeing(mobilenet_v3_small),
    "efficientnet_b0": _seeing(efficientnet_b0),
    "yolov8n_320": _seeing(lambda: yolov8n(320)),
    "yolov8n_640": _seeing(lambda: yolov8n(640)),
    "bert_base_128": _reading(BERT_BASE, 1, 128),
    "minilm_16": _reading(MINILM_L6, 1, 16, open_shapes=True),
    "minilm_128": _reading(MINILM_L6, 1, 128, open_shapes=True),
    "minilm_512": _reading(MINILM_L6, 1, 512, open_shapes=True),
    "small_mobilenet_v2": _seeing(lambda: mobilenet_v2(64, 0.35, 10), True),
    "small_mobilenet_v2_bn": _seeing(lambda: mobilenet_v2(65, 0.35, 10, normalized=True), True),
    "small_mobilenet_v3": _seeing(lambda: mobilenet_v3_small(64, 0.5, 10), True),
    "small_mobilenet_v3_operator": _seeing(lambda: mobilenet_v3_small(65, 0.5, 10, "HardSwish"), True),
    "small_mobilenet_v3_clip": _seeing(lambda: mobilenet_v3_small(64, 0.5, 10, "Clip"), True),
    "small_efficientnet": _seeing(lambda: efficientnet_b0(64, 0.5, 10), True),
    "small_yolov8": _seeing(lambda: yolov8n(64, 0.125, 5), True),
    "small_encoder": _reading(TINY, 1, 11, small=True),
    "small_encoder_open": _reading(TINY, 2, 13, open_shapes=True, small=True),
}
"""Every model by name. The full ones carry the sizes in their names where a family has several."""


def zoo_names(*, small: bool) -> list[str]:
    """Return the names of the small models, or of the full ones."""
    return [name for name, entry in ZOO.items() if entry.small == small]
