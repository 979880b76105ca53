"""Calls of ``clgraph.compile`` whose models may be in the model cache: which these are, and what they are known by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.compilation.cache_files import ModelCache, kept_for
from clgraph.compilation.cache_keys import key_of
from clgraph.compilation.cache_sources import CacheSource, Images, source_of
from clgraph.core.cache_folder import cache_folder
from clgraph.core.frozen import frozen
from clgraph.core.registry import third_party
from clgraph.engines.records import is_dry

if TYPE_CHECKING:
    from clgraph.compilation.sources import OpenShapes
    from clgraph.settings import Settings


@frozen
class Cached:
    """One call of ``clgraph.compile`` whose model may be in the cache.

    Attributes:
        key: What the compiled model depends on beside the source and the device.
    """

    source: CacheSource
    outputs: tuple[str, ...] | None
    shapes: OpenShapes
    options: Settings
    key: str
    images: Images
    cache: ModelCache = field(init=False)

    def __post_init__(self) -> None:
        folder, limit = cache_folder(self.options.cache_dir) / "compiled", self.options.model_cache << 20
        object.__setattr__(self, "cache", ModelCache(folder, limit))

    @staticmethod
    def of(
        source: object,
        outputs: Sequence[str] | None,
        shapes: OpenShapes | None,
        options: Settings,
        images: Images | None = None,
    ) -> Cached | None:
        """Return the call; ``None`` where it is none that the cache serves.

        It serves files that have been left alone for a while and models in memory, on one device, where nothing but
        clgraph itself decides what is computed and nothing is to be seen or checked on the way.
        """
        if not options.model_cache:
            return None
        if options.placement or options.placement_fallback or options.placement_budget:
            return None
        if options.poison or options.verify_passes:
            return None
        if options.dump_graphs is not None or is_dry(options) or options.device == "host" or "," in options.device:
            return None
        if third_party() or (found := source_of(source)) is None:
            return None
        names = None if outputs is None else tuple(outputs)
        key = key_of(names, shapes or {}, options, images or {})
        return Cached(found, names, shapes or {}, options, key, images or {})

    def entry(self, content: str) -> Path:
        """Return the path of what is kept of a model's *content*, for this call."""
        return self.cache.entry(self.source.nbytes, content, self.key)

    def kept_for(self, content: str) -> str:
        """Return what an entry that is kept for this call says."""
        return kept_for(content, self.key)

    def is_foreign(self) -> bool:
        """Whether others than clgraph decide what is computed."""
        return bool(third_party())
