"""What compilers made of the kernels that GPUs are given, kept as data: a row a kernel, and what has changed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.gpu_compilers.report import Compiled

TABLE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "gpu_compilers.csv"

KEY = ("profile", "kernel", "variant", "group")
FIGURES = ("registers", "stored", "loaded", "stack", "local", "waves", "loop", "products", "error")
COLUMNS = ("compiler", *KEY, *FIGURES)
"""The compiler with its version; spilled bytes ``stored`` and ``loaded``; instructions of the main ``loop``, and those
of them that are ``products``, empty where nothing could read it; other words as in :class:`Compiled`."""

_READ = ("loop", "products")
_PRODUCTS = ("HMMA", "IMMA", "FFMA", "IDP")

Rows = Mapping[tuple[str, ...], Mapping[str, str]]


def kept(one: Compiled) -> bool:
    """Whether the table has a kernel: one that a model would launch, and no general one unless it spills or fails."""
    general = one.text.name.endswith("_ref") and not any(one.spilled) and not one.error
    return one.text.chosen and not general


def rows_of(profile: str, compiler: str, made: Iterable[Compiled]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows of what *compiler* made for *profile*, by profile, kernel, variant and group."""
    rows = {}
    for one in filter(kept, made):
        group = "x".join(map(str, one.text.group)) if one.text.requires_group else ""
        loop = ("", "") if one.loop is None else (one.loop.total(), sum(one.loop[name] for name in _PRODUCTS))
        figures = (one.registers, *one.spilled, one.stack, one.local, one.waves, *loop)
        error = one.error.strip().partition("\n")[0]
        cells = (compiler, profile, one.text.name, one.text.variant, group, *map(str, figures), error)
        row = dict(zip(COLUMNS, cells, strict=True))
        rows[tuple(row[name] for name in KEY)] = row
    return rows


def read(path: Path = TABLE) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows of a table; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}


def write(rows: Rows, path: Path = TABLE) -> None:
    """Write a table, sorted."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows[key] for key in sorted(rows))


def changes(before: Rows, after: Rows) -> list[str]:
    """Return what the compilers make otherwise *after*: a line a kernel, with each known figure that is another."""
    lines = [f"{' '.join(filter(None, key))}: new" for key in sorted(after.keys() - before.keys())]
    lines += [f"{' '.join(filter(None, key))}: gone" for key in sorted(before.keys() - after.keys())]
    for key in sorted(before.keys() & after.keys()):
        old, new = before[key], after[key]
        told = [
            f"{name} {old[name] or 'none'} -> {new[name] or 'none'}"
            for name in FIGURES
            if old[name] != new[name] and (name not in _READ or (old[name] and new[name]))
        ]
        if told:
            lines.append(f"{' '.join(filter(None, key))}: {', '.join(told)}")
    return lines
