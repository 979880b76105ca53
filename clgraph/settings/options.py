"""Every option once: its name, type, default and one line about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any

from clgraph.errors import OptionError
from clgraph.settings.declaring import options
from clgraph.settings.user_folder import user_cache_dir
from clgraph.settings.values import (
    EXECUTORS,
    LOG_LEVELS,
    PRECISIONS,
    WEIGHTS,
    boolean,
    bytes_of,
    device_classes,
    folder,
    group_size,
    names,
    natural,
    one_of,
    pairs_of,
    positive,
    read_option,
    words,
)


def _about(read: Callable[[str], Any], doc: str) -> dict[str, Any]:
    return {"read": read, "doc": doc}


@options
class Settings:
    """The options in force. The docs of the fields are in their metadata: ``option_table()``."""

    device: str = field(
        default="auto",
        metadata=_about(
            str,
            "Device to run on: auto, cpu, gpu, host, pocl:0, pocl:0/1of2 (a sub-device), an index or part of a name; "
            "a model is distributed over several, comma-separated, by estimated time.",
        ),
    )
    device_class: str = field(
        default="auto",
        metadata=_about(
            device_classes,
            "Class of the kernels: that of the device (auto), cpu or gpu, for all devices or for some of them: "
            "DEVICE=CLASS,...; to try GPU kernels on a CPU.",
        ),
    )
    precision: str = field(
        default="f32",
        metadata=_about(
            one_of(*PRECISIONS),
            "Type in which values are stored: f32, f16 (accumulated in float32), or auto: f16 on GPUs where its range "
            "suffices. bf16 multiplies operands rounded to bfloat16 on CPUs. tf32x3 and f16x3 store f32 and multiply "
            "it on NVIDIA's matrix units in three products, to about 20 bits.",
        ),
    )
    keep_f32: frozenset[str] = field(
        default=frozenset(),
        metadata=_about(
            names,
            "Nodes that stay float32 with another precision or weight compression; patterns with *, comma-separated.",
        ),
    )
    weights: str = field(
        default="given",
        metadata=_about(
            one_of(*WEIGHTS),
            "Compression of constant float weights of large products and embeddings: int8, int4 (embeddings and the "
            "last product int8), or given: none.",
        ),
    )
    weight_group: int = field(
        default=128,
        metadata=_about(
            group_size, "Weights along the summed axis that share a scale with int8 and int4: 32, 64, 128 or 256."
        ),
    )
    threads: int | None = field(
        default=None, metadata=_about(positive, "Worker threads on a CPU device; all usable cores when unset.")
    )
    cache_dir: Path = field(
        default_factory=user_cache_dir,
        metadata=_about(folder, "Folder for compiled kernels and downloaded models."),
    )
    model_cache: int = field(
        default=2048,
        metadata=_about(natural, "Size limit of the cache of compiled models, in MiB; 0 disables it."),
    )
    shape_cache: int = field(
        default=256,
        metadata=_about(
            natural, "MiB that programs for other shapes may use beside shared memory; the last one is always kept."
        ),
    )
    memory_limit: int = field(
        default=0,
        metadata=_about(
            bytes_of,
            "Memory that a model may use on each device, as 512 MiB: a program that needs more is refused before its "
            "memory is allocated; 0 for no limit.",
        ),
    )
    dump_graphs: Path | None = field(
        default=None, metadata=_about(folder, "Folder into which the program is written after every pass.")
    )
    dump_data: bool = field(
        default=False,
        metadata=_about(boolean, "Include the weights in dumped programs, so that these can be loaded and run."),
    )
    verify_passes: bool = field(
        default=False, metadata=_about(boolean, "Check the program and its results after every pass.")
    )
    disable_passes: frozenset[str] = field(
        default=frozenset(), metadata=_about(names, "Optional passes to disable, comma-separated.")
    )
    stop_after: str | None = field(default=None, metadata=_about(str, "Pass after which only required passes are run."))
    strict: bool = field(
        default=False, metadata=_about(boolean, "Refuse models with nodes that would run on the host.")
    )
    deterministic: bool = field(
        default=False,
        metadata=_about(
            boolean,
            "Give the same input the same bits in every run: small stages stay on the host however often they run.",
        ),
    )
    deny_kernels: frozenset[str] = field(
        default=frozenset(), metadata=_about(names, "Implementations not to use, comma-separated.")
    )
    force_kernels: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(pairs_of("NODE=IMPLEMENTATION"), "Implementations to use: NODE=NAME,NODE=NAME."),
    )
    placement: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(
            pairs_of("PATTERN=DEVICE"),
            "Devices of nodes: PATTERN=DEVICE,...; a pattern matches annotations, node names or operators.",
        ),
    )
    placement_fallback: tuple[str, ...] = field(
        default=(),
        metadata=_about(words, "Devices for nodes that their assigned device does not support, comma-separated."),
    )
    placement_budget: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(
            pairs_of("DEVICE=SIZE"), "Memory budgets of devices that are filled with nodes in order: DEVICE=SIZE,..."
        ),
    )
    winograd: bool = field(
        default=True,
        metadata=_about(
            boolean,
            "Use Winograd's F(4x4, 3x3) for 3x3 convolutions and Strassen's algorithm for 1x1 ones: slightly less "
            "accurate.",
        ),
    )
    quantised_products: str = field(
        default="digits",
        metadata=_about(
            one_of("digits", "exact"),
            "Type of the activations in products with weights of 2 to 8 bits: digits (fixed-point numbers of 24 bits "
            "with a scale per block, of 8 bits with accuracy_level=4), or exact (floats, a third as fast).",
        ),
    )
    split_batch: bool = field(
        default=True,
        metadata=_about(
            boolean, "Compute large batches in slices, so that intermediate values stay in the CPU's cache."
        ),
    )
    out_of_order: bool = field(
        default=False, metadata=_about(boolean, "Use an out-of-order queue where the device has one.")
    )
    command_buffers: bool = field(
        default=False,
        metadata=_about(boolean, "Record launches once and submit them together (cl_khr_command_buffer)."),
    )
    poison: bool = field(
        default=False,
        metadata=_about(
            boolean, "Fill unused device memory with NaN: finds reads of it, and writes outside of results."
        ),
    )
    executor: str = field(
        default="auto",
        metadata=_about(
            one_of(*EXECUTORS),
            "Execution of tile functions: stream (a launch for each), persistent (one launch for all), or auto.",
        ),
    )
    pocl_isa: str | None = field(
        default=None,
        metadata=_about(
            one_of("avx512_bf16", "avx512_vnni", "avx512", "avx_vnni", "avx2", "avx", "sse2"),
            "Instruction set for which the wheel's PoCL compiles: avx512_bf16, avx512_vnni, avx512, avx_vnni, avx2, "
            "avx or sse2; the widest that works when unset.",
        ),
    )
    tuning: str = field(
        default="auto",
        metadata=_about(
            str,
            "File of results of clgraph tune; auto: the device's file in the cache folder; off: neither those nor the "
            "rates measured at the first use, so that choices are the same on every machine of a class.",
        ),
    )
    modules: tuple[str, ...] = field(
        default=(),
        metadata=_about(words, "Python files or modules to import first, with custom operators, comma-separated."),
    )
    plugins: str = field(default="all", metadata=_about(str, "Plugins to load: all, none, or names, comma-separated."))
    log_level: str = field(
        default="warning",
        metadata=_about(
            one_of(*LOG_LEVELS), "Minimum severity of messages on the command line: debug, info, warning or error."
        ),
    )

    def with_(self, **changes: Any) -> Settings:
        """Return the settings with *changes*; ``None`` leaves an option as it is.

        Text and numbers are read as the environment variable would be; several names may come as any collection.

        Raises:
            OptionError: A keyword is not an option, or its value cannot be read.
        """
        known = {f.name: f for f in fields(self)}
        if unknown := sorted(set(changes) - set(known)):
            raise OptionError(f"{unknown[0]!r} is not an option; the options are {', '.join(sorted(known))}")
        return replace(self, **{n: read_option(known[n], v, n) for n, v in changes.items() if v is not None})
