"""Queries: a primitive with its layouts, fused operations and device, as one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered, remembered_of_tuples
from clgraph.core.registry import Registry
from clgraph.selector.costs import CostModel, Rates, class_of, rated, shipped
from clgraph.selector.tuning import Tuning

if TYPE_CHECKING:
    from clgraph.core.dtype import DType
    from clgraph.core.layout import Layout
    from clgraph.graph.node import Fused, Node
    from clgraph.graph.primitive import Primitive

P = TypeVar("P", bound="Primitive")


@frozen
class DeviceInfo(Remembering):
    """What selection may know about a device: a plain value, so that selection needs no OpenCL.

    Attributes:
        name: How the device is printed and selected: ``pocl:0``, ``host``, ``null``.
        kind: ``cpu``, ``gpu``, ``host``, or what a target calls devices of its own.
        simd: Floats in the native vector of a CPU device (16 for AVX-512, 8 for AVX2), 1 on a GPU.
        workers: Work-groups that run at once on a CPU device, the ``threads`` of the user.
        features: What implementations may ask for: ``fp16``, ``fp64``, ``subgroups``, ``intel_subgroups``,
            ``opencl_c_30``, ``emulated_local`` (local memory is ordinary memory), ``acq_rel`` (acquire/release atomics
            at device scope), ``host_memory`` (kernels work on the host's own arrays), ``yield`` (kernels are threads
            that may make system calls), ``prefetch`` and ``cycle_counter`` (clang's built-ins for them, of compilers
            for CPUs; the counter of CPUs that let a program read it), ``fetch_ahead`` (the canary has measured that
            cores read faster what is fetched ahead), ``operand_loads`` (likewise, that multiply-adds of vectors take no
            longer where each loads an operand), ``fma`` (multiply-adds in hardware), ``vnni``
            (``vpdpbusd`` on 512 bits, as inline assembly), ``bf16`` (``vdpbf16ps``, likewise), ``vbmi`` (``vpermi2b``,
            likewise), ``amx_bf16`` (``tdpbf16ps``, likewise), ``bf16_products`` (the user allows products of numbers
            that are rounded to bfloat16),
            ``nvidia_ptx`` (inline PTX) with ``sm80`` and the like (every compute capability that the device has),
            ``tf32x3``, ``f16x3`` (the user allows it), ``intel_dpas`` (Intel's matrix units in sub-groups of 8; with
            ``intel_dpas16``, of 16), ``amd_matrix`` (WMMA of RDNA 3; with ``amd_wmma12``, of RDNA 4; with ``amd_mfma``,
            MFMA of CDNA).
        cores: Workers that run at once, where the user asked for more of them; 0 for as many as workers.
        flops, bytes_per_second, launch_seconds: The peaks of the whole device, for rooflines and general kernels.
        rates: What the canary measured on the device; ``None`` for the figures of its class.
        tuning: What ``clgraph tune`` measured on the device.
    """

    name: str = "null"
    kind: str = "cpu"
    vendor: str = "none"
    driver: str = ""
    compute_units: int = 2
    workers: int = 2
    simd: int = 16
    max_work_group: int = 4096
    local_bytes: int = 32768
    max_alloc: int = 1 << 30
    global_bytes: int = 4 << 30
    extensions: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset({"fp64"})
    flops: float = 5.0e11
    bytes_per_second: float = 4.0e10
    launch_seconds: float = 3.0e-5
    cores: int = 0
    rates: Rates | None = None
    tuning: Tuning | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.simd, self.workers))

    @property
    @remembered
    def costs(self) -> CostModel:
        """The figures that times are estimated by."""
        fitted = None if self.tuning is None else self.tuning.costs
        if fitted is not None:
            return fitted
        name = class_of(self.name, self.kind, self.vendor, self.simd)
        return shipped(name) if self.rates is None else rated(name, self.rates, self.workers)

    @property
    def whole(self) -> DeviceInfo:
        """The device with a worker for each core, whatever number of them the user asked for."""
        return self if self.workers == (self.cores or self.workers) else _whole(self)

    @property
    def crowding(self) -> float:
        """How many workers share a core, at least 1."""
        return max(1.0, self.workers / self.cores) if self.cores else 1.0


BFLOATS = "bf16_products"
"""The feature that the precision ``bf16`` gives to devices: rows may be rounded to bfloat16 for a product."""
PTX = frozenset({"nvidia_ptx", "sm75"})
"""Features of NVIDIA GPUs that kernels with inline PTX need: ``ldmatrix``, products of halves and of bytes (sm_75)."""
SM80 = PTX | {"sm80"}
"""Those with which products are of 16 x 8 x 16, or of tf32, and copies run beside them (``cp.async``)."""

VIRTUAL_DEVICES: Registry[str, DeviceInfo] = Registry("device")
"""Devices of targets that no driver knows, by name: nodes on them run by their references."""


@lru_cache(maxsize=64)
def _whole(device: DeviceInfo) -> DeviceInfo:
    flops = device.flops * device.cores / min(device.workers, device.cores)
    bandwidth = device.bytes_per_second if device.rates is None else device.rates.bandwidth(device.cores)
    return replace(device, workers=device.cores, flops=flops, bytes_per_second=bandwidth)


@frozen
class Traits:
    """What many problems have in common: all that :class:`Serves` looks at but formats and halos.

    Attributes:
        dtypes: The element types of all tensors.
        behind, in_front: The kinds of the operations fused behind the primitive, and of those in front.
        operands: How many inputs are read by operations fused behind it.
    """

    device: DeviceInfo
    demands: frozenset[str]
    dtypes: frozenset[DType]
    behind: frozenset[str]
    in_front: frozenset[str]
    operands: int


@lru_cache(maxsize=64)
def _traits(device: DeviceInfo, demands: frozenset[str], dtypes: frozenset[DType]) -> Traits:
    """Return the traits of problems without fused operations, of which a model has a few."""
    return Traits(device, demands, dtypes, frozenset(), frozenset(), 0)


@frozen
class Query(Remembering, Generic[P]):
    """One problem. Hashable; the key of the choice cache and of the tuning database.

    Attributes:
        inputs: Layouts of the primitive's own inputs (the first ``arity``), then of the fused operations' operands.
        constant: The input slots whose values are constants, so that a kernel may ask for another format of them.
    """

    primitive: P
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    device: DeviceInfo
    arity: int
    fused: tuple[Fused, ...] = ()
    constant: frozenset[int] = frozenset()

    def __hash__(self) -> int:
        # Without the device, of which a process has a few: the caches of selection hash queries all the time.
        return hash((self.primitive, self.inputs, self.outputs, self.fused))

    @property
    def own(self) -> tuple[Layout, ...]:
        """Layouts of the primitive's own inputs."""
        return self.inputs[: self.arity]

    def role(self, slot: int) -> str:
        """Return the role of the primitive's own input in *slot*: ``null`` where it has fewer."""
        return f"in{slot}" if slot < self.arity else "null"

    @property
    def post(self) -> tuple[Fused, ...]:
        """The operations fused behind the primitive, in order."""
        return _behind(self.fused) if self.fused else ()

    @property
    def pre(self) -> tuple[Fused, ...]:
        """The operations fused in front of the first input, in order."""
        return _in_front(self.fused) if self.fused else ()

    @property
    @remembered
    def dtypes(self) -> frozenset[DType]:
        """The element types of all tensors."""
        return frozenset([x.dtype for x in (*self.inputs, *self.outputs)])

    @property
    @remembered
    def traits(self) -> Traits:
        """The part of the problem that does not depend on sizes and formats."""
        if not self.fused:
            return _traits(self.device, self.primitive.demands(), self.dtypes)
        behind = frozenset([f.primitive.kind for f in self.post])
        in_front = frozenset([f.primitive.kind for f in self.pre])
        operands = len(self.inputs) - self.arity
        return Traits(self.device, self.primitive.demands(), self.dtypes, behind, in_front, operands)

    @property
    def post_slots(self) -> tuple[int, ...]:
        """The inputs that the operations behind the primitive read, in the order in which they do."""
        return tuple([slot for f in self.post for slot in f.operands])

    @property
    def measured(self) -> Mapping[str, float]:
        """Seconds that ``clgraph tune`` measured for the problem, by implementation; mostly none."""
        tuning = self.device.tuning
        return tuning.times.get(problem_key(self), {}) if tuning is not None and tuning.times else {}

    def with_layouts(self, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> Query[P]:
        """Return the same problem on other layouts."""
        return Query(self.primitive, inputs, outputs, self.device, self.arity, self.fused, self.constant)

    def on(self, device: DeviceInfo) -> Query[P]:
        """Return the same problem on another device."""
        return Query(self.primitive, self.inputs, self.outputs, device, self.arity, self.fused, self.constant)

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        fused = "".join(f" + {f.primitive}" for f in self.fused)
        return f"{self.primitive}{fused} on ({inputs}) -> ({', '.join(map(str, self.outputs))}) on {self.device.name}"


@remembered_of_tuples
def _behind(fused: tuple[Fused, ...]) -> tuple[Fused, ...]:
    return tuple([f for f in fused if f.where == "post"])


@remembered_of_tuples
def _in_front(fused: tuple[Fused, ...]) -> tuple[Fused, ...]:
    return tuple([f for f in fused if f.where == "pre"])


def query_of(node: Node, device: DeviceInfo) -> Query[Primitive]:
    """Return the query of *node* on *device*."""
    constant = frozenset([i for i, v in enumerate(node.inputs) if v.constant is not None])
    inputs = tuple([v.layout for v in node.inputs])
    outputs = tuple([v.layout for v in node.outputs])
    return Query(node.primitive, inputs, outputs, device, node.arity, node.fused, constant)


def problem_key(q: Query[Any]) -> str:
    """Return what identifies a problem in a file: primitive, fused operations, layouts without halos.

    Not the number of workers: it must change no choice, and with it no bit of a result.
    """
    from clgraph.graph.serial import encode

    layouts = [[str(x.dtype), list(x.shape), str(x.format)] for x in (*q.inputs, *q.outputs)]
    parts = [encode(q.primitive), encode(q.fused), layouts, q.arity, sorted(q.constant)]
    return json.dumps(parts, separators=(",", ":"))
