"""OpenCL C's built-in functions for PoCL 3.0: a kernel is compiled with the declarations of those that it names.

PoCL includes clang's ``opencl-c.h`` in every kernel: 14,500 declarations, which take clang 14 75 of the 140 ms in which
it compiles a small one. Here each run of declarations of a function stands behind a macro of its name, and the build
options of a kernel define those of the names in its text. Without :data:`CHOSEN` every function is declared, so that
other code of the process finds what it would find in clang's own file.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from clgraph.core import cache_folder

HEADER = "opencl-c.h"
CHOSEN = "CLGRAPH_BUILTINS"
"""Macro that says that the functions needed are named; with a function's stem behind it, that this one is needed."""

_DECLARED = r"(\w+)\s*\("
_ATTRIBUTE = r"__attribute__\s*\(\(.*?\)\)"
_NAME = r"[A-Za-z_]\w*"
_CONVERSION = r"convert_[a-z]+"
_GUARD = rf"(?m)^#if .*{CHOSEN}_(\w+)\)$"


def make(folder: Path, source: Path, *, anew: bool = False) -> None:
    """Make *folder* below the cache folder what *source*, the folder of PoCL's headers, is, with ``opencl-c.h`` parted.

    Where that header is there it is all left as it is, unless it shall be made *anew*. Raises ``OSError``.
    """
    assert folder.resolve() != source.resolve(), "nothing is written where PoCL is installed"
    if cache_folder.is_trusted(folder / HEADER) and not anew:
        return
    for path in source.iterdir():
        if path.name != HEADER:
            cache_folder.link(folder / path.name, path)
    if (source / HEADER).is_file():
        text = "\n".join(parted((source / HEADER).read_text().splitlines())) + "\n"
        cache_folder.write(folder / HEADER, f"{_seal(text)}\n{text}".encode())


def stems(folder: Path, source: Path) -> frozenset[str]:
    """Return the stems of the functions that the header in *folder* declares when asked for; make it anew if damaged.

    Raises:
        OSError: It cannot be read, or made.
    """
    for last in (False, True):
        head, _, text = cache_folder.read(folder / HEADER).decode(errors="replace").partition("\n")
        if head == _seal(text):
            break
        if last:
            return frozenset()
        make(folder, source, anew=True)
    return frozenset(re.findall(_GUARD, text))


def options(text: str, declared: frozenset[str]) -> str:
    """Return build options that declare, of the stems *declared*, those of the functions that *text* names.

    A name that ends in ``_``, to which a macro pastes the rest, stands for all that begin with it.
    """
    names = frozenset(re.findall(_NAME, text))
    parts = tuple(name for name in names if name.endswith("_"))
    wanted = declared & {_stem(name) for name in names} | {stem for stem in declared if stem.startswith(parts)}
    return " ".join((f"-D{CHOSEN}", *(f"-D{CHOSEN}_{stem}" for stem in sorted(wanted))))


def parted(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a header with each run of declarations of functions of one stem behind its macro."""
    for stem, run in itertools.groupby(_statements(lines), key=lambda found: found[0]):
        guards = [f"#if !defined({CHOSEN}) || defined({CHOSEN}_{stem})"] if stem else []
        yield from (*guards, *(statement for _, statement in run), *["#endif"] * len(guards))


def _statements(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each declaration of an overloaded function with its stem, and every other line with an empty one."""
    begun: list[str] = []
    for line in lines:
        begun.append(line)
        if "__ov" not in begun[0] or begun[0].startswith("#"):
            yield "", begun.pop()
        elif ";" in line:
            statement = "\n".join(begun)
            found = re.search(_DECLARED, re.sub(_ATTRIBUTE, "", statement))
            yield _stem(found[1]) if found else "", statement
            begun.clear()
    yield from (("", line) for line in begun)


def _stem(name: str) -> str:
    """Return what the names of a function for several types have in common: ``convert_int``, ``vload``."""
    conversion = re.match(_CONVERSION, name)
    return conversion[0] if conversion else name.rstrip("0123456789")


def _seal(text: str) -> str:
    return f"// clgraph {hashlib.sha256(text.encode()).hexdigest()}"
