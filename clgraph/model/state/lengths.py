"""The arithmetic of lengths and masks, which the host does before every run: a few small layers with NumPy.

Where only a value's shape is asked for, as that of the tokens' embeddings is, its elements are not computed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError, InputError, ShapeError, UnsupportedError
from clgraph.graph.composite import Composite
from clgraph.graph.faults import faults
from clgraph.graph.interpret import compute
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.refusals import refusals
from clgraph.graph.topology import Inlinable, Topology
from clgraph.handlers import pass_on
from clgraph.model.state.joined import joined
from clgraph.model.state.quick import quick
from clgraph.model.state.quick_shapes import quick_shape

_REFUSALS = refusals()

_KEPT_BYTES = 8 << 20
"""What is kept of a model takes: a few thousand lengths up to some hundred tokens, fewer of long texts."""

_ZERO = bytes(16)

_SMALL = 64
"""Elements of a result that is compared with the last one."""


class Lengths:
    """Arithmetic of lengths and masks, computed by the host once a token, as far as its inputs have changed.

    What it made of the same lengths and masks is kept; else what follows from something else than at the last token is
    computed anew.

    Attributes:
        topology: What is computed.
        read: Inputs whose elements it needs, not only their shapes.
    """

    def __init__(self, topology: Topology) -> None:
        """Take the layers; nothing is bound yet."""
        self.topology = topology
        shaped, read = _shaped(topology)
        self._steps = [_Step(x, x.name in shaped, _is_kept(x, topology), topology.constants) for x in topology.layers]
        self.read = frozenset(read & topology.inputs.keys())
        self._compute = joined(topology)
        self._fed: dict[str, Array] = {}
        self._known: OrderedDict[Hashable, dict[str, Array]] = OrderedDict()
        self._nbytes = 0

    def values(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, which nobody writes to.

        Raises ``ShapeError``, ``UnsupportedError`` or ``InputError``, which name the layer that does not fit.
        """
        if not self._steps:
            given = {**self.topology.constants, **feeds}
            return {name: given[source] for name, source in self.topology.outputs}
        key = self._key(feeds)
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        made = self._made(feeds)
        self._known[key] = made
        self._nbytes += _nbytes(key, made)
        while self._nbytes > _KEPT_BYTES:
            self._nbytes -= _nbytes(*self._known.popitem(last=False))
        return made

    def _key(self, feeds: Mapping[str, Array]) -> Hashable:
        """Return what the outputs depend on: shapes, and elements that are read."""
        return tuple([a.tobytes() if name in self.read else 0 for name, a in feeds.items()]), tuple(
            [(a.shape, a.dtype) for a in feeds.values()]
        )

    def _made(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        held = [self._held(name, feeds[name]) for name in self.topology.inputs]
        with np.errstate(all="ignore"):  # once for all steps, whose own references do it as well
            made = self._compute(self._steps, held, self.topology.constants.values())
        return {name: _unchanging(a) for (name, _), a in zip(self.topology.outputs, made, strict=True)}

    def _held(self, name: str, array: Array) -> Array:
        """Return what was fed last if *array* is no other, else a copy, which its owner cannot change."""
        held = self._fed.get(name)
        if name not in self.read:
            if held is None or held.shape != array.shape or held.dtype != array.dtype:
                held = self._fed[name] = zeros(array.shape, array.dtype)
        elif held is None or not _same(held, array, array.size):
            held = self._fed[name] = array.copy()
        return held


class _Step:
    """A layer with what it has last made, and what it is bound to where sizes do not change that.

    Attributes:
        results: What it has last made.
        arguments: What it was made of.
    """

    def __init__(self, layer: Layer, shaped: bool, kept: bool, constants: Mapping[str, Array]) -> None:
        """Take a layer.

        Args:
            shaped: Only the shapes of its results are read.
            kept: It is bound alike at all sizes.
            constants: What is the same in every run, by name.
        """
        self.layer = layer
        self.results: tuple[Array, ...] = ()
        self.arguments: tuple[Array | None, ...] = (None,) * len(layer.inputs)
        self._shaped, self._kept = shaped, kept
        self._quick, self._shape = quick(layer, constants), quick_shape(layer, constants)
        self._bound: dict[tuple[int, ...], tuple[Callable[..., tuple[Array, ...]], tuple[int, ...]]] = {}

    def run(self, *arguments: Array) -> None:
        """Compute the results; those that are the same again stay the same arrays, so that what reads them sees it.

        Raises as :meth:`Lengths.values`.
        """
        try:
            made = self._computed(arguments)
        except Exception as error:  # it may be of any class
            _refuse(self.layer, error)
        last = self.results
        if len(made) == 1 == len(last):
            if not self._again(made[0], last[0]):
                self.results = made
        elif len(made) != len(last) or not all(map(self._again, made, last)):
            self.results = made
        self.arguments = arguments

    def _again(self, made: Array, last: Array) -> bool:
        if self._shaped:
            return made.shape == last.shape and made.dtype == last.dtype
        return _same(made, last, _SMALL)

    def _computed(self, arguments: Sequence[Array]) -> tuple[Array, ...]:
        if self._shaped:
            if self._shape is None:
                return _of_shape(self.layer.primitive, arguments)
            try:
                return (zeros(self._shape(arguments), arguments[0].dtype),)
            except Exception as error:  # what does not fit is refused below
                pass_on(error)
                return _of_shape(self.layer.primitive, arguments)
        if self._quick is not None:
            try:
                return (self._quick(*arguments),)
            except Exception as error:  # what does not fit is refused below
                pass_on(error)
                return compute(self.layer.primitive, arguments)
        if not self._kept or 0 in [a.size for a in arguments]:
            return compute(self.layer.primitive, arguments)
        key = tuple([a.ndim for a in arguments])
        if (bound := self._bound.get(key)) is None:
            layouts = [Layout.of(a) for a in arguments]
            made = self.layer.primitive.bind(layouts, arguments)
            rounded = any(x.dtype == DType.BF16 for x in layouts)
            function = made.primitive.computed if rounded else made.primitive.reference
            bound = self._bound[key] = function, made.keep
        function, keep = bound
        return function(*[arguments[i] for i in keep])


def _same(a: Any, b: Any, most: int) -> bool:
    """Whether two arrays of at most *most* elements are the same."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.shape != b.shape or a.size > most:
        return False
    dtype = a.dtype
    return dtype == b.dtype and not dtype.hasobject and a.tobytes() == b.tobytes()


def zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Return what ``numpy.broadcast_to`` makes of a zero of numbers, in a tenth of its time."""
    return np.ndarray(shape, dtype, _ZERO, strides=(0,) * len(shape))


def _unchanging(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _nbytes(key: Any, made: Mapping[str, Array]) -> int:
    """Return about what a key and its values take."""
    return 1000 + sum(len(a) for a in key[0] if a) + sum(a.nbytes for a in made.values())


def _is_kept(layer: Layer, topology: Topology) -> bool:
    """Whether a layer is bound alike at all sizes."""
    primitive = layer.primitive
    if primitive.data_dependent or isinstance(primitive, Inlinable):
        return False
    if type(primitive).bind is Primitive.bind:
        return True
    slots = primitive.value_slots()
    return not primitive.takes_sizes() and all(layer.inputs[i] in topology.constants for i in slots)


def _refuse(layer: Layer, error: Exception) -> NoReturn:
    """Raise what *error* of *layer* is to its caller."""
    try:
        with faults("the arithmetic of lengths", layer.name, layer.origin), _REFUSALS:
            raise error
    except (ShapeError, UnsupportedError, DeviceMemoryError, InputError) as refusal:
        raise type(refusal)(f"node {layer.name!r} ({layer.primitive}): {refusal}") from refusal


def _shaped(topology: Topology) -> tuple[set[str], set[str]]:
    """Return the layers whose results are read for their shapes alone, and the values of which elements are read."""
    read, found = {value for _, value in topology.outputs}, set[str]()
    for layer in reversed(topology.layers):
        primitive = layer.primitive
        if primitive.shapes_only:
            continue
        if primitive.data_dependent or _chooses(primitive) or read & set(layer.outputs):
            read |= set(layer.inputs)
        else:
            found.add(layer.name)
            read |= {layer.inputs[i] for i in primitive.value_slots()}
    return found, read


def _chooses(primitive: Primitive) -> bool:
    """Whether elements of any input may choose what is made, as they do of an If, but not of a composite operator."""
    return isinstance(primitive, Inlinable) and (not isinstance(primitive, Composite) or bool(primitive.value_slots()))


def _of_shape(primitive: Primitive, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Return zeros of the results' shapes, which take no memory."""
    layouts, slots = [Layout.of(a) for a in arguments], primitive.value_slots()
    bound = primitive.bind(layouts, [a if i in slots else None for i, a in enumerate(arguments)])
    made = bound.primitive.infer([layouts[i] for i in bound.keep])
    return tuple(np.broadcast_to(np.zeros((), x.dtype.numpy), x.shape) for x in made)
