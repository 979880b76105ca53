"""Intel's CPU runtime from its wheels: made visible to the loader without the user setting variables."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from clgraph.core.cache_folder import keep
from clgraph.core.digests import blake2
from clgraph.core.warn import warn
from clgraph.handlers import pass_on

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")


def runtime_libraries(prefixes: Iterable[Path]) -> list[Path]:
    """Return the runtime's library (``libintelocl.so*``) below the ``lib`` folders of *prefixes*; usually none."""
    found = [prefix / "lib" / name for prefix in prefixes for name in _names_in(prefix / "lib")]
    return list(dict.fromkeys(p.resolve() for p in found if re.fullmatch(r"libintelocl\.so[.\d]*", p.name)))


def _names_in(folder: Path) -> list[str]:
    """Return the names of what may be the runtime's library in *folder*, in order; most folders have none."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith("libintelocl.so"))
    except OSError as error:
        pass_on(error)
        return []


def make_visible(folder: Path) -> None:
    """Where the wheels ``intel-opencl-rt`` and ``intel-cmplr-lib-rt`` are installed, name them to OpenCL's loader.

    A folder below *folder* gets an ``.icd`` file with the library's full path, beside copies of those that the loader
    would have read, and ``OCL_ICD_VENDORS`` names it. PoCL of the wheels is found by pyopencl's loader in any case.
    """
    # What wheels call their data goes to the prefix; Debian's Python puts it one folder deeper (``posix_local``).
    libraries = runtime_libraries([Path(sys.prefix), Path(sys.prefix, "local")])
    if not libraries:
        return
    before = Path(os.environ.get("OCL_ICD_VENDORS", SYSTEM_VENDORS))
    if before.parent == folder:
        return
    try:
        made = write_vendors(folder, libraries[0], before)
    except OSError as error:
        pass_on(error)
        warn(f"Intel's OpenCL runtime stays hidden: {folder} cannot be written ({error})")
        return
    os.environ["OCL_ICD_VENDORS"] = str(made)
    _preload(libraries[0].parent)


def write_vendors(folder: Path, library: Path, before: Path) -> Path:
    """Return a folder in *folder* with the ``.icd`` files of *before* and one for *library*, filled where it is not.

    It is named by what is in it: other environments, and other machines with the same home, have others.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in before.glob("*.icd")} if before.is_dir() else {}
    texts = {name: text for name, text in texts.items() if "intelocl" not in text}
    texts["clgraph-intel.icd"] = f"{library}\n"
    made = folder / blake2(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    for name, text in sorted(texts.items()):
        keep(made / name, text.encode())
    return made


def _preload(folder: Path) -> None:
    """Load the compiler runtime that Intel's library needs, so that it is found outside the loader's search path."""
    for name in ("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so"):
        if (folder / name).is_file():
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
