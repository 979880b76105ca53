"""A model whose shapes depend on its data, or that holds control flow: several ordinary models and what is between."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from clgraph.core.progress import counted
from clgraph.engines.option_checks import idle_notes
from clgraph.errors import InputError
from clgraph.graph.faults import faults
from clgraph.graph.fed_indices import check_indices
from clgraph.graph.host_types import has_strings
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.delivery import Outputs, wanted_places
from clgraph.model.explanation import Explanation
from clgraph.model.host_feeds import strings
from clgraph.model.model import Model
from clgraph.model.ranges import Ranges, asked
from clgraph.model.specialisation import PassRecord, Specialise, Values
from clgraph.model.stages.compiled_piece import MakeModel
from clgraph.model.stages.handing import array_of
from clgraph.model.stages.observing import Recorder, StageClock
from clgraph.model.stages.preferences import NO_PREFERENCES, Preferences
from clgraph.model.stages.report import describe, explanation
from clgraph.model.stages.runner import StageRunner
from clgraph.model.tensor import Tensor
from clgraph.network.cancelling import Cancellation
from clgraph.network.profile import Profile
from clgraph.network.watch import Watcher
from clgraph.selector.query import DeviceInfo


class StagedModel(Model):
    """What ``clgraph.compile`` returns for a topology that :func:`~clgraph.model.stages.split.needs_stages`.

    The piece that needs nothing but the inputs is compiled like a model of its own, which :attr:`program` and
    :attr:`passes` are those of; the others for what a run brings. :attr:`notes` and :meth:`explain` tell of all.
    """

    def __init__(
        self,
        topology: Topology,
        device: DeviceInfo,
        specialise: Specialise,
        *,
        strict: bool = False,
        dry: bool = False,
        preferences: Preferences = NO_PREFERENCES,
        make: MakeModel | None = None,
    ) -> None:
        """Cut *topology* into pieces.

        Args:
            make: Makes the model of a piece, by default one that *specialise* compiles.
            strict: Compile every piece that can be, and refuse what only the host can compute.
            dry: Nothing can be run.
            preferences: Where layers are to run.

        Raises:
            UnsupportedError: *strict* refuses something, or only the host can compute what is to run elsewhere.
        """
        super().__init__(topology, device, specialise)
        self._keeps = "host_memory" not in device.features
        self._runner = StageRunner(
            topology,
            make or (lambda part: Model(part, device, specialise)),
            strict=strict,
            tensors=self._keeps,
            preferences=preferences,
        )
        self._fronts = [m for m in (piece.front() for piece in self._runner.pieces) if m is not None]
        self._strict, self._dry, self._wishes = strict, dry, preferences
        self._alike: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...] | None = None
        self._texts: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output, as declared: data decide shapes."""
        unknown = (Signature(name, None, None) for name, _ in self.topology.outputs)
        return tuple(self.topology.declared.get(s.name, s) for s in unknown)

    @property
    def is_compiled(self) -> bool:
        """Whether there is a program."""
        return any(m.is_compiled for m in self._models())

    @property
    def program(self) -> Program:
        """The program of the first stage that is compiled.

        Raises:
            InputError: None is; :meth:`run` compiles what is worth it.
        """
        return self._compiled().program

    @property
    def stages(self) -> tuple[Model, ...]:
        """The models of its stages, as far as those are worth a program."""
        with self._lock:
            return tuple(self._models())

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """What the passes did to :attr:`program`. Raises as that does."""
        return self._compiled().passes

    @property
    def notes(self) -> tuple[str, ...]:
        """Options and annotations that did nothing, and one line a stage: what is in it, and what ran it last."""
        with self._lock:
            return (*self.unused, *describe(self._runner))

    @property
    def unused(self) -> tuple[str, ...]:
        """As of any model, by the stages that are compiled."""
        with self._lock:
            return idle_notes(s for model in self._models() for s in model.compiled.values())

    def save(self, path: str | os.PathLike[str], *, weights: bool = True) -> None:
        """Write the topology, with the bodies of control flow, and what is compiled of its stages to one file.

        Stages of bodies are compiled anew. *weights* as of any model. Raises as :meth:`Model.save`.
        """
        from clgraph.model.save import save_model
        from clgraph.saved.topologies import stage_name

        with self._lock:
            made = {stage_name(model.topology): model._specialisations.kept for model in self._models()}
        save_model(self.topology, {}, path, stages=made, weights=weights)

    def prepare(self, shapes: Ranges | None = None, values: Values | None = None) -> Program:
        """Compile the stages that need only what the inputs tell now; return the first one's program.

        Raises:
            InputError: No stage is compiled; else as :meth:`Model.prepare`.
        """
        self.compile_front(shapes, values)
        return self.program

    def compile_front(self, shapes: Ranges | None = None, values: Values | None = None) -> None:
        """Compile the stages that need only what the inputs tell, if there are any; raises as :meth:`prepare`."""
        self._check_open()
        known, wanted = asked(self.topology, shapes, values)
        with self._lock:
            for bound, model in counted("stage", list(product(wanted, self._fronts)), _label):
                own = model.topology.inputs
                model.prepare({n: bound[n] for n in own}, {n: a for n, a in known.items() if n in own})

    @faults("a run of the model")
    def _run_arrays(
        self,
        arrays: dict[str, Any],
        outputs: Outputs,
        *,
        tensors: bool,
        cancellation: Cancellation | None,
    ) -> dict[str, Any]:
        """Run the stages one after the other."""
        results = self._run(arrays, None, cancellation)
        if all(type(a) is np.ndarray for a in arrays.values()) and not self._random:
            self._alike = tuple((name, a.dtype, a.shape) for name, a in arrays.items())
            self._texts = tuple(name for name, dtype, _ in self._alike if dtype.hasobject)
        layouts = {name: _layout(result) for name, result in results.items()}
        return {n: self._placed(results[n], p, tensors) for n, p in wanted_places(layouts, outputs).items()}

    def run_quickly(self, feeds: Any) -> dict[str, Any] | None:
        """Return what :meth:`run` does of *feeds* that are arrays of the types and shapes of the run before.

        ``None`` of others; then nothing was done. Raises as :meth:`run`.
        """
        alike = self._alike
        if alike is None or type(feeds) is not dict or len(feeds) != len(alike):
            return None
        for name, dtype, shape in alike:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != shape:
                return None
            if array.dtype is not dtype and array.dtype != dtype:
                return None
        self._check_open()
        for name in self._texts:
            strings(feeds[name], f"input {name!r}")
        if self._indices:
            check_indices(feeds, self._indices)
        return self._run_alike(feeds)

    @faults("a run of the model")
    def _run_alike(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        with self._lock:
            results = self._runner.run_whole(arrays)
            return {name: array_of(result) for name, result in results.items()} if self._keeps else results

    def clone(self) -> Model:
        """Return a model with memory and a queue of its own; raises as :meth:`Model.clone`."""
        self._check_open()
        with self._lock:
            twin = self._of(self.topology)
            twin._runner.take_over(self._runner)
        return twin

    def _of(self, topology: Topology) -> StagedModel:
        specialise = self._specialisations.specialise
        return StagedModel(
            topology, self.device, specialise, strict=self._strict, dry=self._dry, preferences=self._wishes
        )

    def _prepare_what_is_known(self) -> None:
        self.compile_front()

    def close(self) -> None:
        """Give back the memory of all stages; as :meth:`Model.close`."""
        super().close()
        with self._lock:
            for model in self._models():
                model.close()

    def _profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Run once with the clock on each node and on each stage that the host computes; raises as :meth:`run`."""
        arrays = self._host_arrays(feeds)
        clock = StageClock(time.perf_counter())
        self._run(arrays, clock)
        return Profile(tuple(clock.commands), time.perf_counter() - clock.begin)

    def _watch(self, feeds: Mapping[str, Any], watcher: Watcher) -> dict[str, Array]:
        """Run once; *watcher* is told of the nodes of compiled stages. Returns and raises as :meth:`run`."""
        results = self._run(self._host_arrays(feeds), watcher)
        return {name: array_of(result) for name, result in results.items()}

    def record(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Array], Recorder]:
        """Run once; return the outputs, and what each compiled stage was given. Raises as :meth:`run`."""
        other = self._taking(feeds)
        if isinstance(other, StagedModel) and other is not self:
            return other.record(feeds)
        recorder = Recorder()
        results = self._run(self._host_arrays(feeds), recorder)
        return {name: array_of(result) for name, result in results.items()}, recorder

    def explain(self) -> Explanation:
        """Return what was decided about every node of every stage: as run last, the layers of the host as they are."""
        with self._lock:
            return explanation(self._runner)

    def _host_arrays(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {name: array_of(value) for name, value in self._arrays(feeds).items()}

    def _run(
        self,
        arrays: Mapping[str, Any],
        watch: StageClock | Recorder | Watcher | None,
        cancellation: Cancellation | None = None,
    ) -> dict[str, Any]:
        if self._dry:
            raise InputError(f"the model was compiled for {self.device.name!r}, which runs nothing: it is a dry run")
        shapes = {name: a.shape for name, a in arrays.items() if hasattr(a, "shape")}
        for name in shapes:
            self.topology.shape_of(name, shapes)
        with self._lock if cancellation is None else cancellation.holding(self._lock):
            return self._runner.run_whole(arrays, watch, cancellation)

    def _placed(self, result: Any, place: Array | Tensor | None, tensors: bool) -> Any:
        """Return *result* in *place*, or where there is none as an array or tensor of its own.

        What is not a tensor of numbers is returned as it is.
        """
        if place is None:
            if tensors and isinstance(result, np.ndarray) and not has_strings(result):
                return Tensor(result, self.device.name)
            return result if tensors else array_of(result)
        if isinstance(place, Tensor):
            place.fill(array_of(result))
        else:
            np.copyto(place, array_of(result))
        return place

    def _models(self) -> list[Model]:
        return [model for piece in self._runner.pieces for model in piece.models]

    def _compiled(self) -> Model:
        if not self.is_compiled and self.is_static:
            self.compile_front({})
        for model in self._models():
            if model.is_compiled:
                return model
        raise InputError("no stage is compiled: they are compiled for what a run brings, or run on the host")


def _label(front: tuple[object, Model]) -> str:
    return front[1].topology.label


def _layout(result: Any) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return shape and element type of a tensor; ``None`` for a sequence, an optional without an element, a map."""
    return (result.shape, result.dtype) if isinstance(result, np.ndarray | Tensor) else None
