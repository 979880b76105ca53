"""Run the tiles of one implementation on layouts of the test's choice, on memory full of NaN.

``check_op`` goes through the passes, which choose layouts; this goes below them, to what only layouts show: halos and
tail lanes of the result, inputs at any alignment, pitches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.core.layout import Halo, Layout
from clgraph.core.packing import pack, unpack
from clgraph.graph.node import Fused
from clgraph.graph.primitive import Primitive
from clgraph.network.buffer_table import BufferTable
from clgraph.network.tiles import TileExecutor, TileTable
from clgraph.network.workspace import Workspace
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.runtime.engine import Engine
from clgraph.selector.descriptor import Places
from clgraph.selector.implementation import Formats, Implementation
from clgraph.selector.libraries import run_in
from clgraph.selector.library import compose
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo, Query
from tests.support.of_a_kind import on_a_cpu
from tests.support.ran import RAN

Array = NDArray[Any]
AnyImplementation = type[Implementation[Any]]

U32 = 2.0**-24


def several_at_a_time(info: DeviceInfo) -> DeviceInfo:
    """Return *info* as of a CPU whose convolutions compute several blocks of output channels at a time."""
    return replace(info, features=info.features - {"operand_loads"})


def pose(
    device: DeviceInfo,
    implementation: AnyImplementation,
    primitive: Primitive,
    layouts: Sequence[Layout],
    *,
    arity: int,
    fused: Sequence[Fused] = (),
    constant: Sequence[int] = (),
    out_halo: Halo = (),
    formats: Formats | None = None,
    packed: bool = True,
) -> Query[Any]:
    """Return the query on the layouts that *implementation* proposes, halos in place; its weights too if *packed*."""
    outputs = primitive.infer([x.plain() for x in layouts[:arity]])
    q: Query[Any] = Query(primitive, tuple(layouts), outputs, device, arity, tuple(fused), frozenset(constant))
    wanted = formats or implementation.formats(q)[0]
    inputs = [x if f is None else x.with_format(f) for x, f in zip(layouts, wanted.inputs, strict=True)]
    outs = [y.with_format(f) for y, f in zip(outputs, wanted.outputs, strict=True)]
    outs[0] = outs[0].with_halo(out_halo)
    q = q.with_layouts(tuple(inputs), tuple(outs))
    for slot, halo in implementation.halo(q).items():
        inputs[slot] = inputs[slot].with_halo(halo)
    q = q.with_layouts(tuple(inputs), tuple(outs))
    return with_weights(implementation, q) if packed else q


def with_weights(implementation: AnyImplementation, q: Query[Any]) -> Query[Any]:
    """Return *q* on the weights that *implementation* asks for, as post_optimize_weights leaves it."""
    inputs, primitive = list(q.inputs), q.primitive
    for slot, asked in implementation.weights(q).items():
        if isinstance(asked, Primitive):
            (inputs[slot],) = asked.infer([inputs[slot]])
            primitive = implementation.transformed(q)
        else:
            inputs[slot] = inputs[slot].with_format(asked)
    return replace(q, primitive=primitive).with_layouts(tuple(inputs), q.outputs)


@dataclass
class _OneBank(BufferTable):
    """One bank with every tensor of a test at an offset."""

    offsets: Mapping[str, int] = field(default_factory=dict)

    def pointers(self, node: object) -> Places:
        return {"null": -1, **self.offsets}


def run_tiles(
    engine: Engine, implementation: AnyImplementation, q: Query[Any], arrays: Sequence[Array], misalign: int = 0
) -> Array:
    """Return the first result of *q* on *arrays*, run twice on memory that held NaN.

    Args:
        misalign: Floats that the first input lies beyond a multiple of 64 bytes.

    Raises:
        AssertionError: It refuses, halo or tail lanes of floats are not zeros, or the second run differs.
    """
    on_a_cpu(engine)
    assert (reason := implementation.refusal(q)) is None, reason
    plan = implementation.plan(q)
    offsets: dict[str, int] = {}
    used = 0

    def reserve(role: str, nbytes: int, shift: int = 0) -> None:
        nonlocal used
        offsets[role] = used + shift
        used += -(-(nbytes + shift) // 64) * 64 + 64

    memories = {f"in{i}": pack(a, x) for i, (a, x) in enumerate(zip(arrays, q.inputs, strict=True))}
    for role, memory in memories.items():
        reserve(role, memory.nbytes, 4 * misalign if role == "in0" else 0)
    for i, layout in enumerate(q.outputs):
        reserve(f"out{i}", layout.nbytes)
    for i, nbytes in enumerate(plan.scratch):
        reserve(f"scratch{i}", nbytes)
    bank = np.full(used // 4, np.nan, np.float32)
    for role, memory in memories.items():
        bank.view(np.uint8)[offsets[role] : offsets[role] + memory.nbytes] = memory.view(np.uint8)
    banks, most = [engine.upload(bank, "a test's tensors")], engine.info.max_alloc
    places = _OneBank(engine.info.name, engine, Workspace(), banks, most, offsets=offsets)
    tiles = [step for step in plan.steps if isinstance(step, Tile)]
    libraries = run_in([tile.library for tile in tiles])
    tables = {name: TileTable(compose(name, engine.info.simd)) for name in libraries}
    node: Any = SimpleNamespace(name="tested")
    numbers = [tables[name].add(node, tile) for name, tile in zip(libraries, tiles, strict=True)]
    executors = {name: TileExecutor(table, places) for name, table in tables.items()}
    found = []
    for _ in range(2):
        for name, i in zip(libraries, numbers, strict=True):
            kernel, grid, group = executors[name].bind(i, i + 1)
            kernel.on(engine.stream, grid, group)()
        flat = np.empty(q.outputs[0].span, q.outputs[0].dtype.numpy)
        engine.stream.read(places.banks[0], offsets["out0"], flat)
        left = np.empty_like(bank)
        engine.stream.read(places.banks[0], 0, left)
        engine.stream.finish()
        found.append(flat)
        outside = _outside(bank.nbytes, offsets, plan.scratch, q)
        np.testing.assert_array_equal(
            left.view(np.uint8)[outside], bank.view(np.uint8)[outside], "written outside of results and scratch memory"
        )
    np.testing.assert_array_equal(found[0], found[1], "the second run differs from the first")
    result = unpack(found[0], q.outputs[0])
    if q.outputs[0].dtype.floating:
        np.testing.assert_array_equal(found[0], pack(result, q.outputs[0]), "halo or tail lanes are not zeros")
    RAN.add(implementation.name)
    return result


def _outside(nbytes: int, offsets: Mapping[str, int], scratch: Sequence[int], q: Query[Any]) -> NDArray[np.bool_]:
    """Return which of *nbytes* bytes belong to no result and to no scratch memory: those that no tile may write."""
    outside = np.ones(nbytes, bool)
    sizes = {f"out{i}": layout.nbytes for i, layout in enumerate(q.outputs)}
    sizes |= {f"scratch{i}": size for i, size in enumerate(scratch)}
    for role, size in sizes.items():
        outside[offsets[role] : offsets[role] + size] = False
    return outside


def wanted(q: Query[Any], arrays: Sequence[Array]) -> Array:
    """Return the reference in float64, fused operations included."""
    exact = [a if a.dtype.kind in "iu" else a.astype(np.float64) for a in arrays]
    with np.errstate(all="ignore"):
        for step in q.pre:
            exact[0] = step.apply(exact[0], exact)
        (value,) = q.primitive.reference(*exact[: q.arity])
        for step in q.post:
            value = step.apply(value, exact)
    return np.asarray(value)


def check_tiles(
    engine: Engine,
    implementation: AnyImplementation,
    primitive: Primitive,
    arrays: Sequence[Array],
    roundings: float,
    *,
    arity: int | None = None,
    size: Array | None = None,
    misalign: int = 0,
    **laid_out: Any,
) -> None:
    """Assert that the result is within *roundings* * 2^-24 * (*size* + its own) of the float64 reference.

    Args:
        size: The natural size of the rounding errors before fused operations; |result| when not given.
        laid_out: What :func:`pose` takes.
    """
    arity = len(arrays) if arity is None else arity
    layouts = [Layout.of(a) for a in arrays]
    q = pose(engine.info, implementation, primitive, layouts, arity=arity, packed=False, **laid_out)
    given = list(arrays)
    for slot, asked in implementation.weights(q).items():
        if isinstance(asked, Primitive):
            (given[slot],) = asked.reference(given[slot])
    got = run_tiles(engine, implementation, with_weights(implementation, q), given, misalign).astype(np.float64)
    want = wanted(q, arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    allowed = roundings * U32 * ((0 if size is None else size) + np.abs(want)) + 1e-37
    assert (np.abs(got - want) <= allowed)[~np.isnan(want)].all(), (
        f"{q}: off by {np.nanmax(np.abs(got - want) / allowed):.2f} times the bound"
    )


POSTS = ("", "relu", "add", "add relu", "clip", "hard_swish", "add hard_swish", "gate", "channel", "row sigmoid")
"""Lists of post-operations, as :func:`post_list` reads them."""


def post_list(
    words: str, shape: tuple[int, ...], arrays: list[Array], rng: np.random.Generator
) -> tuple[list[Fused], float]:
    """Return the operations named in *words* (operands appended to *arrays*) and how much they magnify an error.

    Operands are below 4 in size; hard_swish has slope at most 1.5, sigmoid 1/4.
    """
    fused, slope = [], 1.0

    def operand(of: tuple[int, ...]) -> tuple[int, ...]:
        arrays.append(np.clip(rng.standard_normal(of), -4, 4).astype(np.float32))
        return (len(arrays) - 1,)

    for word in words.split():
        if word == "add":
            fused.append(Fused(Eltwise("add"), operand(shape)))
        elif word == "gate":
            fused.append(Fused(Eltwise("mul"), operand((*shape[:2], *(1 for _ in shape[2:])))))
            slope *= 4
        elif word == "channel":
            fused.append(Fused(Eltwise("sub"), operand((shape[1], *(1 for _ in shape[2:]))), 1))
        elif word == "row":
            fused.append(Fused(Eltwise("max"), operand(shape[-1:])))
        elif word == "clip":
            fused.append(Fused(Activation("clip", 1.0, 6.0)))
        elif word == "hard_swish":
            fused.append(Fused(Activation("hard_swish", 1 / 6, 0.5)))
            slope *= 1.5
        else:
            fused.append(Fused(Activation(word)))
    return fused, slope


def any_halo(rng: np.random.Generator, rank: int) -> Halo:
    """Return none, or a halo of 0 to 2 on each side of the spatial axes."""
    if rng.random() < 0.5:
        return ()
    sides = [(int(a), int(b)) for a, b in rng.integers(0, 3, (rank - 2, 2))]
    return ((0, 0), (0, 0), *sides)
