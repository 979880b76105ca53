"""Feeds and results of a run: feeds of any kind, results in new arrays, the caller's, or tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.errors import DeviceMemoryError, InputError
from clgraph.graph.batch_slices import whole_shape
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.model.feeds import is_literal, literal, names
from clgraph.model.numpy_arrays import wrong_type
from clgraph.model.tensor import Tensor, new_tensor, taken
from clgraph.runtime.callers_buffer import is_array
from clgraph.runtime.memory import Memory

if TYPE_CHECKING:
    from clgraph.network.cancelling import Cancellation
    from clgraph.network.feed import Held
    from clgraph.network.network import Network

Outputs = Mapping[str, "Array | Tensor | None"] | Sequence[str] | None
"""The results wanted: all, some by name, or some by name with the array or tensor that is to hold each."""


def wanted_types(inputs: Iterable[Signature]) -> tuple[tuple[str, np.dtype[Any] | str | None], ...]:
    """Return the types that :func:`as_arrays` converts feeds to: (name, NumPy type, or ONNX's type of a host value)."""
    return tuple((s.name, s.host_type or (None if s.dtype is None else s.dtype.numpy)) for s in inputs)


def as_arrays(feeds: Mapping[str, Any], wanted: Sequence[tuple[str, np.dtype[Any] | str | None]]) -> dict[str, Any]:
    """Return *feeds* in the order *wanted*, each as an array or tensor of the element type that is asked for.

    What is not a tensor of numbers is wanted by its type, a text, and returned as a run has it.

    Raises:
        InputError: One is missing, unknown, no array, or of another type.
        DeviceMemoryError: The host has no memory left for a copy.
    """
    if not isinstance(feeds, dict | Mapping):
        raise InputError(f"inputs are a dictionary of arrays by name, not {type(feeds).__name__}; {names(wanted)}")
    arrays: dict[str, Any] = {}
    for name, dtype in wanted:
        if name not in feeds:
            strange = sorted(feeds.keys() - {name for name, _ in wanted}, key=str)
            told = f", and no input is called {strange[0]!r}" if strange else ""
            raise InputError(f"input {name!r} is missing{told}; {names(wanted)}")
        given = feeds[name]
        if type(given) is np.ndarray and given.dtype is dtype:
            arrays[name] = given
            continue
        if isinstance(dtype, str):
            from clgraph.model.host_feeds import take

            arrays[name] = take(given, dtype, f"input {name!r}")
            continue
        if dtype is not None and is_literal(given):
            given = literal(given, dtype, f"input {name!r}")
        array = taken(given, f"input {name!r}")
        if array.dtype != dtype:
            if dtype is None or array.dtype.newbyteorder("=") != dtype or isinstance(array, Tensor):
                raise InputError(wrong_type(f"input {name!r}", given, array.dtype, dtype))
            array = _native(array, dtype, name)
        arrays[name] = array
    if len(feeds) != len(arrays):
        unknown = sorted(set(feeds) - set(arrays), key=str)
        raise InputError(f"no input is called {unknown[0]!r}; {names(wanted)}")
    return arrays


def _native(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    try:
        return array.astype(dtype)
    except MemoryError as error:
        raise DeviceMemoryError(f"the host has no memory left to change the byte order of input {name!r}") from error


def run_network(
    network: Network,
    feeds: Mapping[str, Array | Tensor],
    outputs: Outputs = None,
    *,
    tensors: bool = False,
    cancellation: Cancellation | None = None,
) -> dict[str, Any]:
    """Run *network* once and leave the results where *outputs* says, the others in new tensors or arrays.

    Raises:
        InputError: *outputs* names no result, or what it gives cannot hold it.
        ClgraphError: As :meth:`Network.run`.
    """
    held = {n: given if type(given) is np.ndarray else _held(given, network) for n, given in feeds.items()}
    if outputs is None and not tensors:
        return network.run(held, None, cancellation)
    program = network.program
    layouts = {name: (whole_shape(program, v), v.layout.dtype.numpy) for name, v in program.outputs}
    places = wanted_places(layouts, outputs)
    if tensors:
        places = {n: new_tensor(network.engine, *layouts[n]) if p is None else p for n, p in places.items()}
    targets = {name: _target(place, network) for name, place in places.items()}
    results = network.run(held, targets, cancellation)
    return {name: _delivered(place, targets[name], results[name]) for name, place in places.items()}


def enqueue_network(
    network: Network, feeds: Mapping[str, Array | Tensor], outputs: Mapping[str, Any], wait_for: Sequence[Any]
) -> Any:
    """Enqueue a run of *network* on the caller's queue; return its event. Raises as :meth:`Model.enqueue`."""
    program = network.program
    layouts = {name: (whole_shape(program, v), v.layout.dtype.numpy) for name, v in program.outputs}
    places = {n: Tensor.from_buffer(p) if is_array(p) else p for n, p in outputs.items()}
    targets = wanted_places(layouts, places)
    read = {n: _device_memory(given, network, f"input {n!r}") for n, given in feeds.items()}
    return network.enqueue(read, {n: _device_memory(p, network, f"output {n!r}") for n, p in targets.items()}, wait_for)


def _device_memory(given: Array | Tensor | None, network: Network, what: str) -> Memory:
    memory = given.memory if isinstance(given, Tensor) else None
    if memory is None or not network.holds(memory):
        raise InputError(
            f"{what} of a run that is enqueued lies in a buffer of the queue's context: give a pyopencl array, or "
            "clgraph.Tensor.from_buffer"
        )
    return memory


def deliver(
    results: Mapping[str, Array], outputs: Outputs, *, tensors: bool = False, device: str | int = "host"
) -> dict[str, Any]:
    """Hand out *results* as *outputs* asks: copied into its arrays and tensors, as tensors of *device*, or as they are.

    Raises as :func:`run_network`.
    """
    found: dict[str, Any] = {}
    layouts = {name: (array.shape, array.dtype) for name, array in results.items()}
    for name, place in wanted_places(layouts, outputs).items():
        if isinstance(place, Tensor):
            place.fill(results[name])
        elif place is not None:
            np.copyto(np.asarray(place), results[name])
        found[name] = (Tensor(results[name], device) if tensors else results[name]) if place is None else place
    return found


def wanted_places(
    layouts: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]] | None], outputs: Outputs
) -> dict[str, Array | Tensor | None]:
    """Return what is to hold each result that *outputs* asks for, ``None`` for a new array; *layouts* is about all.

    A result without a layout is not a tensor, and no array holds it.

    Raises:
        InputError: No result has a name; an array has another shape or type, is read-only, or overlaps another.
    """
    if outputs is None:
        return dict.fromkeys(layouts)
    if isinstance(outputs, str) or not isinstance(outputs, Mapping | Sequence):
        raise InputError(f"outputs are names, or arrays by name, not {type(outputs).__name__}")
    places = dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    for name, place in places.items():
        if name not in layouts:
            raise InputError(f"no output is called {name!r}; the outputs are {', '.join(map(repr, layouts))}")
        if place is not None and (layout := layouts[name]) is None:
            raise InputError(f"output {name!r} is not a tensor, and no array can hold it: give None for it")
        if place is not None and layout is not None:
            _check_place(name, place, *layout)
    arrays = {n: p if isinstance(p, np.ndarray) else p.held for n, p in places.items() if p is not None}
    given = [(n, a) for n, a in arrays.items() if isinstance(a, np.ndarray)]
    for number, (name, array) in enumerate(given):
        for other, second in given[:number]:
            if _overlap(array, second):
                raise InputError(f"the arrays for the outputs {other!r} and {name!r} overlap")
    return places


_GLANCE: Any = 1000
"""Steps of NumPy's search for a common byte, which may take exponentially many."""


def _overlap(first: Array, second: Array) -> bool:
    """Whether two arrays have bytes in common, or to tell takes more than a glance."""
    try:
        return np.shares_memory(first, second, max_work=_GLANCE)
    except np.exceptions.TooHardError:
        return True


def _repeats(place: Array) -> bool:
    """Whether several elements of *place* may lie at one address: an axis steps not past those inside it."""
    reach = place.itemsize
    for step, size in sorted((abs(s), n) for s, n in zip(place.strides, place.shape, strict=True) if n > 1):
        if step < reach:
            return place.size > 0
        reach = step * (size - 1) + reach
    return False


def _check_place(name: str, place: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if not isinstance(place, np.ndarray | Tensor):
        raise InputError(f"output {name!r} goes into a NumPy array or a Tensor, not into a {type(place).__name__}")
    if place.shape != shape or place.dtype != dtype:
        raise InputError(
            f"output {name!r} is {dtype} {list(shape)}; the given array is {place.dtype} {list(place.shape)}"
        )
    if not (place.flags.writeable if isinstance(place, np.ndarray) else place.is_writable):
        raise InputError(f"output {name!r} cannot be written: the given array is read-only")
    if isinstance(place, np.ma.MaskedArray):
        raise InputError(f"output {name!r} has no mask, and the given array is masked: give its .data")
    if isinstance(place, np.ndarray) and not place.flags.c_contiguous and _repeats(place):
        raise InputError(f"output {name!r} cannot be written: elements of the given array lie at the same address")


def _held(given: Array | Tensor, network: Network) -> Held:
    if not isinstance(given, Tensor):
        return given
    held = _lying(given, network)
    return given.numpy() if isinstance(held, Memory) and not network.holds(held) else held


def _target(place: Array | Tensor | None, network: Network) -> Held | None:
    if place is None or type(place) is np.ndarray:
        return place
    if not isinstance(place, Tensor):
        return np.asarray(place)  # a derived class may write otherwise
    held = _lying(place, network)
    return None if isinstance(held, Memory) and not network.holds(held) else held


def _lying(tensor: Tensor, network: Network) -> Held:
    """Return the memory of *tensor* for *network*: its buffer if the network copies through a queue, else its array."""
    memory, engine = tensor.memory, network.engine
    through_queue = engine is not None and "host_memory" not in engine.info.features
    return memory if memory is not None and through_queue else tensor.held


def _delivered(place: Array | Tensor | None, target: Held | None, result: Any) -> Any:
    if isinstance(place, Tensor) and target is None:
        place.fill(result)
    return result if place is None else place
