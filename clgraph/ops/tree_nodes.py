"""Decision trees in flat arrays: read from the attributes of ai.onnx.ml's operators, and walked by all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
"""In the order of TreeEnsemble's numbers, and what those operators lack that have no leaves of their own."""

_MEMBER, _LEAF = 6, 7
_COMPARE = {0: np.less_equal, 1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal}


@frozen
class Trees:
    """The nodes of all trees, one behind the other.

    Attributes:
        modes: What each compares its feature by: places in ``_MODES``.
        kinds: The modes that there are but that of leaves.
        feature_ids, values: The feature, and what it is compared with.
        children: Of each node the one that follows where the comparison is false, then where it is true; itself of a
            leaf.
        missing: Whether NaN goes the way of what is true; empty where it does nowhere.
        roots: Where each tree begins.
        members, ends: Of nodes that ask for a member of a set, all sets one behind the other; a node's ends there, and
            begins where the node's before ends.
    """

    NAMES: ClassVar[tuple[str, ...]] = (
        *("modes", "kinds", "feature_ids", "values", "children", "missing", "roots", "members", "ends"),
    )

    modes: Array
    kinds: Array
    feature_ids: Array
    values: Array
    children: Array
    missing: Array
    roots: Array
    members: Array
    ends: Array

    @classmethod
    def of(
        cls, modes: Array, feature_ids: Array, values: Array, yes: Array, no: Array, missing: Array, roots: Array
    ) -> Trees:
        """Return trees without sets of nodes that *yes* and *no* follow.

        Raises:
            ModelError: A node is followed by itself or by none, or reads no feature.
        """
        inner, own = modes != _LEAF, np.arange(len(modes))
        for which in (yes[inner], no[inner], roots):
            if which.size and not 0 <= which.min() <= which.max() < len(modes):
                raise ModelError(f"a tree leads to a node that is not one of its {len(modes)}")
        if (feature_ids[inner] < 0).any() or ((yes == own) | (no == own))[inner].any():
            raise ModelError("a node of a tree compares a feature before the first, or follows itself")
        children = np.stack([np.where(inner, no, own), np.where(inner, yes, own)], 1).ravel()
        none = np.zeros(0, np.int64)
        return cls(
            modes,
            np.unique(modes[inner]),
            np.where(inner, feature_ids, 0),
            values,
            children,
            missing if (missing & inner).any() else np.zeros(0, np.bool_),
            roots,
            none.astype(values.dtype),
            none,
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of them, in the order of ``NAMES``."""
        return tuple(getattr(self, name) for name in self.NAMES)

    @property
    def features(self) -> int:
        """How many features a row must have."""
        return int(self.feature_ids.max(initial=0)) + 1

    def walk(self, x: Array) -> Array:
        """Return the leaf that each row of x reaches in each tree ``[rows, trees]``."""
        at = np.tile(self.roots, (len(x), 1))
        numbers, begins = np.ascontiguousarray(x).ravel(), np.arange(len(x))[:, np.newaxis] * x.shape[1]
        for _ in range(len(self.modes) + 1):
            taken = self._compared(at, numbers.take(begins + self.feature_ids.take(at)))
            following = self.children.take(2 * at + taken)
            if (following == at).all():
                return at
            at = following
        raise ShapeError("a tree has no end: its nodes follow each other in a circle")

    def _compared(self, at: Array, found: Array) -> Array:
        """Return what the comparisons of the nodes *at* with the features *found* give."""
        wanted = self.values.take(at)
        if len(self.kinds) == 1 and self.kinds[0] < _MEMBER:
            taken = _COMPARE[int(self.kinds[0])](found, wanted)
        else:
            modes, taken = self.modes.take(at), np.zeros(at.shape, np.bool_)
            for mode in self.kinds[self.kinds < _MEMBER]:
                taken |= (modes == mode) & _COMPARE[int(mode)](found, wanted)
            for node in np.unique(at[modes == _MEMBER]) if _MEMBER in self.kinds else ():
                taken |= (at == node) & np.isin(found, self._set(node))
        return np.asarray(taken | (self.missing.take(at) & np.isnan(found)) if self.missing.size else taken)

    def _set(self, node: int) -> Array:
        return self.members[self.ends[node - 1] if node else 0 : self.ends[node]]


@frozen
class Leaves:
    """The scores of leaves, those of one node one behind the other.

    Attributes:
        starts: Where those of each node begin, and at last the number of all.
        targets, weights: What each is added to, and how much.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("starts", "targets", "weights")

    starts: Array
    targets: Array
    weights: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of them, in the order of ``NAMES``."""
        return (self.starts, self.targets, self.weights)

    @classmethod
    def of(cls, nodes: Array, targets: Array, weights: Array, count: int) -> Leaves:
        """Return the scores that are given one a row, of *nodes* among *count*."""
        order = np.argsort(nodes, kind="stable")
        starts = np.searchsorted(nodes[order], np.arange(count + 1))
        return cls(starts.astype(np.int64), targets[order].astype(np.int64), weights[order])

    def entries(self, reached: Array) -> tuple[Array, Array, Array]:
        """Return rows, targets and weights of all scores at the nodes *reached* ``[rows, trees]``."""
        begins = self.starts.take(reached).ravel()
        counts = self.starts.take(reached + 1).ravel() - begins
        rows = np.repeat(np.arange(reached.size) // max(1, reached.shape[1]), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(begins, counts) + within
        return rows, self.targets.take(places), self.weights.take(places)


def read_ensemble(node: OnnxNode) -> tuple[Trees, Leaves]:
    """Return the trees and leaves of TreeEnsemble, whose leaves are counted on behind its nodes."""

    def integers(name: str) -> Array:
        return np.array(node.attribute(name, ()), np.int64)

    modes = np.asarray(node.attribute("nodes_modes", np.zeros(0, np.uint8))).astype(np.int64)
    splits = np.asarray(node.attribute("nodes_splits", np.zeros(0, np.float32)))
    targets, weights = integers("leaf_targetids"), np.asarray(node.attribute("leaf_weights", splits))
    count, leaves = len(modes), len(targets)
    _check_lengths(count, *(integers(f"nodes_{w}{what}") for w in ("true", "false") for what in ("nodeids", "leafs")))
    follow = [integers(f"nodes_{w}nodeids") + count * (integers(f"nodes_{w}leafs") != 0) for w in ("true", "false")]
    missing = integers("nodes_missing_value_tracks_true").astype(np.bool_)
    missing = missing if missing.size else np.zeros(count, np.bool_)
    sets, sizes = _sets(np.asarray(node.attribute("membership_values", np.zeros(0, splits.dtype))), modes)
    _check_lengths(count, integers("nodes_featureids"), splits, missing)
    if len(weights) != leaves or (count and not 0 <= modes.min() <= modes.max() <= _MEMBER):
        raise ModelError("leaf_weights, leaf_targetids and nodes_modes do not fit each other")

    def padded(array: Array, fill: Any = 0) -> Array:
        return np.concatenate([array, np.full(leaves, fill, array.dtype)])

    trees = Trees.of(
        padded(modes, _LEAF).astype(np.uint8),
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
    inner = modes != _LEAF
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
    """Where nodes stand among all, by the numbers of their tree and of themselves.

    Attributes:
        trees, ids: The numbers that there are, in ascending order.
        keys, order: The pairs of both, in ascending order, and where each stands.
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
    if unknown := sorted(set(names) - set(_MODES)):
        raise ModelError(f"nodes_modes has {unknown[0]!r}, which ONNX does not define")
    numbers = {name: number for number, name in enumerate(_MODES)}
    return np.fromiter(map(numbers.__getitem__, names), np.uint8, len(names))


def values_of(node: OnnxNode, name: str) -> Array:
    """Return floats that are given as an attribute, or as a tensor of doubles, ``name_as_tensor``."""
    tensor = node.attribute(f"{name}_as_tensor", None)
    return np.array(node.attribute(name, ()), np.float32) if tensor is None else np.asarray(tensor).ravel()


def _sets(values: Array, modes: Array) -> tuple[Array, Array]:
    """Return the members of all sets, which NaN ends in *values*, and how many each node has."""
    ends = np.flatnonzero(np.isnan(values))
    sizes = np.zeros(len(modes), np.int64)
    nodes = np.flatnonzero(modes == _MEMBER)
    if len(nodes) > len(ends):
        raise ModelError(f"{len(nodes)} nodes ask for members of {len(ends)} sets, each of which NaN ends")
    sizes[nodes] = np.diff(ends, prepend=-1)[: len(nodes)] - 1
    return values[~np.isnan(values)], sizes


def _check_lengths(count: int, *arrays: Array) -> None:
    if any(len(array) != count for array in arrays):
        raise ModelError(f"the attributes of {count} nodes have {', '.join(str(len(a)) for a in arrays)} entries")
