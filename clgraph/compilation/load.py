"""Behind ``clgraph.load``: a model out of the file that ``Model.save`` wrote."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.compilation.saved_programs import SavedProgram, SavedPrograms
from clgraph.core.layout import Shape
from clgraph.core.log import INFO, WARNING, Log
from clgraph.core.well_formed import well_formed
from clgraph.engines.opening import device_infos, load_extensions, open_engines, placement_of
from clgraph.engines.option_checks import ANNOTATIONS, note_idle, warn
from clgraph.errors import ClgraphError, MemoryLimitError, ModelError, UnknownValueError
from clgraph.graph.faults import faults
from clgraph.graph.primitive import primitive_of
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.keys import InputValue, Key
from clgraph.model.model import Model
from clgraph.model.specialisation import PassRecord, Shapes, Specialisation, Values, pass_records
from clgraph.network.workspace import Workspace
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.saved.circumstances import circumstances
from clgraph.saved.container import Contents
from clgraph.saved.kept_libraries import library_key, library_of
from clgraph.saved.topologies import decode_topology, stage_name
from clgraph.selector.library import Library
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.compiler import Compiler
    from clgraph.compilation.saved_families import SavedFamilies

_log = Log(__name__)

AS_SAVED = "as saved: no pass was run"
"""The note of programs that are run as they were saved."""


@faults("loading the model")
def saved_topology(path: str | os.PathLike[str], options: Settings) -> Topology:
    """Return the topology in a file of :meth:`clgraph.Model.save`; raises what :func:`clgraph.load` does."""
    load_extensions(options)
    return read_topology(Contents(Path(path)))


def read_topology(contents: Contents) -> Topology:
    """Return the topology in a file. Raises ``ModelError`` where there is none, or it has no weights."""
    if rows := contents.header.get("withheld"):
        with well_formed(contents.path):
            name = rows[0][1]
        raise ModelError(
            f"{contents.path} was saved without weights, such as {name!r}: say which ONNX file has them, as "
            "--weights-from model.onnx (in Python, clgraph.load(..., weights_from='model.onnx'))"
        )
    return decode_topology(contents.header.get("topology"), contents.array, primitive_of)


class Loader:
    """Finds programs in the file, binds members to families that it holds, and compiles what is not in it."""

    def __init__(
        self,
        contents: Contents,
        options: Settings,
        note: str = AS_SAVED,
        damaged: Callable[[ModelError], None] | None = None,
        compiler: Compiler | None = None,
        whole: Loader | None = None,
    ) -> None:
        """Open the device.

        Args:
            compiler: Compiles what is not in the file, for devices that it has opened.
            note: What programs out of the file get.
            whole: What loads the model that *contents* are a stage of.
            damaged: Told when a part of the file that is read late is damaged, and compiled anew. Without, it is an
                error.

        Raises:
            DeviceError: There is no such device.
            ModelError: The file is damaged.
        """
        self._contents, self._options, self._note, self._damaged = contents, options, note, damaged
        self._engines: dict[str, Engine | HostEngine]
        if whole is not None:
            self._engines = whole._engines
        else:
            self._engines = open_engines(options) if compiler is None else compiler.engines
        self.devices = device_infos(self._engines, options)
        self._here = circumstances(self.devices, options)
        self._given, self._whole = compiler, whole
        self._compile: Compiler | None = None
        self._warned: set[str] = set()
        self._saved = SavedPrograms(contents, self._here, self.devices, self._watched)
        self._shared: SavedFamilies | None = None
        if contents.header.get("families") is not None:
            # What is compiled for fixed shapes needs nothing of them.
            from clgraph.compilation.saved_families import SavedFamilies

            self._shared = SavedFamilies(contents, self._here, self._watched)

    def fits(self) -> bool:
        """Whether the program used last, or the families, can be used here as they are."""
        if self._shared is not None:
            return not self._shared.why
        rows = list(self._saved)
        return bool(rows) and not self._saved.refusal(rows[-1])

    def model(self, topology: Topology, *, prepared: bool = True) -> Model:
        """Return the model of the file's *topology*, by default *prepared* for what was asked for last."""
        if self._contents.header.get("staged"):
            return self._staged(topology)
        model = self.unprepared(topology)
        self._build_ahead()
        if prepared and (key := self._saved.latest(bindable=self._known is not None)) is not None:
            with well_formed(str(self._contents.path)):
                shapes = dict(zip(topology.inputs, key.shapes, strict=True))
            model.prepare(shapes, {name: value.array for name, value in key.values})
        else:
            model.prepare_fixed()
        return model

    def unprepared(self, topology: Topology) -> Model:
        """Return the model of *topology*, which the file's programs are for, with none of them yet."""
        if self._shared is not None:
            self._shared.serve(topology, self.devices, self._options)
        return Model(topology, next(iter(self.devices.values())), self.specialise, staged=self._staged_where_needed)

    def _staged_where_needed(self, topology: Topology) -> Model | None:
        from clgraph.model.stages.split import needs_stages

        return self._staged(topology) if needs_stages(topology) else None

    def _staged(self, topology: Topology) -> Model:
        """Return a model whose stages are compiled for what its runs bring."""
        from clgraph.model.stages.model import StagedModel
        from clgraph.model.stages.preferences import Preferences

        device, dry = next(iter(self.devices.values())), not self._engines
        given = {} if dry else placement_of(self._options)
        preferences = Preferences(given.get("placement", ()), given.get("fallback", ()), self._options.deterministic)
        model = StagedModel(
            topology,
            device,
            self.specialise,
            strict=self._options.strict,
            dry=dry,
            preferences=preferences,
            make=self._stage,
        )
        model.prepare_fixed()
        return model

    def _stage(self, topology: Topology) -> Model:
        """Return the model of a stage: out of the file, where that has anything of it."""
        with well_formed(str(self._contents.path)):
            found = dict(self._contents.header.get("stages", {})).get(stage_name(topology))
        if found is None:
            return Model(topology, next(iter(self.devices.values())), self.specialise)
        return Loader(self._contents.part(found), self._options, self._note, whole=self).unprepared(topology)

    def _build_ahead(self) -> None:
        """Let a thread build the libraries of programs that can be run here: a third of the time that loading takes."""
        if self._known is not None or self._saved.fitting:
            threading.Thread(target=self._build, name="clgraph-build").start()

    def _build(self) -> None:
        for engine in self._engines.values():
            if isinstance(engine, Engine):
                libraries = self._saved.libraries.items()
                found = [x for key, x in libraries if key == library_key(x.name, engine.info.simd)]
                # Whoever needs one builds it again, and is told.
                with contextlib.suppress(ClgraphError):
                    engine.programs.build_side_by_side({library.text: f"library {library.name}" for library in found})
                    for library in found:
                        engine.build(library.text, f"library {library.name}", library=True)

    def specialise(self, topology: Topology, shapes: Shapes, values: Values, workspace: Workspace) -> Specialisation:
        """Return the program for input *shapes*: out of the file, or compiled with a note that says why."""
        self._contents.check()
        bound = tuple(tuple(shape) for shape in shapes.values())
        key = Key(bound, tuple((name, InputValue.of(value)) for name, value in values.items()))
        if more := {n for row in self._saved if row.key.shapes == bound for n, _ in row.key.values} - values.keys():
            raise UnknownValueError("sizes inside the model depend on the values of inputs", sorted(more))
        in_full = "" if self._shared is None else self._shared.in_full
        try:
            why = self._difference(bound)
            for row in reversed([row for row in self._saved if row.key == key]):
                if not (row.bound and self._other(topology)):
                    why = self._saved.refusal(row)
                    if not why:
                        return self._warn(self._rebuild(row, workspace))
                    in_full = self._saved.all_differences(row)
            deciding = {name for asked in self._saved.asked_for for name, _ in asked.values}
            if self._shared is not None:
                member = self._shared.bind(topology, bound, values, deciding, self._compiler)
                if member is not None:
                    made = self._made(member.program, pass_records(member.family.passes), workspace, bound=True)
                    return self._warn(made.lightened(member.again))
        except MemoryLimitError as error:
            from clgraph.compilation.ways_out import with_ways_out

            raise with_ways_out(error, self._compiler(), topology, shapes, values) from error
        except ModelError as error:
            if self._damaged is None:
                raise
            self._damaged(error)
            self._saved.forget()
            if self._shared is not None:
                self._shared.forget()
            why = str(error)
        level = INFO if "no program" in why else WARNING
        _log.say(level, "%s is compiled anew: %s", self._contents.path, why)
        if in_full and in_full != why:
            _log.info("%s: %s", self._contents.path, in_full)
        made = self._compiler().specialise(topology, shapes, values, workspace)
        made.notes["load"] = f"compiled anew: {why}"
        return self._warn(made)

    def _difference(self, shapes: Sequence[Shape]) -> str:
        """Say why nothing in the file serves *shapes*, unless there is a program for them."""
        if self._shared is not None and self._shared.why:
            return self._shared.why
        if "withheld" in self._contents.header:
            return "the file was saved without weights, so that it holds no program"
        return f"the file holds no program for the shapes {', '.join(str(list(s)) for s in shapes)}"

    def _compiler(self) -> Compiler:
        if self._compile is None:
            from clgraph.compilation.compiler import Compiler

            whole = None if self._whole is None else self._whole._compiler()
            self._compile = self._given or whole or Compiler(self._options)
            if self._shared is not None:
                self._shared.adopted_by(self._compile)
        return self._compile

    def _other(self, topology: Topology) -> bool:
        """Whether *topology* has other shapes than the file's, whose members are not what is compiled for it."""
        return self._shared is None or self._shared.topology is not topology

    @property
    def held(self) -> set[Key]:
        """The keys of the programs in the file."""
        return {row.key for row in self._saved}

    def programs(self) -> dict[Key, Specialisation]:
        """Return the programs in the file that can be run here, without networks."""
        return {row.key: self._read(row) for row in self._saved.fitting}

    def _warn(self, made: Specialisation) -> Specialisation:
        """Say once a model which of its annotations did nothing."""
        lines = dict.fromkeys(made.notes.get(ANNOTATIONS, "").splitlines())
        warn(line for line in lines if line not in self._warned)
        self._warned.update(lines)
        return made

    @property
    def _known(self) -> SavedFamilies | None:
        """The families in the file, where they can be used."""
        return None if self._shared is None or self._shared.why else self._shared

    @property
    def _watched(self) -> str:
        """Say that passes are to be seen or checked, so that they have to run; empty where not."""
        seen = self._options.dump_graphs is not None or self._options.verify_passes
        return "its passes are to be dumped or verified" if seen else ""

    def _read(self, row: SavedProgram) -> Specialisation:
        program, passes = self._saved.read(row)
        return Specialisation(program, None, passes, self.devices, self._options, self._known, row.bound)

    def _rebuild(self, row: SavedProgram, workspace: Workspace) -> Specialisation:
        made = self._read(row)
        with well_formed(str(self._contents.path)):
            return self._made(made.program, made.passes, workspace, bound=made.bound)

    def _made(
        self, program: Program, passes: tuple[PassRecord, ...], workspace: Workspace, *, bound: bool = False
    ) -> Specialisation:
        """Return a planned *program* with its network."""
        network = None
        if self._engines:
            # Imported here, while a thread is building.
            from clgraph.network.network import Network

            network = Network.under(self._options, program, self._engines, self._library, workspace)
        program.notes["load"] = self._note
        note_idle(program, self._options, self.devices.values(), self._engines)
        return Specialisation(program, network, passes, self.devices, self._options, self._known, bound)

    def _library(self, name: str, simd: int) -> Library:
        return self._saved.libraries.get(library_key(name, simd)) or library_of(name, simd, self._options.cache_dir)
