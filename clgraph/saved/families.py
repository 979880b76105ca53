"""Serialisation of families of shapes to JSON and back, so that members are bound without compiling a representative.

A family holds the program of its representative without steps, the rules of its nodes, the layers and constants that
they bind again, and the weights that members have asked for in other formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.families.binding import Packings
from clgraph.families.cone import Expansion
from clgraph.families.families import Found
from clgraph.families.family import Family
from clgraph.families.member import MemberRecipe
from clgraph.families.rules import Guards, Rule, constants_of
from clgraph.families.schema import Given, Schema, Sizes
from clgraph.graph.layer import Layer
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.serial import Json, PrimitiveOf, decode, decode_primitive, encode, text_of
from clgraph.graph.typed import check_fields, fits
from clgraph.passes.base import Context
from clgraph.saved.programs import Add, Find, decode_program, encode_program
from clgraph.saved.topologies import LAYER_FORM, decode_layer, encode_layer

FORMAT = 7
"""Of families as JSON; those of another number are not read."""

_Shape = list[int]
_FORM = {
    "sizes": tuple[list[_Shape], list[tuple[str, Any]]],
    "sliced": bool,
    "order": int,
    "passes": list[tuple[int, str, int, float]],
    "layers": list[LAYER_FORM],
    "constants": list[tuple[str, Any]],
    "rules": list[
        tuple[
            list[int],
            str | None,
            str | None,
            tuple[_Shape, _Shape] | None,
            list[tuple[int, str]],
            list[tuple[str, str] | None],
            int | None,
            tuple[str, list[int]] | None,
            list[int] | None,
        ]
    ],
    "guards": tuple[
        list[int],
        list[tuple[str, list[str], list[_Shape]]],
        list[tuple[str, Any]],
        list[tuple[str, Any]],
        list[tuple[str, str]],
        list[tuple[str, list[tuple[str, str, list[str], list[str]]], list[str]]],
        list[tuple[str, _Shape, Any]],
        list[tuple[str, str]],
    ],
    "packings": list[tuple[int, Any, Any]],
}
"""Of a family as JSON: what :func:`_encode_family` returns, and a file may hold."""


def encode_families(known: Mapping[Schema, Family | str], add: Add) -> Json:
    """Return what is *known* about schemas: families, or why there is none; *add* as :func:`encode_program`.

    Raises:
        UnsupportedError: A primitive holds something that cannot be written.
    """
    rows = [
        [_encode_schema(schema), found, None]
        if isinstance(found, str)
        else [_encode_schema(schema), "", text_of(_encode_family(found, add))]
        for schema, found in known.items()
    ]
    return {"format": FORMAT, "known": rows}


def decode_families(data: Json, array: Find, context: Context, primitive_of: PrimitiveOf) -> dict[Schema, Found]:
    """Return what :func:`encode_families` wrote: families are read when somebody asks for them.

    Raises:
        ModelError: *data* is nothing of the kind, or of another format. What is read later raises it then.
    """
    with well_formed("the saved families"):
        if (found := data["format"]) != FORMAT:
            raise ModelError(f"families of format {found} cannot be read, this clgraph reads {FORMAT}: save them again")
        if not fits(data["known"], list[tuple[Any, str, str | None]]):
            raise ModelError("the saved families are damaged: they do not have the expected structure")
        known: dict[Schema, Found] = {}
        for written, why, family in data["known"]:
            schema = _decode_schema(written)
            if family is None:
                known[schema] = why
            else:
                known[schema] = partial(_decode_family, family, schema, array, context, primitive_of)
    return known


def _encode_family(family: Family, add: Add) -> Json:
    recipe = family.recipe
    before = (*(rule.before for rule in recipe.rules), recipe.guards.before)
    layers = {layer.name: layer for each in before for layer in each}
    numbers = {name: number for number, name in enumerate(layers)}
    constants = {id(v.constant): i for i, v in enumerate(recipe.program.values) if v.constant is not None}
    return {
        "program": encode_program(recipe.program, add, reasons=False),
        "sizes": [family.representative.shapes, _arrays(family.representative.known.items(), add)],
        "sliced": family.sliced,
        "order": family.order,
        "passes": family.passes,
        "layers": [encode_layer(layer, add) for layer in layers.values()],
        "constants": [[name, add(v.constant)] for name, v in recipe.constants.items() if v.constant is not None],
        "rules": [_encode_rule(rule, numbers) for rule in recipe.rules],
        "guards": [
            [numbers[layer.name] for layer in recipe.guards.before],
            recipe.guards.shapes,
            [[node, encode(primitive)] for node, primitive in recipe.guards.primitives],
            _arrays(recipe.guards.constants, add),
            recipe.guards.merged,
            [[layer, expansion.nodes, expansion.results] for layer, expansion in recipe.guards.expansions],
            [[name, shape, add(value)] for name, shape, value in recipe.guards.uniform],
            recipe.guards.results,
        ],
        "packings": [
            [constants[number], encode(layout), add(packed)]
            for (number, _), (_, packed, layout) in tuple(family.packings.made.items())
            if number in constants
        ],
    }


def _decode_family(text: str, schema: Schema, array: Find, context: Context, primitive_of: PrimitiveOf) -> Family:
    with well_formed("a saved family"):
        data = json.loads(text)
        for part, form in _FORM.items():
            if not fits(data[part], form):
                raise ModelError(f"a saved family is damaged: its {part} are not of the form {form}")
        program = decode_program(data["program"], array, context.devices, primitive_of)
        layers = [decode_layer(row, array, primitive_of) for row in data["layers"]]
        before, shapes, primitives, folded, merged, expansions, uniform, found = data["guards"]
        guards = Guards(
            tuple(layers[i] for i in before),
            tuple((name, tuple(around), _shapes(sizes)) for name, around, sizes in shapes),
            tuple((name, decode_primitive(written, primitive_of)) for name, written in primitives),
            tuple((name, array(held)) for name, held in folded),
            tuple((name, kept) for name, kept in merged),
            tuple((layer, _decode_expansion(nodes, results)) for layer, nodes, results in expansions),
            tuple((name, tuple(shape), array(held)) for name, shape, held in uniform),
            tuple((result, name) for result, name in found),
        )
        rows = enumerate(zip(data["rules"], program, strict=True))
        rules = tuple(_decode_rule(row, number, node, layers) for number, (row, node) in rows)
        constants = {name: _constant(name, array(held)) for name, held in data["constants"]}
        sizes, values = data["sizes"]
        representative = Sizes(_shapes(sizes), {name: array(held) for name, held in values})
        packings = _decode_packings(data["packings"], program, array, primitive_of)
        recipe = MemberRecipe(program, rules, guards, constants)
        passes = tuple(tuple(row) for row in data["passes"])
        return Family(schema, representative, recipe, context, data["sliced"], data["order"], packings, passes=passes)


def _encode_rule(rule: Rule, numbers: Mapping[str, int]) -> Json:
    before = [numbers[layer.name] for layer in rule.before]
    known = [None if found is None else (found[0], found[1].name) for found in rule.known]
    made = [rule.layer, rule.shape_of, rule.groups]
    return [before, *made, rule.constants, known, rule.twin, rule.sizes, rule.held]


def _decode_rule(data: Json, number: int, node: Node, layers: Sequence[Layer]) -> Rule:
    before, layer, shape_of, groups, constants, known, twin, sizes, held = data
    if len(known) != len(node.outputs):
        raise ModelError(f"a saved family is damaged: {node.name!r} has {len(node.outputs)} results, not {len(known)}")
    if twin is not None and not 0 <= twin < number:
        raise ModelError(f"a saved family is damaged: {node.name!r} refers to node {twin}, which does not precede it")
    if held is not None and sorted(held) != list(range(node.inputs[0].layout.rank)):
        raise ModelError(f"a saved family is damaged: {node.name!r} has an invalid order of axes, {held}")
    pair = None if groups is None else (tuple(groups[0]), tuple(groups[1]))
    order = None if held is None else tuple(held)
    axes = None if sizes is None else (sizes[0], tuple(sizes[1]))
    sized = tuple((slot, name) for slot, name in constants)
    named = tuple(None if found is None else (found[0], DType[found[1]]) for found in known)
    needed, (slots, plain) = tuple(layers[i] for i in before), constants_of(node)
    return Rule(node, needed, layer, shape_of, pair, axes, order, sized, named, slots, plain, twin)


def _decode_packings(data: Json, program: Program, array: Find, primitive_of: PrimitiveOf) -> Packings:
    packings, values = Packings(), program.values
    for number, written, held in data:
        constant, layout = values[number].constant, decode(written, primitive_of)
        packed = array(held)
        if constant is None or not isinstance(layout, Layout) or packed.size != layout.span:
            raise ModelError(f"a saved family is damaged: the packed form of {values[number].name!r} does not fit")
        packings.made[id(constant), layout.format] = constant, packed, layout
    return packings


def _decode_expansion(nodes: Json, results: Json) -> Expansion:
    rows = tuple((name, kind, tuple(inputs), tuple(outputs)) for name, kind, inputs, outputs in nodes)
    return Expansion(rows, tuple(results))


def _encode_schema(schema: Schema) -> Json:
    values = [[g.name, g.dtype, g.shape, g.elements, g.data.hex(), g.count_of] for g in schema.values]
    return [schema.names, schema.shapes, values, schema.sums, schema.most_pixels]


def _decode_schema(data: Json) -> Schema:
    names, shapes, values, sums, pixels = data
    given = []
    for name, dtype, shape, elements, held, count_of in values:
        fields = {"name": name, "dtype": dtype, "shape": tuple(shape), "elements": tuple(elements)}
        fields |= {"data": bytes.fromhex(held), "count_of": count_of}
        check_fields(Given, fields)
        given.append(Given(**fields))
    fields = {"names": tuple(names), "shapes": tuple(map(tuple, shapes)), "values": tuple(given)}
    fields |= {"sums": tuple(map(tuple, sums)), "most_pixels": pixels}
    check_fields(Schema, fields)
    return Schema(**fields)


def _arrays(named: Iterable[tuple[str, Array]], add: Add) -> Json:
    return [[name, add(array)] for name, array in named]


def _shapes(data: Json) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for shape in data)


def _constant(name: str, array: Array) -> Value:
    return Value(name, Layout.of(array), constant=array)
