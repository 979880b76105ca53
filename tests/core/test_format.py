from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clgraph.core.format import Format, channels_last, feature_blocked, parse_format
from clgraph.errors import OptionError


@st.composite
def any_format(draw) -> Format:
    rank = draw(st.integers(0, 5))
    order = tuple(draw(st.permutations(range(rank))))
    axes = draw(st.lists(st.integers(0, rank - 1), max_size=2, unique=True)) if rank else []
    return Format(order, tuple((a, draw(st.sampled_from([2, 16, 32]))) for a in axes))


@given(any_format())
def test_the_name_says_it_all(format: Format) -> None:
    assert parse_format(str(format)) == format


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


@pytest.mark.parametrize("text", ["", "bfyy", "b_fs_yx", "xyz_fsv16", "bfyx_fsv", "b_fs_yx_fsv16_fsv4"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="memory format"):
        parse_format(text)


@pytest.mark.parametrize(("order", "blocks"), [((0, 0), ()), ((1, 2), ()), ((0, 1), ((1, 4), (1, 2)))])
def test_an_axis_has_one_place_and_one_block(order, blocks) -> None:
    with pytest.raises(OptionError, match="not a memory format"):
        Format(order, blocks)
