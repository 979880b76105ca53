"""Calls of ``clgraph.compile`` whose models may be in the model cache: which these are, and what they are known by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.compilation.cache_files import ModelCache, kept_for
from clgraph.compilation.cache_keys import key_of
from clgraph.compilation.cache_sources import CacheSource, Images, source_of
from clgraph.core.cache_folder import cache_folder
from clgraph.core.frozen import frozen
from clgraph.core.registry import third_party
from clgraph.engines.records import is_dry
from clgraph.runtime.driver import expect_devices

if TYPE_CHECKING:
    from clgraph.compilation.sources import OpenShapes
    from clgraph.settings import Settings


def cache_of(options: Settings) -> ModelCache:
    """Return the model cache in the folder that *options* name."""
    return ModelCache(cache_folder(options.cache_dir) / "compiled", options.model_cache << 20)


def is_served(options: Settings) -> bool:
    """Whether models under *options* may come out of the cache.

    They are on one device, nothing but clgraph itself decides what is computed, and nothing is to be seen or checked on
    the way.
    """
    if not options.model_cache or options.placement or options.placement_fallback or options.placement_budget:
        return False
    if options.poison or options.verify_passes or options.dump_graphs is not None:
        return False
    return not (is_dry(options) or options.device == "host" or "," in options.device or third_party())


@frozen
class Cached:
    """One call of ``clgraph.compile`` whose model may be in the cache.

    Attributes:
        key: What the compiled model depends on beside the source and the device.
        content: The digest of the model at the call, ``None`` where the cache had nothing of it.
    """

    source: CacheSource
    outputs: tuple[str, ...] | None
    shapes: OpenShapes
    options: Settings
    key: str
    images: Images
    cache: ModelCache
    content: str | None

    @staticmethod
    def of(
        source: object,
        outputs: Sequence[str] | None,
        shapes: OpenShapes | None,
        options: Settings,
        images: Images | None = None,
    ) -> Cached | None:
        """Return the call; ``None`` where it is none that the cache serves.

        It serves files that have been left alone for a while and models in memory, where :func:`is_served`.
        """
        if not is_served(options) or (found := source_of(source)) is None:
            return None
        content = found.content(cache := cache_of(options))
        if content is not None:
            expect_devices()  # beside which the key is found
        names = None if outputs is None else tuple(outputs)
        key = key_of(names, shapes or {}, options, images or {})
        return Cached(found, names, shapes or {}, options, key, images or {}, cache, content)

    def entry(self, content: str) -> Path:
        """Return the path of what is kept of a model's *content*, for this call."""
        return self.cache.entry(self.source.nbytes, content, self.key)

    def kept_for(self, content: str) -> str:
        """Return what an entry that is kept for this call says."""
        return kept_for(content, self.key)

    def is_foreign(self) -> bool:
        """Whether others than clgraph decide what is computed."""
        return bool(third_party())
