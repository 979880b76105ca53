"""Signatures of ONNX operators by schema: numbers of inputs and outputs, element types, attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered_with
from clgraph.frontend.attribute_rules import value_problem
from clgraph.frontend.protobuf import AttributeProto, onnx

if TYPE_CHECKING:
    from clgraph.frontend.protobuf import defs

NO_LIMIT = 1 << 30
"""Schemas say at most 2^31 - 1 where there is no limit."""

_OPEN = "...)"
"""Ends a type of which only the container is known: ``seq(...)``, ``optional(...)``."""


@frozen
class Place:
    """An input or output of an operator.

    Attributes:
        letter: BufferTable of one letter are of one type.
        shared: Whether the place has one type; those of a variadic place may differ.
    """

    letter: str
    types: frozenset[str]
    shared: bool
    optional: bool

    @classmethod
    def of(cls, parameter: defs.OpSchema.FormalParameter) -> Place:
        """Return the place that *parameter* describes."""
        option = type(parameter.option)
        shared = parameter.option != option.Variadic or parameter.is_homogeneous
        return cls(parameter.type_str, frozenset(parameter.types), shared, parameter.option == option.Optional)


Types = tuple[str | None, ...]
"""The types of a node's inputs as schemas spell them (``tensor(float)``), ``None`` where absent or not known."""


@frozen
class OperatorSignature(Remembering):
    """What ONNX says a node of one operator and version looks like.

    Attributes:
        inputs, outputs: Places; the last stands for all further ones.
        input_counts, output_counts: Fewest and most.
        attributes: Type codes.
        required: Names of the attributes that a node must have.
    """

    op_type: str
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    input_counts: tuple[int, int]
    output_counts: tuple[int, int]
    attributes: Mapping[str, int]
    required: frozenset[str]

    @classmethod
    def of(cls, schema: defs.OpSchema) -> OperatorSignature:
        """Return the signature of *schema*."""
        return cls(
            schema.name,
            tuple(map(Place.of, schema.inputs)),
            tuple(map(Place.of, schema.outputs)),
            (schema.min_input, schema.max_input),
            (schema.min_output, schema.max_output),
            {name: int(a.type) for name, a in schema.attributes.items()},  # type: ignore[call-overload]  # not in the stubs
            frozenset(name for name, a in schema.attributes.items() if a.required),
        )

    def to_json(self) -> list[Any]:
        """Return what :meth:`of_json` reads."""
        places = [[[p.letter, sorted(p.types), p.shared, p.optional] for p in of] for of in (self.inputs, self.outputs)]
        counts = [list(self.input_counts), list(self.output_counts)]
        return [self.op_type, *places, *counts, dict(self.attributes), sorted(self.required)]

    @classmethod
    def of_json(cls, data: list[Any]) -> OperatorSignature:
        """Return what :meth:`to_json` wrote."""
        op_type, *places, inputs, outputs, attributes, required = data
        read, made = (tuple([Place(letter, frozenset(types), *rest) for letter, types, *rest in of]) for of in places)
        return cls(op_type, read, made, tuple(inputs), tuple(outputs), attributes, frozenset(required))

    def problem(self, node: onnx.NodeProto, inputs: Sequence[str], types: Types) -> str | None:
        """Return what is wrong with a node, ``None`` where nothing is known against it.

        Args:
            inputs: Its inputs, trailing absent ones cut, and their *types*.
        """
        return (
            _count_problem(len(inputs), self.input_counts, "input")
            or _count_problem(len(node.output), self.output_counts, "output")
            or self._absent_input(inputs)
            or self._attribute_problem(node)
            or (None if self._agrees(types) else self._type_problem(inputs, types) or self._mixture(types))
        )

    def mixes(self, types: Types) -> bool:
        """Whether inputs of *types* are of several where the schema wants one; otherwise nothing is wrong with them."""
        return not self._agrees(types) and self._type_problem(("",) * len(types), types) is None

    def output_types(self, node: onnx.NodeProto, types: Types) -> dict[str, str]:
        """Return the types of the node's outputs, by name, that the signature and its inputs' *types* tell."""
        places = self._made(types)
        made = ((name, places[min(i, len(places) - 1)]) for i, name in enumerate(node.output[:]) if name and places)
        return {name: type_ for name, type_ in made if type_ is not None}

    @remembered_with
    def _made(self, types: Types) -> Types:
        """Return the type of each output place that inputs of *types* make, as far as it is known."""
        bound = {p.letter: found for _, p, found in self._known(types) if p.shared}
        return tuple((bound.get(p.letter) or _common(p.types)) if p.shared else None for p in self.outputs)

    @remembered_with
    def _agrees(self, types: Types) -> bool:
        """Whether nothing is wrong with inputs of *types*; a model has few combinations, and hundreds of nodes."""
        return self._type_problem(("",) * len(types), types) is None and self._mixture(types) is None

    def _absent_input(self, inputs: Sequence[str]) -> str | None:
        for i, name in enumerate(inputs[: self.input_counts[0]]):
            place = _place(self.inputs, i)
            if not name and place is not None and not place.optional:
                return f"lacks input {i}"
        return None

    def _attribute_problem(self, node: onnx.NodeProto) -> str | None:
        seen = set[str]()
        for attribute in node.attribute[:]:
            name = attribute.name
            if name in seen:
                return f"has attribute {name!r} more than once"
            seen.add(name)
            if name.startswith("__"):  # private to whoever wrote the model, as onnx's own checker has it
                continue
            if (wanted := self.attributes.get(name)) is None:
                listed = ", ".join(sorted(self.attributes)) or "none"
                return f"has an attribute {name!r}, which ONNX does not define for it (there are: {listed})"
            if attribute.ref_attr_name:
                return f"attribute {name!r} stands for {attribute.ref_attr_name!r} of a function, and is in none"
            if attribute.type != wanted:
                return f"attribute {name!r} has type {attribute.type}, not {AttributeProto.AttributeType.Name(wanted)}"
            if (problem := value_problem(self.op_type, attribute)) is not None:
                return problem
        missing = sorted(self.required - seen)
        return f"lacks attribute {missing[0]!r}" if missing else None

    def _type_problem(self, inputs: Sequence[str], types: Types) -> str | None:
        for i, place, found in self._known(types):
            if not _fits(found, place.types):
                return f"input {i} ({inputs[i]!r}) is a {found}, not {_list(sorted(place.types))}"
        return None

    def _mixture(self, types: Types) -> str | None:
        bound: dict[str, tuple[int, str]] = {}
        for i, place, found in self._known(types):
            if place.shared:
                first, type_ = bound.setdefault(place.letter, (i, found))
                if type_ != found and not (_fits(type_, {found}) or _fits(found, {type_})):
                    of = f"type parameter {place.letter} is bound to different types"
                    return f"inputs {first} and {i} want to be of one type, and are {type_} and {found}: {of}"
        return None

    def _known(self, types: Types) -> list[tuple[int, Place, str]]:
        """Return number, place and type of each input whose type is known."""
        found = ((i, _place(self.inputs, i), type_) for i, type_ in enumerate(types))
        return [(i, place, type_) for i, place, type_ in found if place is not None and type_ is not None]


def _common(types: Collection[str]) -> str | None:
    """Return the one type of *types*, or the container that all are; ``None`` where there is neither."""
    if len(types) == 1:
        return next(iter(types))
    containers = {type_.partition("(")[0] for type_ in types}
    return f"{containers.pop()}({_OPEN}" if len(containers) == 1 and "tensor" not in containers else None


def _fits(found: str, types: Collection[str]) -> bool:
    """Whether *found*, of which only the container may be known, is one of *types*."""
    if not found.endswith(_OPEN):
        return found in types
    return any(type_.startswith(found.removesuffix(_OPEN)) for type_ in types)


def _place(places: Sequence[Place], i: int) -> Place | None:
    return places[min(i, len(places) - 1)] if places else None


def _count_problem(found: int, counts: tuple[int, int], what: str) -> str | None:
    least, most = counts
    if least <= found <= most:
        return None
    wanted = f"{least}" if least == most else f"at least {least}" if most >= NO_LIMIT else f"{least} to {most}"
    return f"has {found} {what}s, not {wanted}"


def _list(types: Sequence[str]) -> str:
    return f"a {types[0]}" if len(types) == 1 else f"one of {', '.join(types)}"
