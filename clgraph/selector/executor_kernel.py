"""The kernel of every library of tile functions: what it is called, and how much memory it can address."""

from __future__ import annotations

EXECUTOR = "executor/executor_tiles.cl"
ENTRY = "executor_tiles"
"""File of the executor, and its ``__kernel``."""

BANKS = 32
"""Buffers that a library's kernel can address."""
