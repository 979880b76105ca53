"""Small pictures have a family of their own where kernels for large ones would read more weights, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Shape
from clgraph.errors import BindingError
from clgraph.families.families import Families
from clgraph.families.family import PassRow
from clgraph.families.making import LARGEST
from clgraph.families.schema import MEDIUM_PIXELS, SMALL_PIXELS
from clgraph.families.small_pictures import AS_LARGE, may_have_windows
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.selector.implementation import WINOGRAD

SMALL, LARGE = [(2, 16, 48, 64)], [(2, 16, 480, 64)]
WINDOW, DEPTHWISE, LINE, POINT = (16, 16, 3, 3), (16, 1, 3, 3), (16, 16, 1, 3), (16, 16, 1, 1)


def network(*windows: tuple[int, ...], fed: bool = False) -> Topology:
    """Return convolutions of 16 channels, one behind the other; the weights of the first may be *fed*."""
    topology = Topology()
    x = topology.input("x", ("n", 16, "h", "w"))
    for number, shape in enumerate(windows):
        name, size = f"w{number}", shape[2:]
        w = topology.input(name, shape) if fed and not number else topology.constant(name, np.ones(shape, np.float32))
        pads = tuple((s // 2, s // 2) for s in size)
        x = topology.add(f"c{number}", Convolution((1, 1), (1, 1), pads, 16 // shape[1]), x, w)
    topology.output("y", topology.add("y", Activation("relu"), x))
    return topology


def passes_over(program: Program, shapes: Sequence[object], context: Context) -> Sequence[PassRow]:
    PassManager(default_pipeline()).run(program, context)
    return ()


def families_of(topology: Topology, denied: frozenset[str] = frozenset()) -> tuple[Families, list[str]]:
    """Return the families of a small picture and a large one, and why there are no others."""
    context = replace(Context(), denied=denied)
    found = Families(context)
    for shapes in (SMALL, LARGE):
        found.bind(topology, shapes, {}, partial(passes_over, context=context))
    return found, [why for why in found.all().values() if isinstance(why, str)]


def test_networks_without_dense_windows_have_one_family_for_pictures_of_all_sizes() -> None:
    found, refused = families_of(network(POINT, DEPTHWISE, LINE))
    assert refused == 2 * [AS_LARGE]  # small and medium ones
    assert len(found.all()) == 3


def test_networks_of_dense_windows_have_two() -> None:
    found, refused = families_of(network(POINT, WINDOW))
    assert not refused
    assert sorted(schema.small for schema in found.all()) == [False, True]


def test_networks_that_may_not_transform_weights_have_one() -> None:
    assert families_of(network(WINDOW), frozenset({WINOGRAD}))[1] == 2 * [AS_LARGE]


def halving(channels: int, times: int, first: int = 2) -> Topology:
    """Return convolutions that halve a picture so many *times* after the *first*, and double the channels."""
    topology, read = Topology(), 3
    x = topology.input("x", ("n", 3, "h", "w"))
    for number in range(times):
        w = topology.constant(f"w{number}", np.ones((channels, read, 3, 3), np.float32))
        step = 2 if number else first
        x = topology.add(f"c{number}", Convolution((step, step), (1, 1), ((1, 1), (1, 1))), x, w)
        read, channels = channels, 2 * channels
    topology.output("y", topology.add("y", Activation("relu"), x))
    return topology


def representative(topology: Topology, shape: Shape) -> Shape:
    context = Context()
    member = Families(context).bind(topology, [shape], {}, partial(passes_over, context=context))
    return member.family.representative.shapes[0]


@pytest.mark.parametrize("batch", [1, 2])
def test_small_pictures_have_a_small_representative_whatever_the_channels(batch: int) -> None:
    """48 are half of 96 rows, 40 a quarter of 160 columns, 32 half of 64 rows."""
    for channels in (16, 24, 32, 40, 48, 64, 80, 96, 112, 128):
        n, _, height, width = representative(halving(channels, 3), (batch, 3, 64, 64))
        assert n * height * width <= SMALL_PIXELS


@pytest.mark.parametrize("shape", [(1, 3, 224, 224), (3, 3, 224, 32)])
def test_medium_pictures_have_a_medium_representative_whatever_the_channels(shape: Shape) -> None:
    for channels in (16, 24, 32, 40, 48, 64, 80, 96, 112, 128):
        n, _, height, width = representative(halving(channels, 3), shape)
        assert SMALL_PIXELS < n * height * width <= MEDIUM_PIXELS


def test_large_pictures_in_batches_have_a_representative_that_fits_a_device() -> None:
    """A batch of 13 pictures of 96 x 160 pixels and 384 channels takes 306 MB, and no tensor may more than 256 MiB."""
    n, _, height, width = representative(halving(384, 1, first=1), (2, 3, 300, 300))
    assert 4 * SMALL_PIXELS < n * height * width < LARGEST / (4 * 384)
    assert min(height, width) >= 160


@pytest.mark.parametrize(
    ("windows", "fed", "may"),
    [
        ((DEPTHWISE, WINDOW), False, True),
        ((LINE,), False, False),
        ((POINT,), True, True),
        (((16, 8, 3, 3),), False, False),
    ],
)
def test_weights_that_are_fed_count_as_windows(windows: tuple[tuple[int, ...], ...], fed: bool, may: bool) -> None:
    assert may_have_windows(network(*windows, fed=fed)) is may


def test_a_picture_without_any_family_is_told_the_reason_of_the_large_ones() -> None:
    topology = network(POINT)
    topology.add("z", Activation("relu"), topology.input("z0", ("n", 3), DType.F32))

    def refuse(program: Program, shapes: Sequence[object]) -> Sequence[PassRow]:
        raise BindingError("not today")

    with pytest.raises(BindingError, match="not today"):
        Families(Context()).bind(topology, [*SMALL, (2, 3)], {}, refuse)
