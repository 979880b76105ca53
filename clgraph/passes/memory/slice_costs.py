"""In how many slices a batch is computed fastest."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.selector.query import DeviceInfo

SLICE_SECONDS = 2.0e-4
"""What each slice has to save: starting and ending a run twice over."""

_FUSED = frozenset({"activation", "batch_normalization", "eltwise", "reshape"})
"""Kinds of operators that will be fused where they have one input; their modules need not be imported to ask."""


def fastest_slices(program: Program, device: DeviceInfo) -> int:
    """Return how many slices of the batch are fastest for a program that is known to be of entries apart."""
    first, cache = program.inputs[0].layout.shape, device.costs.cache_bytes
    # By identity: nodes that are alike share layouts, of which there are a tenth as many as values.
    layouts = {id(v.layout): v.layout for v in program.inputs}
    layouts |= {id(v.layout): v.layout for node in program for v in node.outputs}
    sizes = {number: layout.nbytes for number, layout in layouts.items()}
    # What fits the cache whole does so in slices.
    large = max(sizes.values())
    spilling = [
        (nbytes, _handed_on(node, sizes))
        for node in program
        if (len(node.inputs) + len(node.outputs)) * large > cache and (nbytes := moved(node, sizes)) > cache
    ]
    if not any(handed for _, handed in spilling):
        return 1
    weights = sum(v.layout.nbytes for v in program.constants)
    each = [(nbytes / first[0], handed / first[0]) for nbytes, handed in spilling]

    def seconds(slices: int) -> float:
        entries = first[0] // slices
        spilt = first[0] * sum(handed for nbytes, handed in each if nbytes * entries > cache)
        again = (slices - 1) * (weights if weights > cache else 0)
        return (spilt + again) / device.bytes_per_second + (slices - 1) * SLICE_SECONDS

    return min(divisors(first[0]), key=seconds)


def divisors(number: int) -> list[int]:
    """Return all divisors in ascending order; none of 0."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def moved(node: Node, sizes: Mapping[int, int]) -> float:
    """Return the bytes of activations that *node* reads and writes, 0 for what will be fused.

    Args:
        sizes: Bytes by identity of the layout.
    """
    read = [v for v in node.inputs if v.constant is None]
    if len(read) == 1 and node.primitive.kind in _FUSED:
        return 0.0
    return float(sum([sizes[id(v.layout)] for v in (*read, *node.outputs)]))


def _handed_on(node: Node, sizes: Mapping[int, int]) -> float:
    """Return those bytes that stay in the cache where a slice does: not of what comes from, or goes to, the caller.

    Args:
        sizes: Bytes by identity of the layout.
    """
    read = [v for v in node.inputs if v.producer is not None]
    return float(sum([sizes[id(v.layout)] for v in (*read, *[v for v in node.outputs if v.readers])]))
