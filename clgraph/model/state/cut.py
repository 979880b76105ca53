"""Cuts a topology for caches: finds pairs that are fed back by structure, and what is arithmetic of lengths alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.composite import Composite
from clgraph.graph.layer import Layer
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.casts import uncast
from clgraph.model.state.doubles import merged
from clgraph.model.state.lengths import Lengths
from clgraph.model.state.masks import with_biases
from clgraph.model.state.near import with_one_batch
from clgraph.model.state.pairs import Cache, CacheLayout, Stack, StatePair
from clgraph.model.state.parts import BIAS, LENGTHS, PLACES, STATE, Bias, Parts
from clgraph.model.state.presents import PRESENT, foretold
from clgraph.model.state.sizes import sized
from clgraph.model.state.spelled import gathered
from clgraph.model.state.stacked import apart
from clgraph.ops.keeps_keys import PAST, KeepsKeys


class NoStateError(ClgraphError):
    """Nothing in the topology is a state; the message says why."""


def cut(topology: Topology) -> Parts:
    """Return *topology* cut for caches.

    A pair is the past of an attention that is an input of the model and nothing else reads, and its present that is an
    output. What is computed of lengths alone (shapes of caches, masks, counts of tokens) is the host's, and what it
    makes must have a shape that does not grow, but for what is added to scores.

    Raises:
        NoStateError: There is no such pair, or the topology cannot be cut.
    """
    topology, stacks = apart(with_one_batch(uncast(topology)))
    return _Cut(merged(foretold(with_biases(gathered(sized(topology))))), stacks).parts()


@frozen
class _Read:
    """What the device reads: inputs of the model that are *kept*, values of the host, and biases by their values."""

    kept: tuple[str, ...]
    crossing: tuple[str, ...]
    biases: Mapping[str, Bias]


@dataclass
class _Cut:
    topology: Topology
    stacks: tuple[Stack, ...]
    _readers: dict[str, list[Layer]] = field(default_factory=dict)
    _loose: set[str] = field(default_factory=set)

    def parts(self) -> Parts:
        top = self.topology
        for layer in top.layers:
            for name in layer.inputs:
                self._readers.setdefault(name, []).append(layer)
        attentions = [x for x in top.layers if isinstance(x.primitive, KeepsKeys) and self._past(x)]
        if not attentions:
            raise NoStateError("no attention reads past keys and values that are inputs of the model")
        caches = self._caches(attentions)
        growing = self._growing(attentions, caches)
        computed, shapes_read = self._lengths(growing, caches)
        return self._assembled(attentions, caches, growing, computed, shapes_read)

    def _past(self, layer: Layer) -> dict[str, str]:
        """Return the inputs of the model that are the past keys and values of *layer*, by their names in its slots."""
        assert isinstance(layer.primitive, KeepsKeys)
        slots = zip(layer.primitive.slots(), layer.inputs, strict=True)
        found = {name: x for name, x in slots if name in PAST and x in self.topology.inputs}
        return found if len(found) == len(PAST) and len(layer.outputs) > 2 else {}

    def _caches(self, attentions: Sequence[Layer]) -> CacheLayout:
        results, found, at = {value: name for name, value in self.topology.outputs}, [], 0
        dtype: DType | None = None
        for layer in attentions:
            past = self._past(layer)
            for name, present in zip((past["past_key"], past["past_value"]), layer.outputs[1:3], strict=True):
                signature = self.topology.inputs[name]
                shape = signature.shape or ()
                sizes = [shape[i] for i in (1, 3)] if len(shape) == 4 else []
                heads, depth = (*(n for n in sizes if isinstance(n, int)), 0, 0)[:2]
                if not heads or not depth or isinstance(shape[2], int):
                    raise NoStateError(f"input {name!r} is not a cache [batch, {heads or 'heads'}, N, {depth or 'D'}]")
                if present not in results or present in self._readers:
                    raise NoStateError(f"{present!r}, the present of {name!r}, is not an output alone")
                odd = [r.name for r in self._readers[name] if r is not layer and not r.primitive.shapes_only]
                dtype = dtype or signature.dtype
                if odd or dtype != signature.dtype or dtype is None:
                    others = odd or "attentions of other element types"
                    raise NoStateError(f"input {name!r} is read by {others} as well")
                found.append(Cache(name, results[present], heads, depth, at))
                at += heads * depth
            if any(name in self._readers or name in results for name in layer.outputs[3:]):
                raise NoStateError(f"the products of attention {layer.name!r} are read")
        assert dtype is not None
        return CacheLayout(tuple(found), dtype, self.stacks)

    def _pairs(self, layer: Layer, pasts: Mapping[str, Cache]) -> Iterable[StatePair]:
        """Yield what is fed back to an attention, by the names that the model has."""
        wholes = {part: s for s in self.stacks for part in s.inputs}
        for name in self._past(layer).values():
            pair = wholes.get(name, pasts[name])
            yield StatePair(pair.input, pair.output, grows=True, reader=f"{layer.primitive.kind} {layer.name!r}")

    def _growing(self, attentions: Sequence[Layer], caches: CacheLayout) -> set[str]:
        """Return the inputs that have a place for every token: by the name of that size, or because of who reads them.

        Those are read, through any layers, by what is told of lengths or added to scores alone; or they are masks
        ``[batch, N]`` with a name of their own for N that are added to scores, and that places are counted by, too.
        """
        top, pasts = self.topology, {c.input for c in caches.caches}
        declared = [top.declared[c.output].shape for c in caches.caches if c.output in top.declared]
        totals = {shape[2] for shape in declared if shape is not None and len(shape) == 4} - {None}
        named = {n for n, s in top.inputs.items() if s.shape and totals & {d for d in s.shape if isinstance(d, str)}}
        outputs = {value for _, value in top.outputs} - {c.output for c in caches.caches}
        needed = outputs - {name for layer in attentions for name in layer.outputs[1:3]}
        for layer in reversed(top.layers):
            if layer in attentions:
                assert isinstance(layer.primitive, KeepsKeys)
                slots = zip(layer.primitive.slots(), layer.inputs, strict=True)
                needed |= {name for slot, name in slots if slot not in ("told", "bias", *PAST)}
            elif needed & set(layer.outputs):
                needed |= set(layer.inputs)
        free = [name for name in top.inputs if name not in pasts and not name.startswith(PRESENT)]
        own = {name for name in free if name in named or name not in needed}
        self._loose = self._masks(attentions, caches) - own
        return own | self._loose

    def _masks(self, attentions: Sequence[Layer], caches: CacheLayout) -> set[str]:
        """Return the inputs ``[batch, N]`` of numbers that are added to scores, and whose N is no other input's."""
        inputs = self.topology.inputs
        batch = (inputs[caches.caches[0].input].shape or (None,))[0]
        slots = [(slot, name) for x in attentions for slot, name in zip(_slots(x), x.inputs, strict=True)]
        read = {name for slot, name in slots if slot in ("told", "bias")}
        for layer in reversed(self.topology.layers):
            if read & set(layer.outputs) and not layer.primitive.shapes_only:
                read |= set(layer.inputs)
        sizes = Counter(d for s in inputs.values() for d in set(s.shape or ()) if isinstance(d, str))
        pairs = {name: s.shape for name, s in inputs.items() if s.shape is not None and len(s.shape) == 2}
        return {
            name
            for name, (texts, size) in pairs.items()
            if name in read and texts == batch != size and isinstance(size, str) and sizes[size] == 1
        }

    def _lengths(self, growing: set[str], caches: CacheLayout) -> tuple[set[str], set[str]]:
        """Return the values that are computed of lengths, and the values that are made without the elements of inputs.

        The latter hold the former, constants and what is computed of shapes: of inputs, and of what is in front of the
        attentions.
        """
        top, pasts = self.topology, {c.input for c in caches.caches}
        told = {*growing, *(name for name in top.inputs if name.startswith(PRESENT))}
        computed, pure, near = set(told), {*top.constants, *told}, {*top.inputs, *top.constants}
        for layer in top.layers:
            if isinstance(layer.primitive, KeepsKeys) and self._past(layer):
                continue
            if not layer.primitive.data_dependent and near.issuperset(layer.inputs):
                near |= set(layer.outputs)
            of_shapes = layer.primitive.shapes_only and near.issuperset(layer.inputs)
            if of_shapes or all(name in pure for name in layer.inputs):
                pure |= set(layer.outputs)
                if any(name in computed or name in pasts for name in layer.inputs):
                    computed |= set(layer.outputs)
        return computed, pure

    def _assembled(
        self,
        attentions: Sequence[Layer],
        caches: CacheLayout,
        growing: set[str],
        computed: set[str],
        pure: set[str],
    ) -> Parts:
        top = self.topology
        pasts = {c.input: c for c in caches.caches}
        fed = {n: s for n, s in top.inputs.items() if n not in pasts and not n.startswith(PRESENT)}
        kept = {name: s for name, s in fed.items() if name not in growing}
        if odd := self._open_pasts(kept, caches):
            raise NoStateError(f"input {odd[0]!r} is as long as the pasts, and is no cache that an attention reads")
        mine = [x for x in top.layers if not set(x.outputs) <= computed]
        if odd := [x.name for x in mine if x.primitive.data_dependent and not pure.issuperset(x.inputs)]:
            raise NoStateError(
                f"the shape of what {odd[0]!r} makes depends on data, and programs over caches have none"
            )
        crossing = {n for x in mine if x not in attentions for n in x.inputs if n in computed}
        biases, told = dict[str, Bias](), list[tuple[str, ...]]()
        for layer in attentions:
            slots = list(zip(_slots(layer), layer.inputs, strict=True))
            biases |= {n: Bias(n, f"{BIAS}{n}") for slot, n in slots if slot == "bias"}
            crossing |= {n for slot, n in slots if slot not in ("bias", "told", *PAST) and n in computed}
            told.append(tuple(n for slot, n in slots if slot == "told"))
        if odd := [n for n in (*biases, *(n for names in told for n in names)) if n not in pure]:
            raise NoStateError(f"{odd[0]!r}, which an attention is masked by, is computed of other inputs than lengths")
        if len(set(told)) > 1 or len({type(x.primitive) for x in attentions}) > 1:
            raise NoStateError("the attentions have different lengths")
        if bad := [name for name, value in top.outputs if value in computed]:
            raise NoStateError(f"output {bad[0]!r} is computed of lengths alone")
        read = _Read(tuple(kept), tuple(sorted(crossing)), biases)
        wanted = (*read.crossing, *biases, *(told[0]))
        first = attentions[0].primitive
        assert isinstance(first, KeepsKeys)
        return Parts(
            self._device(mine, attentions, caches, read, plain=False),
            self._device(mine, attentions, caches, read, plain=True) if biases else None,
            Lengths(self._host(tuple(dict.fromkeys(wanted)))),
            caches,
            tuple(dict.fromkeys(pair for x in attentions for pair in self._pairs(x, pasts))),
            read.crossing,
            tuple(biases.values()),
            told[0],
            tuple(n for n in top.inputs if n in growing),
            tuple(n for n in top.inputs if n in self._loose),
            batch := self._batch_axes(kept, caches),
            self._token_axes(kept, batch, attentions[0]),
            {n: s.shape for n, s in fed.items() if s.shape is not None},
            {n: s.dtype for n, s in fed.items() if s.dtype is not None},
            first,
            any(x.primitive.looks_ahead for x in attentions if isinstance(x.primitive, KeepsKeys)),
        )

    def _device(
        self, layers: Sequence[Layer], attentions: Sequence[Layer], caches: CacheLayout, read: _Read, *, plain: bool
    ) -> Topology:
        """Return *layers* with the *attentions* over caches, of which *plain* ones read no bias."""
        top, made = self.topology, Topology(op_types=self.topology.op_types, label="state")
        pasts = {c.input: c for c in caches.caches}
        for name in read.kept:
            s = top.inputs[name]
            made.input(name, s.shape, s.host_type or s.dtype)
        for name in read.crossing:
            made.input(name, None, None)
        made.input(LENGTHS, (None,), np.int32)
        if any("places" in self._over(x, 0, 0, plain=plain)[1] and "places" not in _slots(x) for x in attentions):
            made.input(PLACES, (None, None), np.int64)
        made.input(STATE, (1,), caches.dtype)
        for bias in () if plain else read.biases.values():
            made.input(bias.input, None, np.float32)
        for name, array in top.constants.items():
            made.constant(name, array)
        for layer in layers:
            primitive, inputs, outputs = layer.primitive, layer.inputs, layer.outputs
            if layer in attentions:
                key, value = (pasts[self._past(layer)[name]] for name in PAST)
                primitive, names = self._over(layer, key.at, value.at, plain=plain)
                given = dict(zip(_slots(layer), layer.inputs, strict=True)) | {"lengths": LENGTHS, "state": STATE}
                if "bias" in given:
                    given["bias"] = read.biases[given["bias"]].input
                given.setdefault("places", PLACES)
                inputs, outputs = tuple(given[n] for n in names), layer.outputs[:1]
            origin, annotation = layer.origin, layer.annotation
            made.add(layer.name, primitive, *inputs, outputs=outputs, origin=origin, annotation=annotation)
        presents = {c.output for c in caches.caches}
        for name, value_name in top.outputs:
            if name not in presents:
                made.output(name, value_name)
        return made

    def _over(self, layer: Layer, keys_at: int, values_at: int, *, plain: bool) -> tuple[Composite, Sequence[str]]:
        assert isinstance(layer.primitive, KeepsKeys)
        found = layer.primitive.over_caches(keys_at, values_at, plain=plain)
        if found is None:
            raise NoStateError(f"attention {layer.name!r} ({layer.primitive}) does not run over caches")
        return found

    def _host(self, wanted: Sequence[str]) -> Topology:
        """Return the layers that make the values *wanted*."""
        top, needed, layers = self.topology, set(wanted), list[Layer]()
        for layer in reversed(top.layers):
            if needed & set(layer.outputs):
                layers.insert(0, layer)
                needed |= set(layer.inputs)
        host = Topology(label="lengths")
        for name, s in top.inputs.items():
            if name in needed:
                host.input(name, s.shape, s.host_type or s.dtype)
        for name, array in top.constants.items():
            if name in needed:
                host.constant(name, array)
        for x in layers:
            host.add(x.name, x.primitive, *x.inputs, outputs=x.outputs, origin=x.origin)
        for name in wanted:
            host.output(name)
        return host

    def _batch_axes(self, kept: Iterable[str], caches: CacheLayout) -> dict[str, int]:
        """Return the batch's axis in inputs that do not grow: that of the caches' name for it, else the first of many.

        Inputs of one axis of another name have none.
        """
        batch, found = (self.topology.inputs[caches.caches[0].input].shape or (None,))[0], dict[str, int]()
        for name in kept:
            shape = self.topology.inputs[name].shape
            if shape is None:
                raise NoStateError(f"the shape of input {name!r} is not declared")
            if batch is not None and batch in shape:
                found[name] = shape.index(batch)
            elif len(shape) > 1:
                found[name] = 0
        return found

    def _open_pasts(self, kept: Mapping[str, Signature], caches: CacheLayout) -> list[str]:
        """Return the inputs that are as long as the pasts by the name of that size, and are no caches."""
        shapes = [self.topology.inputs[cache.input].shape or () for cache in caches.caches]
        pasts = {shape[2] for shape in shapes if isinstance(shape[2], str)}
        return [name for name, s in kept.items() if len(s.shape or ()) == 4 and (s.shape or ())[2] in pasts]

    def _token_axes(
        self, kept: Iterable[str], batch: Mapping[str, int], attention: Layer
    ) -> dict[str, tuple[int, ...]]:
        """Return the axes of the inputs that do not grow, but for the batch's, that have the new tokens' size.

        They are open, and of no other name than those in front of the first *attention*: behind it, what an encoder
        made is of another length.
        """
        shapes = {name: self.topology.inputs[name].shape or () for name in kept}
        near = self._in_front(attention)
        names = {d for name, shape in shapes.items() if name in near for d in shape}
        return {
            name: tuple(
                i
                for i, d in enumerate(shape)
                if not isinstance(d, int) and i != batch.get(name) and (d is None or d in names or name in near)
            )
            for name, shape in shapes.items()
        }

    def _in_front(self, attention: Layer) -> set[str]:
        """Return the values that the queries and new keys of *attention* are made of."""
        slots = zip(_slots(attention), attention.inputs, strict=True)
        needed = {name for slot, name in slots if slot not in ("bias", "told", *PAST)}
        for layer in reversed(self.topology.layers):
            if needed & set(layer.outputs):
                needed |= set(layer.inputs)
        return needed


def _slots(layer: Layer) -> Sequence[str]:
    assert isinstance(layer.primitive, KeepsKeys)
    return layer.primitive.slots()
