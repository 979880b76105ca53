"""Fingerprint of all that a compiled program depends on beside the model; it is reused only where that is equal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.core.cache_folder import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.version import __version__
from clgraph.errors import ModelError
from clgraph.saved.source_digests import digest_of
from clgraph.selector.sources import KERNEL_TEXTS, kernel_directories
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.graph.serial import Json
    from clgraph.selector.query import DeviceInfo

_PARTS = (
    *("core", "data", "graph", "selector", "ops", "implementations", "passes"),
    *("families", "network", "runtime", "saved", "compilation", "model"),
)
"""The packages whose code decides what a program looks like and what it computes."""

_LISTS = ("vectors", "options")
"""The circumstances that are lists of words."""

FEW = 4
"""How many words of each are named."""

_OF_LIBRARIES = frozenset({"fetch_ahead"})
"""Features that only libraries depend on, which each machine compiles for itself."""

NOT_TUNED = "none"
"""What stands for a tuning where there is none."""

_OPTIONS = (
    "device_class",
    "precision",
    "keep_f32",
    "weights",
    "weight_group",
    "disable_passes",
    "stop_after",
    "strict",
    "deny_kernels",
    "force_kernels",
    "winograd",
    "quantised_products",
    "split_batch",
    "out_of_order",
    "placement",
    "placement_fallback",
    "placement_budget",
)


def circumstances(devices: Mapping[str, DeviceInfo], options: Settings) -> dict[str, str]:
    """Return, by name, what a program for *devices* under *options* depends on."""
    info = next(iter(devices.values()))
    return {
        "device": info.name,
        "driver": "; ".join(f"{d.vendor} {d.driver}" for d in devices.values() if d.kind != "host"),
        "workers": str(info.workers),
        "vectors": f"{info.simd} {' '.join(sorted(info.features - _OF_LIBRARIES))}",
        "placements": " ".join(devices),
        "options": " ".join(f"{name}={_spell(getattr(options, name))}" for name in _OPTIONS),
        "tuning": info.tuning.digest if info.tuning else NOT_TUNED,
        "plugins": f"{options.plugins} {texts_digest()}",
        "clgraph": __version__,
        "sources": sources_digest(options.cache_dir),
    }


def differences(saved: Mapping[str, str], here: Mapping[str, str], *, whole: bool = False) -> str:
    """Say in what *saved* circumstances are not those *here*; empty for nothing.

    What was tuned elsewhere stays so where nothing has been tuned. Of instruction sets and options a few are named that
    differ, and how many more there are; all that were and are, with *whole*.
    """
    told = []
    for name, now in here.items():
        if name == "tuning" and now == NOT_TUNED:
            continue
        if (then := saved.get(name)) == now:
            continue
        if name == "sources":
            told.append("other sources of clgraph or its kernels")
        elif name in _LISTS and then and not whole:
            told.append(f"{name} {_few(then, now)}, here {_few(now, then)}")
        else:
            told.append(f"{name} {then or 'none'}, here {now or 'none'}")
    return "; ".join(told)


def _few(words: str, others: str) -> str:
    """Return the first of *words* that are not among *others*, and how many more there are."""
    known = set(others.split())
    found = [word for word in words.split() if word not in known]
    more = len(found) - FEW
    return " ".join(found[:FEW] or ["none of these"]) + (f" and {more} more" if more > 0 else "")


def recorded(options: Settings) -> Json:
    """Return those of *options* that a program depends on, by name, where they are not the defaults."""
    values = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) != getattr(Settings, name)}
    return {name: sorted(v) if isinstance(v, frozenset) else v for name, v in values.items()}


def with_recorded(options: Settings, record: Json, given: Collection[str]) -> Settings:
    """Return *options* with what :func:`recorded` wrote, but for those *given* and those that are not the defaults.

    Raises:
        ModelError: *record* is nothing of the kind.
    """
    if not isinstance(record, dict) or not record.keys() <= set(_OPTIONS):
        raise ModelError("a saved model is damaged: its options are not valid")
    kept = {n: v for n, v in record.items() if n not in given and getattr(options, n) == getattr(Settings, n)}
    return options.with_(**kept)


def texts_digest() -> str:
    """Return a digest of the kernels of custom operators."""
    texts = "".join(f"{name}\0{KERNEL_TEXTS[name]}\0" for name in KERNEL_TEXTS)
    return blake2(texts.encode()).hexdigest()[:12] if texts else ""


def sources_digest(cache_dir: Path) -> str:
    """Return a digest of clgraph's modules that compile and run, and of every kernel file there is now."""
    package = Path(__file__).parents[1]
    return digest_of((*(package / part for part in _PARTS), *kernel_directories()), digests_in(cache_dir))


def digests_in(cache_dir: Path) -> Path:
    """Return where digests of sources are remembered in the cache folder that options name."""
    return cache_folder(cache_dir) / "compiled" / "sources"


def _spell(value: object) -> str:
    return ",".join(sorted(map(str, value))) if isinstance(value, frozenset) else str(value)
