"""One version of a model that is served: compiled, run by a few threads, with a queue of a most length."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from clgraph.core.frozen import frozen
from clgraph.errors import ClosedError, InputError, OverloadError
from clgraph.graph.primitive import Array
from clgraph.network.cancelling import Cancellation
from clgraph.serving.tensors import datatype, datatype_of

if TYPE_CHECKING:
    from clgraph.graph.topology import Signature
    from clgraph.model.model import Model


@frozen
class TensorAbout:
    """What a client is told of an input or output; -1 stands for a size that is open, [-1] for any shape."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Pending:
    """A call that was taken: its future, and what ends it."""

    def __init__(self, future: Future[dict[str, Array]], cancellation: Cancellation) -> None:
        """Take both."""
        self.future, self._cancellation = future, cancellation

    def cancel(self) -> None:
        """End it: at once where it has not begun, else at the next step."""
        if not self.future.cancel():
            self._cancellation.cancel()


class ServedModel:
    """A model, with threads that run it and its clones.

    Attributes:
        inputs, outputs: What a client is told of.
        seconds: After which a call is given up.
    """

    def __init__(self, name: str, version: int, model: Model, *, streams: int, queue: int, seconds: float) -> None:
        """Take a compiled model, which is closed with this.

        Args:
            streams: Runs at the same time.
            queue: Calls that may wait for them.

        Raises:
            UnsupportedError: The protocol cannot carry one of its inputs or outputs.
        """
        self.name, self.version, self.seconds = name, version, seconds
        self.inputs = tuple(_about(s, f"input {s.name!r}") for s in model.inputs)
        self.outputs = tuple(_about(s, f"output {s.name!r}") for s in model.outputs)
        self._types = {about.name: about.datatype for about in self.inputs}
        self._names = frozenset(about.name for about in self.outputs)
        self._models = [model, *(model.clone() for _ in range(streams - 1))]
        self._free: SimpleQueue[Model] = SimpleQueue()
        for each in self._models:
            self._free.put(each)
        self._pool = ThreadPoolExecutor(streams, f"clgraph-serve-{name}")
        self._lock = threading.Lock()
        self._taken, self._most, self._streams = 0, streams + queue, streams
        self._closed = False

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return max(self._taken - self._streams, 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the programs that are kept, with what their networks allocated."""
        return sum(kept.nbytes for model in self._models for kept in model.compiled.values())

    def submit(
        self,
        feeds: Mapping[str, Array],
        outputs: Sequence[str] = (),
        began: Callable[[float], None] = lambda seconds: None,
    ) -> Pending:
        """Take a call; its future has the results by name, or what :meth:`clgraph.Model.run` raises.

        Args:
            outputs: The results wanted; none for all.
            began: Is told the seconds that the call waited, when it begins.

        Raises:
            InputError: A feed is of another type than the input, or it or an output is unknown.
            OverloadError: As many wait as may.
            ClosedError: The model was closed.
        """
        self._check(feeds, outputs)
        with self._lock:
            if self._closed:
                raise ClosedError(f"version {self.version} of model {self.name!r} was unloaded: ask again")
            if self._taken >= self._most:
                raise OverloadError(
                    f"{self._taken} calls of model {self.name!r} run or wait, which is as many as may: try again later"
                )
            self._taken += 1
        cancellation = Cancellation()
        wanted, since = tuple(outputs) or None, monotonic()
        future = self._pool.submit(self._run, dict(feeds), wanted, cancellation, since, began)
        future.add_done_callback(self._leave)
        return Pending(future, cancellation)

    def close(self) -> None:
        """Take no more calls, wait until those taken are over, and give back the memory."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True)
        for model in self._models:
            model.close()

    def _run(
        self,
        feeds: dict[str, Array],
        outputs: tuple[str, ...] | None,
        cancellation: Cancellation,
        since: float,
        began: Callable[[float], None],
    ) -> dict[str, Any]:
        began(monotonic() - since)
        model = self._free.get()
        try:
            return model.run(feeds, outputs=outputs, cancellation=cancellation)
        finally:
            self._free.put(model)

    def _leave(self, future: Future[dict[str, Array]]) -> None:
        with self._lock:
            self._taken -= 1

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
