"""Libraries of tile functions that an earlier process has composed: 28 ms of a start that compiles, 3 to read one."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.handlers import suppressed
from clgraph.saved.circumstances import sources_digest
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.library import Library, compose
from clgraph.selector.micro_kernels import FAMILIES


def library_key(name: str, simd: int) -> str:
    """Return what a library for devices with *simd* floats in a vector is called in a saved model."""
    return f"{name} {simd}"


def library_of(name: str, simd: int, cache_dir: Path) -> Library:
    """Return what :func:`compose` returns, out of the cache folder where sources are those that it was made of.

    Args:
        cache_dir: As the options have it.

    Raises:
        RegistrationError: As :func:`compose`.
    """
    if DESCRIPTORS.third_party() or FAMILIES.third_party():
        return compose(name, simd)
    return _kept(name, simd, cache_dir)


@functools.lru_cache(maxsize=8)
def _kept(name: str, simd: int, cache_dir: Path) -> Library:
    sources = sources_digest(cache_dir)
    # One file for these sources wherever they lie: those that change leave none behind.
    file = blake2(os.fsencode(f"{Path(__file__)} {name} {simd}")).hexdigest()[:32]
    path = cache_folder.cache_folder(cache_dir) / "compiled" / "libraries" / file
    with suppressed(OSError, ValueError, TypeError):
        head, _, text = cache_folder.read(path).partition(b"\n")
        told, functions, instances = json.loads(head)
        if told == _told(sources, text):
            return Library(name, text.decode(), tuple(functions), instances)
    made = compose(name, simd)
    text = made.text.encode()
    # A folder that cannot be written costs the time of composing, no more.
    with suppressed(OSError):
        told = json.dumps([_told(sources, text), made.functions, made.instances])
        cache_folder.write(path, told.encode() + b"\n" + text)
    return made


def _told(sources: str, text: bytes) -> str:
    """Return what stands for a text that was made of sources of that digest."""
    return blake2(sources.encode() + text).hexdigest()
