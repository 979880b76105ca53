"""Sessions: texts, or streams, whose state a model keeps from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.fed_indices import FedIndices, check_indices
from clgraph.graph.primitive import Array
from clgraph.model.delivery import as_arrays
from clgraph.model.feeds import arranged
from clgraph.model.state.caches import Caches
from clgraph.model.state.carried import Carried
from clgraph.model.state.model_state import ModelState, delivered, names_of
from clgraph.model.state.pairs import StatePair

RunModel = Callable[[dict[str, Any]], dict[str, Any]]
"""Runs the model on all of its inputs and returns all results."""


class Session:
    """One state of a model, from :meth:`Model.session`. Several of one model may take turns.

    Attributes:
        state: The pairs that are kept.
    """

    state: tuple[StatePair, ...]

    def __init__(
        self,
        model_state: ModelState,
        carried: Carried,
        wanted: Sequence[tuple[str, Any]],
        indices: Sequence[FedIndices],
        results: Sequence[str],
        run_model: RunModel,
        lock: AbstractContextManager[Any],
        most: int | None,
    ) -> None:
        """Begin without a token.

        Args:
            wanted: Names and types of the model's inputs; *indices*, those that hold indices; *results*, names of its
                outputs.
            lock: Held while anything of the model runs.
            most: How many tokens a text may have.
        """
        self._model_state, self._carried, self._run_model, self._lock, self._most = (
            model_state,
            carried,
            run_model,
            lock,
            most,
        )
        self.state = (*(model_state.parts.pairs if model_state.parts else ()), *carried.pairs)
        self._presents = {pair.output for pair in model_state.parts.pairs} if model_state.parts else set[str]()
        self._kept_inputs, self._kept_outputs = ({getattr(p, end) for p in self.state} for end in ("input", "output"))
        self._wanted = [(name, dtype) for name, dtype in wanted if name not in self._kept_inputs]
        self._types, self._indices, self._results = dict(wanted), indices, tuple(results)
        self._caches: Caches | None = None
        self._length = 0

    @property
    def padding(self) -> Literal["left", "right"] | None:
        """Where texts of a batch may be padded, so that their tokens are those that each has alone.

        Right where attentions are told how long each text is, left where a mask hides the padding; ``None``: texts
        must have one length, as where values are carried besides, which padding would be part of.
        """
        parts = self._model_state.parts
        if parts is None or not parts.growing or self._carried.pairs:
            return None
        return "right" if parts.told else "left" if parts.biases or parts.wide is not None else None

    @property
    def length(self) -> int:
        """How many tokens the longest text has; 0 without caches."""
        return self._length

    @property
    def capacity(self) -> int:
        """How many tokens of each text the memory has room for before it grows."""
        return 0 if self._caches is None else self._caches.places

    def run(self, *given: Any, outputs: Any = None, last: bool = False, **named: Any) -> dict[str, Any]:
        """Run the model on new tokens, or the next step, behind those that the session has.

        Args:
            given: Feeds as :meth:`Model.run` takes them, of the inputs that are no state. A mask of all tokens
                ``[batch, tokens]`` that is left out is ones.
            outputs: The results to return, by name, perhaps with what is to hold each; by default those that are no
                state. Presents are views of the memory where the host reaches it.
            last: Return what results have of the last token alone, which spares a prompt most of the largest product.
            named: Feeds by keyword.

        Raises:
            InputError: A feed is missing or does not fit, or there are more tokens than the session may have. The
                session stays as it was.
            ClosedError: The model was closed.
            ClgraphError: As :meth:`Model.run`.
        """
        with self._lock:
            self._model_state.check_open()
            feeds, carried = self._fed(arranged(given, named, self._wanted))
            if self._model_state.parts is None:
                if last:
                    raise InputError("the session has no caches of tokens, of which one would be the last")
                return self._step(feeds, carried, outputs)
            return self._append(feeds, carried, outputs, last=last)

    def reset(self) -> None:
        """Forget all tokens and carried values; the memory is kept for later runs."""
        with self._lock:
            self._length, self._carried = 0, self._carried.cleared()
            if self._caches is not None and self._caches.lent():
                self._caches = None

    def fork(self) -> Session:
        """Return a session that goes on from here on its own; the tokens' memory is copied."""
        with self._lock:
            made = object.__new__(Session)
            made.__dict__.update(self.__dict__)
            made._caches = None if self._caches is None else self._caches.fork(self._length)
            return made

    def truncate(self, length: int) -> None:
        """Forget the tokens behind the first *length*.

        Raises ``InputError`` where there are fewer, or where the state is not a cache of tokens.
        """
        with self._lock:
            if not 0 <= length <= self._length:
                raise InputError(f"the session has {self._length} tokens: it cannot be cut to {length}")
            if self._carried.pairs:
                raise InputError("the session carries values that have no tokens: reset it")
            if self._caches is not None and self._caches.lent(beyond=length):
                self._caches = self._caches.fork(length)
            self._length = length

    def close(self) -> None:
        """Give back the memory; the session begins anew if it is run again."""
        with self._lock:
            if self._caches is not None:
                self._model_state.forget(self._caches)
            self._caches, self._length, self._carried = None, 0, self._carried.cleared()

    def _fed(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], Carried]:
        """Return the feeds as arrays, with masks that were left out, and what is carried into the run."""
        carried = self._carried
        if firsts := {name: array for name, array in given.items() if name in self._kept_inputs}:
            if odd := sorted(firsts.keys() - {pair.input for pair in carried.pairs}):
                raise InputError(f"input {odd[0]!r} is a cache, which the session keeps: it is not fed")
            carried = carried.beginning(_on_host(as_arrays(firsts, [(n, self._types[n]) for n in firsts])))
            given = {name: array for name, array in given.items() if name not in firsts}
        parts = self._model_state.parts
        left_out = [] if parts is None else [n for n in parts.growing if n not in given and len(parts.shapes[n]) == 2]
        arrays = _on_host(as_arrays(given, [(n, t) for n, t in self._wanted if n not in left_out]))
        check_indices(arrays, self._indices)
        if parts is not None:
            parts.check_ranks(arrays)
        if parts is not None and left_out:
            shape = self._batch(arrays), self._length + parts.count(arrays)
            arrays |= {n: np.ones(shape, parts.types[n].numpy) for n in left_out}
        return arrays, carried

    def _batch(self, arrays: Mapping[str, Array]) -> int:
        parts = self._model_state.parts
        assert parts is not None
        name, axis = next(iter(parts.batch_axes.items()), (None, 0))
        batch = 1 if name is None else arrays[name].shape[axis]
        if self._length and self._caches is not None and self._caches.batch != batch:
            raise InputError(f"the session has {self._caches.batch} texts; {name!r} has {batch}: reset it first")
        return batch

    def _append(self, feeds: dict[str, Any], carried: Carried, outputs: Any, *, last: bool) -> dict[str, Any]:
        model_state, parts = self._model_state, self._model_state.parts
        assert parts is not None
        presents = self._presents
        places = self._places(outputs)
        batch, count = self._batch(feeds), parts.count(feeds)
        if self._most is not None and self._length + count > self._most:
            raise InputError(
                f"{count} tokens behind {self._length} are more than the {self._most} that the session may have: "
                "give session(most=...) more, reset or truncate it"
            )
        if self._caches is None or self._caches.batch != batch:
            self._caches = model_state.new_caches(batch)
        caches = self._caches
        caches.filled = self._length
        wanted = [n for n in places if n not in presents]
        wanted += [pair.output for pair in carried.pairs if pair.output not in wanted]
        targets = {n: p if isinstance(p, np.ndarray) else None for n, p in places.items()}
        given = {**feeds, **carried.feeds(feeds)}
        ends = {pair.input: pair.output for pair in carried.pairs}
        made = model_state.programs.run(caches, given, self._length, wanted, targets, last=last, carried=ends)
        results, behind = made.results, carried.behind(made.results)
        # At once: Python calls no signal handler between the two.
        self._length, self._carried = made.total, behind
        if presents & places.keys():
            results |= caches.presents(self._length)
        return {name: delivered(name, place, results[name]) for name, place in places.items()}

    def _places(self, outputs: Any) -> dict[str, Any]:
        """Return where each wanted result goes, by name; by default, those that are no state are wanted."""
        places = names_of(outputs, self._results)
        return places if outputs is not None else {n: None for n in places if n not in self._kept_outputs}

    def _step(self, feeds: dict[str, Any], carried: Carried, outputs: Any) -> dict[str, Any]:
        """Run a model without caches."""
        places = self._places(outputs)
        results = self._run_model({**feeds, **carried.feeds(feeds)})
        self._carried = carried.behind(results)
        return {name: delivered(name, place, results[name]) for name, place in places.items()}


def _on_host(given: Mapping[str, Any]) -> dict[str, Array]:
    return {name: a if isinstance(a, np.ndarray) else a.numpy() for name, a in given.items()}
