"""Runs over caches: a few programs by numbers of tokens, each for every length; prompts in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from clgraph.core.dtype import largest
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import InputError, UnknownValueError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.keys import Known
from clgraph.model.specialisations import Specialisation, Specialise
from clgraph.model.state.biases import BiasMemory, declared, widened
from clgraph.model.state.caches import Caches
from clgraph.model.state.last import LAST, of_last_tokens
from clgraph.model.state.parts import LENGTHS, PLACES, STATE, Parts
from clgraph.model.state.tokens import Tokens, bound, tokens_of
from clgraph.network.cancelling import Cancellation
from clgraph.network.network import Network
from clgraph.network.workspace import Workspace

PIECES = (1, 16, 128)
"""Tokens of each text that a program computes: a prompt comes in pieces of the last, and its rest in smaller ones."""

FEW = 80
"""Up to this many tokens are computed sooner in pieces of the second size than in one of the last, padded."""


@frozen
class Piece:
    """Tokens *start* to *start + count* of a run, computed by a program for *rows* of them."""

    start: int
    count: int
    rows: int


@frozen
class Appended:
    """What a run has made: results by name, and the places that it has written, up to the tokens there are then."""

    results: dict[str, Array]
    first: int
    total: int


class Programs:
    """The programs of one cut topology. Calls come one at a time.

    Attributes:
        parts: What was cut.
        latest: The program used last.
    """

    def __init__(self, parts: Parts, specialise: Specialise, like: Workspace) -> None:
        """Compile by *specialise*, and share constants with *like*."""
        self.parts = parts
        self._specialise, self._workspace = specialise, Workspace(like)
        self._made: dict[tuple[Shape, ...], list[tuple[dict[str, Known], Specialisation]]] = {}
        self._lasts: dict[Topology, Topology] = {}
        self._biases = {b.input: BiasMemory() for b in parts.biases}
        self.latest: Specialisation | None = None

    @cached_property
    def tokens(self) -> Tokens:
        """Which axes are tokens'."""
        return tokens_of(self.parts)

    @property
    def made(self) -> tuple[Specialisation, ...]:
        """All programs there are."""
        return tuple(s for found in self._made.values() for _, s in found)

    def run(
        self,
        caches: Caches,
        feeds: Mapping[str, Array],
        past: int,
        wanted: Sequence[str],
        targets: Mapping[str, Array | None],
        cancellation: Cancellation | None = None,
        *,
        last: bool = False,
        carried: Mapping[str, str] | None = None,
    ) -> Appended:
        """Append the new tokens of *feeds* to *caches*.

        Args:
            feeds: The model's inputs, but the pasts.
            past: How many tokens of each text the mask in *feeds* and the caches have.
            wanted: Results that are no presents.
            targets: Arrays that are to hold results, by name.
            last: Results are of the last token alone.
            carried: Results, which are *wanted*, that a piece takes from the one before, by the inputs that take them.

        Raises:
            InputError: The feeds do not fit one another, or the lengths that they tell the caches.
            ClgraphError: As compiling and running.
        """
        batch, count = caches.batch, self.parts.count(feeds)
        values = self.parts.host_values(feeds, batch, past)
        first = self.parts.first_places(values, batch, past, count)
        if first.min() < 0 or first.max() > caches.filled:
            what = f"the first new token stands at place {first.tolist()}, behind {caches.filled} tokens of the caches"
            raise InputError(f"{what}: the lengths or masks that are fed are those of another text")
        total = int(first.max()) + count
        if odd := [shape for b in self.parts.biases if (shape := values[b.value].shape)[-1:] not in ((1,), (total,))]:
            raise InputError(
                f"what is fed as a mask, or added to scores, is {list(odd[0])}: it needs a column for each of the "
                f"{total} tokens, the new ones included"
            )
        caches.keep(int(first.max()))
        found: dict[str, list[Array]] = {name: [] for name in wanted}
        carried = carried or {}
        ends = set(carried.values())
        rest = [name for name in wanted if name not in ends]
        pieces = list(self._unpadded(count, rest) if ends else self._pieces(count, values, past))
        device = self._device(values, past)
        if last and (count > 1 or len(pieces) > 1):
            device = self._of_last(device)
        for piece in pieces:
            own = self._cut(feeds, piece, count, past)
            told = self._told(own, values if len(pieces) == 1 else None, batch, piece, past + piece.start)
            to = targets if len(pieces) == 1 else {}
            results = self._run_piece(device, caches, own, told, first, piece, total, wanted, to, cancellation)
            feeds = {**feeds, **{name: results[end] for name, end in carried.items()}}
            for name in wanted if not last else ():
                found[name] = [results[name]] if name in ends else [*found[name], results[name]]
        if last:
            found = {name: [self._last_of(name, results[name], pieces[-1])] for name in wanted}
        caches.filled = total
        results = {name: self._joined(name, parts, targets.get(name)) for name, parts in found.items()}
        return Appended(results, int(first.min()), total)

    def _pieces(self, count: int, values: Mapping[str, Array], past: int) -> Iterator[Piece]:
        start = 0
        if count in PIECES or not self.parts.token_axes or not self.tokens.apart:
            yield Piece(0, count, count)
            return
        if not self.tokens.behind or not self._causal(values, past):
            # Nothing shows rows behind the tokens where a bias does not: it is as wide as the tokens are.
            yield Piece(0, count, max(PIECES[1], 1 << (count - 1).bit_length()) if self.parts.biases else count)
            return
        while start < count:
            left = count - start
            rows = PIECES[0] if left == 1 else PIECES[1] if left <= FEW else PIECES[2]
            yield Piece(start, min(rows, left), rows)
            start += rows

    def _unpadded(self, count: int, results: Sequence[str]) -> Iterator[Piece]:
        """Yield pieces without rows behind their tokens, which values that are carried would take for tokens."""
        tokens = self.tokens
        if not tokens.behind or any(tokens.results[name] is None for name in results):
            yield Piece(0, count, count)
            return
        start = 0
        for rows in reversed(PIECES):
            while count - start >= rows:
                yield Piece(start, rows, rows)
                start += rows

    def _causal(self, values: Mapping[str, Array], past: int) -> bool:
        """Whether no token sees one behind it, as far as attentions or what is added to their scores say."""
        if not self.parts.looks_ahead:
            return True
        return bool(self.parts.biases) and all(_hides_ahead(values[b.value], past) for b in self.parts.biases)

    def _device(self, values: Mapping[str, Array], past: int) -> Topology:
        """Return the topology for biases of these *values*."""
        plain, biases = self.parts.plain, [values[b.value] for b in self.parts.biases]
        if plain is None:
            return self.parts.device
        if not self.parts.looks_ahead and all(_hides_nothing(b) for b in biases):
            return plain
        return plain if all(_hides_ahead(b, past, alone=True) for b in biases) else self.parts.device

    def _cut(self, feeds: Mapping[str, Array], piece: Piece, count: int, past: int) -> dict[str, Array]:
        """Return what *feeds* have for the tokens of *piece*, and of inputs that grow for all up to its last."""
        if piece.count == count:
            return dict(feeds)
        names = {self.parts.shapes[n][i] for n, axes in self.parts.token_axes.items() for i in axes}
        found = {}
        for name, array in feeds.items():
            index = [slice(None)] * array.ndim
            axes = self.parts.token_axes.get(name)
            for i, d in enumerate(self.parts.shapes[name]):
                if i in axes if axes is not None else d in names and d is not None:
                    index[i] = slice(piece.start, piece.start + piece.count)
                elif axes is None and not isinstance(d, int) and array.shape[i] == past + count and i > 0:
                    index[i] = slice(0, past + piece.start + piece.count)
            found[name] = array[tuple(index)]
        return found

    def _told(
        self, feeds: Mapping[str, Array], values: Mapping[str, Array] | None, batch: int, piece: Piece, past: int
    ) -> dict[str, Array]:
        """Return what the host computes for *piece*, *values* if that is known: for all of its rows, but for biases."""
        parts, more = self.parts, piece.rows - piece.count
        found = dict(values or parts.host_values(feeds, batch, past))
        if more and parts.crossing:
            wide = {n: _padded(a, self._axes(n, a, past + piece.count), more) for n, a in feeds.items()}
            told = parts.host_values(wide, batch, past)
            found |= {name: told[name] for name in parts.crossing}
        return found

    def _axes(self, name: str, array: Array, total: int) -> tuple[int, ...]:
        """Return the axes of an input that have a place for each new token, or for all tokens up to *total*."""
        axes, shape = self.parts.token_axes.get(name), self.parts.shapes[name]
        if axes is not None:
            return axes
        return tuple(i for i, d in enumerate(shape) if i and not isinstance(d, int) and array.shape[i] == total)

    def _run_piece(
        self,
        device: Topology,
        caches: Caches,
        feeds: Mapping[str, Array],
        values: Mapping[str, Array],
        first: Array,
        piece: Piece,
        total: int,
        wanted: Sequence[str],
        targets: Mapping[str, Array | None],
        cancellation: Cancellation | None,
    ) -> dict[str, Array]:
        parts, more = self.parts, piece.rows - piece.count
        given = {name: a for name, a in feeds.items() if name in device.inputs}
        if more:
            given = {name: _padded(a, parts.token_axes[name], more) for name, a in given.items()}
        given |= {name: values[name] for name in parts.crossing}
        biases = {b.input: self._rows_of(values[b.value], more) for b in parts.biases if b.input in device.inputs}
        shapes = {name: declared(bias) for name, bias in biases.items()}
        network = self._network(device, given | shapes, caches.batch, piece.rows)
        engine = next((kept.engine for kept in network.kept), None)
        caches.reserve(total, engine)
        if caches.batch > 1 and piece.start == 0:
            # Texts end at different places; what is behind a shorter one is part of what is returned.
            caches.clear(int(first.max()), total)
        start = first + piece.start
        given[LENGTHS] = np.array([caches.places, *start], np.int32)
        if PLACES in device.inputs:
            given[PLACES] = np.minimum(start[:, None] + np.arange(piece.rows), total - 1)
        if LAST in device.inputs:
            given[LAST] = np.array([piece.count - 1])
        given = {name: given[name] for name in device.inputs if name != STATE and name not in biases}
        last = int(start.max()) + piece.count
        held = {n: self._biases[n].hold(widened(bias, last, caches.places), engine) for n, bias in biases.items()}
        whole = more == 0 and LAST not in device.inputs
        to = {name: targets.get(name) if whole else None for name in wanted}
        results = network.run({**given, **held, STATE: caches.held}, to, cancellation)
        return {name: self._without(name, results[name], piece) for name in wanted} if more else dict(results)

    def _rows_of(self, bias: Array, more: int) -> Array:
        """Return a bias ``[..., tokens, all]`` with its last row *more* times again; one row for all as it is."""
        return _padded(bias, (bias.ndim - 2,), more) if more and bias.ndim > 1 and bias.shape[-2] > 1 else bias

    def _without(self, name: str, array: Array, piece: Piece) -> Array:
        """Return a result without the rows behind the tokens of *piece*."""
        axis = self.tokens.results[name]
        assert axis is not None
        return array[(*[slice(None)] * axis, slice(0, piece.count))]

    def _last_of(self, name: str, array: Array, piece: Piece) -> Array:
        """Return the last token of a result of the last piece, which may have no other."""
        axis = self.tokens.results[name]
        return array if axis is None else array[(*[slice(None)] * axis, slice(array.shape[axis] - 1, None))]

    def _of_last(self, device: Topology) -> Topology:
        """Return *device* for results of last tokens."""
        found = self._lasts.get(device)
        if found is None:
            found = self._lasts[device] = of_last_tokens(device, self.tokens.results)
        return found

    def _joined(self, name: str, parts: Sequence[Array], target: Array | None) -> Array:
        if target is not None and parts[0] is target:
            return target
        found = parts[0]
        if len(parts) > 1:
            axis = self.tokens.results[name]
            assert axis is not None
            found = np.concatenate(parts, axis)
        if target is None:
            return found if found.flags.c_contiguous else np.ascontiguousarray(found)
        target[...] = found
        return target

    def _network(self, device: Topology, given: Mapping[str, Array], batch: int, rows: int) -> Network:
        """Return what runs feeds of these shapes, compiled if need be."""
        shapes = tuple(given[n].shape for n in sorted(given))
        found = self._made.setdefault(((batch, rows), (len(device.inputs), int(LAST in device.inputs)), *shapes), [])
        for values, made in found:
            if all(Known.of(given[name]) == value for name, value in values.items()):
                self.latest = made
                break
        else:
            topology, known = bound(device, given, batch, rows), dict[str, Known]()
            self.latest = self._compiled(topology, given, known)
            found.append((known, self.latest))
        if self.latest.network is None:
            raise InputError("the model was compiled for a device that runs nothing: it is a dry run")
        return self.latest.network

    def _compiled(self, topology: Topology, given: Mapping[str, Array], known: dict[str, Known]) -> Specialisation:
        sizes = {n: s.shape for n, s in topology.inputs.items()}
        while True:
            try:
                values = {name: value.array for name, value in known.items()}
                return self._specialise(topology, sizes, values, self._workspace)  # type: ignore[arg-type]  # all sizes
            except UnknownValueError as error:
                more = [name for name in error.inputs if name in given and name not in known]
                if not more:
                    raise
                known |= {name: Known.of(given[name]) for name in more}


def _padded(array: Array, axes: Sequence[int], more: int) -> Array:
    """Return *array* with its last entry along *axes* repeated *more* times."""
    if not axes:
        return array
    return np.pad(array, [(0, more if i in axes else 0) for i in range(array.ndim)], mode="edge")


def _hides_nothing(bias: Array) -> bool:
    return bool(bias.all() if bias.dtype == np.bool_ else not bias.any())


def _hides_ahead(bias: Array, past: int, *, alone: bool = False) -> bool:
    """Whether a bias or mask ``[..., tokens, all tokens]`` hides what is behind each token; *alone*: and no more."""
    rows, keys = bias.shape[-2] if bias.ndim > 1 else 1, bias.shape[-1]
    if rows != keys - past:
        return False
    ahead = np.arange(keys) > np.arange(rows)[:, None] + past
    hidden = ~bias if bias.dtype == np.bool_ else bias <= -largest(bias.dtype) / 2
    shown = hidden == ahead if bias.dtype == np.bool_ else np.where(ahead, hidden, bias == 0)
    return bool(shown.all() if alone else hidden[..., ahead].all())
