"""A model ready to run: its topology, the device, and one program for each set of input shapes met."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clgraph.core.log import Log
from clgraph.engines.option_checks import idle_notes
from clgraph.errors import UnknownValueError
from clgraph.model.running import Running

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.graph.program import Program
    from clgraph.graph.signature import Dimension, Signature
    from clgraph.graph.topology import Topology
    from clgraph.model.explanation import Explanation
    from clgraph.model.keys import Key
    from clgraph.model.ranges import Ranges
    from clgraph.model.specialisation import PassRecord, Specialisation, SpecialisationListener, Specialise, Values
    from clgraph.model.specialisations import Specialisations
    from clgraph.selector.query import DeviceInfo


_log = Log(__name__)

MakeStaged = Callable[["Topology"], "Model | None"]
"""Returns the model of a topology that needs stages; ``None`` for another topology."""


class Model(Running):
    """What ``clgraph.compile`` returns. Calls from several threads are served one after the other; clones run at once.

    A model is a context manager that closes it.

    Attributes:
        topology: What was compiled.
        device: What it runs on.
    """

    def __init__(
        self,
        topology: Topology,
        device: DeviceInfo,
        specialise: Specialise,
        family: Specialisations | None = None,
        beside: Specialisations | None = None,
        staged: MakeStaged | None = None,
    ) -> None:
        """Take a topology and the function that compiles it; *family* and *beside* as :class:`Specialisations`.

        Args:
            staged: Makes the model of the same layers with constants as inputs, where that has to run in stages.
        """
        from clgraph.model.specialisations import Specialisations

        super().__init__(topology, device, Specialisations(topology, specialise, family=family, beside=beside))
        self._make_staged = staged

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output: as compiled where inputs fix it, else as declared."""
        from clgraph.graph.batch_slices import whole_shape
        from clgraph.graph.signature import Signature

        overridden = self.topology.overridable and self.about.ir_version > 3  # before, every initialiser was an input
        if self.is_static and not self._specialisations.deciding and not overridden:
            program = self._current().program
            return tuple(Signature(name, v.layout.dtype, whole_shape(program, v)) for name, v in program.outputs)
        unknown = (Signature(name, None, None) for name, _ in self.topology.outputs)
        return tuple(self.topology.declared.get(s.name, s) for s in unknown)

    @property
    def is_compiled(self) -> bool:
        """Whether any program has been compiled."""
        return self._specialisations.latest is not None

    @property
    def program(self) -> Program:
        """The compiled program: of the shapes used last; for a model of fixed shapes, the one there is.

        Raises:
            InputError: The shapes are open and nothing has been run or prepared yet.
        """
        return self._current().program

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """What the passes did to :attr:`program`. Raises as that does."""
        return self._current().passes

    @property
    def compiled(self) -> Mapping[Key, Specialisation]:
        """The specialisations by key; the one used last stands last."""
        return self._specialisations.kept

    def is_compiled_for(self, feeds: Mapping[str, Array]) -> bool:
        """Whether there is a program for the shapes of *feeds*, in the order of the inputs, that was not dropped."""
        return self._specialisations.find(tuple(a.shape for a in feeds.values()), feeds) is not None

    def when_compiled(self, tell: SpecialisationListener) -> None:
        """Call *tell* with all specialisations: now if there are any, and whenever one is added.

        The model lets it finish when it is closed.
        """
        with self._lock:
            self._specialisations.tell = tell
            if made := self._specialisations.kept:
                tell(made)

    @property
    def notes(self) -> tuple[str, ...]:
        """Options and annotations that did nothing; where each program that was saved or cached came from, and why."""
        kept = self._specialisations.kept.values()
        return (*self.unused, *(s.notes["load"] for s in kept if "load" in s.notes))

    @property
    def unused(self) -> tuple[str, ...]:
        """Of :attr:`notes`, those about options and annotations that did nothing to what is compiled."""
        return idle_notes(self._specialisations.kept.values())

    @property
    def specialisations(self) -> tuple[str, ...]:
        """One line for each program there is, the one used last at the end: what it holds for, how it came about."""
        return self._specialisations.report

    def reshape(self, shapes: Mapping[str, Sequence[Dimension]]) -> Model:
        """Return a model of the same weights with other input shapes; this one stays as it is.

        Sizes also replace those that the model declares: whether that fits the operators inside shows when it is
        compiled, which is now if every size is fixed. Where a batch of 1 becomes another one, so do the sizes that an
        exporter has worked out for it and given to Reshape and Resize.

        Args:
            shapes: By name; a dimension is a size, or a name or ``None`` where it stays open. Other inputs stay.

        Raises:
            InputError: *shapes* names no input, has another number of axes than the input, or a negative size.
            ShapeError, UnsupportedError: An operator does not fit the shapes; the message names it.
            ClosedError: The model was closed.
        """
        self._check_open()
        from clgraph.graph.open_batch import with_batches

        twin = self._of(with_batches(self.topology, shapes))
        twin.prepare_fixed()
        return twin

    def beside(self, topology: Topology) -> Model:
        """Return a model of another *topology* that shares this one's constants: a device holds one copy of each.

        Compiles it now if every input's shape is fixed. Raises as :meth:`reshape`.
        """
        self._check_open()
        other = self._of(topology)
        other.prepare_fixed()
        return other

    def prepare_fixed(self) -> None:
        """Compile now if every input's shape is fixed, and no value decides sizes; raises as :meth:`prepare`."""
        if self.is_static:
            try:
                self._prepare_what_is_known()
            except UnknownValueError as error:
                _log.info("compiled at the first run: %s", error)

    def _prepare_what_is_known(self) -> None:
        self.prepare()

    def _of(self, topology: Topology) -> Model:
        """Return a model of another topology with the same constants."""
        if self._make_staged is not None and (staged := self._make_staged(topology)) is not None:
            return staged
        specialise, make = self._specialisations.specialise, self._make_staged
        return Model(topology, self.device, specialise, beside=self._specialisations, staged=make)

    def save(self, path: str | os.PathLike[str], *, weights: bool = True) -> None:
        """Write the model and what is compiled of it to one file, for :func:`clgraph.load`.

        The file holds the topology with its weights, so that another device or shape can be compiled, and the programs
        there are with what their kernels read, equal data once: where sizes are open, families of shapes, and of their
        members those used last. A file that is there is replaced, at once or not at all.

        Args:
            weights: ``False`` leaves out the constants, but strings, and what is compiled: ``clgraph.load(path,
                weights_from="model.onnx")`` takes them from the ONNX file, and compiles with the options of now.

        Raises:
            ModelError: The file cannot be written.
            UnsupportedError: An operator of a plugin has attributes that cannot be written.
        """
        from clgraph.model.save import save_model

        save_model(self.topology, self._specialisations.kept, path, weights=weights)

    def prepare(self, shapes: Ranges | None = None, values: Values | None = None) -> Program:
        """Compile for *shapes* now, so that the first run with them does not have to; return the program.

        Args:
            shapes: By name. A dimension is a size, or the smallest and largest of a range: ``{"x": ((1, 8), 3, 48, (64,
                640))}`` compiles the families of all shapes in it, and binds those at its ends, so that what is wrong
                with a size shows now. The program is that of the largest sizes then. Ranges of sizes that have one name
                in the model, or none but the same place in several inputs, go together.
            values: What inputs that decide sizes inside the model will hold, such as the shape that a Reshape reads;
                their shapes need not be given.

        Raises:
            InputError: *shapes* or *values* names no input, does not fit, or leaves a size open; or a range is none.
            UnknownValueError: A value decides sizes and is not given.
            ClgraphError: The model cannot be compiled for them; the model stays usable for others.
        """
        from clgraph.model.ranges import asked

        self._check_open()
        known, wanted = asked(self.topology, shapes, values)
        for bound in wanted:
            found = self._specialisations.get(tuple(bound.values()), known)
        return found.program

    def clone(self) -> Model:
        """Return a model with memory and a queue of its own that runs at the same time as this one.

        Compiled programs and weights are shared. A program that this model has for some shapes is not compiled again.

        Raises:
            ClosedError: The model was closed.
            DeviceMemoryError: The device has no memory left.
        """
        self._check_open()
        specialise, make = self._specialisations.specialise, self._make_staged
        return Model(self.topology, self.device, specialise, self._specialisations, staged=make)

    def explain(self) -> Explanation:
        """Return what was decided about every node of :attr:`program` and why; raises as that does.

        Where there are several programs, a note lists all :attr:`specialisations`.
        """
        from clgraph.model.explain import explain, reading_notes

        found, made = explain(self.program), self.specialisations
        more = {"specialisations": "\n".join(made)} if len(made) > 1 else {}
        return replace(found, notes={**found.notes, **reading_notes(self.topology), **more, **self._state_note})

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<Model ({inputs}) -> ({', '.join(name for name, _ in self.topology.outputs)}) on {self.device.name}>"

    def _repr_html_(self) -> str:
        from clgraph.core.notebook import html_table

        values = [("input", s) for s in self.inputs] + [("output", s) for s in self.outputs]
        return html_table(f"Model on {self.device.name}", ("", "name, type and shape"), values)

    def _current(self) -> Specialisation:
        if self._specialisations.latest is None and self._latest_over_caches is None:
            self.prepare()
        found = self._specialisations.latest or self._latest_over_caches
        assert found is not None
        return found
