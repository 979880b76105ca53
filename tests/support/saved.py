"""Saved models for tests: where their header begins, and files whose header says something else."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np

import clgraph
from clgraph.core.digests import blake2
from clgraph.saved.container import MAGIC, VERSION
from tests.support.models import image

HEAD = 64


def feeds_of(model: clgraph.Model) -> dict[str, np.ndarray]:
    return {s.name: image(tuple(d for d in s.shape or () if isinstance(d, int))) for s in model.inputs}


def rewritten(path: Path, change: object = None, version: int = VERSION) -> Path:
    """Write *path* anew with another header, or as another version, checksums right."""
    data = path.read_bytes()
    nbytes = struct.unpack_from("<Q", data, 16)[0]
    header, start = json.loads(data[HEAD : HEAD + nbytes]), HEAD + nbytes + -nbytes % 64
    if callable(change):
        change(header)
    text = json.dumps(header).encode()
    body = text + bytes(-len(text) % 64) + data[start:]
    digest = blake2(text).digest() if version > 2 else hashlib.sha256(text).digest()
    head = struct.pack("<8sIIQQ32s", MAGIC, version, 0, len(text), HEAD + len(body), digest)
    path.write_bytes(head + body)
    return path
