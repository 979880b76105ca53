"""Shapes of values passed between stages, as far as input shapes determine them, for the families of later stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clgraph.core.layout import Shape
from clgraph.errors import ClgraphError, UnknownValueError
from clgraph.graph.primitive import DataDependent
from clgraph.graph.program import Program
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import Piece


class PassedOn:
    """The shapes of the values that pieces produce, computed once.

    Attributes:
        found: It, once somebody has asked.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Take the pieces in the order in which they run."""
        self._pieces = pieces
        self.found: Mapping[str, Signature] | None = None

    def __call__(self) -> Mapping[str, Signature]:
        """Return types and shapes, as :func:`passed_on`."""
        if self.found is None:
            self.found = passed_on(self._pieces)
        return self.found


def passed_on(pieces: Sequence[Piece]) -> dict[str, Signature]:
    """Return types and shapes of what pieces make, as far as they depend on no elements.

    A piece is built for a representative of its inputs' shapes and for two witnesses. A size that they agree on counts
    as constant, and sizes that vary alike have one name. Of other sizes this may be wrong: :func:`fits` tells.
    """
    found: dict[str, Signature] = {}
    for piece in pieces:
        inputs = {name: found.get(name, s) for name, s in piece.topology.inputs.items()}
        if piece.compilable and all(s.dtype is not None and s.shape is not None for s in inputs.values()):
            found |= _made(replace(piece.topology, inputs=inputs))
        elif not piece.compilable:
            found |= _outlined(piece.topology, inputs)
    return found


def fits(declared: Mapping[str, Signature], feeds: Mapping[str, Any]) -> bool:
    """Whether *feeds* have the shapes that are declared of them, and one size for each name."""
    sizes: dict[str, int] = {}
    return all(
        s.shape is not None
        and len(s.shape) == len(feeds[name].shape)
        and all(
            sizes.setdefault(d, n) == n if isinstance(d, str) else d == n
            for d, n in zip(s.shape, feeds[name].shape, strict=True)
        )
        for name, s in declared.items()
    )


def _made(topology: Topology) -> dict[str, Signature]:
    """Return the signatures of the outputs; none where too few shapes are built, or where elements decide sizes."""
    # Imported where a stage is compiled behind another one.
    from clgraph.families.candidates import COMPUTED_ELEMENTS, candidates
    from clgraph.families.making import WITNESSES
    from clgraph.families.schema import Schema

    schema = Schema(tuple(topology.inputs), tuple(_named(s) for s in topology.inputs.values()))
    for candidate in candidates(schema):
        built: list[tuple[tuple[Shape, ...], Program]] = []
        for sizes in (candidate.sizes, *candidate.witnesses):
            try:
                shapes = dict(zip(topology.inputs, sizes.shapes, strict=True))
                built.append((sizes.shapes, topology.build(shapes, most=COMPUTED_ELEMENTS)))
            except UnknownValueError:
                return {}
            except ClgraphError:
                if not built:
                    break
            if len(built) > (WITNESSES if schema.free else 0):
                return _compared(schema.shapes, built)
    return {}


def _outlined(topology: Topology, inputs: Mapping[str, Signature]) -> dict[str, Signature]:
    """Return the signatures of results of which elements decide some sizes, and ranks the others."""
    found: dict[str, Signature] = {}
    for layer in topology.layers:
        if isinstance(layer.primitive, DataDependent):
            shapes = [s.shape if (s := found.get(name, inputs.get(name))) else None for name in layer.inputs]
            outline = layer.primitive.outline([None if shape is None else len(shape) for shape in shapes])
            if outline is not None:
                (name,), (dtype, shape) = layer.outputs, outline
                found[name] = Signature(name, dtype, _named(Signature(name, dtype, shape)))
    return found


def _named(signature: Signature) -> tuple[int | str, ...]:
    """Return the shape with a name for every open size."""
    return tuple(
        f"{signature.name}.{axis}" if d is None or d == "?" else d for axis, d in enumerate(signature.shape or ())
    )


def _compared(
    named: Sequence[Sequence[int | str]], built: Sequence[tuple[tuple[Shape, ...], Program]]
) -> dict[str, Signature]:
    """Return the outputs' signatures, given programs with the shapes of inputs that they were built for."""
    names: dict[tuple[int, ...], str] = {}
    for row, of_input in zip(named, zip(*(shapes for shapes, _ in built), strict=True), strict=True):
        for name, sizes in zip(row, zip(*of_input, strict=True), strict=True):
            if isinstance(name, str):
                names.setdefault(sizes, name)
    found = {}
    for outputs in zip(*(program.outputs for _, program in built), strict=True):
        name, layouts = outputs[0][0], [value.layout for _, value in outputs]
        if len({x.rank for x in layouts}) == 1:
            shape: list[Dimension] = []
            for axis, sizes in enumerate(zip(*(x.shape for x in layouts), strict=True)):
                varies = len(set(sizes)) > 1
                shape.append(names.setdefault(sizes, f"{name}.{axis}") if varies else sizes[0])
            found[name] = Signature(name, layouts[0].dtype, tuple(shape))
    return found
