"""Layers between stages: strings are moved as they are where their shapes come again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clgraph.errors import ShapeError
from clgraph.graph.primitive import Primitive
from clgraph.graph.topology import Topology
from clgraph.model.stages.host_layers import HostLayers
from clgraph.model.stages.host_plan import PLANNED
from clgraph.ops.array_feature_extractor import ArrayFeatureExtractor
from clgraph.ops.concat import Concat
from clgraph.ops.expand import Expand
from clgraph.ops.gather import Gather
from clgraph.ops.on_strings import MOVING, OnStrings
from clgraph.ops.reshape import Flatten, Reshape, Squeeze, Unsqueeze
from clgraph.ops.shape import ShapeOf, Size
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where

WORDS = np.array([["a", "", "bc", "a"], ["d", "e f", "ä", "bc"]], object)
AT, SCALAR = np.array([1, 0, 3]), np.array(2)

CASES: list[tuple[Primitive, tuple[np.ndarray, ...]]] = [
    (ArrayFeatureExtractor(), (WORDS, AT)),
    (Concat(1), (WORDS, WORDS[:, :1])),
    (Expand((3, 2, 4)), (WORDS,)),
    (Flatten(0), (WORDS,)),
    (Gather(1), (WORDS, AT)),
    (Gather(0), (WORDS[0], SCALAR)),
    (Reshape((4, 2)), (WORDS,)),
    (ShapeOf(), (WORDS,)),
    (Size(), (WORDS,)),
    (Slice((0, 3), (2, 0), (1, -1), axes=(0, 1)), (WORDS,)),
    (Split(1, sizes=(1, 3)), (WORDS,)),
    (Squeeze((0,)), (WORDS[:1],)),
    (Transpose((1, 0)), (WORDS,)),
    (Unsqueeze((1,)), (WORDS,)),
    (Where(), (WORDS == "a", np.array("x", object), WORDS)),
]


def layers(primitive: Primitive, inputs: int, outputs: int) -> HostLayers:
    topology = Topology()
    names = [topology.input(f"in{i}", None, None) for i in range(inputs)]
    made = [f"out{i}" for i in range(outputs)]
    topology.add("strings", OnStrings(primitive), *names, outputs=made)
    for name in made:
        topology.output(name)
    return HostLayers(topology)


def run(of: HostLayers, given: Any) -> list[np.ndarray]:
    return [*of.run(given, lambda: pytest.fail("there is no control flow")).values()]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(p) for p, _ in CASES])
def test_strings_that_are_moved_are_those_that_numbers_stand_for(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    primitive, inputs = CASES[case]
    by_numbers = OnStrings.computed_by
    wanted = OnStrings(primitive).reference(*inputs)
    counted: list[int] = []
    monkeypatch.setattr(OnStrings, "computed_by", lambda *a: counted.append(1) or by_numbers(*a))
    of = layers(primitive, len(inputs), len(wanted))
    for number in range(2 * PLANNED):
        given = [
            np.array([w + str(number) for w in a.flat] if a.dtype == object else a).reshape(a.shape) for a in inputs
        ]
        given = [a.astype(object) if a.dtype.kind == "U" else a for a in given]
        mine = run(of, given)
        for found, its in zip(
            mine, by_numbers(OnStrings(primitive), lambda x: [*_of(primitive, x)], given), strict=True
        ):
            assert (found.dtype, found.shape, found.tolist()) == (its.dtype, its.shape, its.tolist())
    single = any(not a.ndim and a.dtype == object for a in wanted)
    assert len(counted) == (2 * PLANNED if single else PLANNED - 1), "moved from the time on when there is a plan"


def _of(primitive: Primitive, numbers: Any) -> Any:
    from clgraph.graph.interpret import compute

    return compute(primitive, numbers)


def test_all_kinds_that_move_are_tried() -> None:
    assert {primitive.kind for primitive, _ in CASES} == MOVING


def test_other_shapes_and_values_that_decide_are_planned_by_themselves() -> None:
    of = layers(Reshape(reads=("shape",)), 2, 1)
    for _ in range(2 * PLANNED):
        for words, shape in ((WORDS, (2, 4)), (WORDS, (8, 1)), (WORDS, (2, 2, 2)), (WORDS[:, :2], (4,))):
            (found,) = run(of, [words, np.array(shape)])
            assert found.tolist() == words.reshape(shape).tolist()


def test_what_does_not_fit_is_refused_as_before_it_was_planned() -> None:
    of = layers(Gather(1), 2, 1)
    for _ in range(2 * PLANNED):
        run(of, [WORDS, AT])
    first = layers(Gather(1), 2, 1)
    outside = [WORDS, np.array([1, 0, 9])]
    assert [a.tolist() for a in run(of, outside)] == [a.tolist() for a in run(first, outside)]
    with pytest.raises(ShapeError, match="strings"):
        run(layers(Concat(0), 2, 1), [WORDS, WORDS[:, :1]])
