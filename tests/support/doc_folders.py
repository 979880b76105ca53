"""What a reader has at hand in front of each page: files in the folder, and what earlier code of theirs has made."""

from __future__ import annotations

import runpy
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import clgraph
from clgraph.demo.pictures import draw_text
from tests.support.decoder_folder import CHAT_TEMPLATE, write_decoder_folder
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model
from tests.support.doc_blocks import DOCS
from tests.support.fetched import fetched_model
from tests.support.models import small_model

Names = dict[str, Any]


@dataclass(frozen=True)
class Hands:
    """What is at hand.

    Attributes:
        prepare: Writes files into the folder that it is called in, and returns names.
        replaced: Returns parts of the page's blocks that are other ones here.
        needs: Packages without which the page cannot be read.
    """

    prepare: Callable[[], Names] = dict
    replaced: Callable[[], Mapping[str, str]] = dict
    needs: tuple[str, ...] = field(default=())


def _picture(path: str) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)).save(path)


def _save(nodes: list[onnx.NodeProto], path: str, x: list[int | str], y: str = "y", *more: onnx.TensorProto) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, x)], [value(y, TensorProto.FLOAT, None)], more)
    opsets = [helper.make_opsetid("", 13), *(helper.make_opsetid(name, 1) for name in ("acme", "com.x"))]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def _weights(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float32) / 6, name)


def _language_model() -> None:
    write_decoder_folder(Path("phi-3-mini"), Decoder(), chat_template=CHAT_TEMPLATE)
    Path("beginning.txt").write_text("A heron stood", encoding="utf-8")


PROGRAM = """
import onnxruntime, sys
assert sys.argv[1:] == ['--its', 'arguments']
onnxruntime.InferenceSession('model.onnx')
"""


def _readme() -> Names:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv1", strides=[4, 4]),
        helper.make_node("GlobalAveragePool", ["c"], ["m"], "mean"),
        helper.make_node("Flatten", ["m"], ["y"], "flat"),
    ]
    _save(nodes, "model.onnx", [1, 3, 224, 224], "y", _weights("w", 10, 3, 3, 3))
    _picture("cat.jpg")
    Path("classes.txt").write_text("\n".join(map(str, range(10))), encoding="utf-8")
    Path("program.py").write_text(PROGRAM, encoding="utf-8")
    _language_model()
    return {}


def _page_of_text() -> Names:
    for name in ("ocr-det", "ocr-cls", "ocr-rec"):
        fetched_model(name)
    draw_text("OpenCL 2026").save("page.png")
    return {}


def _tutorial() -> Names:
    Path("model.onnx").unlink()
    return _page_of_text()


def _command_line() -> Names:
    Path(".config/fish/completions").mkdir(parents=True)
    node = helper.make_node
    odd = [
        node("Frobnicate", ["x"], ["a"], "frob"),
        node("Blur", ["a"], ["b"], "blur", domain="com.x"),
        node("Conv", ["b", "w"], ["c"], "fine"),
        node("BatchNormalization", ["c", "w"], ["y"], "norm"),
    ]
    _save(odd, "unknown.onnx", [1, 4, 6, 6], "y", _weights("w", 4, 4, 3, 3))
    onnx.save(small_model(), "model.onnx")
    x = np.zeros((1, 3, 10, 10), np.float32)
    np.save("x.npy", x)
    np.savez("feeds.npz", x=x)
    _picture("cat.jpg")
    _picture("street.png")
    Path("classes.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    _save([node("GlobalAveragePool", ["x"], ["m"]), node("Flatten", ["m"], ["y"])], "classifier.onnx", [1, 3, 32, 32])
    _save([node("Relu", ["x"], ["mask"])], "segmenter.onnx", [1, 3, "h", "w"], "mask")
    onnx.save(small_model(), "resnet50.onnx")
    return _page_of_text()


def _debugging() -> Names:
    np.savez("feeds.npz", x=np.zeros((1, 3, 64, 64), np.float32))
    return {}


def _closed() -> Names:
    model = small_model()
    model.graph.node[0].name = "head/1"
    onnx.save(model, "model.onnx")
    return {}


def _matrix() -> Names:
    _save([helper.make_node("MatMul", ["x", "w"], ["y"], "m")], "matrix.onnx", ["n", 512], "y", _weights("w", 512, 512))
    return {}


def _open_sizes() -> Names:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    _save(nodes, "det.onnx", ["batch", 3, "height", "width"], "y", _weights("w", 8, 3, 3, 3))
    return {}


def _explorer() -> Names:
    for name in ("model", "float", "int8"):
        onnx.save(small_model(size=224), f"{name}.onnx")
    return {}


def _stages() -> Names:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["h"], "heads"),
        node("Sigmoid", ["h"], ["s"], "sigmoid"),
        node("Greater", ["s", "half"], ["a"], "above"),
        node("NonZero", ["a"], ["p"], "peaks"),
        node("Transpose", ["p"], ["r"], "rows"),
        node("GatherND", ["s", "r"], ["y"], "pick"),
    ]
    half = numpy_helper.from_array(np.float32(0.5), "half")
    _save(nodes, "detector.onnx", [1, 8, 32, 32], "y", _weights("w", 4, 8, 3, 3), half)
    return {}


def _state() -> Names:
    decoder = Decoder()
    onnx.save(decoder_model(decoder), "decoder.onnx")
    prompt, token = np.arange(3, 40)[None], np.int64([[7]])
    feeds = decoder_feeds(decoder, prompt)
    mask = np.ones((1, prompt.size + 1), feeds["attention_mask"].dtype)
    return {"prompt": prompt, "token": token, "mask": mask, "results": clgraph.compile("decoder.onnx").run(feeds)}


def _throughput() -> Names:
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    return {"x": x, "other": x + 1}


def _target() -> Names:
    _save([helper.make_node("LeakyCube", ["x"], ["y"], "cube", domain="acme", slope=0.1)], "model.onnx", [2, 30])
    return {}


def _sums() -> Names:
    axis = numpy_helper.from_array(np.int64(1), "axis")
    _save([helper.make_node("CumSum", ["x", "axis"], ["y"], "sums")], "model.onnx", [8, 32, 64], "y", axis)
    return {}


def _placed() -> Names:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "encoder1"), helper.make_node("Relu", ["c"], ["y"], "last")]
    _save(nodes, "model.onnx", [1, 3, 16, 16], "y", _weights("w", 8, 3, 3, 3))
    return {}


def _serving() -> Names:
    Path("models").mkdir()
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["y"])]
    _save(nodes, "models/resnet50.onnx", ["batch", 3, 224, 224])
    _save([helper.make_node("Add", ["x", "x"], ["y"])], "models/add.onnx", [1, 2])
    return {}


def _ports() -> Mapping[str, str]:
    http, grpc = _free_port(), _free_port()
    return {":8000": f":{http}", "serve models": f"serve models --http-port {http} --grpc-port {grpc}"}


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


HANDS: dict[str, Hands] = {
    "README.md": Hands(
        _readme, lambda: {"clgraph serve models": "clgraph serve --help"}, ("onnxruntime", "tokenizers")
    ),
    "adding_a_target.md": Hands(_target),
    "command_line.md": Hands(
        _command_line, lambda: {"--time 2": "--time .2", "demo ocr": "demo ocr --runs 1"}, ("onnxruntime",)
    ),
    "debugging.md": Hands(_debugging),
    "dynamic_shapes.md": Hands(_open_sizes),
    "explorer.md": Hands(_explorer),
    "generation.md": Hands(lambda: _language_model() or {}, needs=("tokenizers", "jinja2")),
    "index.md": Hands(_page_of_text),
    "kernels_on_cpu.md": Hands(_sums),
    "kernels_on_gpu.md": Hands(_closed),
    "memory.md": Hands(_matrix),
    "onnxruntime.md": Hands(_readme, needs=("tokenizers",)),
    "placement.md": Hands(_placed),
    "precision.md": Hands(_closed),
    "preprocessing.md": Hands(lambda: _picture("cat.jpg") or {}),
    "quantisation.md": Hands(lambda: _quantised(), needs=("onnxruntime",)),
    "serving.md": Hands(_serving, _ports, ("uvicorn", "grpc", "tritonclient")),
    "stages.md": Hands(_stages),
    "state.md": Hands(_state),
    "throughput.md": Hands(_throughput, lambda: {"other}])": "other}], seconds=0.2)"}),
    "tutorial.md": Hands(_tutorial),
}
"""By page; others need nothing but ``model.onnx`` of ``docs/examples/small_model.py``."""


def _quantised() -> Names:
    runpy.run_path("quantise.py")
    return {}


def hands(page: Path) -> Hands:
    """Put the examples of the documentation and ``model.onnx`` into this folder, and return what else *page* needs."""
    for example in (DOCS / "examples").glob("*.py"):
        Path(example.name).write_bytes(example.read_bytes())
    runpy.run_path("small_model.py")
    sys.modules.pop("small_model", None)
    return HANDS.get(page.name, Hands())
