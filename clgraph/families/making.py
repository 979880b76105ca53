"""How a family is made: its representative is found, compiled by all passes, and the rules of its nodes with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import BindingError, ClgraphError, UnknownValueError
from clgraph.families.built import Built, differ, special
from clgraph.families.candidates import COMPUTED_ELEMENTS, Candidate, candidates
from clgraph.families.cone import Cone
from clgraph.families.family import Compile, Family
from clgraph.families.finder import rules_of
from clgraph.families.fixed_choices import with_fixed_choices
from clgraph.families.member import MemberRecipe
from clgraph.families.rules import is_uniform
from clgraph.families.schema import Schema, Sizes
from clgraph.families.small_pictures import AS_LARGE, may_have_windows
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.passes.base import Context
from clgraph.passes.memory.plan_memory import best_order
from clgraph.passes.memory.split_batch import BatchSlice, slice_of
from clgraph.selector.implementation import WINOGRAD

WITNESSES = 2
"""How many other shapes have to confirm that nothing about a representative is special."""

ROOM = 4
"""How many times the largest tensor of a representative a device has to allocate: formats and halos make it larger."""

LARGEST = 256 << 20
"""Bytes of a representative's largest tensor, whatever the device holds: what a driver reports as its memory may change
from one process to the next (PoCL 3.0 reads what a virtual machine has at the moment), and results may not."""


LARGER = 2
"""How many extremes larger than a representative are built."""

MADE_BYTES = 1 << 26
"""What a constant that operators make of sizes (a mask, the places of a grid) may take in an extreme, which nobody
runs: of 64 times the sizes it would take gigabytes, and seconds."""


NOTHING_TRIED = "inputs of this kind have none to be tried"
"""Why there is no representative where there is no candidate: of pictures of several sizes beside one another."""


def make_family(topology: Topology, schema: Schema, context: Context, run: Compile) -> Family:
    """Return the family of *schema*.

    Its representative is the first candidate that builds, and about which two other candidates say that no sizes are
    equal, or 1, by chance.

    Args:
        run: Compiles a built program.

    Raises:
        BindingError: There is no such candidate, or no rule for a node; or small pictures need no family of their own.
        UnknownValueError: A size depends on the value of an input that *schema* does not have.
    """
    if schema.most_pixels and (WINOGRAD in context.denied or not may_have_windows(topology)):
        raise BindingError(AS_LARGE)
    reasons: list[str] = []
    for found in _representatives(topology, schema, context, reasons):
        return _family(topology, schema, found, context, run)
    raise BindingError(f"no sizes stand for the others: {next(iter(reasons), NOTHING_TRIED)}")


@frozen
class _Representative:
    """A candidate about which nothing is special: its built program, that program as it was built, and others."""

    sizes: Sizes
    program: Program
    built: Built
    witnesses: list[tuple[Sizes, Built]]
    extremes: list[Built]


def _family(topology: Topology, schema: Schema, found: _Representative, context: Context, run: Compile) -> Family:
    sizes, program, witnesses = found.sizes, found.program, found.witnesses
    sliced = _may_be_sliced(program, sizes.shapes)
    for value in program.constants:
        value.sized = any(value.name in o.constants and differ(found.built, o, value.name) for _, o in witnesses)
    passes = tuple(run(program, sizes.shapes))
    cone = Cone(with_fixed_choices(topology, schema, sizes.known))
    others = [other for _, other in witnesses]
    rules, guards, folded = rules_of(program, found.built, others, found.extremes, cone, tuple(sizes.known))
    constants = {n: Value(n, Layout.of(a), constant=a) for n, a in cone.constants.items() if n not in sizes.known}
    _, bindings = MemberRecipe(program, rules, guards, constants).member(sizes.shapes, sizes.known)
    known = {name: bindings.array(name) for name in sorted(folded)}
    uniform = {name for name, array in known.items() if folded[name] and is_uniform(array)}
    guards = replace(
        guards,
        constants=tuple((name, np.array(array, order="C")) for name, array in known.items() if name not in uniform),
        uniform=tuple((name, known[name].shape, known[name].flat[:1]) for name in sorted(uniform)),
        expansions=tuple(bindings.expansions.items()),
    )
    recipe = MemberRecipe(program, rules, guards, constants)
    for at, witness in witnesses:
        _confirm(recipe, at, witness)
    return Family(schema, sizes, recipe, context, sliced, best_order(program, context), passes=passes)


def _representatives(
    topology: Topology, schema: Schema, context: Context, reasons: list[str]
) -> Iterator[_Representative]:
    """Yield the candidates that can stand for *schema*; adds to *reasons* why others cannot."""
    builds = False
    for candidate in candidates(schema):
        if builds and candidate.times > 1:
            return
        try:
            program = _build(topology, candidate.sizes)
        except UnknownValueError:
            raise
        except ClgraphError as error:
            reasons.append(f"{list(candidate.sizes.shapes)}: {error}")
            continue
        largest = max((v.layout.nbytes for v in program.values), default=0)
        if largest > min(LARGEST, context.default.max_alloc // ROOM):
            builds = True
            reasons.append(f"{list(candidate.sizes.shapes)}: a tensor of {largest} bytes is too large for it")
            continue
        built, witnesses, why = Built.of(program), list[tuple[Sizes, Built]](), "too few others are built"
        for sizes in candidate.witnesses:
            try:
                witness = Built.of(_build(topology, sizes))
            except ClgraphError:
                continue
            builds = True
            if (reason := special(built, witness)) is not None:
                why = reason
                break
            witnesses.append((sizes, witness))
            if len(witnesses) == WITNESSES:
                extremes = _extremes(topology, candidate, program)
                yield _Representative(candidate.sizes, program, built, witnesses, extremes)
                break
        reasons.append(f"{list(candidate.sizes.shapes)}: {why}")


def _extremes(topology: Topology, candidate: Candidate, program: Program) -> list[Built]:
    """Return what is built of the extremes of a *program*; of many a model nothing is."""
    made = max(
        (_span(a) for v in program.constants if (a := v.constant) is not None and v.name not in topology.constants),
        default=0,
    )
    # Two axes of a constant may grow.
    larger = [sizes for times, sizes in candidate.larger if made * times**2 <= MADE_BYTES]
    found = []
    for sizes in (*larger[:LARGER], candidate.small):
        with contextlib.suppress(ClgraphError):
            found.append(Built.of(_build(topology, sizes)))
    return found


def _span(array: Array) -> int:
    """Return the bytes from the first element of *array* to its last: of views that repeat elements few."""
    span: int = array.itemsize + sum((n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True))
    return span


def _may_be_sliced(program: Program, shapes: Sequence[Shape]) -> bool:
    """Whether the results of a batch are those of its entries, one behind the other."""
    entries = shapes[0][0] if shapes and shapes[0] else 1
    return entries > 1 and isinstance(slice_of(program, entries), BatchSlice)


def _build(topology: Topology, sizes: Sizes) -> Program:
    shapes = dict(zip(topology.inputs, sizes.shapes, strict=True))
    return topology.build(shapes, sizes.known, COMPUTED_ELEMENTS)


def _confirm(recipe: MemberRecipe, sizes: Sizes, witness: Built) -> None:
    """Derive the nodes for *sizes*, and compare the shapes of what has a name in the *witness*."""
    program, bindings = recipe.member(sizes.shapes, sizes.known, all_names=True)
    for name, value in bindings.values.items():
        if (wanted := witness.shapes.get(name)) is not None and value.layout.shape != wanted:
            raise BindingError(f"{name!r} is derived as {list(value.layout.shape)} where it is {list(wanted)}")
    found = tuple(v.layout.shape for _, v in program.outputs)
    if found != witness.outputs:
        raise BindingError(f"the results are derived as {found} where they are {witness.outputs}")
