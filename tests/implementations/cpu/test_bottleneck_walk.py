"""How bottlenecks are cut is found from sizes and weights, and what lies between their convolutions from neither."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.bottleneck import BottleneckFsv16
from clgraph.implementations.cpu.bottleneck_walk import between, depthwise_weights, walk_of
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck, part
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import DeviceInfo, Query

DEPTHWISE = Convolution((2, 2), (1, 1), ((1, 1), (2, 1)), groups=96)


def problem(primitive: Bottleneck, height: int, width: int) -> Query[Bottleneck]:
    inputs = [(1, 32 if primitive.expands else 96, height, width)]
    weights = [(96, 32, 1, 1)] * primitive.expands + [(96, 1, 3, 3)] + [(24, 96, 1, 1)] * primitive.projects
    layouts = [Layout(DType.F32, shape, feature_blocked(4)) for shape in inputs]
    for shape in weights:
        layouts += [Layout(DType.F32, shape), Layout(DType.F32, shape[:1])]
    (made,) = primitive.infer([x.plain() for x in layouts])
    constant = frozenset(range(1, len(layouts)))
    return Query(
        primitive, tuple(layouts), (made.with_format(feature_blocked(4)),), DeviceInfo(), len(layouts), (), constant
    )


def test_the_zeros_around_the_input_are_those_of_the_depthwise_convolution_that_comes_first() -> None:
    for projects in (False, True):
        q = problem(Bottleneck(DEPTHWISE, expands=False, projects=projects), 13, 18)
        first = part(q, 0)
        assert depthwise_weights(q) is first.inputs[1]
        # Windows of 3 from (-1, -2) in steps of 2: the last of 7 x 10 ends at 13 and 18, an element behind the last.
        assert BottleneckFsv16.halo(q) == {0: ((0, 0), (0, 0), (1, 1), (2, 1))}
    assert BottleneckFsv16.halo(problem(Bottleneck(DEPTHWISE), 13, 18)) == {}


def test_equal_problems_have_one_walk_whose_ring_has_a_row_for_each_of_the_window() -> None:
    q, again = (problem(Bottleneck(DEPTHWISE), 5, 40) for _ in range(2))
    walk = walk_of(q)
    assert walk is walk_of(again)
    assert depthwise_weights(q) is q.inputs[3]
    assert walk.ring == walk.group * 3 * walk.ring_width


def test_what_lies_between_the_convolutions_is_found_once_for_all_sizes() -> None:
    relu, cut = Activation("relu"), Activation("clip", 0.0, 6.0)
    small, large = (problem(Bottleneck(DEPTHWISE), *size) for size in ((8, 8), (40, 56)))
    assert between(small, (relu,), 16) is between(large, (relu,), 16)
    assert (between(small, (relu,), 16).low, between(small, (cut,), 16).high) == (0.0, 6.0)
    assert between(small, (), 16) != between(small, (relu,), 16)
