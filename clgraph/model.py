"""A model ready to run: its topology, the device, and one compiled program for each set of input shapes met."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Signature, Topology
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from clgraph.explain import Explanation
    from clgraph.network.network import Network
    from clgraph.network.profile import Profile
    from clgraph.network.watch import Watcher
    from clgraph.settings import Settings

Shapes = Mapping[str, Sequence[int]]

KEPT_SPECIALISATIONS = 8
"""How many sets of input shapes stay compiled; the one used longest ago goes first."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did: its number in the pipeline, how many changes it made, how long it took."""

    number: int
    name: str
    changes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A topology compiled for one set of input shapes.

    Attributes:
        network: What runs it; ``None`` for a dry run.
        devices, options: What it was compiled for, by placement, and under which options.
    """

    program: Program
    network: Network | None
    passes: tuple[PassRecord, ...]
    devices: Mapping[str, DeviceInfo]
    options: Settings


class Model:
    """What ``clgraph.compile`` returns. Calls from several threads are served one after the other.

    Attributes:
        topology: What was compiled.
        device: What it runs on.
    """

    def __init__(
        self, topology: Topology, device: DeviceInfo, specialise: Callable[[Topology, Shapes], Specialisation]
    ) -> None:
        """Take a topology and the function that compiles it for input shapes."""
        self.topology, self.device = topology, device
        self._specialise = specialise
        self._kept: OrderedDict[tuple[tuple[int, ...], ...], Specialisation] = OrderedDict()
        self._latest: Specialisation | None = None
        self._lock = threading.RLock()
        self._wanted = tuple((s.name, None if s.dtype is None else s.dtype.numpy) for s in topology.inputs.values())

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every input; a dimension may be a name or ``None``."""
        return tuple(self.topology.inputs.values())

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output: as compiled where every input's shape is fixed."""
        if self.is_static:
            values = self._current().program.outputs
            return tuple(Signature(name, v.layout.dtype, v.layout.shape) for name, v in values)
        unknown = (Signature(name, None, None) for name, _ in self.topology.outputs)
        return tuple(self.topology.declared.get(s.name, s) for s in unknown)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's author wrote beside the graph, e.g. class names."""
        return self.topology.metadata

    @property
    def is_static(self) -> bool:
        """Whether every input has one shape only."""
        return all(s.is_fixed for s in self.topology.inputs.values())

    @property
    def is_compiled(self) -> bool:
        """Whether there is a program."""
        return self._latest is not None

    @property
    def program(self) -> Program:
        """The compiled program: of the shapes used last; for a model of fixed shapes, the one there is.

        Raises:
            InputError: The shapes are open and nothing has been run or prepared yet.
        """
        return self._current().program

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """What the passes did to :attr:`program`. Raises as that does."""
        return self._current().passes

    @property
    def notes(self) -> tuple[str, ...]:
        """For a model that was loaded, whether each of its programs came out of the file or was compiled, and why."""
        with self._lock:
            kept = tuple(self._kept.values())
        return tuple(s.program.notes["load"] for s in kept if "load" in s.program.notes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and what is compiled of it to one file, for :func:`clgraph.load`.

        The file holds the topology with its weights, so that another device or shape can be compiled, and the programs
        of the shapes used last with what their kernels read, equal data once. A file that is there is replaced, at once
        or not at all.

        Raises:
            ModelError: The file cannot be written.
            UnsupportedError: An operator of a plugin has attributes that cannot be written.
        """
        from clgraph.saved.save import save_model

        with self._lock:
            kept = dict(self._kept)
        save_model(self.topology, kept, path)

    def prepare(self, shapes: Shapes | None = None) -> Program:
        """Compile for *shapes* now, so that the first run with them does not have to; return the program.

        Raises:
            InputError: *shapes* names no input, does not fit, or leaves a size open.
            ClgraphError: The model cannot be compiled for them; the model stays usable for others.
        """
        shapes = shapes or {}
        if unknown := sorted(set(shapes) - set(self.topology.inputs)):
            raise InputError(f"no input is called {unknown[0]!r}; {self._names()}")
        return self._get(tuple(self.topology.shape_of(name, shapes) for name in self.topology.inputs)).program

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """Run the model once.

        Args:
            feeds: One array an input, of the input's element type.

        Returns:
            One new array an output, by name.

        Raises:
            InputError: A feed is missing, unknown, or has the wrong type or shape.
            ClgraphError: The shapes are new and the model cannot be compiled for them, or the device fails.
        """
        arrays = self._arrays(feeds)
        with self._lock:
            return self._network(arrays).run(arrays)

    def __call__(self, *arrays: Any) -> Any:
        """Run with the arrays in the order of :attr:`inputs`; return the only output, or a tuple of them.

        Raises:
            InputError: The number of arrays is not that of the inputs; else as :meth:`run`.
        """
        if len(arrays) != len(self._wanted):
            raise InputError(f"{len(arrays)} arrays were given; {self._names()}")
        results = self.run({name: a for (name, _), a in zip(self._wanted, arrays, strict=True)})
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    def profile(self, feeds: Mapping[str, Any]) -> Profile:
        """Run once with the clock on each node; raises as :meth:`run`."""
        arrays = self._arrays(feeds)
        with self._lock:
            return self._network(arrays).profile(arrays)

    def watch(self, feeds: Mapping[str, Any], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes; returns and raises as :meth:`run`."""
        arrays = self._arrays(feeds)
        with self._lock:
            return self._network(arrays).watch(arrays, watcher)

    def explain(self) -> Explanation:
        """Return what was decided about every node of :attr:`program` and why; raises as that does."""
        from clgraph.explain import explain

        return explain(self.program)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<Model ({inputs}) -> ({', '.join(name for name, _ in self.topology.outputs)}) on {self.device.name}>"

    def _network(self, arrays: Mapping[str, Array]) -> Network:
        network = self._get(tuple(a.shape for a in arrays.values())).network
        if network is None:
            raise InputError(f"the model was compiled for {self.device.name!r}, which runs nothing: it is a dry run")
        return network

    def _get(self, key: tuple[tuple[int, ...], ...]) -> Specialisation:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                shapes = dict(zip(self.topology.inputs, key, strict=True))
                for name in shapes:
                    self.topology.shape_of(name, shapes)
                found = self._kept[key] = self._specialise(self.topology, shapes)
                while len(self._kept) > KEPT_SPECIALISATIONS:
                    self._kept.popitem(last=False)
            elif found is not self._latest:
                self._kept.move_to_end(key)
            self._latest = found
            return found

    def _current(self) -> Specialisation:
        if self._latest is None:
            self.prepare()
        assert self._latest is not None
        return self._latest

    def _arrays(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        if not isinstance(feeds, Mapping):
            raise InputError(f"the arrays come as a dictionary by name, not as {type(feeds).__name__}; {self._names()}")
        for name, dtype in self._wanted:
            if name not in feeds:
                raise InputError(f"input {name!r} is missing; {self._names()}")
            array = np.asarray(feeds[name])
            if array.dtype != dtype:
                if dtype is None or array.dtype.newbyteorder("=") != dtype:
                    wanted = "an undeclared type" if dtype is None else dtype.name
                    raise InputError(f"input {name!r} is {array.dtype}; the model wants {wanted}")
                array = array.astype(dtype)
            arrays[name] = array
        if len(feeds) != len(arrays):
            unknown = sorted(set(feeds) - set(arrays), key=str)
            raise InputError(f"no input is called {unknown[0]!r}; {self._names()}")
        return arrays

    def _names(self) -> str:
        return f"the inputs are {', '.join(repr(name) for name, _ in self._wanted) or 'none'}"
