"""Budgets of device memory: how many bytes partition may place on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from clgraph.core.frozen import mutable


@mutable
class Budgets:
    """How many bytes partition may place on each device, and how many it has placed.

    Partition can only estimate: formats of weights and the sharing of memory are decided later. Constants count in
    their present form, activations by the most that are alive at a node. The compiler compares this with the planned
    program, and may run partition again with other aims.

    Attributes:
        aims: Bytes that each device with a budget may be filled to.
        taken: Bytes placed on each device.
        passed: Bytes that a device would have held with the first node that did not fit.
    """

    aims: Mapping[str, int]
    taken: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
