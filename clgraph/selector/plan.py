"""Plans: the steps that compute one node."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.selector.descriptor import Descriptor, PostStep
from clgraph.selector.jit import Jit


@frozen
class Table:
    """An argument that is a small read-only array of ints: sizes, pitches and offsets, known at binding."""

    values: tuple[int, ...]


Argument = str | int | float | Table
"""A tensor by role (``in0``, ``out0``, ``scratch0``; ``null`` for none), a 32-bit int or float, or a table.

A tensor argument is two kernel arguments: its bank (``__global`` pointer) and the ``long`` byte offset of its memory's
first byte in the bank; ``BASE(type, bank, offset)`` of ``tensor.clh`` makes them one pointer.
"""

NO_POSTS: tuple[Argument, ...] = ("null", "null", "null", "null", Table((0,)))
"""The last arguments of a kernel that applies a list of fused operations, where there are none."""


@frozen
class Launch:
    """One enqueue of a kernel text of its own.

    Attributes:
        source: Kernel file, relative to a kernel folder; ``entry`` is the ``__kernel`` in it.
        grid: Global work size; ``group`` the local one, ``None`` to leave it to the driver.
        args: In the kernel's order.
    """

    source: str
    entry: str
    jit: Jit
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    args: tuple[Argument, ...]

    @property
    def name(self) -> str:
        """What a reader of reports knows the step by."""
        return self.entry

    def without_list(self) -> Launch:
        """Return the launch with a text that applies no fused operations, where it is given none."""
        return self if self.args[-len(NO_POSTS) :] != NO_POSTS else replace(self, jit=self.jit.define(NO_POSTS=1))


@frozen(guarded=False)
class Tile:
    """One run of a tile function of a library.

    Attributes:
        function: Name of the tile function, the same as its file and its descriptor's.
        tickets: Independent pieces of work; any worker may run any of them at any time.
        scratch: Bytes of scratch that each worker needs.
        post: Straight-line list applied to the rectangle that a ticket has just written.
    """

    function: str
    descriptor: Descriptor
    tickets: int
    scratch: int = 0
    post: tuple[PostStep, ...] = ()

    @property
    def name(self) -> str:
        """What a reader of reports knows the step by."""
        return self.function

    @property
    def library(self) -> str:
        """The library that the tile function is declared for; others may hold it, too."""
        return type(self.descriptor).library


@frozen
class Carry:
    """The host copies ``in0``, which lies on another device, to ``out0``."""

    name: ClassVar[str] = "carry"


Step = Launch | Tile | Carry


@frozen(guarded=False)
class Plan:
    """The steps of one node, in order, and the sizes in bytes of the scratch tensors that they share."""

    steps: tuple[Step, ...]
    scratch: tuple[int, ...] = ()
