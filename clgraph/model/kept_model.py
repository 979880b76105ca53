"""A model loaded from an image: it runs the compiled network, and loads the whole model for any other request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clgraph.model.model import Model
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.process import check_process

if TYPE_CHECKING:
    from clgraph.graph.fed_indices import FedIndices
    from clgraph.graph.primitive import Array
    from clgraph.graph.signature import Signature
    from clgraph.graph.topology import Topology
    from clgraph.network.quick import QuickRun
    from clgraph.selector.query import DeviceInfo


class KeptModel(Model):
    """Runs the image of a network; every other attribute is that of the whole model, loaded at the first access.

    The attributes of a model are missing until then, which is how it knows.
    """

    def __init__(
        self,
        quick: QuickRun,
        inputs: Sequence[str],
        indices: Sequence[FedIndices],
        device: DeviceInfo,
        topology: Callable[[], Topology],
        whole: Callable[[], Model],
    ) -> None:
        """Run *quick* while nothing but that is asked for.

        Args:
            inputs: Their names, in order.
            indices: Inputs whose elements are looked at before a run.
            topology: Reads what was compiled, which tells of inputs and outputs.
            whole: Reads the model.
        """
        self._image: QuickRun | None = quick
        self._picking, self._read, self._read_topology = tuple(indices), whole, topology
        self._reading = threading.RLock()
        self.device, self._closed, self._uses_driver = device, False, True
        self._quick, self._queues, self._others = None, {}, {}
        self._fed = [(name, None) for name in inputs]

    def run_quickly(self, feeds: Any) -> dict[str, Array] | None:
        """Return what :meth:`run` does of *feeds* that are just what was compiled for; else ``None``.

        Then nothing was done. Raises as :meth:`run`.
        """
        image = self._image
        if image is None:
            return super().run_quickly(feeds)
        if type(feeds) is not dict or GATE.here.daemon:
            return None
        check_process()
        if self._picking:
            from clgraph.graph.fed_indices import check_indices

            check_indices(feeds, self._picking)
        return image(feeds)

    def run_again(self, feeds: Mapping[str, Any]) -> dict[str, Array] | None:
        """Return what :meth:`run` does of *feeds* that are just what was compiled for; else ``None``, as a model."""
        return super().run_again(feeds) if self._image is None else self.run_quickly(feeds)

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output: as compiled where inputs fix it, else as declared."""
        if (image := self._image) is None or self.topology.overridable:
            return super().outputs
        from clgraph.core.dtype import DType
        from clgraph.graph.signature import Signature

        return tuple(Signature(name, DType.of(dtype), shape) for name, dtype, shape in image.results)

    def close(self) -> None:
        """Release the memory, as :meth:`Model.close`, without loading the whole model."""
        with self._reading:
            self._image = None
            if "_specialisations" in self.__dict__:
                super().close()
            self._closed = True
            for queue in self._queues.values():
                queue.close()

    def __getattr__(self, name: str) -> Any:
        """Read what is missing."""
        own = self.__dict__
        if not name.startswith("__") and "_reading" in own:
            with self._reading:
                if name == "topology" and name not in own:
                    self.topology = self._read_topology()
                elif "_specialisations" not in own:
                    self._become(self._read())
                # Another thread may have read it since it was missed.
                if name in own:
                    return own[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _become(self, whole: Model) -> None:
        """Be *whole* from now on."""
        if self._closed:
            whole.close()
        own = ("_closed", "_queues")
        self.__dict__.update({name: value for name, value in vars(whole).items() if name not in own})
        self._image = None
        # They keep what the model was read from.
        del self._read, self._read_topology
