"""Models that were saved without weights: these come out of the ONNX file, and the model is compiled, or cached."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.compilation.cache_entries import keep_later
from clgraph.compilation.cache_files import ModelCache
from clgraph.compilation.cache_sources import CacheSource, Images, Read, source_of
from clgraph.compilation.cached_models import cached_model
from clgraph.compilation.load import Loader
from clgraph.compilation.model_cache import Cached
from clgraph.compilation.sources import OpenShapes, read_source
from clgraph.core.mapped import MappedFile
from clgraph.engines.opening import load_extensions
from clgraph.errors import OptionError
from clgraph.graph.faults import faults
from clgraph.graph.primitive import primitive_of
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.saved.circumstances import with_recorded
from clgraph.saved.container import Contents
from clgraph.saved.topologies import decode_topology
from clgraph.saved.withheld import found_in
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.frontend.files import Source


class _WeightsApart:
    """A file without weights beside the ONNX model that has them; a source that the model cache knows."""

    def __init__(self, path: str | os.PathLike[str], weights: Source | Topology) -> None:
        """Open the file at *path*.

        Raises:
            ModelError: It cannot be read.
            OptionError: It has weights of its own.
        """
        self.contents = Contents(Path(path))
        if "withheld" not in self.contents.header:
            raise OptionError(
                f"--weights-from (in Python, weights_from) does nothing: {path} contains its weights; omit it"
            )
        self._weights = bytes(weights) if isinstance(weights, bytearray | memoryview) else weights
        self._digest = hashlib.sha256(repr(self.contents.header).encode()).hexdigest()
        self.known: CacheSource | None = source_of(self._weights)

    def topology(self) -> Topology:
        """Return the topology of the file with its weights.

        Raises:
            ModelError: The weights cannot be read, or are another model's.
        """
        contents, weights = self.contents, self._weights
        source = os.fspath(weights) if isinstance(weights, str | os.PathLike) else "the model of the weights"
        read = read_source(weights, None, None)
        find = found_in(read, contents.header["withheld"], contents.path, str(source))
        return decode_topology(contents.header.get("topology"), find, primitive_of)

    def __str__(self) -> str:
        return str(self.contents.path)

    @property
    def nbytes(self) -> int:
        return 0 if self.known is None else self.known.nbytes

    def content(self, cache: ModelCache) -> str | None:
        return self._told(None if self.known is None else self.known.content(cache))

    def learn(self, cache: ModelCache) -> str | None:
        return self._told(None if self.known is None else self.known.learn(cache))

    def reader(self, content: str, outputs: tuple[str, ...] | None, shapes: OpenShapes, images: Images) -> Read:
        def read() -> dict[str, Any]:
            again = self.topology()
            return {"layers": again.layers, "constants": again.constants}

        return read

    def holds(self, file: MappedFile) -> bool:
        return file.path == self.contents.path or (self.known is not None and self.known.holds(file))

    def _told(self, weights: str | None) -> str | None:
        return None if weights is None else hashlib.sha256(f"{self._digest} {weights}".encode()).hexdigest()


@faults("loading the model")
def load_apart(
    path: str | os.PathLike[str], weights: Source | Topology, options: Settings, given: Collection[str]
) -> Model:
    """Return the model in a file without weights; raises what :func:`clgraph.load` does.

    Args:
        weights: The ONNX model that it was saved from.
        given: The names of options that the caller gave, which go before those that the file was saved with.
    """
    apart = _WeightsApart(path, weights)
    options = with_recorded(options, apart.contents.header.get("options", {}), given)
    load_extensions(options)
    cached = None if apart.known is None else Cached.of(apart, None, None, options)

    def anew() -> Model:
        model = Loader(apart.contents, options).model(apart.topology())
        if cached is not None:
            keep_later(cached, model)
        return model

    return (None if cached is None else cached_model(cached, anew)) or anew()


@faults("loading the model")
def apart_topology(path: str | os.PathLike[str], weights: Source | Topology, options: Settings) -> Topology:
    """Return the topology in a file without weights, with them; raises what :func:`clgraph.load` does."""
    load_extensions(options)
    return _WeightsApart(path, weights).topology()
