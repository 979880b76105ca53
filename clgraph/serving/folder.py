"""The folder of models: what lies in it, by name and version. Nothing outside of it is looked at.

A model ``name`` is one of these, each an ONNX file or what :meth:`clgraph.Model.save` has written (``.clg``)::

    name/2/model.onnx    versions, by number; options in name/model.toml
    name/model.onnx      version 1; options in name/model.toml
    name.onnx            version 1; options in name.toml
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clgraph.core.frozen import frozen
from clgraph.errors import OptionError

SUFFIXES = (".onnx", ".clg")
"""Of models; the first that is there counts."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")

Stamp = tuple[tuple[str, int, int, int], ...]


@frozen
class Found:
    """A version of a model in the folder.

    Attributes:
        path: Of the model, without links.
        options: Of the file of options; ``None`` where there is none.
        stamp: Names, sizes, times and numbers of its files, which change with them.
        fault: Why it cannot be served as it lies there; empty where nothing is known to be wrong.
    """

    name: str
    version: int
    path: Path
    options: Path | None
    stamp: Stamp
    fault: str = ""


class Folder:
    """A folder of models."""

    def __init__(self, root: Path, *, follow_links: bool = False) -> None:
        """Take the folder.

        Args:
            follow_links: Let links lead out of it.

        Raises:
            OptionError: There is no such folder.
        """
        if not root.is_dir():
            what = f"{root} is a file, not a folder of models" if root.exists() else f"there is no folder {root}"
            raise OptionError(f"{what} to serve models from")
        self.root, self.follow_links = root.resolve(), follow_links

    def scan(self) -> dict[str, dict[int, Found]]:
        """Return the versions of each model there is, by name and number."""
        found: dict[str, dict[int, Found]] = {}
        for entry in self._entries(self.root):
            for each in self._models(entry):
                versions = found.setdefault(each.name, {})
                other = versions.get(each.version)
                versions[each.version] = each if other is None else _twice(each, other)
        return found

    def _models(self, entry: Path) -> Iterator[Found]:
        if entry.suffix in SUFFIXES and not entry.is_dir():
            name = entry.stem
            beside = [p for p in self._entries(self.root) if p.name.startswith(f"{name}.")]
            yield self._found(name, 1, entry, entry.with_suffix(".toml"), beside)
        elif entry.is_dir() and (fault := self._leaving(entry)):
            yield Found(entry.name, 1, entry, None, _stamp([entry]), fault)
        elif entry.is_dir():
            inside, options = self._entries(entry), entry / "model.toml"
            if (model := _model_in(entry)) is not None:
                yield self._found(entry.name, 1, model, options, inside)
            for folder in inside:
                if folder.is_dir() and _VERSION.fullmatch(folder.name):
                    model = _model_in(folder) or folder / f"model{SUFFIXES[0]}"
                    files = [options, *([] if self._leaving(folder) else self._entries(folder))]
                    yield self._found(entry.name, int(folder.name), model, options, files)

    def _found(self, name: str, version: int, path: Path, options: Path, files: list[Path]) -> Found:
        given = options if options.exists() or options.is_symlink() else None
        fault = "" if _NAME.fullmatch(name) else f"the name {name!r} has other than letters, digits and . _ -"
        fault = fault or self._leaving(path) or (self._leaving(given) if given is not None else "")
        if not fault and not path.is_file():
            fault = f"there is no file {path.relative_to(self.root)}"
        return Found(name, version, path if fault else path.resolve(), given, _stamp(files), fault)

    def _leaving(self, path: Path) -> str:
        """Say why *path* is refused, where it is a link out of the folder, or to nothing; else nothing."""
        try:
            inside = self.follow_links or path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):  # a circle of links, before Python 3.13
            inside = True
        if not inside:
            return f"{path.relative_to(self.root)} is a link that leads out of the folder of models"
        nowhere = path.is_symlink() and not path.exists()
        return f"{path.relative_to(self.root)} is a link that leads nowhere" if nowhere else ""

    @staticmethod
    def _entries(folder: Path) -> list[Path]:
        """Return what lies in *folder* in order, but for hidden files; nothing where it is gone."""
        try:
            return sorted(p for p in folder.iterdir() if not p.name.startswith("."))
        except OSError:
            return []


def _model_in(folder: Path) -> Path | None:
    paths = (folder / f"model{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.exists() or path.is_symlink()), None)


def _twice(one: Found, other: Found) -> Found:
    fault = f"two files are version {one.version}: {other.path.name} and {one.path.name} in {one.path.parent.name}"
    return Found(one.name, one.version, one.path, one.options, one.stamp + other.stamp, fault)


def _stamp(files: list[Path]) -> Stamp:
    found = []
    for path in files:
        try:
            about = path.stat()
        except OSError:
            continue
        found.append((path.name, about.st_size, about.st_mtime_ns, about.st_ino))
    return tuple(found)


def newest_first(versions: Mapping[int, Found]) -> list[Found]:
    """Return the versions of a model, the highest number first."""
    return [versions[number] for number in sorted(versions, reverse=True)]
