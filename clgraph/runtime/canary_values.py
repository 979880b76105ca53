"""Correctness tests of the canary: kernels with constructs that compilers miscompile when they misidentify a CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from clgraph.runtime.canary_kernels import Canary, Words

_COUNT = 256
"""Elements of the values."""


def wrong(canary: Canary) -> str:
    """Return a description of what the device computes wrongly, or an empty string."""
    if canary.abi_warnings:
        times = canary.abi_warnings
        return f"its compiler passes vectors in other places than its built-in library ({times} warnings)"
    x = np.linspace(-6, 6, _COUNT, dtype=np.float32)
    n = np.arange(_COUNT, dtype=np.int32) * 0x01020305 ^ 0x55AA
    y, j = np.zeros((4, _COUNT), np.float32), np.zeros((8, _COUNT), np.int32)
    held = [canary.upload(a) for a in (x, n, y, j)]
    canary.run("values", _COUNT // canary.simd, *held, np.int32(_COUNT))
    floats, integers = canary.read(held[2], y), canary.read(held[3], j)
    for row, want in enumerate(_floats(x.astype(np.float64), n)):
        with np.errstate(invalid="ignore"):
            good = np.abs(floats[row] - want) <= 8 * np.spacing(np.abs(want).astype(np.float32))
        if not good.all():
            at = int(np.argmin(good))
            return f"it computes {floats[row, at]!s} where {want[at]:.7g} is right (row {row} of canary_values)"
    for row, exact in enumerate(_integers(x, n)):
        if not np.array_equal(integers[row], exact):
            at = int(np.argmax(integers[row] != exact))
            return f"it computes {integers[row, at]} where {exact[at]} is right (integers {row} of canary_values)"
    return next(filter(None, (_FURTHER[name](canary) for name in canary.further)), "")


def _floats(x: Words, n: Words) -> list[Words]:
    first = np.maximum(x, 0.25) + np.exp(-x) * (x * x + (n & 7))
    near = (np.float32(1) + np.abs(x).astype(np.float32)).astype(np.float64)
    return [first, np.sqrt(np.abs(x)) / (1 + np.abs(x)), np.log(near), np.floor(x)]


def _integers(x: Words, n: Words) -> list[Words]:
    unsigned, wide = n.view(np.uint32), n.astype(np.int64)
    scaled = (x * np.float32(1e9)).astype(np.float64)
    rotated = ((unsigned << np.uint32(9)) | (unsigned >> np.uint32(23))).view(np.int32)
    bits = [f"{int(value):032b}" for value in unsigned]
    halves = np.zeros((_COUNT, 2), np.float16)
    halves[:, 0] = x
    return [
        np.trunc(np.clip(scaled, -(2.0**31), 2.0**31 - 1)).astype(np.int32),
        np.maximum(n, 3) >> (n & 7),
        np.array([len(b) - len(b.lstrip("0")) for b in bits], np.int32),
        np.array([b.count("1") for b in bits], np.int32),
        (wide * wide >> 32).astype(np.int32),
        rotated ^ (n & ~(n >> 3)),
        np.clip(np.rint(x * np.float32(50)), 0, 255).astype(np.int32),
        halves.reshape(-1).view(np.int32),
    ]


def _wrong_byte_sums(canary: Canary, *, name: str, groups: int, end: int, instruction: str) -> str:
    """Try products of unsigned bytes below *end* with signed ones, four to a sum."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, end, (32, 4)).astype(np.uint8), rng.integers(-128, 128, (32, 4)).astype(np.int8)
    acc = np.arange(32, dtype=np.int32)
    held = [canary.upload(v.reshape(-1).view(np.int32)) for v in (a, b)] + [canary.upload(acc)]
    canary.run(name, groups, *held)
    right = np.array_equal(canary.read(held[2], acc), acc + (a.astype(np.int32) * b).sum(1))
    return "" if right else f"it computes other sums by {instruction} than it should"


def _wrong_bf16(canary: Canary) -> str:
    rng = np.random.default_rng(0)
    floats = rng.standard_normal((3, 32)).astype(np.float32)
    held = [canary.upload(a) for a in floats]
    canary.run("bf16", 2, *held)
    bits = floats[:2].view(np.uint32)
    a, b = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)
    # Both halves of an element are the same number: twice its product, two additions rounded.
    want = floats[2] + 2 * a * b
    size = np.abs(floats[2]) + 2 * np.abs(a * b)
    right = (np.abs(canary.read(held[2], floats[2]) - want) <= 2 * 2.0**-24 * size).all()
    return "" if right else "it computes other sums by vdpbf16ps than it should"


def _wrong_lookups(canary: Canary) -> str:
    """Try every byte as a place in a table of 256."""
    rng = np.random.default_rng(0)
    places, entries = (rng.permutation(256).astype(np.uint8) for _ in range(2))
    found = np.zeros(256, np.uint8)
    held = [canary.upload(v.view(np.int32)) for v in (places, entries, found)]
    canary.run("vbmi", 4, *held)
    right = np.array_equal(canary.read(held[2], found), entries[places])
    return "" if right else "it finds other bytes by vpermi2b than it should"


def _wrong_tiles(canary: Canary) -> str:
    """Try a product of 16 x 32 by 32 x 16 numbers that bfloat16 holds."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (16, 32)).astype(np.float32) for _ in range(2))
    acc = rng.integers(-8, 9, (16, 16)).astype(np.float32)
    halves = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b)]
    held = [canary.upload(v.view(np.int32)) for v in halves] + [canary.upload(acc)]
    canary.run("amx_bf16", 1, *held)
    right = b.reshape(16, 16, 2).transpose(0, 2, 1).reshape(32, 16)
    good = np.array_equal(canary.read(held[2], acc), acc + a @ right)
    return "" if good else "it computes other sums by tdpbf16ps than it should"


_FURTHER: dict[str, Callable[[Canary], str]] = {
    "vnni": partial(_wrong_byte_sums, name="vnni", groups=2, end=256, instruction="vpdpbusd"),
    # Sums of two products of bytes below 128 do not saturate.
    "byte_pairs": partial(_wrong_byte_sums, name="byte_pairs", groups=4, end=128, instruction="vpmaddubsw"),
    "bf16": _wrong_bf16,
    "vbmi": _wrong_lookups,
    "amx_bf16": _wrong_tiles,
}
"""Instructions that only some CPUs have, by the feature: what is wrong with them, or an empty text."""
