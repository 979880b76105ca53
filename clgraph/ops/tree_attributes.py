"""Decision trees out of the attributes of ai.onnx.ml's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array
from clgraph.ops.tree_nodes import LEAF, MEMBER, MODES, Leaves, Trees


def read_ensemble(node: OnnxNode) -> tuple[Trees, Leaves]:
    """Return the trees and leaves of TreeEnsemble, whose leaves are counted on behind its nodes."""

    def integers(name: str) -> Array:
        return np.array(node.attribute(name, ()), np.int64)

    modes = _checked("nodes_modes", node.attribute("nodes_modes", np.zeros(0, np.uint8)), "iu").astype(np.int64)
    splits = _checked("nodes_splits", node.attribute("nodes_splits", np.zeros(0, np.float32)), "f")
    targets, weights = integers("leaf_targetids"), _checked("leaf_weights", node.attribute("leaf_weights", splits), "f")
    count, leaves = len(modes), len(targets)
    _check_lengths(count, *(integers(f"nodes_{w}{what}") for w in ("true", "false") for what in ("nodeids", "leafs")))
    follow = [integers(f"nodes_{w}nodeids") + count * (integers(f"nodes_{w}leafs") != 0) for w in ("true", "false")]
    missing = integers("nodes_missing_value_tracks_true").astype(np.bool_)
    missing = missing if missing.size else np.zeros(count, np.bool_)
    members = node.attribute("membership_values", np.zeros(0, splits.dtype))
    sets, sizes = _sets(_checked("membership_values", members, "f"), modes)
    _check_lengths(count, integers("nodes_featureids"), splits, missing)
    if len(weights) != leaves or (count and not 0 <= modes.min() <= modes.max() <= MEMBER):
        raise ModelError("leaf_weights, leaf_targetids and nodes_modes do not fit each other")

    def padded(array: Array, fill: Any = 0) -> Array:
        return np.concatenate([array, np.full(leaves, fill, array.dtype)])

    trees = Trees.of(
        padded(modes, LEAF).astype(np.uint8),
        padded(integers("nodes_featureids")),
        padded(splits),
        padded(follow[0]),
        padded(follow[1]),
        padded(missing),
        integers("tree_roots"),
    )
    trees = replace(trees, members=sets, ends=np.cumsum(padded(sizes)))
    return trees, Leaves.of(np.arange(count, count + leaves), targets, weights, count + leaves)


def read_classic(node: OnnxNode, role: str) -> tuple[Trees, Leaves]:
    """Return the trees and leaves of a regressor (*role* ``target``) or classifier (``class``).

    Its nodes are called by the numbers of their tree and of themselves.
    """

    def integers(name: str) -> Array:
        return np.array(node.attribute(name, ()), np.int64)

    trees, ids = integers("nodes_treeids"), integers("nodes_nodeids")
    _check_lengths(len(trees), ids)
    places = _Places.of(trees, ids)
    modes = _modes(node.attribute("nodes_modes", ()))
    inner = modes != LEAF
    values, features = values_of(node, "nodes_values"), integers("nodes_featureids")
    missing = integers("nodes_missing_value_tracks_true").astype(np.bool_)
    missing = missing if missing.size else np.zeros(len(modes), np.bool_)
    _check_lengths(len(modes), trees, values, features, missing)
    follow = []
    for which in ("true", "false"):
        wanted = integers(f"nodes_{which}nodeids")
        _check_lengths(len(modes), wanted)
        follow.append(np.where(inner, places.find(trees, wanted), -1))
    led = np.zeros(len(modes) + 1, np.bool_)
    led[np.concatenate(follow)[np.tile(inner, 2)]] = True
    first = np.flatnonzero(~led[:-1])
    roots = first[np.sort(np.unique(trees[first], return_index=True)[1])]
    own, numbers = integers(f"{role}_treeids"), integers(f"{role}_nodeids")
    _check_lengths(len(own), numbers)
    at = places.find(own, numbers)
    targets, weights = integers(f"{role}_ids"), values_of(node, f"{role}_weights")
    if (at < 0).any() or not len(at) == len(targets) == len(weights):
        raise ModelError(f"a {role} is given to a node that no tree has, or lacks its id or weight")
    made = Trees.of(modes, features, values, follow[0], follow[1], missing, roots)
    return made, Leaves.of(at, targets, weights, len(modes))


@frozen
class _Places:
    """An index of nodes by the pair (tree, node id), to find their places in the attributes' arrays.

    Attributes:
        trees, ids: The numbers of trees and of nodes that occur, ascending.
        keys, order: Each pair as one number, ascending, and the place of its node.
    """

    trees: Array
    ids: Array
    keys: Array
    order: Array

    @classmethod
    def of(cls, trees: Array, ids: Array) -> _Places:
        """Return the places of nodes that are given in their order; of two of one name the last is found."""
        (known, tree), (numbers, number) = (np.unique(a, return_inverse=True) for a in (trees, ids))
        keys = tree * len(numbers) + number
        order = np.argsort(keys, kind="stable")
        return cls(known, numbers, keys[order], order)

    def find(self, trees: Array, ids: Array) -> Array:
        """Return the place of each pair, -1 where there is none."""
        if not len(self.keys):
            return np.full(len(trees), -1)
        tree, number = (_last_below(known, a) for known, a in ((self.trees, trees), (self.ids, ids)))
        keys = tree * len(self.ids) + number
        at = _last_below(self.keys, keys)
        there = (self.trees[tree] == trees) & (self.ids[number] == ids) & (self.keys[at] == keys)
        return np.where(there, self.order[at], -1)


def _last_below(ascending: Array, wanted: Array) -> Array:
    """Return where the last number stands that is at most what is wanted; 0 where there is none."""
    return np.maximum(np.searchsorted(ascending, wanted, "right") - 1, 0)


def _modes(names: Sequence[str]) -> Array:
    if unknown := sorted(set(names) - set(MODES)):
        raise ModelError(f"nodes_modes has {unknown[0]!r}, which ONNX does not define")
    numbers = {name: number for number, name in enumerate(MODES)}
    return np.fromiter(map(numbers.__getitem__, names), np.uint8, len(names))


def values_of(node: OnnxNode, name: str) -> Array:
    """Return floats that are given as an attribute, or as a tensor of doubles, ``name_as_tensor``."""
    tensor = node.attribute(f"{name}_as_tensor", None)
    if tensor is None:
        return np.array(node.attribute(name, ()), np.float32)
    return _checked(f"{name}_as_tensor", tensor, "f")


def _checked(name: str, given: Any, kinds: str) -> Array:
    """Return a tensor that is an attribute as a row of elements, whose type is of one of NumPy's *kinds*."""
    found = np.asarray(given).ravel()
    if found.dtype.kind not in kinds:
        raise ModelError(f"{name} holds elements of {found.dtype}; expected {'floats' if kinds == 'f' else 'integers'}")
    return found


def _sets(values: Array, modes: Array) -> tuple[Array, Array]:
    """Return the members of all sets, which NaN ends in *values*, and how many each node has."""
    ends = np.flatnonzero(np.isnan(values))
    sizes = np.zeros(len(modes), np.int64)
    nodes = np.flatnonzero(modes == MEMBER)
    if len(nodes) > len(ends):
        raise ModelError(f"{len(nodes)} nodes ask for members of {len(ends)} sets, each of which NaN ends")
    sizes[nodes] = np.diff(ends, prepend=-1)[: len(nodes)] - 1
    return values[~np.isnan(values)], sizes


def _check_lengths(count: int, *arrays: Array) -> None:
    if any(len(array) != count for array in arrays):
        raise ModelError(f"the attributes of {count} nodes have {', '.join(str(len(a)) for a in arrays)} entries")
