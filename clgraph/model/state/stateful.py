"""State of a model: inputs that are fed back, sessions, and runs whose caches are fed back as arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clgraph.errors import InputError, UnsupportedError
from clgraph.model.described import Described

if TYPE_CHECKING:
    from clgraph.graph.fed_indices import FedIndices
    from clgraph.graph.topology import Topology
    from clgraph.model.delivery import Outputs
    from clgraph.model.specialisation import Specialisation
    from clgraph.model.specialisations import Specialisations
    from clgraph.model.state.branches import Branch
    from clgraph.model.state.model_state import ModelState
    from clgraph.model.state.pairs import StatePair
    from clgraph.model.state.session import Session
    from clgraph.network.cancelling import Cancellation


class Stateful(Described):
    """Base of models: state pairs, sessions, and runs over caches."""

    _specialisations: Specialisations
    _wanted: tuple[tuple[str, Any], ...]
    _indices: tuple[FedIndices, ...]

    @property
    def state(self) -> tuple[StatePair, ...]:
        """Inputs with the outputs fed back to them: attention caches, recurrent states, and pairs matched by name."""
        parts = self._session_state.parts
        return (*(() if parts is None else parts.pairs), *self._carried_pairs())

    def _carried_pairs(self) -> list[StatePair]:
        from clgraph.model.state.carried import counterparts, recurrent_pairs

        parts, found = self._session_state.parts, recurrent_pairs(self.topology)
        kept = {pair.input for pair in (*found, *(() if parts is None else parts.pairs))}
        return [*found, *counterparts(self.topology, kept)]

    def session(self, state: Mapping[str, str] | None = None, most: int | None = None) -> Session:
        """Return a session, which keeps the model's state on its device and is run on the rest.

        Args:
            state: Pairs beside :attr:`state`, an output by the input that takes it: of one shape, zeros at first.
            most: How many tokens a text may have, new ones included.

        Raises:
            InputError: *state* names no input or output, or *most* is not a number of tokens.
            UnsupportedError: There is no state; the message says why.
            ClosedError: The model was closed.
        """
        from clgraph.model.state.carried import Carried, named_pairs
        from clgraph.model.state.session import Session

        self._check_open()
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise InputError(f"most={most!r} is not a maximum number of tokens: 1 or more, or None for any")
        found = [pair for pair in self._carried_pairs() if pair.input not in (state or {})]
        named = {pair.input: pair.output for pair in found} | dict(state or {})
        parts = self._session_state.parts
        if parts is None and not named:
            raise UnsupportedError(
                f"the model has no state: {self._session_state.why}; "
                "session(state={input: output}) names what is fed back"
            )
        own = {pair.input for pair in found}
        pairs = [*found, *named_pairs(self.topology, {i: o for i, o in named.items() if i not in own})]
        carried = Carried(self.topology, pairs)
        fed = [(name, dtype) for name, dtype in self._wanted if name in self._kept_topology.fed]
        lock = self._specialisations.lock
        return Session(
            self._session_state, carried, fed, self._indices, self.output_names, cast("Any", self).run, lock, most
        )

    @cached_property
    def _may_keep(self) -> bool:
        return self.topology.keeps_keys

    def continues(self, feeds: Mapping[str, Any]) -> bool:
        """Whether a run on *feeds* may be one over caches: the model has them, and what is fed back are arrays."""
        if not self._may_keep or self._model_state.parts is None:
            return False
        return all(isinstance(feeds.get(pair.input), np.ndarray) for pair in self._model_state.parts.pairs)

    @property
    def _latest_over_caches(self) -> Specialisation | None:
        """The program over caches that was used last."""
        return self._model_state.latest if "_model_state" in self.__dict__ else None

    @property
    def _state_note(self) -> dict[str, str]:
        """What there is to say about the state, for a report."""
        found = [
            *map(str, self.state),
            *([self._session_state.why] if self._may_keep and self._session_state.parts is None else []),
        ]
        return {"state": "\n".join(found)} if found else {}

    @cached_property
    def _model_state(self) -> ModelState:
        from clgraph.model.state.model_state import ModelState

        return ModelState(self._kept_topology, self._specialisations)

    @cached_property
    def _session_state(self) -> ModelState:
        """That of sessions, which have caches of any number of tokens, or none."""
        from clgraph.model.state.model_state import ModelState

        parts = self._model_state.parts
        if parts is None or parts.most is None:
            return self._model_state
        why = f"the model returns the latest {parts.most} tokens of a cache; what is fed back is kept until then"
        return ModelState(self._kept_topology, self._specialisations, why)

    def _close_state(self) -> None:
        for state in ("_model_state", "_session_state"):
            if state in self.__dict__:
                self.__dict__[state].close()

    @cached_property
    def _branch(self) -> Branch | None:
        """What has the caches of a model that an input tells whether they are there."""
        from clgraph.model.state.branches import branch_with_caches

        return branch_with_caches(self.topology) if self._may_keep else None

    @property
    def _kept_topology(self) -> Topology:
        return self.topology if self._branch is None else self._branch.topology

    def _run_fed_back(
        self, arrays: Mapping[str, Any], outputs: Outputs, cancellation: Cancellation | None
    ) -> dict[str, Any] | None:
        """Return the results of a run over caches; ``None`` where the model has none, or tensors are fed."""
        if not self._may_keep or self._model_state.parts is None:
            return None
        if not all(isinstance(a, np.ndarray) for a in arrays.values()):
            return None
        from clgraph.model.state.model_state import names_of

        self._check_open()
        if self._branch is not None:
            if not self._branch.is_taken(arrays):
                return None
            arrays = self._branch.fed(arrays)
        if not self._model_state.parts.fits(arrays):
            return None
        return self._model_state.run(arrays, names_of(outputs, self.output_names), cancellation)

    @abstractmethod
    def _check_open(self) -> None:
        """Raise ``ClosedError`` where the model was closed."""
