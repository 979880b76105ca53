"""Decision trees in flat arrays, walked by all rows at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.primitive import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
"""In the order of TreeEnsemble's numbers, and what those operators lack that have no leaves of their own."""

MEMBER, LEAF = 6, 7
_TRUE_OF = np.array([0b1010, 0b0010, 0b1100, 0b0100, 0b1000, 0b0111], np.int32)
"""Of each mode, whether it is true of a feature that is not comparable (bit 0), less, greater, equal (bit 3)."""

_COMPARE = {0: np.less_equal, 1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal}


@frozen
class Trees:
    """The nodes of all trees, one behind the other.

    Attributes:
        modes: What each compares its feature by: places in ``MODES``.
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
        inner, own = modes != LEAF, np.arange(len(modes))
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

    @property
    def ends_everywhere(self) -> bool:
        """Whether no nodes follow each other in a circle."""
        at = np.unique(self.roots)
        for _ in range(len(self.modes) + 1):
            at = at[self.modes[at] != LEAF]
            if not len(at):
                return True
            at = np.unique(self.children.reshape(-1, 2)[at])
        return False

    def _compared(self, at: Array, found: Array) -> Array:
        """Return what the comparisons of the nodes *at* with the features *found* give."""
        wanted = self.values.take(at)
        if len(self.kinds) == 1 and self.kinds[0] < MEMBER:
            taken = _COMPARE[int(self.kinds[0])](found, wanted)
        else:
            modes, taken = self.modes.take(at), np.zeros(at.shape, np.bool_)
            for mode in self.kinds[self.kinds < MEMBER]:
                taken |= (modes == mode) & _COMPARE[int(mode)](found, wanted)
            for node in np.unique(at[modes == MEMBER]) if MEMBER in self.kinds else ():
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


def packed(trees: Trees, leaves: Leaves) -> Array:
    """Return nodes int32 ``[nodes, 4]`` as ``tree_ensemble_rows.cl`` reads them; none of what it does not serve.

    Those are trees of doubles, of sets, of features from 2**27 on, in a circle, or none.
    """
    served = trees.values.dtype == np.float32 and MEMBER not in trees.kinds and trees.features < 1 << 27
    if not served or not len(trees.roots) or leaves.weights.dtype != np.float32 or not trees.ends_everywhere:
        return np.zeros((0, 4), np.int32)
    leaf, values = trees.modes == LEAF, trees.values
    true = _TRUE_OF.take(trees.modes, mode="clip")
    missing = trees.missing if trees.missing.size else np.zeros(len(leaf), np.bool_)
    # What is compared with NaN is the same of every feature.
    true = np.where(np.isnan(values), 0b1111 * (true & 1), true) | (missing & ~leaf)
    made = np.empty((len(leaf), 4), np.int32)
    made[:, 0] = np.where(leaf, leaves.starts[:-1], np.where(np.isnan(values), np.float32(0), values).view(np.int32))
    made[:, 1] = np.where(leaf, 0, trees.feature_ids << 4 | true)
    made[:, 2] = trees.children[::2]
    made[:, 3] = np.where(leaf, np.diff(leaves.starts), trees.children[1::2])
    return made
