"""One registry class for every kind of extension, filled by decorators, rolled back where what fills it fails."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from clgraph.core.unfinished import settle, undone_unless_imported
from clgraph.errors import RegistrationError

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E")


class Registry(Generic[K, V]):
    """A table from key to entry that refuses to overwrite and can be rolled back.

    The modules that register clgraph's own entries may be imported on use: see :meth:`found_by`.
    """

    _all: ClassVar[list[Registry[Any, Any]]] = []
    _importing: ClassVar[threading.RLock] = threading.RLock()

    def __init__(
        self,
        what: str,
        group: Callable[[K, V | None], str] = lambda key, entry: str(key),
        part: Callable[[V, str], bool] = lambda entry, name: True,
        package: str = "",
    ) -> None:
        """Make an empty table.

        Args:
            what: Names its entries in messages.
            package: The package that says, when it is imported, what the table is :meth:`found_by`: on use, too.
            group: Says what a key and its entry belong to; of a key without one, what it should belong to.
            part: Says whether an entry is in a part of its group: an implementation is for a kind of device, say.
        """
        self.what = what
        self._group = group
        self._part = part
        self._package = package
        self._entries: dict[K, V] = {}
        self._members: dict[str, dict[K, V]] = {}
        self._parts: dict[tuple[str, str | None], tuple[int, tuple[V, ...]]] = {}
        self._modules: Callable[[str | None, str | None], Iterable[str]] | None = None
        self._found: set[tuple[str | None, str | None]] = set()
        self._third_party: tuple[int, frozenset[str]] = 0, frozenset()
        Registry._all.append(self)

    def found_by(self, modules: Callable[[str | None, str | None], Iterable[str]]) -> None:
        """Let the table be filled on use: *modules* names those that register the entries of a part of a group.

        Either may be ``None`` for all. They are imported before the first question about them.
        """
        self._modules = modules

    def register(self, key: K, entry: V) -> V:
        """Record *entry* under *key* and return it.

        Raises:
            RegistrationError: *key* is taken; the message names both claimants.
        """
        settle()
        if (old := self._entries.get(key)) is not None:
            raise RegistrationError(
                f"{self.what} {key!r} is already {_describe(old)}; {_describe(entry)} cannot replace it"
            )
        undone_unless_imported(partial(self._take_back, key, entry))
        self._entries[key] = entry
        self._members.setdefault(self._group(key, entry), {})[key] = entry
        return entry

    def registers(self, key: K) -> Callable[[E], E]:
        """Return a decorator that records what it decorates under *key*."""

        def record(entry: E) -> E:
            self.register(key, entry)  # type: ignore[arg-type]  # a class decorator keeps the class's own type
            return entry

        return record

    def __getitem__(self, key: K) -> V:
        return self._with(key)[key]

    def __contains__(self, key: K) -> bool:
        return key in self._with(key)

    def get(self, key: K) -> V | None:
        """Return the entry or ``None``."""
        return self._with(key).get(key)

    def at(self, key: K, part: str) -> V:
        """Return the entry of *key*, after importing as few modules as possible, the one named after the key first."""
        settle()
        if key not in self._entries and self._is_found:
            called = str(key).replace(".", "_")
            with Registry._importing:
                names = self._names(self._group(key, None), part)
                for name in sorted(names, key=lambda name: name.rpartition(".")[2] != called):
                    importlib.import_module(name)
                    if key in self._entries:
                        break
        return self[key]

    def __iter__(self) -> Iterator[K]:
        return iter(sorted(self._filled(None), key=str))

    def __len__(self) -> int:
        return len(self._filled(None))

    def values(self) -> list[V]:
        """Return the entries in order of their keys."""
        return [self._entries[key] for key in self]

    def of(self, group: str, part: str | None = None) -> tuple[V, ...]:
        """Return the entries of one group, in order of their keys; those of one part, or all."""
        settle()
        count, found = self._parts.get((group, part), (-1, ()))
        if count != len(self._members.get(group, ())):
            self._fill(group, part)
            members = self._members.get(group, {})
            items = sorted(members.items(), key=lambda item: str(item[0]))
            found = tuple(entry for _, entry in items if part is None or self._part(entry, part))
            self._parts[group, part] = len(items), found
        return found

    def keys_of(self, group: str) -> tuple[K, ...]:
        """Return the keys of one group, in order."""
        self._fill(group)
        return tuple(sorted(self._members.get(group, ()), key=str))

    def snapshot(self) -> dict[K, V]:
        """Return a copy of the table, for :meth:`restore`."""
        return dict(self._filled(None))

    def restore(self, entries: dict[K, V]) -> None:
        """Put the table back to a :meth:`snapshot`."""
        self._entries, self._members, self._parts, self._third_party = {}, {}, {}, (0, frozenset())
        for key, entry in entries.items():
            self.register(key, entry)

    def third_party(self) -> frozenset[str]:
        """Return the packages other than clgraph, or modules outside any, whose entries are in the table now.

        The empty name stands for entries that do not tell where they are from, such as texts.
        """
        settle()
        entries = tuple(self._entries.values())
        if self._third_party[0] != len(entries):
            modules: set[str] = {getattr(entry, "__module__", "") for entry in entries}
            packages = frozenset(module.partition(".")[0] for module in modules) - {__name__.partition(".")[0]}
            self._third_party = len(entries), packages
        return self._third_party[1]

    def _take_back(self, key: K, entry: V) -> None:
        """Remove *entry*, if it is in the table."""
        if self._entries.get(key) is entry:
            del self._entries[key]
            self._members.get(self._group(key, entry), {}).pop(key, None)
            self._parts, self._third_party = {}, (0, frozenset())

    @property
    def _is_found(self) -> bool:
        """Whether modules are imported to register entries when the table is asked for them."""
        return self._modules is not None or bool(self._package)

    def _names(self, group: str | None, part: str | None) -> Iterable[str]:
        if self._modules is None:
            importlib.import_module(self._package)
        assert self._modules is not None
        return self._modules(group, part)

    def _with(self, key: K) -> dict[K, V]:
        settle()
        return self._entries if key in self._entries else self._filled(self._group(key, None))

    def _filled(self, group: str | None, part: str | None = None) -> dict[K, V]:
        """Return the table with all entries of *part* of *group*."""
        self._fill(group, part)
        return self._entries

    def _fill(self, group: str | None, part: str | None = None) -> None:
        """Import what registers the entries of *part* of *group*; waits for a thread that is importing them."""
        settle()
        if self._is_found and self._found.isdisjoint({(group, part), (group, None), (None, None)}):
            with Registry._importing:
                for name in self._names(group, part):
                    importlib.import_module(name)
                self._found.add((group, part))


def third_party() -> frozenset[str]:
    """Return the packages whose entries are in any table: what is compiled may depend on them, a fault be theirs."""
    return frozenset[str]().union(*(registry.third_party() for registry in Registry._all))


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    """Put every table back to what it was if the block raises an exception, which goes on."""
    saved = [(registry, registry.snapshot()) for registry in Registry._all]
    try:
        yield
    except BaseException:
        for registry, entries in saved:
            registry.restore(entries)
        raise


def _describe(entry: object) -> str:
    return f"{getattr(entry, '__module__', '?')}.{getattr(entry, '__qualname__', entry)}"
