"""Puts this package in the place of ``onnxruntime``: for imports, and for questions about its version."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from clgraph.core import progress
from clgraph.onnxruntime.children import reach, spec_of
from clgraph.onnxruntime.names import NAME, OWN, __version__, is_installed

_MODULES = (
    "",
    ".capi",
    ".capi._pybind_state",
    ".capi.build_and_package_info",
    ".capi.onnxruntime_inference_collection",
    ".capi.onnxruntime_pybind11_state",
    ".capi.onnxruntime_validation",
)
"""The modules of this package that have ONNX Runtime's names."""

_PACKAGES = {NAME: "", f"{NAME}.capi": "capi"}
"""The packages among them, with the folders that they have in ONNX Runtime's."""

_replaced: dict[str, ModuleType] = {}


class _Metadata(Distribution):
    """The distribution that answers for ``onnxruntime``."""

    def read_text(self, filename: str) -> str | None:
        if filename in ("METADATA", "PKG-INFO"):
            return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {__version__}\nSummary: clgraph under this name\n"
        return "onnxruntime\n" if filename == "top_level.txt" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class _Finder(DistributionFinder):
    """Finds :class:`_Metadata`, in front of what else is installed, and what starts processes."""

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        name = getattr(context, "name", None)
        if name is None or name.replace("-", "_").lower() == NAME:
            yield _Metadata()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_of(fullname, path)


_finder = _Finder()


def install() -> None:
    """Let ``import onnxruntime`` find clgraph from now on, in this process and those that ``multiprocessing`` starts.

    It goes before an ONNX Runtime that is installed, whose tools for files (``onnxruntime.quantization``) can still be
    imported. What has been imported of it before stays what it is: call this first. What passes do is not logged as
    info then: a program that shows information of its own has not asked for it.
    """
    if is_installed():
        return
    found = importlib.util.find_spec(NAME)
    _replaced.update((n, m) for n, m in sys.modules.items() if n == NAME or n.startswith(f"{NAME}."))
    for name in _replaced:
        del sys.modules[name]
    for suffix in _MODULES:
        sys.modules[NAME + suffix] = importlib.import_module(OWN + suffix)
    folders = [] if found is None else [*(found.submodule_search_locations or ())]
    for name, beside in _PACKAGES.items():
        own = sys.modules[name].__path__
        own.extend(folder for folder in (str(Path(folder, beside)) for folder in folders) if folder not in own)
    sys.meta_path.insert(0, _finder)
    progress.LOG.logger.setLevel(logging.WARNING)
    reach()


def uninstall() -> None:
    """Undo :func:`install`."""
    if not is_installed():
        return
    sys.meta_path.remove(_finder)
    progress.LOG.logger.setLevel(logging.NOTSET)
    for name in _PACKAGES:
        del sys.modules[name].__path__[1:]
    for name in [n for n in sys.modules if n == NAME or n.startswith(f"{NAME}.")]:
        del sys.modules[name]
    sys.modules.update(_replaced)
    _replaced.clear()
