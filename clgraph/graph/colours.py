"""Colours of operators in pictures: one a kind, the same in every picture."""

from __future__ import annotations

from colorsys import hls_to_rgb
from zlib import crc32

_LIGHTNESS, _SATURATION = 0.8, 0.6


def colour_of(kind: str) -> str:
    """Return a light colour as ``#rrggbb``, its hue by the text of *kind*."""
    shares = hls_to_rgb(crc32(kind.encode()) % 360 / 360, _LIGHTNESS, _SATURATION)
    return "#" + "".join(f"{round(255 * share):02x}" for share in shares)
