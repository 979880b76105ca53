"""Examples of a model with caches: few tokens behind a short past, whose sizes and numbers tell of others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeGuard

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.signature import Dimension
from clgraph.graph.topology import Topology

_SIZES = (((3, 2), (5, 5)), ((3, 1), (5, 1)))
"""Past and new tokens of an example, and of another of other sizes.

Those of one new token are for models whose masks are made for a whole prompt or one token.
"""

_OTHER_SIZES = (7, 11, 13, 17, 19, 23)
"""Open sizes that are no tokens', such as the length of what an encoder made."""

_Shapes = dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]
"""Shapes and types by values' names."""


def joins(topology: Topology, layer: Layer) -> bool:
    """Whether *layer* joins an input of the model and something new along the tokens' axis, as an output."""
    axis = getattr(layer.primitive, "axis", None)
    made = {value for _, value in topology.outputs}
    two = len(layer.inputs) == 2 and layer.inputs[0] in topology.inputs
    return layer.primitive.kind == "concat" and two and axis in (2, -2) and layer.outputs[0] in made


@frozen
class _Naming:
    """What names of open sizes stand for: the *tokens'*, all where that is ``None``; and the *whole* of past and new.

    The former leaves others to sizes of their own.
    """

    tokens: str | None = None
    whole: str | None = None


@frozen
class _Built:
    """Two examples, ``None`` where no sizes fit, the second's past and new tokens, and what names stand for."""

    first: Program | None
    second: Program | None
    sizes: tuple[int, int]
    naming: _Naming


class Examples:
    """Two examples of one topology."""

    def __init__(self, topology: Topology, latest: int = 0) -> None:
        """Build nothing yet.

        Args:
            latest: How many of the latest tokens pasts have at most, where they are cut: some models are exported for
                as many only.
        """
        self.topology = topology
        self._sizes = (*_SIZES, ((latest, 2), (latest, 5))) if latest else _SIZES

    @property
    def program(self) -> Program | None:
        """The first, as it was built; ``None`` where no sizes fit."""
        return self._built.first

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """Those that can be built: both, and the other of two texts."""
        built = self._built
        two = self._example(*built.sizes, built.naming, texts=2)
        return tuple(x for x in (built.first, built.second, two) if x is not None)

    @cached_property
    def settled(self) -> dict[str, Array]:
        """Values that are computed of shapes, and are the same in both."""
        built = self._built
        one, two = (
            {} if x is None else {v.name: v.constant for v in x.values if v.constant is not None}
            for x in (built.first, built.second)
        )
        return {n: a for n, a in one.items() if n in two and np.array_equal(a, two[n])}

    @cached_property
    def numbers(self) -> dict[str, Array]:
        """Single numbers among :attr:`settled`, such as the root of a depth."""
        return {n: a for n, a in self.settled.items() if a.size == 1}

    @cached_property
    def shapes(self) -> _Shapes:
        """Shapes and types of values in the first; nothing where there is none."""
        return _shapes(self._built.first)

    @cached_property
    def others(self) -> _Shapes:
        """Those in the other, of two texts where the model takes more than one."""
        built = self._built
        return _shapes(self._example(*built.sizes, built.naming, texts=2) or built.second)

    def all_shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of a value in both; nothing where it has none."""
        examples = (self.shapes, self.others)
        return tuple(x[name][0] for x in examples) if all(name in x for x in examples) else ()

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value in the first, no axis where it has none."""
        return self.shapes[name][0] if name in self.shapes else ()

    def type_of(self, name: str) -> np.dtype[np.generic]:
        """Return the type of a value in the first."""
        return self.shapes[name][1]

    @cached_property
    def _built(self) -> _Built:
        """The first examples that can be built, both of the same names; else one alone, or none."""
        alone: _Built | None = None
        for sizes, other in self._sizes:
            for naming in self._namings():
                if (program := self._example(*sizes, naming)) is not None:
                    made = _Built(program, self._example(*other, naming), other, naming)
                    if made.second is not None:
                        return made
                    alone = alone or made
        return alone or _Built(None, None, self._sizes[0][1], _Naming())

    def _namings(self) -> Iterator[_Naming]:
        shapes = {name: s.shape or () for name, s in self.topology.inputs.items()}
        names = list(dict.fromkeys(d for shape in shapes.values() for d in shape if isinstance(d, str)))
        joined = [shapes[x.inputs[0]] for x in self.topology.layers if joins(self.topology, x)]
        known = {shape[i] for shape in joined if len(shape) == 4 for i in (0, 2)}
        if len(names := [name for name in names if name not in known and not name.isdecimal()]) > 1:
            yield from (_Naming(tokens=name) for name in names)
        yield _Naming()
        yield from (_Naming(whole=name) for name in names)

    def _example(self, past: int, tokens: int, naming: _Naming, texts: int = 1) -> Program | None:
        """Return the program of *tokens* behind a *past*; ``None`` where the topology's sizes cannot be guessed."""
        top = self.topology
        outputs = {value: name for name, value in top.outputs}
        named: dict[object, int] = {}
        for layer in top.layers:
            if not joins(top, layer):
                continue
            shape = top.inputs[layer.inputs[0]].shape or ()
            signature = top.declared.get(outputs[layer.outputs[0]])
            total = signature.shape if signature is not None else None
            if len(shape) != 4 or total is None or len(total) != 4:
                return None
            named |= {shape[0]: texts, shape[2]: past}
            named.setdefault(total[2], past + tokens)
        named |= {name: int(name) for s in top.inputs.values() for name in s.shape or () if _is_number(name)}
        if naming.whole is not None:
            named.setdefault(naming.whole, past + tokens)
        if naming.tokens is not None:
            named.setdefault(naming.tokens, tokens)
            rest = dict.fromkeys(d for s in top.inputs.values() for d in s.shape or () if isinstance(d, str))
            sizes_left = iter(_OTHER_SIZES)
            named |= {d: next(sizes_left, tokens) for d in rest if d not in named}
        sizes = {
            name: tuple(d if isinstance(d, int) else named.get(d, tokens) for d in s.shape or ())
            for name, s in top.inputs.items()
        }
        try:
            return top.build(sizes)
        except ClgraphError:
            return None


def _is_number(size: Dimension) -> TypeGuard[str]:
    """Whether the name of a *size* is a number, as PyTorch's exporter calls what it has found to be one."""
    return isinstance(size, str) and size.isdecimal()


def _shapes(program: Program | None) -> _Shapes:
    values = () if program is None else (*program.inputs, *program.values)
    return {v.name: (v.layout.shape, v.layout.dtype.numpy) for v in values}
