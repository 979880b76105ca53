"""The order of a tensor's axes in memory, as data: an order of axes plus blocks on any of them."""

from __future__ import annotations

import re
from functools import cache

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import OptionError

_LETTERS = {0: "", 1: "x", 2: "bf", 3: "bfx", 4: "bfyx", 5: "bfzyx"}


def axis_letters(rank: int) -> str:
    """Return one letter an axis: clDNN's for rank 2 to 5, ``abcdefgh`` above."""
    return _LETTERS.get(rank, "abcdefgh"[:rank])


@frozen
class Format(Remembering):
    """Order of the logical axes, outermost first, with optional inner blocks (outer block first).

    ``Format((0, 1, 2, 3))`` is clDNN's bfyx, ``Format((0, 2, 3, 1))`` is byxf, ``Format((0, 1, 2, 3), ((1, 16),))`` is
    b_fs_yx_fsv16, and ``Format((0, 1, 2, 3), ((1, 16), (0, 32)))`` is the weights format os_is_yx_isv16_osv32. An axis
    has at most one block.
    """

    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        blocked = [axis for axis, _ in self.blocks]
        if sorted(self.order) != list(range(len(self.order))) or len(set(blocked)) != len(blocked):
            raise OptionError(f"axes {self.order} with blocks {self.blocks} are not a memory format")

    @staticmethod
    def plain(rank: int) -> Format:
        """Return the row-major format of ONNX and NumPy."""
        return _plain(rank)

    @property
    def rank(self) -> int:
        """Number of logical axes."""
        return len(self.order)

    @property
    def is_plain(self) -> bool:
        """Whether the elements lie as in a C-contiguous NumPy array."""
        return not self.blocks and self.order == _plain(len(self.order)).order

    def block(self, axis: int) -> int:
        """Return the block size of *axis*, 1 where it is not blocked."""
        for blocked, size in self.blocks:
            if blocked == axis:
                return size
        return 1

    @remembered
    def __str__(self) -> str:
        letters = axis_letters(self.rank)
        if not self.blocks:
            return "".join(letters[a] for a in self.order) or "scalar"
        blocked = {a for a, _ in self.blocks}
        outer = re.sub(r"_+", "_", "".join(f"_{letters[a]}s_" if a in blocked else letters[a] for a in self.order))
        return outer.strip("_") + "".join(f"_{letters[a]}sv{n}" for a, n in self.blocks)


@cache
def _plain(rank: int) -> Format:
    return Format(tuple(range(rank)))


@cache
def feature_blocked(rank: int, size: int = 16) -> Format:
    """Return the format with axis 1 cut into blocks of *size*, the block innermost: b_fs_yx_fsv16 for rank 4."""
    return Format(tuple(range(rank)), ((1, size),))


@cache
def channels_last(rank: int) -> Format:
    """Return byxf (rank 4) and its relatives: axis 1 innermost."""
    return Format((0, *range(2, rank), 1))
