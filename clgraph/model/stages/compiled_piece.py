"""A piece as it is compiled: a model for each choice of its inputs' types, run on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from clgraph.core.dtype import DType
from clgraph.graph.host_types import kind_of
from clgraph.graph.interpret import check_kinds
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.stages.handing import array_of
from clgraph.model.stages.observing import Recorder, StageClock, StageObserver
from clgraph.model.stages.sizes import fits
from clgraph.model.stages.split import Piece
from clgraph.network.cancelling import Cancellation
from clgraph.selector.choose import Choice

MakeModel = Callable[[Topology], Model]
"""Makes an ordinary model of a topology."""

Sizes = Callable[[], Mapping[str, Signature]]
"""Tells types and shapes of values; asked when a piece is compiled behind others."""


class CompiledPiece:
    """The models of a piece.

    Attributes:
        latest: The one that ran last.
        binds: Whether what was prepared last is a member of a family, as what comes next will be.
    """

    def __init__(self, piece: Piece, make: MakeModel, sizes: Sizes, *, tensors: bool) -> None:
        """Take a piece.

        Args:
            sizes: Tells what shapes earlier pieces make, as far as they are known.
            tensors: Leave results on the device.
        """
        self._piece, self._make, self._sizes, self._tensors = piece, make, sizes, tensors
        self._models: dict[tuple[tuple[DType, ...], bool], Model] = {}
        self.latest: Model | None = None
        self.binds = False

    @property
    def label(self) -> str:
        """What the piece is called."""
        return self._piece.topology.label

    @property
    def models(self) -> tuple[Model, ...]:
        """What is compiled."""
        return tuple(self._models.values())

    @property
    def has_programs(self) -> bool:
        """Whether one of :attr:`models` has a program."""
        return any(model.is_compiled for model in self._models.values())

    def run(
        self, feeds: Mapping[str, Any], watch: StageObserver | None, cancellation: Cancellation | None
    ) -> dict[str, Any]:
        """Return what the piece makes of *feeds*. Raises as :meth:`Model.run`."""
        self._refuse_host_values(feeds)
        model = self.latest = self._model_for(feeds)
        if isinstance(watch, StageClock):
            watch.note_device(model, feeds)
        elif isinstance(watch, Recorder):
            watch.calls.append((model, {name: array_of(a) for name, a in feeds.items()}))
        elif watch is not None:
            return model.watch(feeds, watch)
        if self._tensors and model.continues(feeds):
            # Tensors are fed to, and made by, programs of one length: each word of a text would compile another.
            return model.run({name: array_of(a) for name, a in feeds.items()}, cancellation=cancellation)
        return model.run(feeds, tensors=self._tensors, cancellation=cancellation)

    def run_quickly(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the latest model makes of *feeds* that are just like its last ones; else ``None``."""
        return None if self.latest is None or self._tensors else self.latest.run_quickly(feeds)

    def run_again(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the latest model makes of *feeds* whose shapes it has a program for; else ``None``."""
        return None if self.latest is None or self._tensors else self.latest.run_again(feeds)

    def prepare(self, feeds: Mapping[str, Any]) -> float:
        """Compile for *feeds*; return the seconds that the nodes take by estimate, ``inf`` where the host is in it.

        Raises as :meth:`Model.prepare`.
        """
        model = self._model_for(feeds)
        program = model.prepare({}, feeds)
        self.binds = list(model.compiled.values())[-1].bound
        choices = [node.choice for node in program]
        return sum(c.expected if isinstance(c, Choice) else inf for c in choices)

    def holds(self, feeds: Mapping[str, Any]) -> bool:
        """Whether a program for *feeds*, as :meth:`prepare` made it, has not been dropped for others since."""
        return self.has_programs and self._model_for(feeds).is_compiled_for(feeds)

    def _refuse_host_values(self, feeds: Mapping[str, Any]) -> None:
        """Raise ``ShapeError`` where a sequence, say, comes for a compiled layer: all of them take tensors only."""
        others = {name: value for name, value in feeds.items() if kind_of(value) != "a tensor"}
        for layer in self._piece.topology.layers if others else ():
            check_kinds(layer, [others.get(name, 0) for name in layer.inputs])

    def take_over(self, other: CompiledPiece) -> None:
        """Clone what *other* has compiled of the same piece."""
        self._models = {key: model.clone() for key, model in other._models.items()}

    def declared(self) -> Model | None:
        """Return the model for inputs of declared types; ``None`` where one declares none."""
        inputs = self._piece.topology.inputs
        dtypes = tuple(s.dtype for s in inputs.values() if s.dtype is not None)
        return self._model(dtypes, {}) if len(dtypes) == len(inputs) else None

    def _model_for(self, feeds: Mapping[str, Any]) -> Model:
        known = {name: s for name, s in self._sizes().items() if name in feeds}
        dtypes = tuple(DType.of(a.dtype) for a in feeds.values())
        return self._model(dtypes, known if fits(known, feeds) else {})

    def _model(self, dtypes: tuple[DType, ...], known: Mapping[str, Signature]) -> Model:
        """Return the model for inputs of *dtypes*, which a piece without declared ones learns from its first run.

        Args:
            known: Inputs whose shapes are those that earlier pieces are known to make.
        """
        key = dtypes, bool(known)
        if key not in self._models:
            topology = self._piece.topology
            pairs = zip(topology.inputs.values(), dtypes, strict=True)
            inputs = {s.name: replace(known.get(s.name, s), dtype=d) for s, d in pairs}
            self._models[key] = self._make(replace(topology, inputs=inputs))
        return self._models[key]
