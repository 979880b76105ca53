"""Models out of the model cache: by their images where there are some, else as they were saved there.

A start that finds the image of its model needs what is imported here; the rest is imported where it is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.compilation.images import Image, read_image
from clgraph.errors import ModelError
from clgraph.model.kept_model import KeptModel
from clgraph.saved.container import Contents

if TYPE_CHECKING:
    from clgraph.compilation.cache_sources import Read
    from clgraph.compilation.model_cache import Cached
    from clgraph.graph.topology import Topology
    from clgraph.model.model import Model

Anew = Callable[[], "Model"]
"""Compiles a model that is not in the cache."""


def cached_model(call: Cached, anew: Anew) -> Model | None:
    """Return the model of *call*, ready to run; ``None`` where the cache does not have it, or what it has is damaged.

    Args:
        anew: Compiles it where it proves damaged when it is asked for more than runs.
    """
    content = call.content
    if content is None or not call.cache.has(entry := call.entry(content)):
        return None
    if (image := _image(call, content, entry)) is not None:
        call.cache.note_use(entry)
        # The file is opened now: later its name may be gone.
        read = call.source.reader(content, call.outputs, call.shapes, call.images)
        rest = _Rest(call, content, image, read, anew)
        return KeptModel(image.quick, image.inputs, image.indices, image.device, rest.topology, rest.model)
    from clgraph.compilation.cache_entries import load_entry

    return load_entry(call, content)


def _image(call: Cached, content: str, entry: Path) -> Image | None:
    path = call.cache.image(entry)
    # With a limit of memory, what a program takes is worked out from its nodes.
    if call.options.memory_limit or not call.cache.has(path):
        return None
    return read_image(path, entry, call.kept_for(content), call.options)


class _Rest:
    """What an entry holds beside what its image runs."""

    def __init__(self, call: Cached, content: str, image: Image, read: Read, anew: Anew) -> None:
        self._call, self._content, self._read, self._anew = call, content, read, anew
        self._file = image.file

    def topology(self) -> Topology:
        try:
            return self._topology
        except ModelError:
            return self.model().topology

    @functools.cached_property
    def _contents(self) -> Contents:
        return Contents(Path(self._file.path), self._file)

    @functools.cached_property
    def _topology(self) -> Topology:
        from clgraph.compilation.cache_entries import topology_of

        return topology_of(self._contents, self._read)

    def model(self) -> Model:
        return self._model

    @functools.cached_property
    def _model(self) -> Model:
        from clgraph.compilation.cache_entries import drop, load_contents

        try:
            found = load_contents(self._call, self._content, self._contents, self._topology)
        except ModelError as error:
            drop(self._call, self._content, error)
            found = None
        return self._anew() if found is None else found
