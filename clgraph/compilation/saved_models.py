"""Behind ``clgraph.load``: saved models, by their images where the model cache has some.

The first process that loads a file keeps its image, and those after it start by that. What the file itself holds is
read by :mod:`clgraph.compilation.load`, which is imported where there is no image, or more is asked for than runs.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.compilation.cache_files import ModelCache, kept_for
from clgraph.compilation.cache_keys import key_of
from clgraph.compilation.images import Image, keep_image, read_image
from clgraph.compilation.model_cache import cache_of, is_served
from clgraph.core.frozen import frozen
from clgraph.engines.opening import load_extensions
from clgraph.graph.faults import faults
from clgraph.model.kept_model import KeptModel
from clgraph.runtime.driver import expect_devices
from clgraph.saved.container import Contents, identity_of, map_file

if TYPE_CHECKING:
    from clgraph.core.mapped import MappedFile
    from clgraph.graph.topology import Topology
    from clgraph.model.model import Model
    from clgraph.settings import Settings


@faults("loading the model")
def load_saved(path: str | os.PathLike[str], options: Settings) -> Model:
    """Return the model in a file of :meth:`clgraph.Model.save`; raises what :func:`clgraph.load` does."""
    file = map_file(Path(path))
    load_extensions(options)
    kept = _Kept.of(file, options) if is_served(options) else None
    if kept is not None and (image := kept.image(file)) is not None:
        rest = _Rest(file, options)
        return KeptModel(image.quick, image.inputs, image.indices, image.device, rest.topology, rest.model)
    rest = _Rest(file, options)
    model = rest.model()
    if kept is not None:
        kept.keep(rest.contents, model)
    return model


@frozen
class _Kept:
    """Where the cache keeps the image of a saved model.

    Attributes:
        name: What would be an entry: what lies beside it has its name.
        kept_for: What the image answers.
    """

    cache: ModelCache
    name: Path
    kept_for: str
    options: Settings

    @staticmethod
    def of(file: MappedFile, options: Settings) -> _Kept:
        """Return the place of the image of *file*, which its header tells from others, wherever it lies."""
        cache, content = cache_of(options), f"saved {identity_of(file)}"
        expect_devices()
        key = key_of(None, {}, options, {})
        return _Kept(cache, cache.entry(len(file), content, key), kept_for(content, key), options)

    def image(self, file: MappedFile) -> Image | None:
        """Return the image that *file* can be run by here, ``None`` where there is none."""
        path = self.cache.image(self.name)
        # With a limit of memory, what a program takes is worked out from its nodes.
        if self.options.memory_limit or not self.cache.has(path):
            return None
        if (found := read_image(path, file, self.kept_for, self.options)) is not None:
            self.cache.note_use(self.name)
        return found

    def keep(self, contents: Contents, model: Model) -> None:
        """Keep the image of *model*, just loaded, where it runs what was saved."""
        from clgraph.compilation.load import AS_SAVED

        if any(made.notes.get("load") != AS_SAVED for made in model.compiled.values()):
            return
        if keep_image(self.cache.image(self.name), contents, self.kept_for, self.options, model):
            self.cache.note_use(self.name)
            self.cache.trim()


class _Rest:
    """What a file holds beside what its image runs."""

    def __init__(self, file: MappedFile, options: Settings) -> None:
        self._file, self._options = file, options

    @functools.cached_property
    def contents(self) -> Contents:
        return Contents(Path(self._file.path), self._file)

    def topology(self) -> Topology:
        return self._topology

    @functools.cached_property
    def _topology(self) -> Topology:
        from clgraph.compilation.load import read_topology

        return read_topology(self.contents)

    def model(self) -> Model:
        return self._model

    @functools.cached_property
    def _model(self) -> Model:
        from clgraph.compilation.load import Loader

        return Loader(self.contents, self._options).model(self._topology)
