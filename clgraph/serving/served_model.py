"""One version of a model that is served: compiled in streams, with what clients are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from clgraph.core.frozen import frozen
from clgraph.errors import ClosedError, InputError, QueueFullError
from clgraph.graph.primitive import Array
from clgraph.network.cancelling import Cancellation
from clgraph.serving.tensors import datatype, datatype_of

if TYPE_CHECKING:
    from clgraph.compilation.pool import Pool
    from clgraph.compilation.pooled_model import PooledReport, Use
    from clgraph.graph.signature import Signature
    from clgraph.throughput.figures import ThroughputReport

EVICTED = "evicted, as other models needed its memory: the next call loads it"
"""What the index says of a model that is ready and not loaded."""


@frozen
class TensorAbout:
    """What a client is told of an input or output; -1 stands for a size that is open, [-1] for any shape."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@frozen(eq=False)
class Pending:
    """A call that was taken: its future, and what ends it, which is nothing where it may run in a batch."""

    future: Future[dict[str, Any]]
    cancellation: Cancellation | None

    def cancel(self) -> None:
        """End it: at once where it has not begun, else at the next step."""
        if not self.future.cancel() and self.cancellation is not None:
            self.cancellation.cancel()


class ServedModel:
    """A model that is called by clients, of a pool that evicts it where others need its memory.

    Attributes:
        inputs, outputs: What a client is told of.
        seconds: After which a call is given up.
    """

    def __init__(self, name: str, version: int, pool: Pool, key: str, *, seconds: float, joins: bool) -> None:
        """Take the model called *key* in *pool*, whose queue refuses what it has no room for; loads it.

        Args:
            joins: Calls may be joined to batches, which then are not ended early.

        Raises:
            UnsupportedError: The protocol cannot carry one of its inputs or outputs.
            ClgraphError: As ``clgraph.compile``.
        """
        self.name, self.version, self.seconds = name, version, seconds
        with pool.using(key) as model:
            self.inputs = tuple(_about(s, f"input {s.name!r}") for s in model.inputs)
            self.outputs = tuple(_about(s, f"output {s.name!r}") for s in model.outputs)
        self._types = {about.name: about.datatype for about in self.inputs}
        self._names = frozenset(about.name for about in self.outputs)
        self._pool, self._key, self._joins, self._closed = pool, key, joins, False

    @property
    def throughput(self) -> ThroughputReport | None:
        """What its streams did since they were loaded, and how many calls wait; ``None`` where it is evicted."""
        use = None if self._closed else self._pool.begin_loaded(self._key)
        if use is None:
            return None
        try:
            found: ThroughputReport = use.model.throughput
            return found
        finally:
            use.end()

    @property
    def pooled(self) -> PooledReport:
        """Whether it is loaded, what it takes, how often it was evicted."""
        return self._pool.report_of(self._key)

    def submit_loaded(self, feeds: Mapping[str, Array], outputs: Sequence[str] = ()) -> Pending | None:
        """Take a call as :meth:`submit`, without waiting; ``None`` where the model is evicted."""
        self._check(feeds, outputs)
        use = self._pool.begin_loaded(self._key)
        return None if use is None else self._sent(use, feeds, outputs)

    def submit(self, feeds: Mapping[str, Array], outputs: Sequence[str] = ()) -> Pending:
        """Take a call; its future has the results by name, or what :meth:`clgraph.Model.run` raises.

        Loads the model where it is evicted.

        Args:
            outputs: The results wanted; none for all.

        Raises:
            InputError: A feed is missing, or of another type than the input; or it or an output is unknown.
            QueueFullError: As many wait as may.
            ClosedError: The model was closed.
            ClgraphError: It cannot be loaded again.
        """
        self._check(feeds, outputs)
        return self._sent(self._pool.begin(self._key), feeds, outputs)

    def close(self) -> None:
        """Take no more calls, wait until those taken are over, and give back the memory."""
        if not self._closed:
            self._closed = True
            self._pool.remove(self._key)

    def _sent(self, use: Use, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Pending:
        cancellation, model = None if self._joins else Cancellation(), use.model
        try:
            future = model.submit(feeds, outputs=tuple(outputs) or None, cancellation=cancellation)
        except QueueFullError as error:
            use.end()
            raise QueueFullError(
                f"{model.queue_size} calls of model {self.name!r} wait, which is as many as may: send it again "
                "later, or give it a longer queue in its options"
            ) from error
        except BaseException:
            use.end()
            raise
        future.add_done_callback(use.end)
        return Pending(future, cancellation)

    def _check(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> None:
        if self._closed:
            raise ClosedError(f"version {self.version} of model {self.name!r} was unloaded: ask again")
        for name, array in feeds.items():
            if name not in self._types:
                known = ", ".join(map(repr, self._types))
                raise InputError(f"model {self.name!r} has no input {name!r}; the inputs are {known}")
            if (found := datatype(array)) != self._types[name]:
                raise InputError(f"input {name!r} of model {self.name!r} is {self._types[name]}, not {found}")
        if unknown := [name for name in outputs if name not in self._names]:
            known = ", ".join(map(repr, sorted(self._names)))
            raise InputError(f"model {self.name!r} has no output {unknown[0]!r}; the outputs are {known}")


def _about(signature: Signature, what: str) -> TensorAbout:
    shape = (None,) if signature.shape is None else signature.shape
    sizes = tuple(d if isinstance(d, int) else -1 for d in shape)
    return TensorAbout(signature.name, datatype_of(signature.type, what), sizes)
