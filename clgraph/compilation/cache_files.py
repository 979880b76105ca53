"""The model cache on disk: digests of model files by their state, and saved models, within a size limit.

Below the folder, ``stamps/<state of a file>`` names the state and the digest of the content that a file in that state
has; ``<size>-<digest>.clg`` is a saved model without its topology's layers, which records what it was kept for, the
``.used`` beside it has the time of its last use, and ``.image`` what runs it sooner. Of a model that the user saved
there are only the last two. A state is inode, size and times; it identifies the content only if the file had not been
changed just before, because times are coarse.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from clgraph.core.cache_folder import is_trusted, read, write
from clgraph.core.digests import blake2
from clgraph.core.frozen import frozen
from clgraph.handlers import pass_on, suppressed

SETTLED_SECONDS = 2.0
"""How long a file must have been left alone: longer than the clock of any file system ticks."""
MOST_STAMPS = 1000
_ENTRY, _USED, _IMAGE, _DIGITS = ".clg", ".used", ".image", 64
_ABANDONED_SECONDS = 3600.0
"""Age from which a file that was being written belongs to no running process."""


@frozen
class Stamp:
    """The state of a file; times in nanoseconds."""

    device: int
    inode: int
    nbytes: int
    modified: int
    changed: int

    @staticmethod
    def of(file: str | os.PathLike[str] | int) -> Stamp | None:
        """Return the state of the file at a path, or of an open one; ``None`` where there is no regular file."""
        try:
            found = os.stat(file)
        except (OSError, ValueError) as error:
            pass_on(error)
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the last change is old enough that any further change alters the time stamp."""
        return time.time() - max(self.modified, self.changed) * 1e-9 > SETTLED_SECONDS

    @property
    def name(self) -> str:
        """Return the name of the record for this state."""
        state = (self.device, self.inode, self.nbytes, self.modified, self.changed)
        return blake2(repr(state).encode()).hexdigest()


@frozen
class ModelCache:
    """Compiled models in *folder*, at most *limit* bytes of them: the ones used longest ago go first."""

    folder: Path
    limit: int

    def content(self, path: Path, stamp: Stamp) -> str | None:
        """Return the digest of the file at *path* in state *stamp*; ``None`` where nothing can be kept of it."""
        with suppressed(OSError, ValueError):
            state, known = read(self.folder / "stamps" / stamp.name).decode("ascii").split()
            if state == stamp.name and len(known) == _DIGITS:
                return known
        return self.learn(path, stamp) if self.has_size(stamp.nbytes) else None

    def has_size(self, nbytes: int) -> bool:
        """Whether the cache has an entry of a model of *nbytes*."""
        return next(self.folder.glob(f"{nbytes:x}-*{_ENTRY}"), None) is not None

    def learn(self, path: Path, stamp: Stamp) -> str | None:
        """Read the file at *path* and return its digest, kept for *stamp*; ``None`` if it is not in that state."""
        if not stamp.is_settled:
            return None
        import hashlib

        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            pass_on(error)
            return None
        if Stamp.of(path) != stamp:
            return None
        with suppressed(OSError):
            write(self.folder / "stamps" / stamp.name, f"{stamp.name} {digest}".encode("ascii"))
        return digest

    def entry(self, nbytes: int, content: str, key: str) -> Path:
        """Return the path of what is kept of a model's *content*, of *nbytes*, compiled as *key* says."""
        digest = blake2(kept_for(content, key).encode()).hexdigest()
        return self.folder / f"{nbytes:x}-{digest}{_ENTRY}"

    def has(self, entry: Path) -> bool:
        """Whether *entry* is there, and the user's own."""
        return is_trusted(entry)

    def note_use(self, entry: Path) -> None:
        """Note that *entry* was used now: not in its own times, which whoever has it mapped looks at."""
        with suppressed(OSError):
            try:
                os.utime(_used(entry), follow_symlinks=False)
            except FileNotFoundError:
                write(_used(entry), b"")

    def drop(self, entry: Path) -> None:
        """Remove *entry*; raises ``OSError`` where that is not allowed."""
        entry.unlink(missing_ok=True)
        for path in _beside(entry):
            path.unlink(missing_ok=True)

    def image(self, entry: Path) -> Path:
        """Return the path of what runs *entry* sooner (:mod:`clgraph.compilation.images`)."""
        return entry.with_suffix(_IMAGE)

    def trim(self) -> None:
        """Remove what is beyond the limits, and what was left half written."""
        found = _files(self.folder)
        used: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for stem in {name.removesuffix(s) for name in found for s in (_ENTRY, _IMAGE) if name.endswith(s)}:
            of = [found.pop(stem + suffix, None) for suffix in (_USED, _ENTRY, _IMAGE)]
            sizes[stem] = sum(nbytes for nbytes, _ in filter(None, of))
            used[stem] = next(modified for _, modified in filter(None, of))
        for name, (_, modified) in found.items():
            if time.time() - modified * 1e-9 > _ABANDONED_SECONDS:
                (self.folder / name).unlink(missing_ok=True)
        excess = sum(sizes.values()) - self.limit
        for stem in sorted(used, key=lambda s: used[s]):
            if excess <= 0:
                break
            self.drop(self.folder / (stem + _ENTRY))
            excess -= sizes[stem]
        stamps = _files(self.folder / "stamps")
        for name in sorted(stamps, key=lambda n: stamps[n][1])[:-MOST_STAMPS]:
            (self.folder / "stamps" / name).unlink(missing_ok=True)


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change, in nanoseconds, of each file in *folder*, by name.

    A folder has thousands of entries, and each that is written has it looked through: no object is made for a file.
    """
    found: dict[str, tuple[int, int]] = {}
    with suppressed(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppressed(FileNotFoundError):  # by another process, meanwhile
                if entry.is_file(follow_symlinks=False):
                    state = entry.stat(follow_symlinks=False)
                    found[entry.name] = (state.st_size, state.st_mtime_ns)
    return found


def kept_for(content: str, key: str) -> str:
    """Return the identity of an entry: the digest *content* of the model, and the *key* of its compilation."""
    return f"{content} {key}"


def _used(entry: Path) -> Path:
    return entry.with_suffix(_USED)


def _beside(entry: Path) -> tuple[Path, Path]:
    """Return what lies beside *entry*, and goes with it."""
    return _used(entry), entry.with_suffix(_IMAGE)
