"""Digests by which clgraph knows its own texts and files: BLAKE2b, for which OpenSSL is not loaded.

``hashlib`` loads it, 3 ms of a start. Files of others, and weights, are known by SHA-256: ``hashlib`` is imported
where that is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

NBYTES = 32


def blake2(content: bytes = b"") -> blake2b:
    """Return the digest of *content*, to which more can be added; of ``NBYTES``."""
    return blake2b(content, digest_size=NBYTES)
