"""Networks of 8-bit integers, as ONNX Runtime's quantiser writes them; each is written once into the cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from clgraph.core.cache_folder import cache_folder
from clgraph.errors import ClgraphError
from clgraph.settings import settings
from tests.support.models import image, with_batch
from tools.benchmark.cases import Feeds, load
from tools.benchmark.peers import installed

INT8 = "-int8"
"""Behind the name of a network in float32: that network, quantised."""


def load_int8(text: str) -> tuple[onnx.ModelProto, Feeds]:
    """Return a quantised network and its input: of images, such as ``resnet50-int8@64x3x224x224``.

    Raises:
        ClgraphError: onnxruntime is not installed, or the network in floats cannot be had.
    """
    name, _, given = text.partition("@")
    shape = tuple(int(size) for size in given.split("x"))
    path = cache_folder(settings().cache_dir) / "models" / f"{name}.onnx"
    if not path.is_file():
        model, feeds = load("@".join([name.removesuffix(INT8), "x".join(map(str, (1, *shape[1:])))]))
        made = quantised(model, feeds)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        onnx.save(made, part)
        part.replace(path)
    model = with_batch(onnx.load(path), shape[0])
    return model, {model.graph.input[0].name: image(shape)}


def quantised(model: onnx.ModelProto, feeds: Feeds) -> onnx.ModelProto:
    """Return *model* with 8 bits around its operators, ranges from one run, weights with a scale for each output.

    Softmax stays in floats: 256 steps from 0 to 1 leave few for the probabilities of a thousand classes.

    Raises:
        ClgraphError: onnxruntime is not installed.
    """
    if installed("onnxruntime") is None:
        raise ClgraphError("onnxruntime, whose quantiser makes the network of 8-bit integers, is not installed")
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):  # type: ignore[misc]
        left = iter([feeds])

        def get_next(self) -> Feeds | None:
            return next(self.left, None)

    with tempfile.TemporaryDirectory(prefix="clgraph-int8-") as folder:
        floats, prepared, made = (Path(folder) / f"{stem}.onnx" for stem in ("floats", "prepared", "made"))
        if next(i.version for i in model.opset_import if not i.domain) < 13:  # the first with scales of an axis
            model = onnx.version_converter.convert_version(model, 13)
        onnx.save(model, floats)
        quant_pre_process(floats, prepared, skip_symbolic_shape=True)
        kinds = sorted({*QDQRegistry, *QLinearOpsRegistry} - {"Softmax"})
        quantize_static(
            prepared, made, Once(), quant_format=QuantFormat.QDQ, per_channel=True, op_types_to_quantize=kinds
        )
        return onnx.load(made)


def by_onnxruntime(model: onnx.ModelProto, feeds: Feeds) -> list[NDArray[Any]]:
    """Return the results of ONNX Runtime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[NDArray[Any]] = session.run(None, dict(feeds))
    return found
