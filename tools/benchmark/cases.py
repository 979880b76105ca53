"""The models that are measured, each with inputs, and the sets of them with their goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from clgraph.demo.fetch import MODELS, fetch_model
from clgraph.errors import InputError
from clgraph.frontend.files import read_model
from tests.support.models import image, light_model, light_names, with_batch
from tests.support.zoo import ZOO, zoo_names
from tools.benchmark.operator_draws import draw_case, is_drawn
from tools.benchmark.operators import OPERATORS
from tools.benchmark.small import SMALL

Feeds = dict[str, NDArray[Any]]

NORMALIZED = {"ocr-rec": (1, 3, 48, 320), "ocr-cls": (1, 3, 48, 192), "ocr-det": (1, 3, 640, 640)}
"""Shapes of the fetched models, whose dimensions are open, where none is given."""


@dataclass(frozen=True)
class Goal:
    """What clgraph's time may be, relative to another runtime's: the geometric mean of a set, and the worst model."""

    mean: float | None
    worst: float | None = None
    exceptions: dict[str, float] = field(default_factory=dict)

    def worst_of(self, model: str) -> float | None:
        """Return the bound of one model."""
        return self.exceptions.get(model, self.worst)


@dataclass(frozen=True)
class ModelSet:
    """Models that are judged together, and the goals by runtime."""

    models: tuple[str, ...]
    goals: dict[str, Goal]


SETS = {
    "cnn": ModelSet(
        tuple(light_names()),
        {
            "onnxruntime": Goal(0.72, 1.0, dict.fromkeys(("bvlc_alexnet", "zfnet512", "shufflenet"), 1.05)),
            "openvino": Goal(0.80),
        },
    ),
    "ocr": ModelSet(
        ("ocr-det@1x3x640x640", "ocr-det@1x3x480x800", "ocr-rec@1x3x48x320", "ocr-rec@6x3x48x320", "ocr-cls"),
        {"onnxruntime": Goal(None, 1.05), "openvino": Goal(None, 1.2)},
    ),
    "mobile": ModelSet(
        ("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "yolov8n_320", "yolov8n_640"),
        {"onnxruntime": Goal(0.95, 1.1)},
    ),
    "text": ModelSet(("bert_base_128", "minilm_16", "minilm_128", "minilm_512"), {"onnxruntime": Goal(0.90, 1.05)}),
    "operators": ModelSet(tuple(OPERATORS), {"onnxruntime": Goal(1.0, 2.0)}),
    "small": ModelSet(tuple(SMALL), {"onnxruntime": Goal(1.0)}),
    "batch": ModelSet(("resnet50@8x3x224x224", "resnet50@32x3x224x224"), {"onnxruntime": Goal(None, 0.90)}),
}


def known_models() -> list[str]:
    """Return the names that :func:`load` takes besides paths."""
    return [*light_names(), *MODELS, *zoo_names(small=False), *SMALL]


def is_known(text: str) -> bool:
    """Whether :func:`load` takes *text*: a name, or a file that is there."""
    name = text.partition("@")[0]
    return text in OPERATORS or is_drawn(text) or name in known_models() or name in ZOO or Path(name).is_file()


def load(text: str) -> tuple[onnx.ModelProto, Feeds]:
    """Return a model and its inputs.

    Args:
        text: An architecture with random weights, a fetched or a small model, an operator, of the sets or drawn, or a
            file; then ``@1x3x224x224`` where a shape is to be given to its inputs.

    Raises:
        InputError: The file is none, dimensions are open and no shape is given, or a model of one shape gets one.
        DownloadError: The model cannot be fetched.
    """
    name, _, given = text.partition("@")
    shape = tuple(int(size) for size in given.split("x")) if given else None
    if text in OPERATORS:
        return OPERATORS[text]().model()
    if is_drawn(text):
        return draw_case(text).model()
    if text in SMALL:
        return SMALL[text]()
    if name in ZOO:
        if given:
            raise InputError(f"{name} has one shape: leave out @{given}")
        return ZOO[name].make()
    if name in light_names():
        model = light_model(name)
        model = with_batch(model, shape[0]) if shape else model
    else:
        model, _, _ = read_model(fetch_model(name) if name in MODELS else name)
        shape = shape or NORMALIZED.get(name)
    constants = {t.name for t in model.graph.initializer}
    return model, {v.name: _random(v, shape, text) for v in model.graph.input if v.name not in constants}


def _random(value: onnx.ValueInfoProto, shape: Sequence[int] | None, model: str) -> NDArray[np.float32]:
    sizes = tuple(shape or (d.dim_value for d in value.type.tensor_type.shape.dim))
    if not all(sizes):
        raise InputError(f"{model} has open dimensions: give its shape, {model}@1x3x...")
    return image(sizes)


def chosen(sets: Sequence[str], models: Sequence[str], only: str = "") -> list[tuple[str, str]]:
    """Return (set, model) of everything to be measured; single models are of the set ``""``.

    ``all`` is every set of networks; the operators are measured where they are asked for. Of sets, the models with
    *only* in their names.
    """
    names = [name for name in SETS if name != "operators" or name in sets] if "all" in sets else list(sets)
    return [(name, model) for name in names for model in SETS[name].models if only in model] + [
        ("", model) for model in models
    ]
