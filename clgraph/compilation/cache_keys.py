"""Keys of the model cache: digests of the code, the options, and the requested shapes and outputs."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.core.digests import blake2
from clgraph.core.version import __version__
from clgraph.saved.circumstances import digests_in
from clgraph.saved.source_digests import digest_of
from clgraph.selector.sources import kernel_directories

if TYPE_CHECKING:
    from clgraph.compilation.cache_sources import Images
    from clgraph.compilation.sources import OpenShapes
    from clgraph.settings import Settings

_APART = ("cli", "debugging", "demo", "explorer", "generate", "onnxruntime", "ray", "serving", "tuner")
"""Packages of clgraph that no compiled model depends on: they lie above this one."""
_NOT_IN_KEY = ("cache_dir", "log_level", "memory_limit", "model_cache")


def key_of(outputs: tuple[str, ...] | None, shapes: OpenShapes, options: Settings, images: Images) -> str:
    """Return what a compiled model depends on beside its source and the device: a text of all that is given."""
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in _NOT_IN_KEY}
    spelled = {n: sorted(v) if isinstance(v, frozenset) else str(v) for n, v in values.items()}
    bound = sorted((str(name), [str(size) for size in shape]) for name, shape in shapes.items())
    done = sorted((name, repr(p)) for name, p in images.items())
    code = code_of(kernel_directories(), options.cache_dir)
    return json.dumps([__version__, code, outputs, bound, spelled, done], sort_keys=True)


@functools.cache
def code_of(directories: tuple[Path, ...], cache_dir: Path) -> str:
    """Return a digest of all code that makes a program of a file: clgraph's, the kernels', the version of onnx."""
    package = Path(__file__).parents[1]
    parts: list[str] = []
    files: list[Path] = []
    with os.scandir(package) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                files.append(Path(entry.path))
            elif entry.name not in (*_APART, "__pycache__") and entry.is_dir():
                parts.append(entry.path)
    digest = blake2(digest_of((*map(Path, sorted(parts)), *directories), digests_in(cache_dir)).encode())
    own = sorted(files)
    onnx = importlib.util.find_spec("onnx")
    if onnx is not None and onnx.origin is not None:
        own.append(Path(onnx.origin).parent / "version.py")
    for file in own:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()
