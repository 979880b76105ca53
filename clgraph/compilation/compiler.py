"""From a topology, sizes and options to a program that is bound to devices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from clgraph.compilation.context import context_of, for_families
from clgraph.compilation.pass_runs import PassRuns
from clgraph.compilation.program_runner import ProgramRunner
from clgraph.core.collector import PAUSED
from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Shape
from clgraph.core.log import DEBUG, Log
from clgraph.core.mapped import MappedFile, files_of
from clgraph.core.nearest import meant
from clgraph.engines.opening import budgets_of, device_infos, open_engines
from clgraph.engines.option_checks import ANNOTATIONS, PREFERENCES, annotation_lines, note, note_idle
from clgraph.engines.records import is_dry
from clgraph.errors import BindingError, MemoryLimitError, OptionError
from clgraph.families.notes import NOTE
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import PassRecord, Shapes, Specialisation, Values, pass_records
from clgraph.network.workspace import Workspace
from clgraph.passes.base import Context
from clgraph.passes.budgets import Budgets
from clgraph.passes.manager import Observer
from clgraph.passes.observers import Verify
from clgraph.passes.placement.partition import idle_annotations, idle_rules
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.families.families import Families, Member
    from clgraph.families.family import PassRow
    from clgraph.network.network import Network

_log = Log(__name__)


@frozen
class _Read:
    """What is the same whenever a topology is specialised by one compiler.

    Attributes:
        files: The mapped ones that its constants lie in.
        fixed: Whether no input has an open size.
        idle_rules: Pairs of the option ``placement`` that place nothing of it; ``annotations``: a line for each of the
            model's that does not.
    """

    files: tuple[MappedFile, ...]
    fixed: bool
    idle_rules: tuple[tuple[str, str], ...]
    annotations: tuple[str, ...]


@mutable
class Compiler:
    """Compiles topologies for one device; its engines and kernels are shared by everything that it compiles.

    Attributes:
        options: The options in force.
        observers: What else is told about every pass.
        dry: Nothing is to be run, on whatever device.
        engines: What runs the nodes of each placement; empty for a dry run.
        runner: Runs programs on them; ``None`` for a dry run.
        limits: What ``placement_budget`` says of each placement.
        ways_out: What would help where programs were refused their memory, by what they were refused for.
        context: What passes may look at. Does not refer to the compiler: a cycle would keep weights for a while.
    """

    options: Settings
    observers: Sequence[Observer] = ()
    dry: bool = False
    engines: dict[str, Engine | HostEngine] = field(init=False)
    runner: ProgramRunner | None = field(init=False)
    context: Context = field(init=False)
    limits: dict[str, int] = field(init=False)
    ways_out: dict[object, tuple[str, ...]] = field(default_factory=dict, init=False)
    _passes: PassRuns = field(init=False)
    _known: WeakKeyDictionary[Topology, _Read] = field(default_factory=WeakKeyDictionary, init=False)
    _families: WeakKeyDictionary[Topology, Families] = field(default_factory=WeakKeyDictionary, init=False)

    @GATE
    def __post_init__(self) -> None:
        """Open the device.

        Raises:
            DeviceError: There is no such device.
            OptionError: What is denied is no implementation.
        """
        options = self.options
        if unknown := sorted(name for name in options.deny_kernels if name not in IMPLEMENTATIONS):
            near = meant(unknown[0], IMPLEMENTATIONS)
            raise OptionError(f"no implementation is called {unknown[0]!r}, so that it cannot be denied{near}")
        if is_dry(options) and (options.placement or options.placement_fallback or options.placement_budget):
            raise OptionError("the device null has one placement only; place a model on devices that there are")
        runs = not (self.dry or is_dry(options))
        self._passes = PassRuns(options, self.observers)
        self.engines = open_engines(options)
        self.runner = runner = ProgramRunner(self.engines, options) if runs else None
        infos = device_infos(self.engines, options)
        self.limits = budgets_of(options, infos)
        execute, build = (runner.execute, runner.build) if runner else (None, None)
        self.context = context_of(infos, options, execute, build)

    @PAUSED
    def specialise(
        self, topology: Topology, shapes: Shapes, values: Values | None = None, workspace: Workspace | None = None
    ) -> Specialisation:
        """Return *topology* compiled for input *shapes* and the *values* of inputs that decide sizes.

        Its network has its memory in *workspace*.

        Raises:
            ClgraphError: Whatever is wrong with them or with the options.
        """
        read = self._read(topology)
        for file in read.files:
            file.check()
        self.context.packed.keeps_steps = not read.fixed
        program, records, member = self._program(topology, shapes, values or {})
        if _log.shows(DEBUG):
            for node in program:
                _log.debug("%s on %s: %s: %s", node.name, node.placement, node.choice, node.primitive)
        forced = self.context.forced
        lost = sorted(set(forced) - {node.name for node in program}) if forced else []
        if lost and not topology.label:
            near = meant(lost[0], (node.name for node in program))
            what = f"no node of the compiled program is called {lost[0]!r}, so that no kernel can be forced"
            raise OptionError(what + near)
        network = (
            None if self.runner is None else self._network(self.runner, topology, shapes, values, program, workspace)
        )
        families, bound = self._families.get(topology), member is not None
        made = Specialisation(program, network, records, self.context.devices, self.options, families, bound)
        if member is not None:
            made = made.lightened(member.again)
        note_idle(program, self.options, self.context.devices.values(), self.engines)
        self._note_preferences(program, read, lost)
        for file in read.files:
            file.check()
        return made

    def planned(self, topology: Topology, shapes: Shapes, values: Values | None = None) -> Program:
        """Return the program that :meth:`specialise` would make a network of; raises as that."""
        return self._program(topology, shapes, values or {})[0]

    def dry_with(self, **changes: Any) -> Compiler:
        """Return a compiler under changed options that runs nothing but constants, by the references."""
        from clgraph.passes.reference import run_reference

        options = self.options.with_(memory_limit=0, verify_passes=False, **changes)
        found = Compiler(replace(options, dump_graphs=None), dry=True)
        found.context = replace(found.context, execute=run_reference)
        return found

    def _network(
        self,
        runner: ProgramRunner,
        topology: Topology,
        shapes: Shapes,
        values: Values | None,
        program: Program,
        workspace: Workspace | None,
    ) -> Network:
        try:
            return runner.network(program, workspace)
        except MemoryLimitError as error:
            from clgraph.compilation.ways_out import with_ways_out

            raise with_ways_out(error, self, topology, shapes, values or {}) from error

    def _read(self, topology: Topology) -> _Read:
        """Return what does not change about *topology*: its layers and constants stay as they are."""
        found = self._known.get(topology)
        if found is None:
            self.context.packed.register(topology.constants.values())
            rules, devices = self.options.placement, [info.name for info in self.context.devices.values()]
            found = self._known[topology] = _Read(
                tuple(files_of(topology.constants.values())),
                all(s.is_fixed for s in topology.inputs.values()),
                tuple(idle_rules(topology, rules)),
                tuple(annotation_lines(idle_annotations(topology, rules, devices))),
            )
        return found

    def _program(
        self, topology: Topology, shapes: Shapes, values: Values
    ) -> tuple[Program, tuple[PassRecord, ...], Member | None]:
        """Return the planned program, what the passes did, and where sizes are open, the member of a family that it is.

        Else it is compiled whole. Of one that is bound, the passes are those of the family's representative.
        """
        fixed = self._read(topology).fixed and not values
        member, why = None, ""
        if self.limits:
            # Imported where the option is given.
            from clgraph.compilation.budgeting import within_budgets

            made = within_budgets(partial(self._within, topology, shapes, values), self.limits, self.context.devices)
            return *made, None
        if not fixed and not self.observers:
            try:
                member = self._bind(topology, shapes, values)
            except BindingError as error:
                why = f"compiled whole: {error}"
        if member is not None and not self.options.verify_passes:
            return member.program, pass_records(member.family.passes), member
        program = topology.build(shapes, values)
        verifies = self.options.verify_passes and not any(node.primitive.updates for node in program)
        numbers = None
        if verifies:
            # Imported where numbers are compared: few compilations do.
            from clgraph.passes.reference import random_feeds
            from clgraph.passes.verify_numbers import VerifyNumbers

            numbers = VerifyNumbers(self.context, random_feeds(program) | dict(values))
        if self.options.verify_passes and not verifies:
            program.notes["verify_passes"] = "numbers were not compared: nodes update memory that only a session has"
        verifying: list[Observer] = [] if numbers is None else [Verify(), numbers]
        records = self._passes.run(program, shapes, topology, self.context, verifying)
        if numbers is not None and member is not None:
            numbers.confirm(member.program, "binding")
            return member.program, pass_records(member.family.passes), member
        if why:
            program.notes[NOTE] = why
        return program, records, None

    def _within(
        self, topology: Topology, shapes: Shapes, values: Values, budgets: Budgets
    ) -> tuple[Program, tuple[PassRecord, ...]]:
        """Return the planned program whose devices are filled as *budgets* say, and what the passes did."""
        program = topology.build(shapes, values)
        verifying = [Verify()] if self.options.verify_passes else []
        return program, self._passes.run(program, shapes, topology, replace(self.context, budgets=budgets), verifying)

    def _bind(self, topology: Topology, shapes: Shapes, values: Values) -> Member:
        """Return the member of a family that inputs of *shapes* and *values* make, the family made if need be.

        Raises:
            BindingError: There is none, or it cannot tell.
        """
        # Imported where sizes are open: what is compiled for fixed ones needs nothing of them.
        from clgraph.families.families import Families

        sizes = [topology.shape_of(name, shapes) for name in topology.inputs]
        families = self._families.get(topology)
        if families is None:
            families = self._families.setdefault(topology, Families(for_families(self.context, topology)))
        member = families.bind(topology, sizes, values, partial(self.represent, topology))
        self._passes.list_member(topology, sizes, member.program)
        return member

    def adopt(self, topology: Topology, families: Families) -> None:
        """Bind what is asked for of *topology* to *families*, and make those that it lacks there."""
        self._families[topology] = families

    def represent(self, topology: Topology, program: Program, shapes: Sequence[Shape]) -> tuple[PassRow, ...]:
        """Run all passes over a program of *topology*, built for inputs of *shapes*, as a representative."""
        named = dict(zip(topology.inputs, shapes, strict=True))
        records = self._passes.run(program, named, topology, for_families(self.context, topology))
        return tuple((r.number, r.name, r.changes, r.seconds) for r in records)

    def _note_preferences(self, program: Program, read: _Read, lost: Collection[str]) -> None:
        """Leave in the notes which of the user's pairs and the model's annotations did nothing; *lost* are no nodes."""
        forced = [
            (n, f"force_kernels={n}={k} does nothing: no node is called {n!r}") for n, k in self.context.forced.items()
        ]
        behind = "does nothing: patterns before it fit all that it fits"
        lines = [line for name, line in forced if name in lost]
        note(program, PREFERENCES, lines + [f"placement={p}={to} {behind}" for p, to in read.idle_rules])
        note(program, ANNOTATIONS, read.annotations)
