"""Whether what stands behind the newest token in a cache is hidden from all results, and where that is to be done.

Axes of places are followed through a program, whose number of places divides no other size: what each layer makes of a
place depends on that place alone, up to a softmax over places, behind which those that are hidden are zeros, and to
sums over places with such a factor.
"""

from __future__ import annotations

from math import prod

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.model.state.keeping import NoStateError

MOVES = frozenset(
    {"transpose", "reshape", "unsqueeze", "squeeze", "flatten", "expand", "repeat", "identity", "reorder"}
)
"""Kinds that move elements, or convert each."""

_HIDDEN = -1e4
"""Scores below that count for nothing."""


@frozen
class Followed:
    """A value that has an axis of places.

    Attributes:
        zero: Whether hidden places hold zeros.
        masks: Inputs that say, by numbers that are added or by bools, which of its places are hidden.
    """

    zero: bool = False
    masks: frozenset[str] = frozenset()


@frozen
class OverPlaces:
    """A softmax over places: its layer, type, and the inputs that may hide places."""

    layer: str
    dtype: DType
    masks: frozenset[str]


def softmaxes_over_places(program: Program, places: int) -> list[OverPlaces]:
    """Return what has to hide places that hold no token.

    Args:
        places: The number of places, which divides no other size.

    Raises:
        NoStateError: Something else would depend on them.
    """
    follower = _Follower(places, {v: Followed(masks=frozenset({v.name})) for v in program.inputs})
    needed = {v for _, v in program.outputs}
    for node in reversed(tuple(program)):
        if not needed.isdisjoint(node.outputs):
            needed |= set(node.inputs)
    for node in program:
        if not needed.isdisjoint(node.outputs):  # others have been asked for sizes alone
            follower.follow(node)
    for name, value in program.outputs:
        if follower.axis(value) is not None:
            raise NoStateError(f"output {name!r} has a place for every token, and is no cache")
    return follower.found


class _Follower:
    def __init__(self, places: int, known: dict[Value, Followed]) -> None:
        self.places, self.known, self.found = places, known, list[OverPlaces]()

    def axis(self, value: Value) -> int | None:
        """Return the axis of places, ``None`` where there is none; raises ``NoStateError`` where it is shared."""
        shape = value.layout.shape
        axes = [i for i, n in enumerate(shape) if n and n % self.places == 0]
        if not axes:
            return None
        if len(axes) > 1 or shape[axes[0]] != self.places:
            raise NoStateError(f"{value.name!r} {list(shape)} has places of a cache in several axes, or joins them")
        return axes[0]

    def follow(self, node: Node) -> None:
        """Note what *node* makes, and what it has to hide."""
        if all(self.axis(v) is None for v in (*node.inputs, *node.outputs)):
            return
        made = self._made(node)
        if made is None:
            raise NoStateError(f"{node.name!r} ({node.primitive}) mixes places of a cache")
        self.known |= dict.fromkeys(node.outputs, made)

    def of(self, value: Value) -> Followed:
        """Return what is known of *value*, which has an axis of places."""
        if value.constant is not None:
            array = np.moveaxis(value.constant, self.axis(value) or 0, 0)
            if not (array == array[:1]).all():
                raise NoStateError(f"constant {value.name!r} tells places of a cache apart")
            return Followed(zero=not array.any())
        return self.known[value]

    def _made(self, node: Node) -> Followed | None:
        """Return what is known of the results, ``None`` where they depend on other places than their own."""
        kind, axes = node.primitive.kind, [self.axis(v) for v in node.inputs]
        made = {self.axis(v) for v in node.outputs}
        if len(made) > 1:
            return None
        (axis,) = made
        given = {i: self.of(v) for i, v in enumerate(node.inputs) if axes[i] is not None}
        if kind == "cache_join":
            return Followed()
        if kind == "fill":
            return Followed(zero=not getattr(node.primitive, "value", 1))
        if "matmul" in kind:
            return self._product(node, given, axes, axis)
        if kind == "reduce":
            return self._reduced(node, given, axes[0], axis)
        if axis is None:
            return None
        if kind == "softmax":
            return self._softmax(node, given[0], axis)
        if node.primitive.elementwise or kind == "where":
            ranks = {v.layout.rank - a for v, a in zip(node.inputs, axes, strict=True) if a is not None}
            return self._of_elements(node, given) if ranks <= {node.output.layout.rank - axis} else None
        if kind in MOVES:
            return self._moved(node, given, axes[0], axis)
        if kind in ("slice", "split", "concat"):
            # Where all places are taken, they are so in their order, or from the last to the first.
            forwards = min(getattr(node.primitive, "steps", ()) or (1,)) > 0
            same = {a for v, a in zip(node.inputs, axes, strict=True) if v.layout.rank == node.output.layout.rank}
            zero = all(x.zero for x in given.values())
            return Followed(zero) if forwards and same <= {axis} and set(given) >= self._joined(node) else None
        if kind == "layer_normalization":
            normalised = getattr(node.primitive, "axis", 0) % node.output.layout.rank
            return Followed() if axis < normalised and set(given) == {0} else None
        if kind == "scatter_nd" and set(given) == {0, 2} and axis >= node.inputs[1].layout.shape[-1]:
            ranks = {node.inputs[i].layout.rank - (axes[i] or 0) for i in given}
            return Followed() if ranks == {node.output.layout.rank - axis} else None
        if kind == "gather":
            own = getattr(node.primitive, "axis", 0) % node.inputs[0].layout.rank
            return Followed(given[0].zero) if set(given) == {0} and axes[0] != own else None
        return None

    def _joined(self, node: Node) -> set[int]:
        return set(range(len(node.inputs))) if node.primitive.kind == "concat" else {0}

    def _softmax(self, node: Node, given: Followed, axis: int) -> Followed | None:
        rank = node.output.layout.rank
        if {a % rank for a in getattr(node.primitive, "axes", ())} != {axis}:
            return Followed() if axis not in {a % rank for a in getattr(node.primitive, "axes", ())} else None
        if axis != rank - 1 or getattr(node.primitive, "log", False):
            return None
        self.found.append(OverPlaces(node.name, node.output.layout.dtype, given.masks))
        return Followed(zero=True)

    def _of_elements(self, node: Node, given: dict[int, Followed]) -> Followed:
        function = getattr(node.primitive, "function", "")
        if node.primitive.kind == "where":
            branches = [self._is_zero(node.inputs[i], given.get(i)) for i in (1, 2)]
            return Followed(all(branches), self._where_masks(node, given))
        if function == "add":
            zero = all(self._is_zero(v, given.get(i)) for i, v in enumerate(node.inputs))
            return Followed(zero, frozenset().union(*(x.masks for x in given.values())))
        if function == "sub":
            return Followed(all(self._is_zero(v, given.get(i)) for i, v in enumerate(node.inputs)))
        if function == "mul":
            return Followed(any(x.zero for x in given.values()))
        if function == "div":
            return Followed(set(given) == {0} and given[0].zero)
        return Followed()

    def _where_masks(self, node: Node, given: dict[int, Followed]) -> frozenset[str]:
        """Return the masks of a Where that leaves scores where a mask is true, and else takes a number that hides."""
        branches = given[1].masks if 1 in given else frozenset[str]()
        number = node.inputs[2].constant
        hides = number is not None and number.size == 1 and bool(number.reshape(-1)[0] <= _HIDDEN)
        return branches | (given[0].masks if hides and 0 in given else frozenset()) if hides else frozenset()

    def _is_zero(self, value: Value, given: Followed | None) -> bool:
        if given is not None:
            return given.zero
        return value.constant is not None and not value.constant.any()

    def _moved(self, node: Node, given: dict[int, Followed], before: int | None, axis: int) -> Followed | None:
        if before is None:
            # One element for all places, or a number of places, which is no element.
            return Followed() if node.primitive.kind in ("expand", "repeat") and not given else None
        if set(given) != {0}:
            return None
        shapes, kind = (node.inputs[0].layout.shape, node.output.layout.shape), node.primitive.kind
        if kind in ("reshape", "unsqueeze", "squeeze", "flatten"):
            if prod(shapes[0][before + 1 :]) != prod(shapes[1][axis + 1 :]):
                return None
        elif kind in ("expand", "repeat") and len(shapes[0]) - before != len(shapes[1]) - axis:
            return None
        return given[0]

    def _reduced(self, node: Node, given: dict[int, Followed], before: int | None, axis: int | None) -> Followed | None:
        if before is None or set(given) != {0}:
            return None
        sums = getattr(node.primitive, "function", "") == "sum" and given[0].zero
        return Followed() if axis is not None or sums else None

    def _product(
        self, node: Node, given: dict[int, Followed], axes: list[int | None], axis: int | None
    ) -> Followed | None:
        summed = [self._summed(node, i) for i in range(min(2, len(node.inputs)))]
        over = [i for i in given if i < 2 and axes[i] == summed[i]]
        if over:
            return Followed() if over == [0, 1] == sorted(given) and any(x.zero for x in given.values()) else None
        if len(given) != 1 or axis is None or next(iter(given)) > 1:
            return None
        return Followed(next(iter(given.values())).zero)

    def _summed(self, node: Node, slot: int) -> int:
        """Return the axis of a factor of a product that is summed over."""
        rank = node.inputs[slot].layout.rank
        if node.primitive.kind != "matmul":  # of weights in another order
            return rank - 1 if slot == 0 else -1
        turned = getattr(node.primitive, ("transpose_a", "transpose_b")[slot], False)
        return rank - 2 if turned == (slot == 0) and rank > 1 else rank - 1
