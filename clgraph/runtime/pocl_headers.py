"""OpenCL C's built-in functions for PoCL 3.0: a kernel is compiled with the declarations of those that it names.

PoCL includes clang's ``opencl-c.h`` in every kernel: 14,500 declarations, which take clang 14 75 of the 140 ms in which
it compiles a small one, and 8 where each stands behind a macro that is not defined. Here they are in a file beside the
header, from which those of the names in a kernel's text are put before that. Without :data:`CHOSEN` the header is
clang's own, so that other code of the process finds what it would find there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clgraph.core import cache_folder
from clgraph.core.digests import blake2

HEADER, WHOLE, DECLARATIONS = "opencl-c.h", "clgraph-whole.h", "clgraph-declarations"
"""The header as PoCL includes it, clang's own, and the functions of that by their stems."""
CHOSEN = "CLGRAPH_BUILTINS"
"""Macro that says that the functions needed are declared before the kernel."""

_GUARD = "_OPENCL_H_"
_TEXT = f"""\
#ifndef {CHOSEN}
#include "{WHOLE}"
#elif !defined({_GUARD})
#define {_GUARD}
%s#endif
"""
_STEM = "\n// functions of "
_COMMENT = rf"(?s:/\*.*?\*/)|//(?!{_GUARD}).*"
_FUNCTION = r"(\w+)\s*\("
_ATTRIBUTE = r"__attribute__\s*\(\(.*?\)\)"
_NAME = r"[A-Za-z_]\w*"
_CONVERSION = r"convert_[a-z]+"
_DIRECTIVE = r"#\s*(\w+)"


def make(folder: Path, source: Path, *, anew: bool = False) -> None:
    """Make *folder* below the cache folder what *source*, the folder of PoCL's headers, is, with ``opencl-c.h`` parted.

    Where that has been done all is left as it is, unless it shall be done *anew*. Raises ``OSError``.
    """
    assert folder.resolve() != source.resolve(), "nothing is written where PoCL is installed"
    if cache_folder.is_trusted(folder / DECLARATIONS) and not anew:
        return
    for path in source.iterdir():
        cache_folder.link(folder / (WHOLE if path.name == HEADER else path.name), path)
    if (source / HEADER).is_file():
        found = parted((source / HEADER).read_text())
        cache_folder.write(folder / HEADER, _header(found))
        text = "".join(f"{_STEM}{stem}\n{functions}" for stem, functions in found.items())
        cache_folder.write(folder / DECLARATIONS, f"{_seal(text)}{text}".encode())


def declarations(folder: Path, source: Path) -> dict[str, str]:
    """Return the declarations of functions by the functions' stems that *folder* has; make it anew if damaged.

    Raises:
        OSError: They cannot be read, or made.
    """
    for last in (False, True):
        seal, mark, rest = cache_folder.read(folder / DECLARATIONS).decode(errors="replace").partition(_STEM)
        parts = (part.partition("\n") for part in rest.split(_STEM))
        found = {stem: declared for stem, _, declared in parts}
        if seal == _seal(mark + rest) and cache_folder.read(folder / HEADER) == _header(found):
            return {stem: declared for stem, declared in found.items() if stem}
        if not last:
            make(folder, source, anew=True)
    return {}


def needed(text: str, declared: Mapping[str, str]) -> str:
    """Return what is *declared* of the functions that *text* names, to stand before it; lines of *text* count from 1.

    A name that ends in ``_``, to which a macro pastes the rest, stands for all that begin with it.
    """
    names = frozenset(re.findall(_NAME, text))
    parts = tuple(name for name in names if name.endswith("_"))
    wanted = declared.keys() & {_stem(name) for name in names} | {stem for stem in declared if stem.startswith(parts)}
    return "".join((*(declared[stem] for stem in sorted(wanted)), "#line 1\n"))


def parted(text: str) -> dict[str, str]:
    """Return the functions that a header declares by their stems, and all else by none, each under its conditions.

    What the header defines stays defined, for its functions stand behind it.
    """
    parts: dict[str, list[str]] = {"": []}
    under: dict[str, list[str]] = {}
    conditions: list[str] = []
    for statement in _statements(text):
        directive = re.match(_DIRECTIVE, statement)
        match directive and directive[1]:
            case "if" | "ifdef" | "ifndef":
                conditions.append(statement)
            case "else" | "elif":
                conditions[-1] += f"\n{statement}"
            case "endif":
                conditions.pop()
            case "undef":
                pass
            case _:
                stem = "" if directive else _declared(statement)
                part = parts.setdefault(stem, [])
                part += [*_changed(under.get(stem, []), conditions), statement]
                under[stem] = list(conditions)
    return {stem: "\n".join((*part, *_changed(under.get(stem, []), []))) + "\n" for stem, part in parts.items()}


def _header(parts: Mapping[str, str]) -> bytes:
    return (_TEXT % parts.get("", "")).encode()


def _changed(before: list[str], after: list[str]) -> list[str]:
    """Return the lines that end the conditions *before*, and begin those *after*, where they differ."""
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return ["#endif"] * (len(before) - same) + after[same:]


def _statements(text: str) -> Iterator[str]:
    """Yield each directive and each declaration of a header, without comments and its guard."""
    begun: list[str] = []
    for line in re.sub(_COMMENT, "", text.replace("\\\n", "")).splitlines():
        if _GUARD in line or not line.strip():
            continue
        begun.append(line.rstrip())
        if ";" in line or line.startswith("#"):
            yield "\n".join(begun)
            begun.clear()


def _declared(statement: str) -> str:
    """Return the stem of the overloaded function that is declared, nothing of any other statement."""
    found = re.search(_FUNCTION, re.sub(_ATTRIBUTE, "", statement)) if "__ov" in statement else None
    return _stem(found[1]) if found else ""


def _stem(name: str) -> str:
    """Return what the names of a function for several types have in common: ``convert_int``, ``vload``."""
    conversion = re.match(_CONVERSION, name)
    return conversion[0] if conversion else name.rstrip("0123456789")


def _seal(text: str) -> str:
    return f"// clgraph {blake2(text.encode()).hexdigest()}"
