"""Runs over caches: a few programs by numbers of tokens, each for every length; prompts in chunks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import InputError, UnknownValueError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.keys import InputValue
from clgraph.model.specialisation import Specialisation, Specialise
from clgraph.model.specialisations import SPARED
from clgraph.model.state.biases import BiasMemory, declared, declared_shape, hides_ahead, hides_nothing, widened
from clgraph.model.state.caches import Caches
from clgraph.model.state.chunking import Chunking, TokenChunk, padded
from clgraph.model.state.cut_topology import LENGTHS, PLACES, STATE, CutTopology
from clgraph.model.state.last import LAST, of_last_tokens
from clgraph.model.state.next_token import NextToken, next_token
from clgraph.model.state.tokens import bound, ones, opened_shape
from clgraph.model.state.wide import SHOWN, shown
from clgraph.network.cancelling import Cancellation
from clgraph.network.network import Network
from clgraph.network.workspace import Workspace

LEAST_PROGRAMS = 16
"""Programs that are kept whatever they take: for chunks of four sizes, masked or not, of all tokens or the last."""


@frozen
class Appended:
    """The results of a run by name, and the cache places that it has written: *first* to *total* (exclusive)."""

    results: dict[str, Array]
    first: int
    total: int


class StatePrograms:
    """The programs of one cut topology. Calls come one at a time.

    Attributes:
        parts: What was cut; ``chunking``: how tokens are computed.
        latest: The program used last.
    """

    def __init__(self, parts: CutTopology, specialise: Specialise, like: Workspace) -> None:
        """Compile by *specialise*, share constants with *like*, and keep programs within the option ``shape_cache``."""
        self.parts, self.chunking = parts, Chunking(parts)
        self._specialise, self._workspace = specialise, Workspace(like)
        self._made: OrderedDict[tuple[Shape, ...], list[tuple[dict[str, InputValue], Specialisation]]] = OrderedDict()
        self._nbytes = 0
        self._lasts: dict[tuple[Topology, bool], Topology] = {}
        self._opened: OrderedDict[tuple[Topology, tuple[Signature, ...]], Topology] = OrderedDict()
        self._biases = {b.input: BiasMemory() for b in parts.biases}
        self.latest: Specialisation | None = None
        self._again: NextToken | None = None

    @property
    def made(self) -> tuple[Specialisation, ...]:
        """All programs there are."""
        return tuple(s for found in self._made.values() for _, s in found)

    def clear(self) -> None:
        """Drop all programs."""
        self._made.clear()
        self._opened.clear()
        self._nbytes = 0
        self.latest = self._again = None
        self._biases = {name: BiasMemory() for name in self._biases}
        self._workspace.give_back()

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
            carried: Results, which are *wanted*, that a chunk takes from the one before, by the inputs that take them.

        Raises:
            InputError: The feeds do not fit one another, or the lengths that they tell the caches.
            ClgraphError: As compiling and running.
        """
        batch, count = caches.batch, self.parts.count(feeds)
        values = self.parts.host_values(feeds, batch, past)
        first = self.parts.first_places(values, batch, past, count)
        places = first.tolist()
        least, most = min(places), max(places)
        if least < 0 or most > caches.filled:
            what = f"the first new token stands at place {places}, behind {caches.filled} tokens of the caches"
            raise InputError(f"{what}: the lengths or masks that are fed are those of another text")
        total = most + count
        for bias in self.parts.biases:
            shape, seen = values[bias.value].shape, total - past + bias.shown(past)
            if shape[-1:] not in ((1,), (seen,)) or (seen < total and shape[-1] != seen):
                raise InputError(
                    f"what is fed as a mask, or added to scores, is {list(shape)}: it needs a column for each of the "
                    f"{seen} tokens{' that the model keeps' if seen < total else ''}, the new ones included"
                )
        caches.keep(most)
        device = self._device(values, past)
        if count == 1 and cancellation is None and not carried and (again := self._again) is not None:
            made = again.run(device, caches, feeds, values, first, total, wanted, targets)
            if made is not None:
                self.latest, caches.filled = again.made, total
                return Appended(made, least, total)
        found: dict[str, list[Array]] = {name: [] for name in wanted}
        carried = carried or {}
        ends = set(carried.values())
        rest = [name for name in wanted if name not in ends]
        chunks = list(self.chunking.unpadded(count, rest) if ends else self.chunking.of(count, values, past))
        if last and (count > 1 or len(chunks) > 1):
            device = self._of_last(device, caches.batch)
        for chunk in chunks:
            own = self.chunking.cut(feeds, chunk, count, past)
            told = self.chunking.told(own, values if len(chunks) == 1 else None, batch, chunk, past + chunk.start)
            to = targets if len(chunks) == 1 else {}
            results = self._run_chunk(device, caches, own, told, first, past, chunk, total, wanted, to, cancellation)
            feeds = {**feeds, **{name: results[end] for name, end in carried.items()}}
            for name in wanted if not last else ():
                found[name] = [results[name]] if name in ends else [*found[name], results[name]]
        if last:
            found = {name: [self.chunking.last_of(name, results[name], chunks[-1])] for name in wanted}
        caches.filled = total
        if count == 1:
            self._again = self._next_token(device, values)
        results = {name: self.chunking.joined(name, parts, targets.get(name)) for name, parts in found.items()}
        return Appended(results, least, total)

    def _device(self, values: Mapping[str, Array], past: int) -> Topology:
        """Return the topology for biases of these *values*."""
        plain, biases = self.parts.plain, [values[b.value] for b in self.parts.biases]
        if plain is None or any(b.latest and past > b.latest for b in self.parts.biases):
            return self.parts.device
        if not self.parts.looks_ahead and all(hides_nothing(b) for b in biases):
            return plain
        return plain if all(hides_ahead(b, past, alone=True) for b in biases) else self.parts.device

    def _run_chunk(
        self,
        device: Topology,
        caches: Caches,
        feeds: Mapping[str, Array],
        values: Mapping[str, Array],
        first: Array,
        past: int,
        chunk: TokenChunk,
        total: int,
        wanted: Sequence[str],
        targets: Mapping[str, Array | None],
        cancellation: Cancellation | None,
    ) -> dict[str, Array]:
        parts, more = self.parts, chunk.rows - chunk.count
        given = {name: a for name, a in feeds.items() if name in device.inputs}
        if more:
            given = {name: padded(a, parts.token_axes[name], more) for name, a in given.items()}
        end = past + chunk.start + chunk.count
        given |= {name: values[name] for name in parts.crossing}
        if parts.wide is not None:
            places = caches.places_for(total)
            given |= parts.wide.widened(values, places) | {SHOWN: shown(end, places)}
        biases = {
            b.input: self.chunking.rows_of(values[b.value], more) for b in parts.biases if b.input in device.inputs
        }
        shapes = {name: declared(bias) for name, bias in biases.items()}
        network = self._network(device, given | shapes, caches.batch, chunk.rows)
        placement, engine = next(((kept.placement, kept.engine) for kept in network.kept), ("", None))
        caches.reserve(total, placement, engine)
        if caches.batch > 1 and chunk.start == 0:
            # Texts end at different places; what is behind a shorter one is part of what is returned.
            caches.clear(int(first.max()), total)
        start = first + chunk.start
        given[LENGTHS] = np.array([caches.places, *start], np.int32)
        if PLACES in device.inputs:
            given[PLACES] = np.minimum(start[:, None] + np.arange(chunk.rows), total - 1)
        if LAST in device.inputs:
            given[LAST] = np.array([chunk.count - 1])
        given = {name: given[name] for name in device.inputs if name in given and name not in biases}
        last = int(start.max()) + chunk.count
        held = {n: self._biases[n].hold(widened(bias, last, caches.places), engine) for n, bias in biases.items()}
        whole = more == 0 and LAST not in device.inputs
        to = {name: targets.get(name) if whole else None for name in wanted}
        results = network.run({**given, **held, STATE: caches.held}, to, cancellation)
        return {name: self.chunking.without(name, results[name], chunk) for name in wanted} if more else dict(results)

    def _next_token(self, device: Topology, values: Mapping[str, Array]) -> NextToken | None:
        """Return what runs the latest program again on any token, ``None`` where it holds for some values alone."""
        whatever = (s for found in self._made.values() for known, s in found if s is self.latest and not known)
        biases = {b.input: (self._biases[b.input], declared_shape(values[b.value])) for b in self.parts.biases}
        return next((next_token(device, made, self.parts, biases) for made in whatever), None)

    def _of_last(self, device: Topology, texts: int) -> Topology:
        """Return *device* for results of last tokens."""
        key, tokens = (device, texts == 1), self.chunking.tokens
        found = self._lasts.get(key)
        if found is None:
            found = self._lasts[key] = of_last_tokens(device, tokens.results, tokens.places, texts)
        return found

    def _network(self, device: Topology, given: Mapping[str, Array], batch: int, rows: int) -> Network:
        """Return what runs feeds of these shapes, compiled if need be."""
        shapes = tuple(given[n].shape for n in sorted(given))
        key = ((batch, rows), (len(device.inputs), int(LAST in device.inputs)), *shapes)
        found = self._made.setdefault(key, [])
        self._made.move_to_end(key)
        for values, made in found:
            if all(InputValue.of(given[name]) == value for name, value in values.items()):
                self.latest = made
                break
        else:
            known = dict[str, InputValue]()
            self.latest = self._compiled(self._bound(device, given, batch, rows), given, known)
            found.append((known, self.latest))
            self._nbytes += self.latest.nbytes
            self._forget(self.latest.options.shape_cache << 20)
        if self.latest.network is None:
            raise InputError("the model was compiled for a device that runs nothing: it is a dry run")
        return self.latest.network

    def _bound(self, device: Topology, given: Mapping[str, Array], batch: int, rows: int) -> Topology:
        """Return *device* with the shapes of *given*, but for sizes of inputs that are neither the texts' nor tokens'.

        What an encoder made is of any length: the programs for these are members of the families of this topology.
        """
        if self.parts.wide is not None:
            past = given[SHOWN].size - rows
            device = self.parts.sized(device, ones(self.parts, batch, rows, past), batch, past)
        made = bound(device, given, batch, rows)
        opened = {
            name: opened_shape(self.parts, name, given[name].shape) for name in given if name in self.parts.shapes
        }
        inputs = {n: replace(s, shape=opened.get(n, s.shape)) for n, s in made.inputs.items()}
        key = device, tuple(inputs.values())
        found = self._opened.setdefault(key, replace(made, inputs=inputs))
        self._opened.move_to_end(key)
        if len(self._opened) > LEAST_PROGRAMS:
            self._opened.popitem(last=False)
        return found

    def _forget(self, most: int) -> None:
        """Drop those used longest ago where all take more than *most* bytes, as encoders of many lengths make them."""
        if self._nbytes <= most or len(self._made) <= LEAST_PROGRAMS:
            return
        self._nbytes = sum(s.nbytes for s in self.made)
        if self._nbytes > most:
            while self._nbytes > most * (1 - SPARED) and len(self._made) > LEAST_PROGRAMS:
                self._nbytes -= sum(s.nbytes for _, s in self._made.popitem(last=False)[1])
            self._again = None

    def _compiled(self, topology: Topology, given: Mapping[str, Array], known: dict[str, InputValue]) -> Specialisation:
        sizes = {n: given[n].shape if n in given else s.shape for n, s in topology.inputs.items()}
        while True:
            try:
                values = {name: value.array for name, value in known.items()}
                return self._specialise(topology, sizes, values, self._workspace)  # type: ignore[arg-type]  # all sizes
            except UnknownValueError as error:
                more = [name for name in error.inputs if name in given and name not in known]
                if not more:
                    raise
                known |= {name: InputValue.of(given[name]) for name in more}
