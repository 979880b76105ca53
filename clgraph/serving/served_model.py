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
    from clgraph.graph.signature import Signature
    from clgraph.throughput.figures import ThroughputReport
    from clgraph.throughput.streamed_model import StreamedModel


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
    """A model that is called by clients.

    Attributes:
        inputs, outputs: What a client is told of.
        seconds: After which a call is given up.
    """

    def __init__(self, name: str, version: int, model: StreamedModel, *, seconds: float, joins: bool) -> None:
        """Take a model whose queue refuses what it has no room for; it is closed with this.

        Args:
            joins: Calls may be joined to batches, which then are not ended early.

        Raises:
            UnsupportedError: The protocol cannot carry one of its inputs or outputs.
        """
        self.name, self.version, self.seconds = name, version, seconds
        self.inputs = tuple(_about(s, f"input {s.name!r}") for s in model.inputs)
        self.outputs = tuple(_about(s, f"output {s.name!r}") for s in model.outputs)
        self._types = {about.name: about.datatype for about in self.inputs}
        self._names = frozenset(about.name for about in self.outputs)
        self._model, self._joins, self._closed = model, joins, False

    @property
    def throughput(self) -> ThroughputReport:
        """What its streams did, and how many calls wait."""
        return self._model.throughput

    @property
    def nbytes(self) -> int:
        """Bytes of the programs that are kept, with what their networks allocated."""
        return sum(kept.nbytes for stream in self._model.streams for kept in stream.model.compiled.values())

    def submit(self, feeds: Mapping[str, Array], outputs: Sequence[str] = ()) -> Pending:
        """Take a call; its future has the results by name, or what :meth:`clgraph.Model.run` raises.

        Args:
            outputs: The results wanted; none for all.

        Raises:
            InputError: A feed is missing, or of another type than the input; or it or an output is unknown.
            QueueFullError: As many wait as may.
            ClosedError: The model was closed.
        """
        self._check(feeds, outputs)
        if self._closed:
            raise ClosedError(f"version {self.version} of model {self.name!r} was unloaded: ask again")
        cancellation = None if self._joins else Cancellation()
        try:
            future = self._model.submit(feeds, outputs=tuple(outputs) or None, cancellation=cancellation)
        except QueueFullError as error:
            raise QueueFullError(
                f"{self._model.queue_size} calls of model {self.name!r} wait, which is as many as may: send it again "
                "later, or give it a longer queue in its options"
            ) from error
        return Pending(future, cancellation)

    def close(self) -> None:
        """Take no more calls, wait until those taken are over, and give back the memory."""
        self._closed = True
        self._model.close()

    def _check(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> None:
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
