"""Runs a planned program: memory and kernels bound once, then copy in, submit a prepared list, copy out."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from clgraph.errors import DeviceError, InputError, ProgramError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program, Stage, Value
from clgraph.network.host import Host
from clgraph.network.places import Places
from clgraph.network.poison import poisoned_steps
from clgraph.network.profile import NodeTime, Profile, device_seconds, node_time
from clgraph.network.steps import commands, ordered_steps, visitors
from clgraph.network.tensors import constant_array, empty
from clgraph.network.watch import Watcher, watched_steps
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine

AnyEngine = Engine | HostEngine


class Network:
    """A program bound to devices. ``run`` may be called from any thread; calls are served one after the other."""

    def __init__(self, program: Program, engines: Mapping[str, AnyEngine], *, poison: bool = False) -> None:
        """Allocate the memory of *program*, copy its constants, build and bind its kernels.

        Args:
            program: At stage PLANNED.
            engines: By placement; what is placed on none of the OpenCL engines is run on the host.
            poison: Fill memory with NaN wherever it holds nothing (:mod:`clgraph.network.poison`): slow, for debugging.

        Raises:
            ProgramError: The program is not planned, or an input or output is not laid out as NumPy's arrays.
            DeviceError, DeviceMemoryError, KernelBuildError: A device cannot hold or build it.
        """
        if program.stage < Stage.PLANNED:
            raise ProgramError(f"a network needs a PLANNED program; this one is {program.stage.name}")
        for name, value in [*((v.name, v) for v in program.inputs), *program.outputs]:
            if not value.layout.is_dense_plain:
                raise ProgramError(f"{name!r} is {value.layout}; inputs and outputs of a program are plain and dense")
        self.program = program
        self._lock = threading.Lock()
        used = {*program.arenas, *(n.placement for n in program)}
        self._engines = {p: e for p, e in engines.items() if isinstance(e, Engine) and p in used}
        self._failures = next((e.failures for e in self._engines.values()), ())
        self._places = {p: Places.of(program, p, e, visitors(program, p)) for p, e in self._engines.items()}
        self._host = Host(self._places)
        self._commands = commands(program, self._places, self._host)
        streams = {p: e.stream for p, e in self._engines.items()}
        if poison:
            self._steps = poisoned_steps(program, self._commands, self._places, streams)
        else:
            self._steps = ordered_steps(self._commands, streams)
        self._feeds = [(v.name, v.layout.shape, v.layout.dtype.numpy, self._writer(v)) for v in program.inputs]
        self._names = frozenset(v.name for v in program.inputs)
        self._results = [(name, self._reader(value)) for name, value in program.outputs]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return one new array an output.

        Raises:
            InputError: A feed is missing, unknown, or has another shape or element type than the program wants.
            DeviceError: A device failed, or the process was forked since the network was made.
        """
        with self._lock:
            return self._run(feeds, self._steps)

    def profile(self, feeds: Mapping[str, Array]) -> Profile:
        """Run once with the clock on every command. Raises as :meth:`run`."""
        times: list[NodeTime] = []
        with self._lock:
            for engine in self._engines.values():
                engine.check_process()
            streams = {placement: engine.profiling_stream() for placement, engine in self._engines.items()}
            begin = time.perf_counter()

            def timed(number: int) -> Callable[[], None]:
                command = self._commands[number]
                stream = streams.get(command.placement)
                step = command.on(stream)

                def call() -> None:
                    self._finish()
                    start = time.perf_counter()
                    event = step()
                    if stream is None:
                        self._finish()
                        wait, seconds = 0.0, time.perf_counter() - start
                    else:
                        wait, seconds = device_seconds(stream.times(event))
                    times.append(
                        node_time(command.node, command.what, command.placement, start - begin + wait, seconds)
                    )

                return call

            self._run(feeds, [timed(n) for n in range(len(self._commands))])
            return Profile(tuple(times), time.perf_counter() - begin)

    def watch(self, feeds: Mapping[str, Array], watcher: Watcher) -> dict[str, Array]:
        """Run once, node by node, with *watcher* told what each reads and makes. Returns and raises as :meth:`run`."""
        streams = {placement: engine.stream for placement, engine in self._engines.items()}
        with self._lock:
            steps = watched_steps(self.program, self._commands, self._host, streams, watcher)
            return self._run(feeds, steps)

    def _run(self, feeds: Mapping[str, Array], steps: Iterable[Callable[[], Any]]) -> dict[str, Array]:
        for engine in self._engines.values():
            engine.check_process()
        arrays = self._arrays(feeds)
        try:
            for (_, _, _, write), array in zip(self._feeds, arrays, strict=True):
                write(array)
            for step in steps:
                step()
            results = {name: read() for name, read in self._results}
            self._finish()
        except self._failures as error:
            raise DeviceError(f"the device failed while running: {error}") from error
        finally:
            # Whatever was raised: nothing may be in flight when the arrays it reads go away.
            with contextlib.suppress(DeviceError):
                self._finish()
            self._host.forget()
        return results

    def _arrays(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the feeds, each C-contiguous, in the order of the inputs."""
        if feeds.keys() != self._names:
            raise InputError(_wrong_names([name for name, *_ in self._feeds], list(feeds)))
        found = []
        for name, shape, dtype, _ in self._feeds:
            array = feeds[name]
            if not isinstance(array, np.ndarray):
                raise InputError(f"input {name!r} is a {type(array).__name__}, not a NumPy array")
            if array.shape != shape or array.dtype != dtype:
                given = f"{array.dtype} {list(array.shape)}"
                raise InputError(f"input {name!r} wants {dtype} {list(shape)}, not {given}")
            found.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
        return found

    def _writer(self, value: Value) -> Callable[[Array], None]:
        if value.buffer is None:
            return lambda array: None
        if (places := self._places.get(value.buffer.placement)) is not None:
            return lambda array: places.write(value, array)
        return lambda array: self._host.put(value, array)

    def _reader(self, value: Value) -> Callable[[], Array]:
        shape, dtype = value.layout.shape, value.layout.dtype.numpy
        places = None if value.buffer is None else self._places.get(value.buffer.placement)

        def from_device() -> Array:
            array = empty(shape, dtype)
            if places is not None:
                places.read_into(value, array)
            return array

        def from_host() -> Array:
            array = empty(shape, dtype)
            array[...] = constant_array(value) if value.constant is not None else self._host.get(value)
            return array

        return from_host if places is None or value.constant is not None else from_device

    def _finish(self) -> None:
        for engine in self._engines.values():
            engine.stream.finish()


def _wrong_names(wanted: list[str], given: list[str]) -> str:
    missing, unknown = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    parts = [f"input {missing[0]!r} is missing"] if missing else []
    parts += [f"no input is called {unknown[0]!r}"] if unknown else []
    return f"{'; '.join(parts)}: the inputs are {', '.join(map(repr, wanted)) or 'none'}"
