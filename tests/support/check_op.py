"""Run every implementation of a primitive against its float64 reference, through a one-node program on a device.

The tests of operators and of tile functions call :func:`check_op`; ``tests.support.ran`` knows which registered
implementation no test has run.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from clgraph.core.dtype import STORED, DType
from clgraph.core.layout import Layout
from clgraph.graph.check import check
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.network.network import Network
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.passes.base import Context
from clgraph.passes.chosen import choice_of
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.placement.partition import Partition
from clgraph.passes.selection import Proposal, missing_halo, proposals
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.choose import candidates
from clgraph.selector.plan import Launch, Table
from clgraph.selector.query import Query, query_of
from clgraph.selector.sources import kernel_text
from tests.support.equal import assert_equal
from tests.support.of_a_kind import for_its_kind
from tests.support.quick_engine import QuickEngine, optimised
from tests.support.ran import RAN

Array = NDArray[Any]
Scale = Callable[..., Any]

U32 = 2.0**-24
"""Half an ulp of a float32 near 1: the unit of all bounds."""
U64 = 2.0 * 2.0**-53
"""The same for results of doubles: half an ulp of the kernel and one of the reference, which is of doubles, too."""
HALF = {DType.F64: 0.0, DType.F32: 0.0, DType.F16: 2.0**-11, DType.BF16: 2.0**-8}
"""What storing the result adds, relative to it; a float32 result's own rounding is in the bound."""
_BESIDE = 64
"""Bytes to the left and to the right of an input that is cut from a wider one."""
TINY = {DType.F64: 0.0, DType.F32: 1e-37, DType.F16: 2.0**-24, DType.BF16: 1e-37}
"""Below this, results may be flushed or denormal."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

FAMILIES: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: rng.standard_normal(shape) * 1000,
    "equal": lambda rng, shape: np.full(shape, 3.0),
    "zeros": lambda rng, shape: np.zeros(shape),
}
"""What inputs are drawn from: ordinary numbers, large ones (exponentials overflow), ties, nothing."""


def optimised_at_times(check: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """Let one of eight problems on a CPU be computed by optimised kernels, as users have them.

    What only the optimiser makes wrong of a kernel shows in some of its types and sizes.
    """

    @functools.wraps(check)
    def checked(engine: Engine, primitive: Primitive, *shapes: tuple[int, ...], **named: Any) -> dict[str, float]:
        problem = f"{primitive} {shapes} {named.get('dtype')} {named.get('fused')}"
        if type(engine) is not QuickEngine or engine.info.kind != "cpu" or zlib.crc32(problem.encode()) % 8:
            return check(engine, primitive, *shapes, **named)
        with optimised(engine) as as_users:
            return check(as_users, primitive, *shapes, **named)

    return checked


@optimised_at_times
def check_op(
    engine: Engine,
    primitive: Primitive,
    *shapes: tuple[int, ...],
    ulps: float | Callable[..., Any] = 0.0,
    scale: Scale | None = None,
    dtype: DType | Sequence[DType] = DType.F32,
    constant: Sequence[int] = (),
    fused: Sequence[tuple[Primitive, Sequence[tuple[int, ...]], int]] = (),
    draw: Mapping[int, Draw] | None = None,
    families: Sequence[str] | Mapping[str, Draw] = tuple(FAMILIES),
    only: Sequence[str] | None = None,
    laid_out: Sequence[Layout] | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Run every implementation that serves the problem on every input family; return the worst error of each in units.

    Args:
        shapes: Of the primitive's inputs.
        ulps: Bound on ``|got - want| / (2**-24 * scale)``; derived by the test. 0: exactly equal.
        scale: From the float64 inputs (operands of fused operations behind the primitive's own), the natural size of
            the rounding errors; ``|want|`` when not given.
        dtype: Of all inputs, or of each; then of operands of fused operations, or these begin with the first again.
        constant: Input slots that are constants, so that kernels may ask for other formats of them.
        fused: Post-operations: primitive, shapes of its other inputs, slot of the running value.
        families: Names of ``FAMILIES``, or others with how to draw their inputs.
        draw: How to draw an input instead of by family.
        only: Names of implementations to run; all by default.
        laid_out: Layouts of the inputs to run on, instead of every one that an implementation proposes.

    Raises:
        AssertionError: No implementation serves the problem, or one is off.
    """
    dtypes = [dtype] * 99 if isinstance(dtype, DType) else list(dtype)
    bound = primitive.bind([Layout(d, s) for d, s in zip(dtypes, shapes, strict=False)], [None] * len(shapes)).primitive
    extra = [shape for _, others, _ in fused for shape in others]
    operands = (dtypes[len(shapes) :] or dtypes)[: len(extra)]
    layouts = [Layout(d, s) for d, s in zip((*dtypes[: len(shapes)], *operands), (*shapes, *extra), strict=True)]
    worst: dict[str, float] = {}
    ready: list[tuple[Proposal, Network]] = []
    for family in families:
        rng = np.random.default_rng(seed)
        drawn = families[family] if isinstance(families, Mapping) else FAMILIES[family]
        arrays = [_draw(i, x, drawn, rng, draw or {}) for i, x in enumerate(layouts)]
        exact = [a.astype(np.float64) if x.dtype.floating else a for a, x in zip(arrays, layouts, strict=True)]
        node = _program(bound, arrays, len(shapes), constant, fused)[1]
        want = node.reference(*exact)
        size = None if scale is None else scale(*exact)
        limit = ulps(*exact) if callable(ulps) else ulps
        if constant or not ready:  # without constants, a network serves all families
            serving = _serving(engine, bound, arrays, len(shapes), constant, fused, only, laid_out)
            ready = [(p, _network(engine, p, bound, arrays, len(shapes), constant, fused)) for p in serving]
            cut = [p for p in serving if not worst and _in_windows(p)]
            ready += [(p, _network(engine, p, bound, arrays, len(shapes), constant, fused, windows=True)) for p in cut]
        for proposal, network in ready:
            name = proposal.implementation.name
            got = _twice(network, arrays, name)
            what = f"{name}, {family}, {proposal.query}"
            if family == next(iter(families)):
                _poisoned(network, arrays, got)
            for result, expected, layout in zip(got, want, [v.layout for v in node.outputs], strict=True):
                worst[name] = max(worst.get(name, 0.0), _compare(what, result, expected, layout.dtype, limit, size))
    if not worst and only:
        for_its_kind(engine, only)
    assert worst, f"nothing serves {bound} on {[str(x) for x in layouts]}"
    return worst


def run(
    engine: Engine,
    proposal: Proposal,
    primitive: Primitive,
    arrays: Sequence[Array],
    arity: int,
    constant: Sequence[int] = (),
    fused: Sequence[tuple[Primitive, Sequence[tuple[int, ...]], int]] = (),
) -> list[Array]:
    """Run *primitive* by an implementation, on the layouts it proposes, through the required passes and a network."""
    network = _network(engine, proposal, primitive, arrays, arity, constant, fused)
    return _twice(network, arrays, proposal.implementation.name)


def _network(
    engine: Engine,
    proposal: Proposal,
    primitive: Primitive,
    arrays: Sequence[Array],
    arity: int,
    constant: Sequence[int],
    fused: Sequence[tuple[Primitive, Sequence[tuple[int, ...]], int]],
    windows: bool = False,
) -> Network:
    """Return *primitive* by an implementation, behind the required passes, ready to run."""
    program, node = _program(primitive, arrays, arity, constant, fused, proposal.query, windows)
    name, place = proposal.implementation.name, engine.info.name
    chosen: set[str] = set()

    def execute(part: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
        chosen.update(_chosen(part))
        return Network(part, {place: engine}).run(feeds)

    context = Context(devices={place: engine.info}, forced={node.name: name}, execute=execute)
    passes = [p for p in default_pipeline() if p.required or (windows and p.name == "prepare_buffer_fusing")]
    PassManager(passes).run(program, context)
    check(program)
    chosen.update(_chosen(program))
    assert name in chosen or (windows and node.in_place), f"{name} was forced but {chosen} ran"
    return Network(program, {place: engine})


def _in_windows(proposal: Proposal) -> bool:
    """Whether an implementation gets inputs that are cut from wider ones, too: one of four on plain tensors does."""
    q = proposal.query
    plain = all(x.is_dense_plain and not x.halo for x in (*q.inputs, *q.outputs))
    return plain and zlib.crc32(f"{proposal.implementation.name} {q}".encode()) % 4 == 0


def _twice(network: Network, arrays: Sequence[Array], name: str) -> list[Array]:
    """Return what a run on *arrays* and another one give."""
    feeds = _feeds(network, arrays)
    first, again = network.run(feeds), network.run(feeds)
    for key, value in first.items():
        assert_equal(value, again[key], f"{name}: the second run differs from the first")
    return list(first.values())


def _poisoned(network: Network, arrays: Sequence[Array], wanted: Sequence[Array]) -> None:
    """Assert that nothing changes on memory full of NaN, where a write outside of a node's own buffers raises."""
    found = Network(network.program, network.bound.engines, poison=True).run(_feeds(network, arrays))
    for (key, value), plain in zip(found.items(), wanted, strict=True):
        assert_equal(value, plain, f"{network.program}: {key} differs on memory full of NaN")


def _feeds(network: Network, arrays: Sequence[Array]) -> dict[str, Array]:
    """Return what inputs are fed with: one that is a window's gets the wider array."""
    of = {v: arrays[int(v.name[1:])] for v in network.program.inputs}
    return {v.name: a if v.layout.shape == a.shape else _widened(a, v.layout) for v, a in of.items()}


def _chosen(program: Program) -> set[str]:
    return {choice_of(node).implementation.name for node in program}


def run_raw(engine: Engine, implementation: Any, query: Query[Any], inputs: Sequence[Array]) -> list[Array]:
    """Run the launches of *implementation* on flat memory; the results start as garbage. Return their memory."""
    assert implementation.refusal(query) is None
    RAN.add(implementation.name)
    plan, outputs = implementation.plan(query), query.outputs
    held = {f"in{i}": engine.upload(a, "an input") for i, a in enumerate(inputs)}
    for i, layout in enumerate(outputs):
        held[f"out{i}"] = engine.upload(np.full(layout.nbytes, 0x5B, np.uint8), "an output")
    for i, nbytes in enumerate(plan.scratch):
        held[f"scratch{i}"] = engine.upload(np.full(nbytes, 0x5B, np.uint8), "scratch")
    pending = []
    for step in plan.steps:
        assert isinstance(step, Launch)
        pending.append(run_launch(engine, step, held))
    engine.stream.finish()
    found = []
    for i, layout in enumerate(outputs):
        memory = np.empty(layout.span, layout.dtype.numpy)
        engine.stream.read(held[f"out{i}"], 0, memory)
        engine.stream.finish()
        found.append(memory)
    return found


def run_launch(engine: Engine, step: Launch, held: Mapping[str, Memory]) -> list[Any]:
    """Run one step on the memory of each role that is *held*, and on some of it where it says that there is none.

    Returns its arguments, which have to live until it has run.
    """
    args: list[Any] = []
    for argument in step.args:
        match argument:
            case str():
                args += [held.get(argument, next(iter(held.values()))), np.int64(0)]
            case Table():
                args.append(engine.upload(np.array(argument.values, np.int32), "a table"))
            case float():
                args.append(np.float32(argument))
            case _:
                args.append(np.int32(argument))
    kernel = engine.kernel(f"{step.jit}{kernel_text(step.source)}", step.entry, args)
    kernel.on(engine.stream, step.grid, step.group)()
    return args


def _program(
    primitive: Primitive,
    arrays: Sequence[Array],
    arity: int,
    constant: Sequence[int],
    fused: Any,
    laid_out: Query[Any] | None = None,
    windows: bool = False,
) -> tuple[Program, Node]:
    """Return a program of one node, and of reorders in front of it where *posed* wants other layouts."""
    values = [Value(f"x{i}", Layout.of(a), constant=a if i in constant else None) for i, a in enumerate(arrays)]
    outputs = tuple(Value(f"y{i}", x) for i, x in enumerate(primitive.infer([v.layout for v in values[:arity]])))
    steps, place = [], arity
    for other, shapes, slot in fused:
        steps.append(Fused(other, tuple(range(place, place + len(shapes))), slot))
        operands = [v.layout for v in values[place : place + len(shapes)]]
        (made,) = other.infer([*operands[:slot], outputs[0].layout, *operands[slot:]])
        outputs[0].layout = replace(outputs[0].layout, dtype=made.dtype)
        place += len(shapes)
    moved, reorders = list(values), []
    for i, layout in enumerate(laid_out.inputs if laid_out else ()):
        if values[i].constant is None and layout != values[i].layout:
            moved[i] = Value(f"moved{i}", layout)
            change = Reorder(layout.dtype, layout.format, layout.halo)
            reorders.append(Node(f"move{i}", change, (values[i],), (moved[i],), 1, origin=("node",)))
    for value, layout in zip(outputs, laid_out.outputs if laid_out else (), strict=False):
        value.layout = layout
    node = Node("node", primitive, tuple(moved), outputs, arity, fused=tuple(steps), origin=("node",))
    inputs = [v for i, v in enumerate(values) if i not in constant]
    for i, v in enumerate(inputs if windows else ()):
        if v.layout.rank > 1 and v.layout.count and v.layout.is_dense_plain:
            inputs[i], cut = _window(v)
            reorders.insert(0, cut)
    return Program(inputs, [(v.name, v) for v in outputs], [*reorders, node]), node


def _window(value: Value) -> tuple[Value, Node]:
    """Return a wider graph input, and the node that cuts *value* from it, which a pass may let lie there."""
    layout, before = value.layout, _BESIDE // value.layout.dtype.itemsize
    source = Value(f"w{value.name[1:]}", layout.with_shape((*layout.shape[:-1], layout.shape[-1] + 2 * before)))
    starts, ends = [0] * layout.rank, list(layout.shape)
    starts[-1], ends[-1] = before, before + layout.shape[-1]
    cut = Slice(tuple(starts), tuple(ends), (1,) * layout.rank)
    return source, Node(f"cut_{value.name}", cut, (source,), (value,), 1, origin=("node",))


def _widened(array: Array, layout: Layout) -> Array:
    """Return *array* in the middle of the input that :func:`_window` cuts it from, among its first element."""
    before = (layout.shape[-1] - array.shape[-1]) // 2
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(before, before)], mode="symmetric")


def _serving(
    engine: Engine,
    primitive: Primitive,
    arrays: Sequence[Array],
    arity: int,
    constant: Sequence[int],
    fused: Any,
    only: Sequence[str] | None,
    laid_out: Sequence[Layout] | None,
) -> list[Proposal]:
    program, node = _program(primitive, arrays, arity, constant, fused)
    context = Context(devices={engine.info.name: engine.info})
    Partition().run(program, context)
    names = [c.name for c in candidates(query_of(node, engine.info)) if only is None or c.name in only]
    if laid_out is not None:
        query = query_of(node, engine.info).with_layouts(tuple(laid_out), primitive.infer(laid_out[:arity]))
        able = [c for c in candidates(query) if c.name in names and c.refusal(query) is None]
        return [Proposal(c, query, 0.0) for c in able if not missing_halo(c, query)]
    found: list[Proposal] = []
    for name in names:
        found += proposals(Context(devices=context.devices, forced={node.name: name}), node)
    return found


def _draw(slot: int, layout: Layout, family: Draw, rng: np.random.Generator, draw: Mapping[int, Draw]) -> Array:
    array = np.asarray(draw.get(slot, family)(rng, layout.shape))
    if layout.dtype == DType.F16:
        array = np.clip(array, -100, 100)
    if layout.dtype == DType.BOOL:
        array = array > 0
    elif not layout.dtype.floating and slot not in draw:
        low, high = layout.dtype.bounds if layout.dtype.name[0] in "IU" else (-100, 100)
        array = np.clip(np.rint(array), max(low, -100), min(high, 100))
    return np.ascontiguousarray(array.astype(layout.dtype.numpy)).reshape(layout.shape)


def _compare(what: str, got: Array, want: Array, dtype: DType, limit: Any, size: Any) -> float:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    assert got.dtype == dtype.numpy, f"{what}: {got.dtype}, wanted {dtype}"
    if dtype in STORED:
        wanted = want.astype(got.dtype)
        np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8), what)
        return 0.0
    if not dtype.floating:
        np.testing.assert_array_equal(got, want.astype(got.dtype), what)
        return 0.0
    exact, want = got.astype(np.float64), np.asarray(want, np.float64)
    most = float(ml_dtypes.finfo(dtype.numpy).max)
    # Within a hundredth of the largest number either side of overflow is right.
    edge = (np.abs(want) > 0.99 * most) & (np.abs(want) < 1.01 * most)
    rounded = np.where(np.abs(want) > most, np.copysign(np.inf, want), want)
    finite = np.isfinite(exact) & ~edge
    np.testing.assert_array_equal(finite, np.isfinite(rounded) & ~edge, f"{what}: infinite or NaN elsewhere")
    np.testing.assert_array_equal(exact[~finite & ~edge], rounded[~finite & ~edge], what)
    error = np.abs(exact[finite] - want[finite])
    size = np.broadcast_to(np.abs(want) if size is None else size, want.shape)[finite]
    unit = U64 if dtype == DType.F64 else U32
    allowed = np.broadcast_to(limit, want.shape)[finite] * unit * size
    allowed = allowed + HALF[dtype] * np.abs(want[finite]) + TINY[dtype] * (np.any(limit) or dtype == DType.F16)
    if (error > allowed).any():
        at = int(np.argmax(error - allowed))
        raise AssertionError(
            f"{what}: {exact[finite][at]!r} should be {want[finite][at]!r}: off by {error[at]:.3g}, allowed "
            f"{allowed[at]:.3g}; {np.count_nonzero(error > allowed)} of {error.size} are off"
        )
    sized = np.isfinite(size) & (unit * size > 0)
    return float((error[sized] / (unit * size[sized])).max()) if sized.any() else 0.0


def magnitude(primitive: Primitive) -> Callable[..., Array]:
    """Return the scale of sums of products: the reference of absolute values."""
    return lambda *arrays: primitive.reference(*map(np.abs, arrays))[0]
