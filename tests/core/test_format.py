from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.errors import OptionError


def any_format() -> Iterator[Format]:
    """Yield every format of up to three axes, with up to two blocks of two sizes."""
    for rank in range(4):
        blocks = [(axis, size) for axis in range(rank) for size in (4, 16)]
        pairs = [(one, two) for one, two in permutations(blocks, 2) if one[0] != two[0]]
        for order in permutations(range(rank)):
            yield from (Format(order, chosen) for chosen in ((), *((block,) for block in blocks), *pairs))


def test_no_two_formats_have_one_name() -> None:
    formats = list(any_format())
    assert len({str(f) for f in formats}) == len(set(formats)) == len(formats)


@pytest.mark.parametrize(
    ("format", "name"),
    [
        (Format.plain(4), "bfyx"),
        (channels_last(4), "byxf"),
        (feature_blocked(4), "b_fs_yx_fsv16"),
        (Format((0, 1, 2, 3), ((1, 16), (0, 32))), "bs_fs_yx_fsv16_bsv32"),
        (Format.plain(0), "scalar"),
    ],
)
def test_names_are_those_of_cldnn(format: Format, name: str) -> None:
    assert str(format) == name


@pytest.mark.parametrize(("order", "blocks"), [((0, 0), ()), ((1, 2), ()), ((0, 1), ((1, 4), (1, 2)))])
def test_an_axis_has_one_place_and_one_block(order, blocks) -> None:
    with pytest.raises(OptionError, match="not a memory format"):
        Format(order, blocks)
