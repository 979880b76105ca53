"""Schemas, candidates and what is special: rules that depend on nothing but sizes."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import BindingError
from clgraph.families.built import Built, special
from clgraph.families.candidates import COMPUTED_ELEMENTS, candidates
from clgraph.families.rules import alike, regrouped, splits
from clgraph.families.schema import MEDIUM_PIXELS, SMALL_PIXELS, Schema, schemas
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill
from clgraph.ops.shape import ShapeOf
from clgraph.ops.slice import Slice
from tests.support.programs import RELU, Net


def signature(name: str, *shape: int | str | None) -> Signature:
    return Signature(name, DType.F32, shape)


def of(signatures: list[Signature], shapes: list[tuple[int, ...]], **known: np.ndarray) -> list[Schema]:
    return list(schemas(signatures, shapes, known))


def test_sizes_of_2_and_more_are_free_where_they_are_open() -> None:
    (widest, *_) = of([signature("x", "n", 3, None, "w")], [(2, 3, 1, 7)])
    assert widest.shapes == (("n", 3, 1, "w"),)
    assert of([signature("x", "n", None)], [(1, 0)]) == []


def test_schemas_do_not_depend_on_the_sizes_that_are_free() -> None:
    signatures = [signature("x", "n", None), signature("z", None, "w")]
    assert of(signatures, [(2, 5), (3, 7)])[0] == of(signatures, [(9, 40), (11, 2)])[0]


def test_a_name_is_one_size_only_where_the_shapes_agree() -> None:
    signatures = [signature("x", "n", 4), signature("z", "n", 4)]
    assert of(signatures, [(5, 4), (5, 4)])[0].free == ("n",)
    assert all(found.shapes != (("n", 4), ("n", 4)) for found in of(signatures, [(5, 4), (6, 4)]))


def test_equal_sizes_of_different_inputs_become_one_whatever_their_names() -> None:
    signatures = [signature("x", "s77", 16, "h", "w"), signature("batch", "s2")]
    wide, narrow, *_ = of(signatures, [(4, 16, 9, 9999), (4,)])
    assert wide.shapes == (("s77", 16, "h", "w"), ("s2",))
    assert narrow.shapes == (("s77", 16, "h", "w"), ("s77",))
    assert all(len(found.free) > 2 for found in of(signatures, [(4, 16, 9, 9), (5,)]) if "h" in found.free)


def test_a_size_may_be_the_sum_of_two_others_one_of_which_has_several_names() -> None:
    """Layers with a window have pasts of their own, in name: a mask as long as one of them and the new token."""
    signatures = [signature("x", "n"), signature("mask", "m"), signature("past", "p"), signature("window", "w")]
    found = of(signatures, [(1,), (9,), (8,), (8,)])
    apart = [schema for schema in found if schema.sums and schema.shapes[2] != schema.shapes[3]]
    (one,) = [schema for schema in found if schema.sums and schema.shapes[2] == schema.shapes[3]]
    assert one.shapes == ((1,), ("m",), ("p",), ("p",))
    assert one.sums == (("m", 1, "p"),)
    assert found.index(one) > max(map(found.index, apart))


def test_elements_of_values_are_free_alone_then_with_the_size_that_they_equal() -> None:
    found = of([signature("x", "n", 6), signature("shape", 2)], [(4, 6), (2,)], shape=np.array([4, 1]))
    assert found[0].values[0].elements == ("shape[0]", 1)
    assert any(schema.values[0].elements == ("n", 1) for schema in found)


def test_candidates_are_a_fixed_list_of_different_sizes() -> None:
    (schema, *_) = of([signature("x", "n", 3, "h", "w")], [(2, 3, 9, 11)])
    found = list(candidates(schema))
    assert found == list(candidates(schema))
    for candidate in found:
        (shape,) = candidate.sizes.shapes
        assert len(set(shape)) == 4
        others = (*candidate.witnesses, *(sizes for _, sizes in candidate.larger), candidate.small)
        assert all(sizes.shapes != candidate.sizes.shapes for sizes in others)


def test_candidates_that_no_model_builds_for_are_soon_told_from_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a model may have tens of free sizes: each candidate is derived in a few walks over them."""
    sizes = [f"s{i}" for i in range(20)]
    (schema, *_) = of([signature("x", *sizes), signature("n", 20)], [(9,) * 20, (20,)], n=np.full(20, 9))
    walks = 0
    free = Schema.free.fget
    assert free is not None

    def counted(self: Schema) -> tuple[str, ...]:
        nonlocal walks
        walks += 1
        return free(self)

    monkeypatch.setattr(Schema, "free", property(counted))
    found = [candidate.sizes for candidate in candidates(schema)]
    assert len(found) > 100
    assert walks < 8 * len(found)


@pytest.mark.parametrize(("batch", "most"), [(1, 170), (2, 85)])
def test_small_pictures_are_a_family_of_their_own_with_a_smaller_representative(batch: int, most: int) -> None:
    """Of 96 rows 170 columns are 16320 pixels, and 171 are 16416."""
    signatures = [signature("x", "n", 3, "h", "w")]
    sizes = (96, most), (96, most + 1), (5, 20000)
    (small, *_), (more, *_), (long, *_) = (of(signatures, [(batch, 3, *size)]) for size in sizes)
    assert (small.small, more.small, long.small) == (True, False, False)
    assert more.most_pixels == MEDIUM_PIXELS
    first = [next(iter(candidates(schema))).sizes.shapes[0] for schema in (small, long)]
    pixels = [shape[0] * shape[2] * shape[3] for shape in first]
    assert pixels[0] <= SMALL_PIXELS < pixels[1] / 8


@pytest.mark.parametrize(("batch", "rows"), [(1, 256), (2, 128)])
def test_pictures_of_a_medium_size_are_a_family_that_large_ones_stand_in_for(batch: int, rows: int) -> None:
    """Of 256 rows 256 columns are as many as are medium."""
    signatures = [signature("x", "n", 3, "h", "w")]
    medium, large = of(signatures, [(batch, 3, rows, 256)])[:2]
    assert (medium.most_pixels, large.most_pixels) == (MEDIUM_PIXELS, 0)
    assert of(signatures, [(batch, 3, rows, 257)])[0] == large
    assert [s.most_pixels for s in of(signatures, [(batch, 3, 64, 64)])[:3]] == [SMALL_PIXELS, MEDIUM_PIXELS, 0]
    found = [candidate.sizes.shapes[0] for candidate in candidates(medium)]
    assert found
    assert all(SMALL_PIXELS < n * height * width <= MEDIUM_PIXELS for n, _, height, width in found)


def test_neither_a_batch_nor_a_length_alone_is_a_picture() -> None:
    for shape, sizes in (("n", "length"), (2, 9)), (("n", 3, 32, 32), (2, 3, 32, 32)):
        assert not of([signature("x", *shape)], [sizes])[0].small


@pytest.mark.parametrize(
    ("shapes", "others", "same"),
    [
        (((2, 5), (5,)), ((3, 7), (7,)), True),
        (((2, 5), (5,)), ((3, 7), (8,)), False),
        (((1, 5),), ((2, 5),), False),
        (((4, 5),), ((1, 1),), True),
        (((2, 5),), ((2, 5, 1),), False),
    ],
)
def test_what_is_1_or_equal_must_be_so_elsewhere(shapes, others, same: bool) -> None:
    assert (alike(shapes, others) is None) == same


def built(size: int) -> Built:
    net = Net()
    x = net.input("x", (2, size))
    part = net.add("part", Slice((0,), (5,), (1,), (1,)), x)
    net.output("y", net.add("sum", Eltwise("add"), net.add("r", RELU, part), net.data("b", 5)))
    return Built.of(net.build())


def test_a_size_that_equals_another_by_chance_is_special() -> None:
    assert special(built(7), built(9)) is None
    assert "a size of 5 is" in (special(built(5), built(9)) or "")


def test_a_table_that_sizes_decide_is_computed_for_no_candidate() -> None:
    """One of 20 x 20 elements is, where nobody asks for as few, and one of 72 x 72 is not."""
    topology = Topology()
    topology.input("x", ("n", "n"))
    topology.add("shape", ShapeOf(), "x")
    topology.add("table", Fill(2.0, DType.F32), "shape")
    topology.output("y", topology.add("product", Eltwise("mul"), "x", "table"))
    sizes = [{"x": (n, n)} for n in (20, 72)]
    few = [Built.of(topology.build(shapes, most=COMPUTED_ELEMENTS)) for shapes in sizes]
    assert special(*few) is None
    assert all("shape" not in made.nodes for made in few)
    assert "for some sizes only" in (special(*(Built.of(topology.build(shapes)) for shapes in sizes)) or "")


def test_reshapes_go_by_groups_of_axes() -> None:
    assert regrouped((2, 3, 4), (6, 4), (5, 7, 4)) == (35, 4)
    assert regrouped((2, 12), (2, 3, 4), (9, 12)) == (9, 3, 4)
    assert splits((2, 12), (2, 3, 4))
    assert not splits((2, 3, 4), (6, 1, 4))
    assert regrouped((2, 3), (2, 1, 3), (4, 5)) == (4, 1, 5)
    for source, target, shape in (
        ((2, 12), (2, 3, 4), (9, 24)),
        ((3, 4), (4, 3), (5, 4)),
        ((2, 6), (2, 1, 2, 3), (4, 5)),
    ):
        with pytest.raises(BindingError, match="ambiguous"):
            regrouped(source, target, shape)


def test_sizes_among_numbers_of_fewer_than_32_bits_are_those_of_the_value():
    for dtype, size in ((np.uint8, 12), (np.int16, 12), (np.int32, "d[0]")):
        (given,) = of([signature("x", "n", 4)], [(6, 4)], d=np.array(12, dtype))[0].values
        assert given.elements == ((size,) if dtype is np.int32 else ())
        np.testing.assert_array_equal(given.of({"d[0]": 12}), np.array(12, dtype))
