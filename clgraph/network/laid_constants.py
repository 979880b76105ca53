"""Where the constants of a program lie on its device: in the same places for programs that read the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from weakref import ReferenceType, ref

from clgraph.core.frozen import mutable
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.network.addresses import LEAST_BYTES, left_at, suits_all
from clgraph.network.borrowing import suits_readers
from clgraph.network.constants import Constants
from clgraph.network.near_constants import NearConstants
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.executor_kernel import BANKS

MOST_KNOWN = 4
"""Of how many programs a placement knows where their constants lie. Members of a family alternate between a few ways
to pack weights: of PP-OCRv4's recognition half have others than the member before."""

MOST_OTHERS = 8
"""How many other constants, such as those that sizes decide, a program may have and share the places of the rest."""


@mutable(weak=True)
class LaidConstants:
    """The banks of a program's constants, and the place of each.

    Attributes:
        arrays: The constants, which are kept: some are read where they lie.
        front: How many banks there are in front of these.
        banks: Left constants lie in one bank, large ones on devices that copy have their own, others share some.
        copies: Those of the banks that were copied for programs.
        places: Bank and byte offset of each array.
        by_readers: Numbers of those arrays whose readers decide whether they are left where they are, and whether.
    """

    arrays: list[Array]
    front: int
    banks: list[Memory] = field(default_factory=list)
    copies: list[Memory] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    by_readers: dict[int, bool] = field(default_factory=dict)

    @staticmethod
    def of(
        values: Sequence[Value], placement: str, engine: Engine, shared: Constants, front: int, size: int
    ) -> LaidConstants:
        """Return where the constants *values* lie from now on.

        Args:
            shared: Knows what programs have copied.
            front: How many banks there are already.
            size: Bytes of a bank.

        Raises:
            DeviceMemoryError: The device cannot hold them.
        """
        made = LaidConstants([v.constant for v in values if v.constant is not None], front)
        made._lay(values, placement, engine, shared, size)
        return made

    def places_of(self, values: Sequence[Value], front: int) -> dict[Value, tuple[int, int]]:
        """Return the places of those of the constants *values*, behind *front* banks, that stand here as they do there.

        None where too many others are, or banks are scarce: all together have fewer.
        """
        if front != self.front or len(values) != len(self.arrays):
            return {}
        rows = zip(values, self.arrays, self.places, strict=True)
        found = {value: place for value, array, place in rows if value.constant is array}
        for number, left in self.by_readers.items():
            if suits_readers(values[number]) != left:
                found.pop(values[number], None)
        others = len(values) - len(found)
        scarce = others and self.front + len(self.banks) > BANKS // 2
        return {} if scarce or others > MOST_OTHERS else found

    def _lay(self, values: Sequence[Value], placement: str, engine: Engine, shared: Constants, size: int) -> None:
        found: dict[int, tuple[int, int]] = {}
        if "host_memory" in engine.info.features:
            self._leave(values, engine, shared.near, found)
        elif engine.info.kind != "cpu":
            for number, value in enumerate(values):
                if value.layout.nbytes >= LEAST_BYTES:
                    memory, start = shared.copy(placement, engine, value)
                    found[number] = self._add(memory), start
                    self.copies.append(memory)
        # Kernels of their own take any banks as arguments.
        most = BANKS - self.front - len(self.banks) if engine.info.kind == "cpu" else None
        rest = {value: number for number, value in enumerate(values) if number not in found}
        numbers: dict[Memory, int] = {}
        for value, (memory, start) in shared.pack(placement, engine, list(rest), size, most).items():
            if memory not in numbers:
                numbers[memory] = self._add(memory)
                self.copies.append(memory)
            found[rest[value]] = numbers[memory], start
        self.places = [found[number] for number in range(len(values))]

    def _leave(
        self, values: Sequence[Value], engine: Engine, near: NearConstants, found: dict[int, tuple[int, int]]
    ) -> None:
        """Let kernels read constants at their addresses: in one bank that starts at the first of them.

        On a device that works on the host's memory, what lies behind a buffer has addresses as well. Weights that are
        read in vectors, from end to end, are brought near; tables that rows are picked from stay in their file.
        """
        left: dict[int, tuple[int, Array]] = {}
        walked: list[Array] = []
        for number, (value, array) in enumerate(zip(values, self.arrays, strict=True)):
            address = left_at(array)
            if address is None:
                continue
            any_address = suits_readers(value)
            if not suits_all(array, address):
                self.by_readers[number] = any_address
            elif not any_address:
                walked.append(array)
            if self.by_readers.get(number, True):
                left[number] = address, array
        near.ask(walked)
        if left:
            begin, first = min(left.values(), key=lambda place: place[0])
            bank = self._add(engine.lend(first))
            found |= {number: (bank, address - begin) for number, (address, _) in left.items()}

    def _add(self, memory: Memory) -> int:
        self.banks.append(memory)
        return self.front + len(self.banks) - 1


class KnownPlaces:
    """Where constants of programs lie on one placement, as long as one of those programs is there."""

    def __init__(self) -> None:
        self._known: list[ReferenceType[LaidConstants]] = []

    @property
    def latest(self) -> LaidConstants | None:
        """Those laid out or found last."""
        return next((laid for known in self._known if (laid := known()) is not None), None)

    def find(self, values: Sequence[Value], front: int) -> tuple[LaidConstants, dict[Value, tuple[int, int]]] | None:
        """Return what has places for most of the constants *values*, behind *front* banks, and those places."""
        for known in self._known:
            laid = known()
            if laid is not None and (found := laid.places_of(values, front)):
                self.add(laid)
                return laid, found
        return None

    def add(self, laid: LaidConstants) -> None:
        """Look at *laid* first from now on."""
        others = [known for known in self._known if known() not in (None, laid)]
        self._known = [ref(laid), *others[: MOST_KNOWN - 1]]
