"""Decision trees on CPU devices: sums of doubles in the order of the reference, of every shape of tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.tree_ensemble import TreeClassifier, TreeEnsemble
from clgraph.ops.tree_nodes import LEAF, Leaves, Trees, packed
from clgraph.runtime.engine import Engine
from tests.support.check_op import FAMILIES, Draw, check_op

Array = NDArray[Any]
pytestmark = pytest.mark.opencl

FEATURES = 5
SPLITS = np.array([0, -0.0, 3, -0.5, 1e-40, np.inf, -np.inf, np.nan, 700], np.float32)


def special(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw what comparisons take apart: NaN, infinities, both zeros, denormal numbers, equals of splits."""
    return rng.choice(np.append(SPLITS, [-1e-40, 1]), shape)


FED: dict[str, Draw] = {**FAMILIES, "special": special}


def between(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw doubles that are next to a split, of which floats would be the split itself."""
    splits = SPLITS.astype(np.float64)
    return rng.choice(np.concatenate([splits, np.nextafter(splits, -np.inf), np.nextafter(splits, np.inf)]), shape)


def grown(
    count: int,
    inner: int,
    *,
    modes: int = 6,
    deep: bool = False,
    missing: bool = True,
    scores: int = 1,
    targets: int = 1,
) -> tuple[Array, ...]:
    """Return the constants of *count* trees of *inner* comparisons, a chain where *deep*; up to *scores* a leaf."""
    rng, nodes = np.random.default_rng(count), 2 * inner + 1
    total = count * nodes
    follow, leaf = np.zeros((2, total), np.int64), np.ones(total, np.bool_)
    for tree in range(count):
        alive = [0]
        for made in range(inner):
            at = tree * nodes + alive.pop(-1 if deep else rng.integers(len(alive)))
            alive += [2 * made + 1, 2 * made + 2]
            follow[:, at], leaf[at] = rng.permutation(tree * nodes + np.array(alive[-2:])), False
    kinds = np.where(leaf, LEAF, rng.integers(0, modes, total)).astype(np.uint8)
    splits, features = rng.choice(SPLITS, total), rng.integers(0, FEATURES, total)
    trees = Trees.of(
        kinds, features, splits, *follow, rng.integers(0, 2, total) * missing > 0, np.arange(count) * nodes
    )
    held = np.repeat(np.flatnonzero(leaf), scores)
    held = held[rng.random(len(held)) < 0.9]
    weights = rng.standard_normal(len(held)).astype(np.float32)
    leaves = Leaves.of(held, rng.integers(0, targets, len(held)), weights, total)
    return (*trees.arrays, *leaves.arrays, packed(trees, leaves))


def run(
    engine: Engine,
    primitive: TreeEnsemble | TreeClassifier,
    rows: int,
    constants: tuple[Array, ...],
    dtype: DType = DType.F32,
    **more: Any,
) -> None:
    def kept(array: Array) -> Draw:
        return lambda rng, shape: array

    worst = check_op(
        engine,
        primitive,
        (rows, FEATURES + 1),
        *(a.shape for a in constants),
        dtype=[dtype, *(DType.of(a.dtype) for a in constants)],
        constant=range(1, len(constants) + 1),
        draw={slot: kept(array) for slot, array in enumerate(constants, 1)},
        **{"families": FED, **more},
    )
    assert worst


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(
    ("rows", "count", "inner", "targets", "named"),
    [
        (1, 1, 0, 1, {}),
        (1, 9, 7, 2, {"scores": 3}),
        (70, 8, 15, 3, {"modes": 1, "missing": False}),
        (65, 3, 40, 1, {"deep": True}),
        (77, 1, 9, 2, {"scores": 2}),
        (5, 17, 6, 700, {"scores": 4}),
        (3, 2, 3, 2048, {"scores": 2}),
    ],
)
def test_scores_are_those_of_the_reference(
    engine: Engine, rows: int, count: int, inner: int, targets: int, named: dict[str, Any], aggregate: str
) -> None:
    constants = grown(count, inner, targets=targets, **named)
    for base in ((), tuple(np.random.default_rng(0).standard_normal(targets).tolist())):
        run(engine, TreeEnsemble(targets, FEATURES, aggregate, base), rows, constants)


@pytest.mark.parametrize(("rows", "count"), [(9, 2), (3, 9)])
def test_doubles_are_compared_as_doubles(engine: Engine, rows: int, count: int) -> None:
    constants = grown(count, 15, targets=2)
    for of in (TreeEnsemble(2, FEATURES), TreeClassifier(2, FEATURES)):
        run(engine, of, rows, constants, DType.F64, families={**FED, "between": between})


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_scores_are_transformed_in_doubles(engine: Engine, transform: str) -> None:
    constants = grown(6, 5, scores=2, targets=4)
    primitive = TreeEnsemble(4, FEATURES, post_transform=transform)
    # Both sides round doubles to float, half an ulp each; 1 less what is near 1 has an error of some 2^-53.
    run(engine, primitive, 9, constants, ulps=2, scale=lambda *inputs: abs(primitive.reference(*inputs)[0]) + 2.0**-26)
    run(engine, TreeEnsemble(1, FEATURES, post_transform=transform), 9, grown(6, 5))


@pytest.mark.parametrize(
    ("targets", "base", "scored"),
    [(4, (), None), (3, (0.25, -1.0, 0.5), None), (2, (), 0), (2, (0.125,), 0), (2, (), 1), (2, (0.25, 0.5), 1)],
)
@pytest.mark.parametrize("positive", [False, True])
def test_the_best_class_is_that_of_the_reference(
    engine: Engine, targets: int, base: tuple[float, ...], scored: int | None, positive: bool
) -> None:
    # The first two classes alone have scores.
    constants = list(grown(5, 4, scores=2, targets=2))
    if scored is not None:
        constants[-3] = np.full_like(constants[-3], scored)
    run(engine, TreeClassifier(targets, FEATURES, base, "NONE", scored, positive), 7, tuple(constants))


@pytest.mark.parametrize("device_class", ["cpu"])
@pytest.mark.parametrize("votes", [[0], [1], [0, 2]])
def test_votes_that_are_equal_stay_equal(device_class: str, votes: list[int], device: str) -> None:
    # 15 of 30 leaves of 1/30 each, rounded up: their sum in doubles is above a half, as float32 it is one half.
    import onnxruntime

    trees = list(range(30))
    nodes = {
        **{f"nodes_{n}": [0] * 30 for n in ("nodeids", "featureids", "truenodeids", "falsenodeids")},
        "nodes_treeids": trees,
        "nodes_modes": ["LEAF"] * 30,
        "nodes_values": [0.0] * 30,
        "class_treeids": trees[:15] * len(votes),
        "class_nodeids": [0] * 15 * len(votes),
        "class_ids": [place for place in votes for _ in range(15)],
        "class_weights": [1 / 30] * 15 * len(votes),
        "classlabels_int64s": list(range(max(2, votes[-1] + 1))),
    }
    kinds = {"y": onnx.TensorProto.INT64, "z": onnx.TensorProto.FLOAT}
    node = helper.make_node("TreeEnsembleClassifier", ["x"], list(kinds), domain="ai.onnx.ml", **nodes)
    x, *results = (helper.make_tensor_value_info(n, t, None) for n, t in {"x": onnx.TensorProto.FLOAT, **kinds}.items())
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph([node], "g", [x], results), opset_imports=sets, ir_version=9)
    feeds = {"x": np.zeros((3, 2), np.float32)}
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    for target in ("host", device):
        found = clgraph.compile(model, target, config={"device_class": device_class}).run(feeds)
        assert found["y"].tolist() == [0, 0, 0] == wanted[0].tolist()
        # Sums of 15 floats, of ONNX Runtime's each rounded by half an ulp of at most 2^-24.
        np.testing.assert_allclose(found["z"], wanted[1], rtol=0, atol=15 * 2.0**-25)


def test_what_the_kernel_does_not_know_is_not_packed() -> None:
    leaf = (np.full(1, LEAF, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.float32), *np.zeros((2, 1), np.int64))
    none, root = np.zeros(1, np.bool_), np.zeros(1, np.int64)
    leaves = Leaves.of(root, root, np.ones(1, np.float32), 1)
    assert packed(Trees.of(*leaf, none, root), leaves).tolist() == [[0, 0, 0, 1]]
    doubles = (*leaf[:2], leaf[2].astype(np.float64), *leaf[3:])
    assert not packed(Trees.of(*doubles, none, root), leaves).size
    circle = np.array([1, 0])
    two = Trees.of(np.zeros(2, np.uint8), circle, np.zeros(2, np.float32), circle, circle, np.zeros(2, np.bool_), root)
    assert not packed(two, Leaves.of(root, root, np.ones(1, np.float32), 2)).size
