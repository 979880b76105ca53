"""Which axes of a cut topology are tokens', and whether anything but attention lets tokens see one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import ShapeError, UnknownValueError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.biases import declared
from clgraph.model.state.cut_topology import LENGTHS, PLACES, STATE, CutTopology
from clgraph.model.state.last import LAST, Places, TokenAxis
from clgraph.model.state.wide import SHOWN, shown
from clgraph.ops.microsoft.moe import MixtureOfExperts

_COUNTS = (131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211, 223, 227, 229, 233)
"""Numbers of tokens to tell axes by: primes, of which one divides no size of a model's weights."""

_FEW = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
"""The same for models whose masks are constants that have no more rows."""

_PLACES = (241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317)
"""Places of caches to tell axes by: primes, more than there are tokens."""

_APART = frozenset({"cached_attention", "cache_join", "transpose", "reorder", "expand", "repeat", "where", "identity"})
"""Kinds that keep tokens apart whatever their attributes are; elementwise ones do so too."""

_ALONG_AXES = frozenset(
    {"reduce", "softmax", "slice", "concat", "split", "gather", "layer_normalization", "rotation"}
    | {"top_k", "arg", "cumulative_sum", "gather_elements", "scatter_elements"}
)
"""Kinds that keep them apart where none of their axes is the tokens' one."""


@frozen
class Tokens:
    """Which axes have a place for each new token.

    Attributes:
        results: Of the outputs; ``None`` for those that have none.
        places: Of each value its shape for one text and that axis, ``None`` for those that have none; but for values
            where tokens share an axis with others, or have several.
        apart: Whether a token's results depend on others through attention alone.
        behind: Whether several tokens may stand behind others, as far as the host's arithmetic goes: some exporters'
            masks are made for a whole prompt or for one token.
    """

    results: Mapping[str, int | None]
    places: Places
    apart: bool
    behind: bool


def tokens_of(parts: CutTopology) -> Tokens:
    """Build the topology for a prime number of tokens, and see where it appears; a fixed number has no axis.

    Raises:
        ClgraphError: The topology cannot be built.
    """
    if not any(parts.token_axes.values()):
        return Tokens({name: None for name, _ in parts.device.outputs}, {}, apart=False, behind=False)
    constants = {n for a in parts.device.constants.values() for n in a.shape}
    latest = max(c.latest for c in parts.caches.caches)  # of models that are exported for as many past tokens only
    for past, counts in ((p, few) for p in dict.fromkeys((3, latest, 0)) for few in (_COUNTS, _FEW)):
        count = next((p for p in counts if all(n % p for n in constants)), counts[0])
        try:
            program = _probed(parts, count, past)
            break
        except ShapeError:
            if not past and counts is _FEW:
                raise
    results = {
        name: next((i for i, n in enumerate(value.layout.shape) if n == count), None) for name, value in program.outputs
    }
    mixtures = tuple(f"{x.name}/" for x in parts.device.layers if isinstance(x.primitive, MixtureOfExperts))
    apart = (
        all(node.name.startswith(mixtures) or _keeps_apart(node, count) for node in program)
        and None not in results.values()
    )
    return Tokens(results, places_of(program, count), apart, past > 0)


def places_of(program: Program, count: int) -> Places:
    """Return :attr:`Tokens.places` of what *program* has for *count* tokens."""
    places = dict[str, TokenAxis]()
    for value in (*program.inputs, *(v for node in program for v in node.outputs)):
        shape = value.layout.shape
        sizes = [(i, n) for i, n in enumerate(shape) if n and n % count == 0]
        if not sizes or sizes == [(sizes[0][0], count)]:
            places[value.name] = TokenAxis(shape, sizes[0][0] if sizes else None)
    return places


def _probed(parts: CutTopology, count: int, past: int) -> Program:
    """Return the program for one text of *count* tokens behind a *past*."""
    values = parts.host_values(feeds := ones(parts, 1, count, past), 1, past)
    crossing = {name: values[name] for name in parts.crossing}
    biases = {b.input: declared(values[b.value]) for b in parts.biases}
    rest = {name: a for name, a in feeds.items() if name in parts.device.inputs}
    if parts.wide is None:
        return build(parts.device, rest | crossing | biases, 1, count)
    places = _few_places(parts)
    crossing = parts.wide.widened(crossing, places) | {SHOWN: shown(past + count, places)}
    return build(
        parts.sized(parts.device, ones(parts, 1, count, places - count), 1, places - count), rest | crossing, 1, count
    )


def probed_places(parts: CutTopology) -> tuple[Program, int]:
    """Return the program for one token behind some, and its number of places, which divides no other size.

    Raises ``ClgraphError`` where it cannot be built.
    """
    return _probed(parts, 1, 3), _few_places(parts)


def _few_places(parts: CutTopology) -> int:
    constants = {n for a in parts.device.constants.values() for n in a.shape}
    return next((p for p in _PLACES if all(n % p for n in constants)), _PLACES[0])


def bound(topology: Topology, feeds: Mapping[str, Array], batch: int, count: int) -> Topology:
    """Return a device's topology with the shapes and types of *feeds*, for *batch* texts and *count* tokens of each.

    *feeds* are the inputs that it has beside those that :mod:`clgraph.model.state.cut_topology` names.
    """
    own: dict[str, tuple[int, ...]] = {LENGTHS: (1 + batch,), PLACES: (batch, count), STATE: (1,), LAST: (1,)}
    inputs = {}
    for name, s in topology.inputs.items():
        shape = own[name] if name in own else feeds[name].shape
        dtype = s.dtype if s.dtype is not None else DType.of(feeds[name].dtype)
        inputs[name] = Signature(name, dtype, shape)
    return replace(topology, inputs=inputs)


def opened_shape(parts: CutTopology, name: str, shape: Shape) -> tuple[Dimension, ...]:
    """Return the *shape* of an input of the model with open sizes where it declares such that no text or token has."""
    of_others = {parts.batch_axes.get(name), *parts.token_axes.get(name, ())}
    declared = parts.shapes[name]
    if len(declared) != len(shape):
        return shape
    return tuple(
        n if isinstance(d, int) or i in of_others else d for i, (n, d) in enumerate(zip(shape, declared, strict=True))
    )


def build(device: Topology, feeds: Mapping[str, Array], batch: int, count: int) -> Program:
    """Return the program of a *device*'s topology before any pass, with what decides sizes taken from *feeds*."""
    topology, values = bound(device, feeds, batch, count), dict[str, Array]()
    while True:
        try:
            return topology.build(None, values)
        except UnknownValueError as error:
            more = {name: feeds[name] for name in error.inputs if name in feeds and name not in values}
            if not more:
                raise
            values |= more


def ones(parts: CutTopology, batch: int, count: int, past: int) -> dict[str, Array]:
    """Return ones for the model's inputs, but the pasts: of texts of *past* tokens and *count* new ones."""
    names = {parts.shapes[n][i] for n, axes in parts.token_axes.items() for i in axes} - {None}
    feeds = {}
    for name, shape in parts.shapes.items():
        axes = parts.token_axes.get(name)
        sizes = []
        for i, d in enumerate(shape):
            of_tokens = i in axes if axes is not None else d in names
            of_texts = i == (parts.batch_axes.get(name) if axes is not None else 0)
            open_size = count if of_tokens else batch if of_texts else 1 if axes is not None else past + count
            sizes.append(d if isinstance(d, int) else open_size)
        feeds[name] = np.ones(sizes, parts.types[name].numpy)
    return feeds


def _keeps_apart(node: Node, count: int) -> bool:
    primitive, kind = node.primitive, node.primitive.kind
    if not node.inputs or all(0 in v.layout.shape for v in node.outputs):
        return True
    first = node.inputs[0].layout.shape
    at = {i for i, n in enumerate(first) if n and n % count == 0}
    if primitive.elementwise or kind in _APART:
        return True
    if not any(n and n % count == 0 for v in node.inputs for n in v.layout.shape):
        return True
    if kind == "reshape":
        before, after = _step(node.inputs[0], count), _step(node.output, count)
        return before is not None and before == after
    if "matmul" in kind:
        return (len(first) - (2 if getattr(primitive, "transpose_a", False) else 1)) not in at
    if kind == "slice":
        return not at or [n for n in first if n % count == 0] == [n for n in node.output.layout.shape if n % count == 0]
    if kind not in _ALONG_AXES:
        return False
    axes = getattr(primitive, "axes", None)
    return not at & {a % len(first) for a in (axes if axes is not None else [getattr(primitive, "axis", -1)])}


def _step(value: Value, count: int) -> int | None:
    """Return how many elements of a dense *value* lie from one token to the next; ``None`` if it is not known.

    Tokens that share an axis with others are followed to where they have one of their own.
    """
    shape = value.layout.shape
    axes = [i for i, n in enumerate(shape) if n and n % count == 0]
    own = [i for i in axes if shape[i] == count]
    if own:
        return prod(shape[own[0] + 1 :])
    if len(axes) != 1 or (maker := value.producer) is None:
        return None
    if maker.primitive.kind == "reshape":
        return _step(maker.inputs[0], count)
    (axis,) = axes
    tiled = maker.primitive.kind == "repeat"
    for x in maker.inputs:
        like = [i for i, n in enumerate(x.layout.shape) if n and n % count == 0]
        if len(like) == 1 and (tiled or x.layout.shape[like[0]] == shape[axis]):
            step = _step(x, count)
            return None if step is None else step // prod(x.layout.shape[like[0] + 1 :]) * prod(shape[axis + 1 :])
    return None
