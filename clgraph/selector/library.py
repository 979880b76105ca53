"""Libraries: one OpenCL program that holds many tile functions, their micro-kernels and the executor.

A *tile function* (see ``tile.clh``) is declared by its descriptor class, ``@descriptor("conv_fsv16",
micros=("micro",))``, which names the families of micro-kernels (:mod:`clgraph.selector.micro_kernels`) that it calls,
and stands in the kernel file of the same name.

Macros that a tile function or micro-kernel file defines end with the file; headers are expanded once, before everything
else. ``SIMD`` is defined as the floats in the device's vector. Text behind ``#ifndef CLGRAPH_LIBRARY`` is for compiling
a file alone, with :func:`tile_text`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from clgraph.core.frozen import frozen
from clgraph.errors import RegistrationError
from clgraph.selector.descriptor import DESCRIPTORS, Descriptor
from clgraph.selector.executor_kernel import EXECUTOR
from clgraph.selector.libraries import holds
from clgraph.selector.micro_kernels import FAMILIES, Micro, MicroFamily
from clgraph.selector.sources import expand, includes, kernel_files_called

_Instances = tuple[str, "tuple[Micro, ...]"]
"""A family as compiled for one device: its name and its instances."""

_DEFINE = r"(?m)^[ \t]*#[ \t]*define[ \t]+(?!__)(\w+)"


@frozen
class Library:
    """A composed program.

    Attributes:
        text: Complete OpenCL C, the same bytes for the same declarations.
        functions: Tile functions in order of their ids.
        instances: How many micro-kernels are in it.
    """

    name: str
    text: str
    functions: tuple[str, ...]
    instances: int


def compose(name: str, simd: int) -> Library:
    """Return library *name* for devices with *simd* floats in a vector: every tile function that it holds.

    Raises:
        RegistrationError: No tile function is declared for it, or a file or family is missing.
    """
    found = tuple(d for d in DESCRIPTORS.values() if holds(name, d.library))
    if not any(d.library == name for d in found):
        raise RegistrationError(f"no tile function is declared for library {name!r}")
    used = (_family(f) for f in sorted({f for d in found for f in d.micros}))
    return _compose(name, simd, found, tuple((f.name, f.of(simd)) for f in used))


@functools.lru_cache(maxsize=64)
def _compose(name: str, simd: int, found: tuple[type[Descriptor], ...], families: tuple[_Instances, ...]) -> Library:
    functions, more = tuple(d.function for d in found), _doing_more(found)
    written = [d for d in found if d.function not in more]
    files = [tile_file(d) for d in written]
    micros = sorted({m.file for _, instances in families for m in instances})
    seen: set[str] = set()
    parts = [
        _preamble(simd),
        *_headers([*files, *micros, EXECUTOR], seen),
        *(d.c_struct() + "\n" for d in found),
        *(part for family in families for part in _dispatch(*family, seen)),
        *(_prototype(d.function) for d in written),
        *(_isolated(file, seen, _renamed(d)) for file, d in zip(files, written, strict=True)),
        _switch(found),
        _isolated(EXECUTOR, seen, {}),
    ]
    return Library(name, "".join(parts), functions, sum(len(instances) for _, instances in families))


def _doing_more(found: Iterable[type[Descriptor]]) -> dict[str, str]:
    """Return, by tile function that another in the library is made of, that other, which does the same and more."""
    held = {d.function for d in found}
    return {d.made_of: d.function for d in found if d.made_of != d.function and d.made_of in held}


def tile_text(function: str, simd: int = 16) -> str:
    """Return the text that compiles tile function *function* alone, with one instance of each family it calls."""
    declared = DESCRIPTORS[function]
    used = [(f, _family(f).of(simd)[:1]) for f in sorted(declared.micros)]
    seen: set[str] = set()
    parts = [
        _preamble(simd),
        *_headers([tile_file(declared), *sorted({m.file for _, instances in used for m in instances})], seen),
        declared.c_struct() + "\n",
        *(part for family in used for part in _dispatch(*family, seen)),
        "#undef CLGRAPH_LIBRARY\n",
        _isolated(tile_file(declared), seen, _renamed(declared)),
    ]
    return "".join(parts)


def _preamble(simd: int) -> str:
    return f"#define CLGRAPH_LIBRARY 1\n#define SIMD {simd}\n"


def _family(name: str) -> MicroFamily:
    if (family := FAMILIES.get(name)) is None:
        raise RegistrationError(f"no micro-kernel family is called {name!r}; there are {', '.join(FAMILIES)}")
    return family


def tile_file(declared: type[Descriptor]) -> str:
    """Return the kernel file of a tile function; raises ``RegistrationError`` unless there is one."""
    found = kernel_files_called(f"{declared.made_of}.cl")
    if len(found) != 1:
        raise RegistrationError(
            f"tile function {declared.function} needs one kernel file {declared.made_of}.cl; found {found}"
        )
    return found[0]


def _renamed(declared: type[Descriptor]) -> dict[str, int | str]:
    """Return the macros that make the function of another file the tile function *declared*."""
    if declared.made_of == declared.function:
        return {**declared.defines}
    names = {declared.made_of: declared.function, f"{declared.made_of}_desc": f"{declared.function}_desc"}
    return {**declared.defines, **names}


def _headers(files: Iterable[str], seen: set[str]) -> Iterator[str]:
    """Expand what *files* include, each header once, so that no header is read under the macros of an instance."""
    for header in ["tile.clh", *(header for file in sorted(files) for header in includes(file))]:
        if header not in seen:
            yield f'#line 1 "{header}"\n{expand(header, seen)}\n'


def _isolated(file: str, seen: set[str], before: Mapping[str, int | str]) -> str:
    """Return the text of *file* without its headers, behind macros, between definitions that end with it."""
    return _between(_Body.of(file, seen), before)


@frozen
class _Body:
    """A file without its headers, and the macros that it defines."""

    file: str
    text: str
    macros: tuple[str, ...]

    @staticmethod
    def of(file: str, seen: set[str]) -> _Body:
        text = expand(file, set(seen))
        return _Body(file, text, tuple(re.findall(_DEFINE, text)))


def _between(body: _Body, before: Mapping[str, int | str]) -> str:
    defines = "".join(f"#define {name} {value}\n" for name, value in before.items())
    ends = "".join(f"#undef {name}\n" for name in sorted({*body.macros, *before}))
    return f'{defines}#line 1 "{body.file}"\n{body.text}\n{ends}'


def _dispatch(family: str, instances: Sequence[Micro], seen: set[str]) -> Iterator[str]:
    """Write out the instances and the function that switches between them."""
    functions = dict.fromkeys((m.file, m.entry) for m in instances)
    signatures = {_signature(file, entry) for file, entry in functions}
    if len(signatures) > 1:
        raise RegistrationError(f"micro-kernels of family {family!r} have different parameters: {signatures}")
    ((result, declared),) = signatures
    names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", declared))
    bodies = {file: _Body.of(file, seen) for file, _ in functions}
    for number, micro in enumerate(instances):
        yield _between(bodies[micro.file], {**dict(micro.defines), micro.entry: f"{family}_{number}"})
    calls = [f"{family}_{n}({names})" for n in range(len(instances))]
    lines = [f"{call}; break;" if result == "void" else f"return {call};" for call in calls]
    cases = "".join(f"    case {n}: {line}\n" for n, line in enumerate(lines))
    end = "  }\n" if result == "void" else "  }\n  return 0;\n"
    yield f"NOINLINE static {result} {family}(const int id, {declared}) {{\n  switch (id) {{\n{cases}{end}}}\n"


def _signature(file: str, entry: str) -> tuple[str, str]:
    """Return the type of the result and the parameters of a micro-kernel."""
    match = re.search(rf"\b(void|int)\s+{entry}\s*\(([^)]*)\)", expand(file, set()))
    if match is None:
        raise RegistrationError(f"{file} defines no function {entry}")
    return match.group(1), " ".join(match.group(2).split())


def _prototype(function: str) -> str:
    """Declare a tile function to stay out of line: all of them in one function take longer to compile."""
    parameters = "__global char**, __global char*, const int, __global const post_step*, const int"
    return f"NOINLINE static void {function}(__global const {function}_desc*, {parameters});\n"


def _switch(descriptors: Sequence[type[Descriptor]]) -> str:
    """Return the function through which the executor runs ticket *ticket* of a step."""
    more = _doing_more(descriptors)
    names = [more.get(d.function, d.function) for d in descriptors]
    rest = "banks, scratch, ticket, post, posts); break;"
    cases = "".join(f"    case {n}: {f}((__global const {f}_desc*)d, {rest}\n" for n, f in enumerate(names))
    return (
        "static void run_ticket(const int function, __global const char* d, __global char** banks,\n"
        "                       __global char* scratch, const int ticket, __global const post_step* post,\n"
        f"                       const int posts) {{\n  switch (function) {{\n{cases}  }}\n}}\n"
    )
