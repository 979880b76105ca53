"""The families of one topology, made when a member is first asked for."""

from __future__ import annotations

import textwrap
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial

from clgraph.core.collector import PAUSED
from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Shape
from clgraph.core.log import Log
from clgraph.errors import BindingError, ClgraphError, DeviceError, UnknownValueError
from clgraph.families.again import Again
from clgraph.families.binding import DERIVED
from clgraph.families.family import Compile, Family
from clgraph.families.notes import BOUND, NOTE
from clgraph.families.schema import Schema, schemas
from clgraph.families.small_pictures import AS_LARGE
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.passes.base import Context

LONGEST_REASON = 240
"""Letters of a reason in a note; the log has all of them."""

MOST_FAMILIES, MOST_REFUSALS = 16, 1024
"""How many families of a topology are kept, each with a program, and how many schemas that have none; those used last.
Where pictures' sides cannot be free, each pair of them is a schema."""

Found = Family | str | Callable[[], Family]
"""A family of a schema, why there is none, or what reads one out of a file."""

_log = Log(__name__)


@frozen
class Member:
    """The planned program of a topology for some shapes, the family that it is bound to, and what binds it again."""

    program: Program
    family: Family
    again: Again


@mutable
class Families:
    """Finds the family of shapes, makes it where there is none yet, and binds members; safe between threads.

    Does not refer to the topology, nor to what compiles it: whoever asks brings both.

    Attributes:
        made: How many schemas have been tried in this process.
    """

    context: Context
    _families: OrderedDict[Schema, Family | Callable[[], Family]] = field(default_factory=OrderedDict)
    _refusals: OrderedDict[Schema, str] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    made: int = 0

    def bind(self, topology: Topology, shapes: Sequence[Shape], known: Mapping[str, Array], run: Compile) -> Member:
        """Return what *topology* is for inputs of *shapes*.

        Args:
            topology: The same in every call.
            known: What inputs hold whose values decide sizes.
            run: Compiles a built program.

        Raises:
            BindingError: There is no family for them, or it cannot tell; the text says why.
            UnknownValueError: A size depends on the value of an input that is not *known*.
        """
        begin = time.perf_counter()
        with self._lock:
            family = self.find(topology, shapes, known, run)
            begin = max(begin, family.made)
            with PAUSED:
                program = family.bind(shapes, known)
            bind = partial(family.bind, shapes, known)
            if (slices := family.slices(program)) > 1 and (part := _slice_shapes(program, slices)) is not None:
                bind = partial(_sliced, self.find(topology, part, known, run), part, known, slices)
                program = bind()
        parts = [f"{BOUND}{(time.perf_counter() - begin) * 1e3:.1f} ms to the family {family}"]
        program.notes[NOTE] = "; ".join([*parts, *filter(None, [program.notes.pop(DERIVED, "")])])
        return Member(program, family, Again(program.notes, partial(self._again, bind)))

    def _again(self, bind: Callable[[], Program]) -> Program:
        """Return the program of a member once more."""
        with self._lock:
            return bind()

    def find(self, topology: Topology, shapes: Sequence[Shape], known: Mapping[str, Array], run: Compile) -> Family:
        """Return the family of *shapes*, made where there is none yet; raises as :meth:`bind`."""
        reasons = []
        for schema in schemas(list(topology.inputs.values()), shapes, known):
            if schema not in self._families and schema not in self._refusals:
                try:
                    self._make(topology, schema, run)
                except UnknownValueError:
                    # A candidate's inputs may be too large for values: which are to be known, these shapes tell.
                    topology.build(dict(zip(topology.inputs, shapes, strict=True)), known)
                    raise
            if schema in self._families:
                self._families.move_to_end(schema)
                return self._read(schema)
            self._refusals.move_to_end(schema)
            reasons.append((str(schema), self._refusals[schema]))
        reasons = [(what, why) for what, why in reasons if why != AS_LARGE]
        for reason in reasons[1:]:
            _log.info("nor %s: %s", *reason)
        if not reasons:
            raise BindingError("no size is free")
        # Of a hundred inputs the reason is still to be read.
        inputs, why = (textwrap.shorten(text, LONGEST_REASON // 2, placeholder=" ...") for text in reasons[0])
        raise BindingError(f"{inputs}: {why}")

    def covers(self, signatures: Iterable[Signature], shapes: Sequence[Shape], known: Mapping[str, Array]) -> bool:
        """Whether there is a family of *shapes*, or nothing left to try: binding them asks nothing of the topology."""
        with self._lock:
            for schema in schemas(list(signatures), shapes, known):
                if schema not in self._refusals:
                    return schema in self._families
        return True

    def add(self, known: Mapping[Schema, Found]) -> None:
        """Take over what another process has found out, that used last at the end."""
        with self._lock:
            for schema, found in known.items():
                if isinstance(found, str):
                    self._refusals[schema] = found
                else:
                    self._families[schema] = found

    def forget(self) -> None:
        """Take nothing for known."""
        with self._lock:
            self._families.clear()
            self._refusals.clear()

    def all(self) -> dict[Schema, Family | str]:
        """Return all that is known, read in place in a file; raises ``ModelError`` where that is damaged."""
        with self._lock:
            return {**self._refusals, **{schema: self._read(schema) for schema in self._families}}

    def _read(self, schema: Schema) -> Family:
        found = self._families[schema]
        if not isinstance(found, Family):
            found = self._families[schema] = found()
        return found

    def _make(self, topology: Topology, schema: Schema, run: Compile) -> None:
        # Imported where one is made: a process that has them out of a file needs none of it.
        from clgraph.families.making import make_family

        try:
            self._families[schema] = make_family(topology, schema, self.context, run)
        except (UnknownValueError, DeviceError):
            # A device that fails once is no reason to do without a family from then on.
            raise
        except ClgraphError as error:
            # Whatever is wrong with the member, too, is said when it is compiled whole.
            _log.info("no family of %s: %s", schema, error)
            self._refusals[schema] = str(error)
        self.made += 1
        while len(self._families) > MOST_FAMILIES:
            self._families.popitem(last=False)
        while len(self._refusals) > MOST_REFUSALS:
            self._refusals.popitem(last=False)


def _slice_shapes(program: Program, slices: int) -> list[Shape] | None:
    """Return the shapes of the inputs of one of so many slices of the batch of *program*.

    ``None`` where an input that is not cut has as many entries as a slice: it would be taken for a part.
    """
    entries = program.inputs[0].layout.shape[0]
    if any(v.layout.shape[:1] == (entries // slices,) for v in program.inputs):
        return None
    return [
        (entries // slices, *v.layout.shape[1:]) if v.layout.shape[:1] == (entries,) else v.layout.shape
        for v in program.inputs
    ]


def _sliced(family: Family, shapes: Sequence[Shape], known: Mapping[str, Array], slices: int) -> Program:
    """Return the program of one of so many slices of a batch, with inputs of *shapes*, which a run computes in turn."""
    part = family.bind(shapes, known)
    part.batch_slices = slices
    part.notes["split_batch"] = f"computed in {slices} slices of {shapes[0][0]}, one after another"
    return part
