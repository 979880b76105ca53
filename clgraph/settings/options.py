"""Every option once: its name, type, default and one line about it. The environment is read here and nowhere else.

Option ``name`` is the variable ``CLGRAPH_<NAME>``; an argument of the API or a flag of the command line goes before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from clgraph.errors import OptionError
from clgraph.settings.user_folder import user_cache_dir
from clgraph.settings.values import boolean, bytes_of, folder, names, natural, one_of, pairs_of, positive, words

PREFIX = "CLGRAPH_"

PRODUCT_PRECISIONS = ("tf32x3", "f16x3")
"""Precisions that are ``f32`` but for how products are made: a feature of every device where one is asked for."""
PRECISIONS = ("f32", "f16", "bf16", "auto", *PRODUCT_PRECISIONS)
EXECUTORS = ("auto", "persistent", "stream")
WEIGHTS = ("given", "int8", "int4")
WEIGHT_GROUPS = (32, 64, 128, 256)
"""How many weights of few bits may share a scale."""
LOG_LEVELS = ("debug", "info", "warning", "error")


def _group(text: str) -> int:
    if (number := int(text)) not in WEIGHT_GROUPS:
        raise ValueError(f"{number} is not one of {', '.join(map(str, WEIGHT_GROUPS))}")
    return number


DEVICE_CLASSES = ("auto", "cpu", "gpu")


def _classes(text: str) -> str:
    for name, equals, kind in (item.strip().rpartition("=") for item in text.lower().split(",")):
        if kind not in DEVICE_CLASSES or bool(name.strip()) != bool(equals):
            raise ValueError(
                f"{name + equals + kind!r} is not one of {', '.join(DEVICE_CLASSES)}, or DEVICE=one of them"
            )
    return text.lower()


def _about(read: Callable[[str], Any], doc: str) -> dict[str, Any]:
    return {"read": read, "doc": doc}


@dataclass(frozen=True, kw_only=True)
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
            _classes,
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
            _group, "Weights along the summed axis that share a scale with int8 and int4: 32, 64, 128 or 256."
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
        metadata=_about(boolean, "Fill unused device memory with NaN, to find uses of uninitialised memory."),
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
        return replace(self, **{n: _read(known[n], v, n) for n, v in changes.items() if v is not None})


def _read(option: Field[Any], value: Any, where: str) -> Any:
    """Return *value* as the type of *option*; raises ``OptionError`` that calls it *where*."""
    if type(option.default) is int and isinstance(value, int) and type(value) not in (int, bool):
        return value  # a number that is more than one, as a budget of memory is
    if isinstance(value, str) or not isinstance(value, Collection):
        try:
            return option.metadata["read"](str(value))
        except ValueError as error:
            raise OptionError(f"{where}={value}: {error}") from error
    if "tuple[tuple" in str(option.type):
        return _read_pairs(value, where)
    if not isinstance(option.default, frozenset | tuple):
        raise OptionError(f"{where}: {value!r} is several values where one is expected")
    if not all(isinstance(item, str | int | os.PathLike) for item in value):
        raise OptionError(f"{where}: {value!r} is not a collection of names")
    return type(option.default)(map(str, value))


def _read_pairs(value: Collection[Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return a mapping, or a collection of pairs, as pairs of texts."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    for pair in pairs:
        fits = isinstance(pair, tuple | list) and len(pair) == 2
        if not fits or not isinstance(pair[0], str) or not isinstance(pair[1], str | int):
            raise OptionError(f"{where}: {pair!r} is not a pair of names; it is given as {{name: name}}")
    return tuple((key, str(to)) for key, to in pairs)


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the options from *environment* (the process's when not given); empty variables count as unset.

    Raises:
        OptionError: A ``CLGRAPH_*`` variable is not an option, or its value cannot be read.
    """
    variables = os.environ if environment is None else environment
    known = {variable_of(f.name): f for f in fields(Settings)}
    found: dict[str, Any] = {}
    for variable in sorted(v for v in variables if v.startswith(PREFIX) and v not in FOREIGN):
        if variable not in known:
            raise OptionError(f"{variable} is not an option; the options are {', '.join(known)}")
        if variables[variable]:
            found[known[variable].name] = _read(known[variable], variables[variable], variable)
    return Settings(**found)


FOREIGN = frozenset(f"CLGRAPH_TEST_{name}" for name in ("CLASS", "DEVICES", "ISA", "OPTIMISED"))
"""Variables with the prefix that are the test suite's, not options."""


def variable_of(option: str) -> str:
    """Return the name of the environment variable of *option*."""
    return PREFIX + option.upper()


def option_table() -> list[tuple[str, str, str]]:
    """Return (variable, default, description) of every option."""
    used = Settings()
    return [(variable_of(f.name), str(getattr(used, f.name)), f.metadata["doc"]) for f in fields(Settings)]
