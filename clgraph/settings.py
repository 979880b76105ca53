"""Every option once: its name, type, default and one line about it. The environment is read here and nowhere else.

Option ``name`` is the variable ``CLGRAPH_<NAME>``; an argument of the API or a flag of the command line goes before it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from clgraph.errors import OptionError

PREFIX = "CLGRAPH_"

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
PRODUCT_PRECISIONS = ("tf32x3", "f16x3")
"""Precisions that are ``f32`` but for how products are made: a feature of every device where one is asked for."""
WEIGHT_GROUPS = (32, 64, 128, 256)
"""How many weights of few bits may share a scale."""
LOG_LEVELS = ("debug", "info", "warning", "error")


def _boolean(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return text.lower() in _TRUE


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(f"{number} is not at least 1")
    return number


def _natural(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError(f"{number} is negative")
    return number


def _group(text: str) -> int:
    if (number := int(text)) not in WEIGHT_GROUPS:
        raise ValueError(f"{number} is not one of {', '.join(map(str, WEIGHT_GROUPS))}")
    return number


_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def bytes_of(text: str) -> int:
    """Return a number of bytes, as ``512 MiB``, ``2GiB`` or ``1048576``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    found = float(match[1]) * _UNITS.get(match[2], float("nan")) if match else float("nan")
    if not 0 <= found < 1 << 62:
        raise ValueError(f"{text!r} is no number of bytes: those are given as 512 MiB, 2 GiB or 1048576")
    return int(found)


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"no home folder stands for ~: {error}") from error


def homeless_cache_dir() -> Path | None:
    """Return the cache folder of a user that has no home folder, one below the temporary folder; ``None`` for others.

    Raises:
        OptionError: There is no temporary folder either.
    """
    try:
        if not _user_cache_dir().startswith("~"):
            return None
    except RuntimeError:  # newer versions of platformdirs raise it where older ones leave the "~"
        pass
    # Imported where it is needed: it takes longer than everything else here.
    import tempfile

    try:
        return Path(tempfile.gettempdir(), f"clgraph-{os.getuid()}")
    except OSError as error:
        what = f"this user has neither a home folder nor a temporary one ({error})"
        raise OptionError(f"{what}: name one for the cache by CLGRAPH_CACHE_DIR") from error


def user_cache_dir() -> Path:
    """Return the cache folder where none is named. Raises ``OptionError`` where a user has no folder at all."""
    return homeless_cache_dir() or Path(_user_cache_dir())


def _user_cache_dir() -> str:
    """Return the user's cache folder for clgraph by the rule of the system; it begins with ``~`` without a home."""
    if sys.platform == "linux":
        named = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "clgraph")
    # Not imported where the rule is that short: with all that it imports it takes 4 ms.
    import platformdirs

    return platformdirs.user_cache_dir("clgraph")


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _list(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _pairs(what: str) -> Callable[[str], tuple[tuple[str, str], ...]]:
    def read(text: str) -> tuple[tuple[str, str], ...]:
        pairs = [item.rpartition("=") for item in text.split(",") if item.strip()]
        for key, equals, value in pairs:
            if not (key.strip() and equals and value.strip()):
                raise ValueError(f"{key + equals + value!r} is not {what}")
        return tuple((key.strip(), value.strip()) for key, _, value in pairs)

    return read


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text.lower()

    return read


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
            "Device to run on: auto, cpu, gpu, host, pocl:0, pocl:0/1of2 (a part of it), an index or part of a name; "
            "several, comma-separated, share a model out by cost.",
        ),
    )
    device_class: str = field(
        default="auto",
        metadata=_about(
            _classes,
            "Kernels to choose from: the device's own class (auto), or those for a cpu or gpu, of all devices or of "
            "some: DEVICE=CLASS,...; to try GPU kernels on a CPU.",
        ),
    )
    precision: str = field(
        default="f32",
        metadata=_about(
            _one_of("f32", "f16", "bf16", "auto", *PRODUCT_PRECISIONS),
            "What operators store: f32, f16 (sums stay float32), or auto: f16 on GPUs where its range suffices. bf16 "
            "multiplies on CPUs what is rounded to bfloat16. tf32x3 and f16x3 store f32 and let NVIDIA's matrix units "
            "multiply it in three products, to about 20 bits.",
        ),
    )
    keep_f32: frozenset[str] = field(
        default=frozenset(),
        metadata=_about(
            _names,
            "Nodes that stay float32 with another precision, or other weights; patterns with *, comma-separated.",
        ),
    )
    weights: str = field(
        default="given",
        metadata=_about(
            _one_of("given", "int8", "int4"),
            "What constant float weights of large products and embeddings become: int8, int4 (tables and the last "
            "product int8), or given: what they are.",
        ),
    )
    weight_group: int = field(
        default=128,
        metadata=_about(
            _group, "Weights along the summed axis that share a scale with int8 and int4: 32, 64, 128 or 256."
        ),
    )
    threads: int | None = field(
        default=None, metadata=_about(_positive, "Worker threads on a CPU device; all usable cores when unset.")
    )
    cache_dir: Path = field(
        default_factory=user_cache_dir,
        metadata=_about(_folder, "Folder for compiled kernels and fetched models."),
    )
    model_cache: int = field(
        default=2048,
        metadata=_about(
            _natural, "MiB of compiled models kept in the cache folder for the next start; 0 keeps and uses none."
        ),
    )
    shape_cache: int = field(
        default=256,
        metadata=_about(_natural, "MiB that programs for other shapes may take beside what is shared; the last stays."),
    )
    memory_limit: int = field(
        default=0,
        metadata=_about(
            bytes_of,
            "Bytes that a model may take of each device, as 512 MiB: a program that needs more is refused before its "
            "memory is allocated; 0 for what the device has.",
        ),
    )
    dump_graphs: Path | None = field(
        default=None, metadata=_about(_folder, "Folder that the program is written to after every pass.")
    )
    dump_data: bool = field(
        default=False,
        metadata=_about(_boolean, "Write weights beside dumped programs, so that these can be loaded again and run."),
    )
    verify_passes: bool = field(
        default=False, metadata=_about(_boolean, "Check the program and its results after every pass.")
    )
    disable_passes: frozenset[str] = field(
        default=frozenset(), metadata=_about(_names, "Optional passes to leave out, comma-separated.")
    )
    stop_after: str | None = field(default=None, metadata=_about(str, "Pass after which only required passes run."))
    strict: bool = field(default=False, metadata=_about(_boolean, "Refuse to run any node on the host."))
    deny_kernels: frozenset[str] = field(
        default=frozenset(), metadata=_about(_names, "Implementations not to use, comma-separated.")
    )
    force_kernels: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(_pairs("NODE=IMPLEMENTATION"), "Implementations to use: NODE=NAME,NODE=NAME."),
    )
    placement: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(
            _pairs("PATTERN=DEVICE"),
            "Devices of parts of a model: PATTERN=DEVICE,...; a pattern fits annotations, node names or operators.",
        ),
    )
    placement_fallback: tuple[str, ...] = field(
        default=(), metadata=_about(_list, "Devices that may run what its own device refuses, comma-separated.")
    )
    placement_budget: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_about(
            _pairs("DEVICE=SIZE"), "Memory for layers of a model, in order: DEVICE=SIZE,...; the next device goes on."
        ),
    )
    winograd: bool = field(
        default=True,
        metadata=_about(
            _boolean,
            "Let 3x3 convolutions run by Winograd's F(4x4, 3x3), 1x1 ones by Strassen's: some bits less exact.",
        ),
    )
    quantised_products: str = field(
        default="digits",
        metadata=_about(
            _one_of("digits", "exact"),
            "How products with weights of 2 to 8 bits read the other side: digits (a block at a time as fixed-point "
            "numbers of 24 bits, of 8 where the model says accuracy_level=4), or exact (floats, a third as fast).",
        ),
    )
    split_batch: bool = field(
        default=True,
        metadata=_about(
            _boolean, "Compute large batches in slices, so that what nodes hand on stays in the CPU's cache."
        ),
    )
    out_of_order: bool = field(
        default=False, metadata=_about(_boolean, "Use an out-of-order queue where the device has one.")
    )
    command_buffers: bool = field(
        default=False,
        metadata=_about(_boolean, "Record launches once and hand them to the device together (cl_khr_command_buffer)."),
    )
    poison: bool = field(
        default=False, metadata=_about(_boolean, "Fill device memory with NaN wherever it holds nothing.")
    )
    executor: str = field(
        default="auto",
        metadata=_about(
            _one_of("auto", "persistent", "stream"),
            "How tile functions are run: stream (a launch each), persistent (one launch for all in a row), or auto.",
        ),
    )
    pocl_isa: str | None = field(
        default=None,
        metadata=_about(
            _one_of("avx512_bf16", "avx512_vnni", "avx512", "avx2", "avx", "sse2"),
            "Instruction set that clgraph's PoCL compiles for: avx512_bf16, avx512_vnni, avx512, avx2, avx or sse2; "
            "the widest that works when unset.",
        ),
    )
    tuning: str = field(
        default="auto",
        metadata=_about(
            str,
            "File of what clgraph tune measured; auto: the device's in the cache folder; off: neither that nor the "
            "rates that were measured at the first use, so that choices are the same on every machine of a class.",
        ),
    )
    modules: tuple[str, ...] = field(
        default=(),
        metadata=_about(_list, "Python files or modules to import first, for custom operators, comma-separated."),
    )
    plugins: str = field(default="all", metadata=_about(str, "Plugins to load: all, none, or names, comma-separated."))
    log_level: str = field(
        default="warning",
        metadata=_about(_one_of(*LOG_LEVELS), "Least severe messages that the command line shows: debug ... error."),
    )

    def with_(self, **changes: Any) -> Settings:
        """Return the settings with *changes*; ``None`` leaves an option as it is.

        Text and numbers are read as the environment variable would be; several names may come as any collection.

        Raises:
            OptionError: A keyword is no option, or its value cannot be read.
        """
        known = {f.name: f for f in fields(self)}
        if unknown := sorted(set(changes) - set(known)):
            raise OptionError(f"{unknown[0]!r} is no option; the options are {', '.join(sorted(known))}")
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
        raise OptionError(f"{where}: {value!r} is several values, where one is wanted")
    if not all(isinstance(item, str | int | os.PathLike) for item in value):
        raise OptionError(f"{where}: {value!r} is not a collection of names")
    return type(option.default)(map(str, value))


def _read_pairs(value: Collection[Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return a mapping, or a collection of pairs, as pairs of texts."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    for pair in pairs:
        fits = isinstance(pair, tuple | list) and len(pair) == 2
        if not fits or not isinstance(pair[0], str) or not isinstance(pair[1], str | int):
            raise OptionError(f"{where}: {pair!r} is no pair of names; it is given as {{name: name}}")
    return tuple((key, str(to)) for key, to in pairs)


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the options from *environment* (the process's when not given); empty variables count as unset.

    Raises:
        OptionError: A ``CLGRAPH_*`` variable is no option, or its value cannot be read.
    """
    variables = os.environ if environment is None else environment
    known = {variable_of(f.name): f for f in fields(Settings)}
    found: dict[str, Any] = {}
    for variable in sorted(v for v in variables if v.startswith(PREFIX) and v not in FOREIGN):
        if variable not in known:
            raise OptionError(f"{variable} is no option; the options are {', '.join(known)}")
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
