"""Language models that are measured: decoders with random weights, written once into the cache folder."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from clgraph.core.cache_folder import cache_folder
from clgraph.settings import settings
from tests.support.decoder_folder import write_decoder_folder
from tests.support.decoder_weights import Decoder

_SMALL = Decoder(
    layers=8, width=512, heads=8, shared=2, head_size=64, inner=1408, vocabulary=32000, positions=2048, packed_qkv=True
)
_APART = replace(_SMALL, packed_qkv=False)
_MEDIUM = replace(_SMALL, layers=12, width=1024, heads=16, shared=4, inner=2816, bits=4)
_WIDE = replace(_MEDIUM, layers=3, width=4096, heads=32, shared=8, head_size=128, inner=14336)
_HALF_BILLION = replace(_SMALL, layers=24, width=1280, heads=20, shared=4, inner=3456, bits=4)

LANGUAGE = {
    "small-genai-f32": _SMALL,
    "small-onnx23-f32": replace(_APART, export="onnx23"),
    "small-optimum-f32": replace(_APART, export="optimum"),
    "small-genai-f16": replace(_SMALL, dtype="float16"),
    "small-genai-q8": replace(_SMALL, bits=8),
    "small-genai-q4": replace(_SMALL, bits=4),
    "small-genai-q4-level4": replace(_SMALL, bits=4, accuracy=4),
    "medium-genai-q4": _MEDIUM,
    "medium-genai-q4-level4": replace(_MEDIUM, accuracy=4),
    "half-billion-genai-q4": _HALF_BILLION,
    "half-billion-genai-q4-level4": replace(_HALF_BILLION, accuracy=4),
    "wide-genai-q4": _WIDE,
}
"""By size (55, 201 and 495 million parameters; 3 layers of a model of 7 billion, eight times the cache of an H200 in 4
bits), export, width of the weights, and accuracy level of their products."""
LANGUAGE_SET = tuple(name for name in LANGUAGE if not name.startswith("wide"))
"""Those of ``--set language``; the other one is for GPUs, whose caches hold the weights of a smaller one."""

_ABOUT = "decoder.json"
"""What a folder was written from; the last file of it."""


def folder_of(name: str, parent: Path | None = None) -> Path:
    """Return the folder of one of :data:`LANGUAGE`, written where it is not there, or was from other sizes.

    Args:
        parent: Where it belongs; ``models`` in the cache folder by default.

    Raises:
        OptionError: The cache folder cannot be used.
    """
    d = LANGUAGE[name]
    folder = (parent or cache_folder(settings().cache_dir) / "models") / f"language-{name}"
    about = folder / _ABOUT
    if not about.is_file() or json.loads(about.read_text(encoding="utf-8")) != asdict(d):
        about.unlink(missing_ok=True)
        (folder / "model.onnx.data").unlink(missing_ok=True)  # onnx appends to what is there
        write_decoder_folder(folder, d)
        about.write_text(json.dumps(asdict(d)), encoding="utf-8")
    return folder


def weight_bytes(folder: Path) -> int:
    """Return the size of the model's files."""
    return sum(path.stat().st_size for path in folder.glob("model.onnx*"))


def bytes_of_a_token(d: Decoder, folder: Path) -> int:
    """Return how many bytes of weights a token needs at least: all but the embeddings, of which it needs a row."""
    return weight_bytes(folder) - d.vocabulary * d.width * (2 if d.dtype == "float16" else 4)
