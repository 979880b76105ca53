"""Base of general implementations: launches, tables of views, the run-time list of post-operations.

A general kernel serves every shape of one element type with few kernel texts: it counts coordinates over ``RANK`` axes,
and a view per tensor (an origin and a pitch an axis, in a run-time table) gives their addresses. Transposing, slicing,
broadcasting and halos are views. Axes that lie behind one another in every view are merged first, so that most problems
have one or two.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import STORED, DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout, Shape
from clgraph.selector.implementation import Formats, Implementation, P, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import NO_POSTS, Argument, Launch, Table
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query
from clgraph.selector.storage import loaded, stored
from clgraph.selector.views import Space, View, in_vectors, lanes_of, space

GROUP = 64
"""Work-items of a work-group at most; a grid is rounded up to it and the kernel leaves out what is beyond."""
SIZES = (GROUP, 8, 1)
"""Sizes of a work-group: few, because PoCL compiles a kernel anew for each."""
WIDEST = 16
"""Bytes of the widest access; memory of tensors, and their parts, starts at multiples of it."""
GROUPS = 32
"""Work-groups that are worth more than full ones: few long rows are spread over the device."""
LINE = 1024
"""Elements that a work-item of a CPU device computes at most, where it computes neighbours."""
LEAST_LINES = 256
"""Work-items that are worth more than long lines."""
OPERANDS = len(NO_POSTS) - 1
"""Operands of fused operations that a general kernel takes."""
FLOATS = frozenset({DType.F32, DType.F16, DType.BF16})
"""What kernels compute with in float."""
REALS = FLOATS | {DType.F64}
"""What general kernels compute with: doubles as such, on devices that have them."""
INTEGERS = frozenset({DType.I64, DType.I32, DType.I16, DType.I8, DType.U64, DType.U32, DType.U16, DType.U8})
_BITS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "uint4"}


def post_views(q: Query[Any]) -> tuple[View, ...]:
    """Return the views, on the first output's shape, of the operands of fused operations."""
    return tuple(View.of(q.inputs[f.operands[0]], q.outputs[0].shape) for f in q.post if f.operands)


def post_arguments(q: Query[Any], views: Sequence[View], rank: int) -> tuple[Argument, ...]:
    """Return the arguments of ``POST_PARAMETERS`` of a kernel that counts *rank* axes.

    Args:
        views: Those of :func:`post_views`, on the axes that the kernel counts.
    """
    operands, dtype = sorted({f.operands[0] for f in q.post if f.operands}), q.outputs[0].dtype
    steps: list[int] = [len(q.post)]
    left = iter(views)
    for fused in q.post:
        operation = fused.operation
        if operation is None:
            raise ValueError(f"{fused.primitive} has no post-operation")
        at = operands.index(fused.operands[0]) if fused.operands else 0
        view = next(left).ints() if fused.operands else (0,) * (rank + 1)
        parameters = (*words(operation.a, dtype), *words(operation.b, dtype))
        steps += [post_codes()[operation.name], *parameters, at, *view]
    roles = [f"in{slot}" for slot in operands]
    return (*roles, *["null"] * (OPERANDS - len(roles)), Table(tuple(steps)))


def bits(value: float) -> int:
    """Return the bits of a float32 as an int, as a table holds it."""
    found: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return found


def words(value: float, dtype: DType) -> tuple[int, ...]:
    """Return *value* as a parameter of a general kernel of *dtype*: two ints of a double, else the bits of a float."""
    return value_words(value, dtype) if dtype == DType.F64 else (bits(value),)


def value_words(value: float, dtype: DType) -> tuple[int, int]:
    """Return the bytes of *value* as *dtype*, as the low and high 32 bits that a kernel takes."""
    data = np.array(value).astype(dtype.numpy).tobytes().ljust(8, b"\0")
    low, high = struct.unpack("<ii", data)
    return low, high


def float_jit(dtype: DType, rank: int) -> Jit:
    """Return the preamble of a kernel that computes on tensors of a floating *dtype*; of others ``RANK`` alone."""
    if dtype == DType.F64:
        return Jit().define(RANK=rank, T="double", DOUBLES=1)
    return Jit().define(RANK=rank, **(accesses(dtype) if dtype.floating and dtype != DType.F32 else {}))


def accesses(dtype: DType, suffix: str = "") -> dict[str, str]:
    """Return the macros ``T``, ``LOAD`` and ``STORE`` of elements of *dtype* as floats.

    Args:
        suffix: Behind each name, after an underscore; without the ``T`` then.
    """
    names = (f"{suffix}", f"LOAD_{suffix}", f"STORE_{suffix}") if suffix else ("T", "LOAD", "STORE")
    return {names[0]: dtype.cl, f"{names[1]}(p, i)": loaded(dtype), f"{names[2]}(p, i, v)": stored(dtype)}


def bits_jit(itemsize: int, rank: int) -> Jit:
    """Return the preamble of a kernel that moves elements of *itemsize* bytes."""
    return Jit().define(RANK=rank, T=_BITS[itemsize])


def moved_jit(nbytes: int, rank: int) -> Jit:
    """Return the preamble of a kernel that moves *nbytes*, up to 16, of neighbouring elements together."""
    return Jit().define(RANK=rank, MOVED=_BITS[nbytes])


def launch(kernel: str, jit: Jit, count: int, *args: Argument) -> Launch:
    """Return the launch of *count* work-items, its first argument, of kernel ``softmax/softmax_ref`` and the like."""
    group = next((size for size in SIZES if count >= size * GROUPS), 1)
    grid = -(-count // group) * group
    return Launch(f"{kernel}.cl", kernel.rsplit("/", 1)[1], jit, (grid,), (group,), (count, *args))


def lines(s: Space, q: Query[Any]) -> tuple[int, tuple[int, ...]]:
    """Return the work-items of an elementwise kernel that count *s*, and how its table begins: dims and line.

    On CPU devices, where work-items are dear, each computes up to ``LINE`` neighbours, as long as all cores have some.
    """
    size, total = s.dims[-1], prod(s.dims)
    line = max(1, min(size, LINE, total // LEAST_LINES)) if q.device.kind == "cpu" else 1
    dims = (*s.dims[:-1], -(-size // line))
    return prod(dims), (*dims, line, size)


def table(*parts: Sequence[int] | View | int) -> Table:
    """Return the table of views, lists of ints and ints, one behind the other."""
    values: list[int] = []
    for part in parts:
        values += [part] if isinstance(part, int) else part.ints() if isinstance(part, View) else part
    return Table(tuple(values))


def move(layout: Layout, source: tuple[str, View], target: tuple[str, View], dims: Shape) -> Launch:
    """Return the launch that copies elements of *layout*'s type from view to view, each with its tensor's role."""
    in_memory = sorted(range(len(dims)), key=lambda axis: -target[1].pitches[axis])
    s = space(dims, [target[1], source[1]], [in_memory])
    lanes = lanes_of(s.dims, s.views, WIDEST // layout.dtype.itemsize)
    s = in_vectors(s, lanes)
    jit = moved_jit(lanes * layout.dtype.itemsize, len(s.dims))
    return launch("move/move_ref", jit, s.counts[0], source[0], target[0], table(s.dims, *s.views))


class General(Implementation[P]):
    """Base of general implementations: refuses what their 32-bit offsets cannot reach, and doubles the device lacks.

    One that serves types of storage moves elements, and does not compute with them.

    Attributes:
        blocked: Whether it reads and writes blocked formats.
        orders: Whether it reads and writes the axes in any order, with ``Serves.formats``; GPUs are then offered byxf,
            in which their convolutions run.
        rounds: Whether it makes integers of what fused operations leave.
    """

    blocked: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    rounds: ClassVar[bool] = False

    @classmethod
    def formats(cls, q: Query[P]) -> tuple[Formats, ...]:
        """Propose plain tensors and, on a GPU, all of the result's rank in byxf."""
        plain, (y, *_) = super().formats(q), q.outputs
        if not cls.orders or q.device.kind != "gpu" or not 3 <= y.rank <= 5:
            return plain
        last = channels_last(y.rank)
        inputs = tuple(last if x.rank == y.rank else None for x in q.inputs)
        return (*plain, Formats(inputs, tuple(last for _ in q.outputs)))

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        """Refuse what no general kernel serves, then what this one does not."""
        if q.device.max_work_group < GROUP:
            return f"requires groups of {GROUP} work-items, the device has {q.device.max_work_group}"
        layouts = (*q.inputs, *q.outputs)
        if max([x.span for x in layouts]) >= 2**31:
            return "counts elements in 32 bits"
        if DType.F64 in q.dtypes and "fp64" not in q.device.features and not cls.serves.dtypes >= STORED:
            return "needs fp64 to compute with doubles"
        if not cls.blocked and any(x.format.blocks for x in layouts):
            return "reads no blocked formats"
        if q.post and not cls.rounds and not q.outputs[0].dtype.floating:
            return "applies fused operations to floating results only"
        for fused in q.post:
            if fused.operation is None:
                return f"cannot apply {fused.primitive} to its result"
            if len(fused.operands) > 1 or (fused.operands and not _reaches(q.inputs[fused.operands[0]], q.outputs[0])):
                return f"{fused.primitive} does not broadcast to the result"
        return cls.further_limits(q)

    @classmethod
    def further_limits(cls, q: Query[P]) -> str | None:
        """Refuse what is particular to the operator."""
        return None

    @classmethod
    def overwrites(cls, q: Query[P]) -> frozenset[int]:
        """Return what a work-item reads where it writes: operands, and the inputs of elementwise primitives."""
        first = 0 if q.primitive.elementwise else q.arity
        return frozenset(i for i in range(first, len(q.inputs)) if q.inputs[i] == q.outputs[0])

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        """Estimate: without vectors or tiles half a percent of a CPU's arithmetic, a tenth of a GPU's."""
        return roofline(q, q.device.costs.general_compute, q.device.costs.general_traffic)


def _reaches(operand: Layout, result: Layout) -> bool:
    missing = result.rank - operand.rank
    return missing >= 0 and all(d in (1, n) for d, n in zip(operand.shape, result.shape[missing:], strict=True))
