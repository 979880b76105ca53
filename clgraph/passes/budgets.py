"""Budgets of memory that nodes are shared out to devices by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from clgraph.core.frozen import mutable


@mutable
class Budgets:
    """What partition may fill devices to, and what came of it.

    What kernels will read and when memory is shared is not known yet: constants count as they are here, activations by
    the most that are alive at a node. Whoever has planned the program knows, and may give other aims then.

    Attributes:
        aims: Bytes of each device that has a budget.
        taken: Bytes of its nodes.
        passed: Bytes that a device would have had with the first node that went past it for want of room.
    """

    aims: Mapping[str, int]
    taken: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
