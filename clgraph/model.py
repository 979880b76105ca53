"""A model ready to run: its topology, the device, and one compiled program for each set of input shapes met."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Signature, Topology
from clgraph.selector.query import DeviceInfo
from clgraph.specialisations import PassRecord, Shapes, Specialisation, Specialisations, Specialise, Values

if TYPE_CHECKING:
    from clgraph.explain import Explanation
    from clgraph.network.network import Network
    from clgraph.network.profile import Profile
    from clgraph.network.watch import Watcher


class Model:
    """What ``clgraph.compile`` returns. Calls from several threads are served one after the other.

    Attributes:
        topology: What was compiled.
        device: What it runs on.
    """

    def __init__(self, topology: Topology, device: DeviceInfo, specialise: Specialise) -> None:
        """Take a topology and the function that compiles it for input shapes."""
        self.topology, self.device = topology, device
        self._specialisations = Specialisations(topology, specialise)
        self._lock = self._specialisations.lock
        self._wanted = tuple((s.name, None if s.dtype is None else s.dtype.numpy) for s in topology.inputs.values())

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every input; a dimension may be a name or ``None``."""
        return tuple(self.topology.inputs.values())

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """Name, element type and shape of every output: as compiled where inputs fix it, else as declared."""
        if self.is_static and not self._specialisations.deciding:
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
        return self._specialisations.latest is not None

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
        kept = self._specialisations.kept.values()
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

        save_model(self.topology, self._specialisations.kept, path)

    def prepare(self, shapes: Shapes | None = None, values: Values | None = None) -> Program:
        """Compile for *shapes* now, so that the first run with them does not have to; return the program.

        Args:
            values: What inputs that decide sizes inside the model will hold, such as the shape that a Reshape reads;
                their shapes need not be given.

        Raises:
            InputError: *shapes* or *values* names no input, does not fit, or leaves a size open.
            UnknownValueError: A value decides sizes and is not given.
            ClgraphError: The model cannot be compiled for them; the model stays usable for others.
        """
        known = {name: np.asarray(value) for name, value in (values or {}).items()}
        shapes = {name: array.shape for name, array in known.items()} | dict(shapes or {})
        if unknown := sorted(set(shapes) - set(self.topology.inputs)):
            raise InputError(f"no input is called {unknown[0]!r}; {self._names()}")
        for name, array in known.items():
            wanted = self.topology.inputs[name].dtype
            if wanted is not None:
                known[name] = array.astype(wanted.numpy)
        bound = tuple(self.topology.shape_of(name, shapes) for name in self.topology.inputs)
        return self._specialisations.get(bound, known).program

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
        network = self._specialisations.get(tuple(a.shape for a in arrays.values()), arrays).network
        if network is None:
            raise InputError(f"the model was compiled for {self.device.name!r}, which runs nothing: it is a dry run")
        return network

    def _current(self) -> Specialisation:
        if self._specialisations.latest is None:
            self.prepare()
        assert self._specialisations.latest is not None
        return self._specialisations.latest

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
