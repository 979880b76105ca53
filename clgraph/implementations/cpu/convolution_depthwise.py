"""Depthwise convolutions of blocked tensors on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from math import prod

from clgraph.core.format import Format
from clgraph.core.layout import Halo
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import (
    TILE,
    packing_refusal,
    square,
    square_pads,
    wanted_formats,
    with_bias,
)
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.float_end import FloatEndFields, float_end, sums_alone
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Surface,
    both_blocked_refusal,
    halo_refusal,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.window_padding import own_halo
from clgraph.ops.convolution import Convolution
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import DeviceInfo, Query

_FILE = "convolution/micro_depthwise.cl"
_WIDTHS = {16: (8, 7), 8: (4,)}
"""Pixels at a time, by SIMD width; the products read their input from memory, so that registers hold sums alone."""

_KINDS = [(k, s) for k in (3, 5) for s in (1, 2)]

_ANY = Micro.of(_FILE, K=0, S=0, UR=4)
"""Serves every kernel, stride and dilation."""

MICROS = micro_family(
    "micro_depthwise",
    {simd: [*(Micro.of(_FILE, K=k, S=s, UR=ur) for k, s in _KINDS for ur in of), _ANY] for simd, of in _WIDTHS.items()},
)


def depthwise_micro(simd: int, kernel: tuple[int, ...], stride: int, width: int) -> Micro:
    """Return the instance for rows without dilation: of kernel and stride, else the general one, as for short rows."""
    fitting = [ur for ur in _WIDTHS[16 if simd >= 16 else 8] if ur <= width]
    if len(set(kernel)) > 1 or len(kernel) < 2 or (kernel[0], stride) not in _KINDS or not fitting:
        return _ANY
    ur = min(fitting, key=lambda u: (-(-width // u) * u, -u))
    return _instance(kernel[0], stride, ur)


@cache
def _instance(kernel: int, stride: int, ur: int) -> Micro:
    return Micro.of(_FILE, K=kernel, S=stride, UR=ur)


@lru_cache(maxsize=1024)
def _id(simd: int, kernel: tuple[int, ...], stride: int, dilation: int, width: int) -> int:
    return MICROS.id(simd, _ANY if dilation > 1 else depthwise_micro(simd, kernel, stride, width))


@descriptor("depthwise_fsv16", library="convolution", micros=("micro_depthwise",))
class DepthwiseFsv16Desc(InPlanes, OutPlanes, Surface, FloatEndFields, Descriptor):
    """Fields as in ``depthwise_fsv16.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    in_x: Int
    step_y: Int
    step_x: Int
    kernel_y: Int
    kernel_x: Int
    id: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int


def tap_seconds(device: DeviceInfo, taps: int) -> float:
    """Return one worker's time for one vector of the result from a window of *taps*."""
    return (taps + 6) * device.costs.unit("convolution.depthwise.tap")


def _row_seconds(q: Query[Convolution]) -> float:
    return q.outputs[0].shape[-1] * tap_seconds(q.device, prod(q.inputs[1].shape[2:]))


@remembered
def _strips(q: Query[Convolution]) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), _row_seconds(q)
    work = row * rows * n * -(-c // LANES)
    wanted = max(ticket_seconds(work, q.device), work / (32 * q.device.workers))
    return row_strips(rows, spatial[-1], row, n * -(-c // LANES), wanted, q.device)


@cache
def _packed(rank: int) -> Format:
    """Return the format of windows: blocks of 16 channels."""
    return Format(tuple(range(rank)), ((0, LANES),))


@implements(Convolution, name="convolution.depthwise_fsv16", serves=TILE)
class DepthwiseFsv16(Implementation[Convolution]):
    """One channel a group: vectors of 16 channels, the whole window for a run of pixels in registers."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        x, w = q.inputs[0], q.inputs[1]
        if q.primitive.groups != x.shape[1] or w.shape[:2] != (x.shape[1], 1):
            return f"serves one channel a group, not {x.shape[1]} to {w.shape[0]} in {q.primitive.groups} groups"
        return (
            both_blocked_refusal(q)
            or packing_refusal(q, cls.weights)
            or halo_refusal(x, own_halo(q))
            or post_refusal(q)
        )

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q, cls.weights)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        return with_bias(q, _packed(q.inputs[1].rank))

    @classmethod
    def halo(cls, q: Query[Convolution]) -> Mapping[int, Halo]:
        return {0: own_halo(q)}

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        n, c, *spatial = q.outputs[0].shape
        blocks = n * -(-c // LANES)
        work = _row_seconds(q) * blocks * prod(spatial[:-1])
        traffic = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, work, traffic, _strips(q).count * blocks)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, y, p, strips = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, _strips(q)
        kernel, stride, dilation = square(q.inputs[1].shape[2:]), square(p.strides), square(p.dilations)
        (pad_top, _), (pad_left, _) = square_pads(p.pads)
        end = float_end(q, sums_alone(q), y.lanes)
        desc = DepthwiseFsv16Desc(
            inp=x.at("in0", -pad_top, -pad_left),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            in_n=x.n,
            in_c=x.c,
            in_y=dilation[0] * x.y,
            in_x=dilation[1] * LANES,
            step_y=stride[0] * x.y,
            step_x=stride[1] * LANES,
            **out_planes(y),
            **surface(y.height, y.width, y.halo),
            kernel_y=kernel[0],
            kernel_x=kernel[1],
            id=_id(q.device.simd, q.inputs[1].shape[2:], stride[1], dilation[1], y.width),
            blocks=y.blocks,
            lanes=y.lanes,
            strips=strips.count,
            strip_rows=strips.each,
            **end.fields(""),
        )
        tickets = y.batch * y.blocks * strips.count
        return Plan((Tile("depthwise_fsv16", desc, tickets, post=end.rest),))
