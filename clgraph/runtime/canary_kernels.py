"""The canary's kernels, built for one device, and runs of them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from clgraph.runtime import driver, handles
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.runtime.kernels import Kernel
from clgraph.selector.sources import expand

_READ_BYTES, _THIN_READ_BYTES = 128 << 20, 512 << 20
"""More than the caches of most CPUs, and of GPUs, hold; of a GPU so much that its launch does not count."""
THIN = 256, 64
"""Work-groups a compute unit, and their size, where work-items are thin."""
INSTRUCTIONS = frozenset({"vnni", "byte_pairs", "bf16", "vbmi", "amx_bf16"})
"""Features of instructions that only some CPUs have, each with a kernel of its own."""

Words = np.ndarray[tuple[int, ...], np.dtype[Any]]


class Run(NamedTuple):
    """What a run took, by the clock and each worker, in seconds; less is first what was over sooner."""

    wall: float
    worker: float


class Canary:
    """The kernels, built for one device."""

    def __init__(self, handle: Any, record: InstructionSet, workers: int) -> None:
        """Build them for a ``pyopencl.Device``; raises the driver's error where that fails."""
        self.cl = driver.load()
        self.thin = handles.kind(handle) != "cpu"
        self.simd = 1 if self.thin else record.simd
        self.further = sorted(INSTRUCTIONS & handles.features(handle, record))
        self.workers = handle.max_compute_units if self.thin else workers
        self.context = self.cl.Context([handle])
        self.queue = self.cl.CommandQueue(self.context)
        wanted = _THIN_READ_BYTES if self.thin else _READ_BYTES
        self.bytes = min(wanted, handle.max_mem_alloc_size // 4, handle.global_mem_size // 8)
        seen: set[str] = set()
        self.fetches = handles.has_clang(handle)
        rates = [f"{name}_products" for name in ("bf16", "amx_bf16") if name in self.further]
        self.pairs_bytes = "byte_pairs" in self.further and "vnni" not in self.further
        rates += ["byte_products"] * self.pairs_bytes
        rates += ["loaded_products"] * (not self.thin)
        names = ["values", "products", "read", *self.further, *rates, *["stream"] * self.fetches]
        text = f"#define SIMD {self.simd}\n" + "".join(expand(f"canary/canary_{name}.cl", seen) for name in names)
        options = "-cl-std=CL1.2 -cl-mad-enable" + " -DCLGRAPH_PREFETCH" * self.fetches
        options += " -DCLGRAPH_AMX_BF16" * ("amx_bf16" in self.further)
        self.program = self.cl.build(self.context, handle, text, options)
        self.abi_warnings = self.cl.log_of(self.program, handle).count("changes the ABI")

    def upload(self, array: Words) -> Any:
        """Return a buffer with the bytes of *array*."""
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array)

    def run(self, name: str, groups: int, *args: Any) -> Run:
        """Run a kernel with *groups* work-groups and wait; return the seconds it took.

        Of a worker that is, on a CPU, its share of the threads' CPU time, which other processes do not lengthen.
        """
        kernel = Kernel(self.cl, self.program, f"canary_{name}", args)
        size = THIN[1] if self.thin and name != "values" else 1
        start, used = time.perf_counter(), time.process_time()
        kernel.launch_after(self.queue, (groups * size,), (size,))(()).wait()
        wall, used = time.perf_counter() - start, time.process_time() - used
        return Run(wall, wall if self.thin else used / min(groups, self.workers))

    def read(self, buffer: Any, like: Words) -> Words:
        """Return the content of *buffer* as an array like *like*."""
        found = np.empty_like(like)
        self.cl._enqueue_read_buffer(self.queue, buffer, found)
        return found
