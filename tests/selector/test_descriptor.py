"""Descriptors: Python and C agree on every byte."""

import struct
from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import pytest

from clgraph.selector.descriptor import (
    DESCRIPTORS,
    NULL,
    Descriptor,
    Float,
    Int,
    Pointer,
    PostStep,
    Ref,
    descriptor,
    fields,
)

PLACES = {"null": -1, "in0": 1 << 56, "in2": 1 << 56}


@pytest.fixture
def probe() -> Iterator[type[Descriptor]]:
    saved = DESCRIPTORS.snapshot()

    class Probe(Descriptor):
        source: Pointer
        target: Pointer
        count: Int
        low: Float
        high: Float

    yield descriptor("probe_tile")(Probe)
    DESCRIPTORS.restore(saved)


def test_the_c_struct_lists_the_fields_in_order(probe: type[Descriptor]) -> None:
    assert probe.c_struct() == (
        "typedef struct {\n  long source;\n  long target;\n  int count;\n"
        "  float low;\n  float high;\n} probe_tile_desc;"
    )


def test_the_bytes_follow_the_c_layout_and_end_on_eight(probe: type[Descriptor]) -> None:
    data = probe(Ref("in0", 64), NULL, 7, 0.5, float("inf")).to_bytes(PLACES)
    assert len(data) == probe.size() == 32
    assert struct.unpack("<qqiff4x", data) == (1 << 56 | 64, -1, 7, 0.5, float("inf"))


def test_fields_that_several_have_stand_in_front_and_long_ones_before_short_ones() -> None:
    @fields
    class Shared:
        count: Int
        low: Float

    class Joined(Shared, Descriptor):
        step: Int
        source: Pointer

    saved = DESCRIPTORS.snapshot()
    try:
        made = descriptor("joined_tile")(Joined)
    finally:
        DESCRIPTORS.restore(saved)
    assert [name for name, _, _ in made.c_fields] == ["source", "count", "low", "step"]
    data = made(count=3, low=0.5, step=4, source=Ref("in0", 8)).to_bytes(PLACES)
    assert struct.unpack("<qifi4x", data) == (1 << 56 | 8, 3, 0.5, 4)


def test_fields_are_given_once_each_by_position_or_name_and_never_change(probe: type[Descriptor]) -> None:
    d = probe(Ref("in0"), NULL, high=2.0, low=1.0, count=7)
    assert d.to_bytes(PLACES) == probe(Ref("in0"), NULL, 7, 1.0, 2.0).to_bytes(PLACES)
    assert "count=7, low=1.0, high=2.0" in repr(d)
    for values, named in (
        ((NULL, NULL, 7, 0.5), {}),
        ((NULL, NULL, 7, 0.5), {"low": 1.0}),
        ((NULL,) * 6, {}),
        ((NULL, NULL, 7, 0.5), {"height": 1.0}),
    ):
        with pytest.raises(TypeError, match="takes source, target, count, low, high"):
            probe(*values, **named)
    with pytest.raises(FrozenInstanceError, match="count"):
        d.count = 8  # type: ignore[attr-defined]


@pytest.mark.parametrize("fields", [{"count": "int"}, {"count": "Int | None"}, {"count": float}])
def test_a_field_of_another_type_is_refused_and_named(fields: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"Odd\.count: fields are Int"):
        descriptor("odd_tile")(type("Odd", (Descriptor,), {"__annotations__": fields}))
    assert "odd_tile" not in DESCRIPTORS


def test_a_field_with_a_default_is_refused() -> None:
    class Filled(Descriptor):
        count: Int = 1

    with pytest.raises(TypeError, match="without a default"):
        descriptor("filled_tile")(Filled)


def test_a_post_step_takes_the_bytes_of_its_c_struct() -> None:
    data = PostStep(64, 0.0, 1.5, Ref("in2", 128), (1, 2, 3, 4, 5)).to_bytes(PLACES)
    assert struct.unpack("<q6i2f", data) == (1 << 56 | 128, 64, 1, 2, 3, 4, 5, 0.0, 1.5)
    assert len(data) == 40
