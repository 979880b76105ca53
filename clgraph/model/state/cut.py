"""Cuts a topology for caches: finds pairs that are fed back by structure, and what is arithmetic of lengths alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clgraph.core.dtype import DType
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.state.axes import batch_axes, open_pasts, token_axes
from clgraph.model.state.casts import uncast
from clgraph.model.state.cut_topologies import Read, device, host
from clgraph.model.state.cut_topology import BIAS, Bias, CutTopology
from clgraph.model.state.doubles import merged
from clgraph.model.state.examples import Examples
from clgraph.model.state.growing import Growing, growing_inputs, of_lengths
from clgraph.model.state.keeping import NoStateError, fed_past, slots
from clgraph.model.state.lengths import Lengths
from clgraph.model.state.masks import with_biases
from clgraph.model.state.near import with_one_batch
from clgraph.model.state.pairs import Cache, CacheLayout, Stack, StatePair
from clgraph.model.state.presents import PRESENT, foretold
from clgraph.model.state.sizes import sized
from clgraph.model.state.spelled import gathered
from clgraph.model.state.stacked import apart
from clgraph.model.state.windows import uncut
from clgraph.ops.keeps_keys import PAST, KeepsKeys


def cut(topology: Topology) -> CutTopology:
    """Return *topology* cut for caches.

    A pair is the past of an attention that is an input of the model and nothing else reads, and its present that is an
    output. What is computed of lengths alone (shapes of caches, masks, counts of tokens) is the host's, and what it
    makes must have a shape that does not grow, but for what is added to scores. Presents that are cut to the latest
    tokens hold all up to so many.

    Raises:
        NoStateError: There is no such pair, or the topology cannot be cut.
    """
    topology, latest = uncut(topology)
    topology, stacks = apart(with_one_batch(uncast(topology)))
    made = with_biases(gathered(sized(topology), min(latest.values(), default=0)))
    return _Cut(merged(foretold(made, _by_inputs(made, latest))), stacks, latest).parts()


def _by_inputs(topology: Topology, latest: Mapping[str, int]) -> dict[str, int]:
    """Return *latest*, which is by outputs, by the inputs of pasts."""
    made = {value: name for name, value in topology.outputs}
    found = dict[str, int]()
    for layer in topology.layers:
        if isinstance(layer.primitive, KeepsKeys) and (past := fed_past(topology, layer)):
            for name, value in zip((past["past_key"], past["past_value"]), layer.outputs[1:3], strict=True):
                if made.get(value) in latest:
                    found[name] = latest[made[value]]
    return found


@dataclass
class _Cut:
    topology: Topology
    stacks: tuple[Stack, ...]
    latest: Mapping[str, int]
    _readers: dict[str, list[Layer]] = field(default_factory=dict)

    def parts(self) -> CutTopology:
        top = self.topology
        for layer in top.layers:
            for name in layer.inputs:
                self._readers.setdefault(name, []).append(layer)
        attentions = [x for x in top.layers if isinstance(x.primitive, KeepsKeys) and fed_past(top, x)]
        if not attentions:
            raise NoStateError("no attention reads past keys and values that are inputs of the model")
        caches = self._caches(attentions)
        growing = self._growing(attentions, caches)
        past_readers = {x.name for x in attentions}
        computed, shapes_read = of_lengths(top, growing.names, caches, past_readers)
        return self._assembled(attentions, caches, growing, computed, shapes_read)

    def _caches(self, attentions: Sequence[Layer]) -> CacheLayout:
        results, found, at = {value: name for name, value in self.topology.outputs}, [], 0
        dtype: DType | None = None
        for layer in attentions:
            past = fed_past(self.topology, layer)
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
                found.append(Cache(name, results[present], heads, depth, at, self.latest.get(results[present], 0)))
                at += heads * depth
            if any(name in self._readers or name in results for name in layer.outputs[3:]):
                raise NoStateError(f"the products of attention {layer.name!r} are read")
        assert dtype is not None
        return CacheLayout(tuple(found), dtype, self.stacks)

    def _pairs(self, layer: Layer, pasts: Mapping[str, Cache]) -> Iterable[StatePair]:
        """Yield what is fed back to an attention, by the names that the model has."""
        wholes = {part: s for s in self.stacks for part in s.inputs}
        for name in fed_past(self.topology, layer).values():
            pair = wholes.get(name, pasts[name])
            yield StatePair(pair.input, pair.output, grows=True, reader=f"{layer.primitive.kind} {layer.name!r}")

    def _growing(self, attentions: Sequence[Layer], caches: CacheLayout) -> Growing:
        """Return the inputs that have a place for every token."""
        top, told = self.topology, ("told", "bias")
        needed = {value for _, value in top.outputs} - {c.output for c in caches.caches}
        needed -= {name for layer in attentions for name in layer.outputs[1:3]}
        for layer in reversed(top.layers):
            if layer in attentions:
                needed |= {name for slot, name in slots(layer) if slot not in (*told, *PAST)}
            elif needed & set(layer.outputs):
                needed |= set(layer.inputs)
        return growing_inputs(
            top, caches, needed, {name for x in attentions for slot, name in slots(x) if slot in told}
        )

    def _assembled(
        self,
        attentions: Sequence[Layer],
        caches: CacheLayout,
        growing: Growing,
        computed: set[str],
        pure: set[str],
    ) -> CutTopology:
        top = self.topology
        pasts = {c.input: c for c in caches.caches}
        fed = {n: s for n, s in top.inputs.items() if n not in pasts and not n.startswith(PRESENT)}
        kept = {name: s for name, s in fed.items() if name not in growing.names}
        if odd := open_pasts(top, kept, caches):
            raise NoStateError(f"input {odd[0]!r} is as long as the pasts, and is no cache that an attention reads")
        batch = batch_axes(top, kept, caches)
        made_of = [name for slot, name in slots(attentions[0]) if slot not in ("bias", "told", *PAST)]
        tokens = token_axes(top, kept, batch, made_of)
        if not any(tokens.values()):
            count = Examples(top).shape(attentions[0].inputs[0])[-2:-1]
            if count not in ((), (1,)):
                raise NoStateError(f"new tokens come {count[0]} at a time: caches need one, or any number")
        mine = [x for x in top.layers if not set(x.outputs) <= computed]
        if odd := [x.name for x in mine if x.primitive.data_dependent and not pure.issuperset(x.inputs)]:
            raise NoStateError(
                f"the shape of what {odd[0]!r} makes depends on data, and programs over caches have none"
            )
        crossing = {n for x in mine if x not in attentions for n in x.inputs if n in computed}
        biases, told = dict[str, Bias](), list[tuple[str, ...]]()
        for layer in attentions:
            latest = min(pasts[name].latest for name in fed_past(top, layer).values())
            biases |= {n: Bias(n, f"{BIAS}{n}", latest) for slot, n in slots(layer) if slot == "bias"}
            crossing |= {n for slot, n in slots(layer) if slot not in ("bias", "told", *PAST) and n in computed}
            told.append(tuple(n for slot, n in slots(layer) if slot == "told"))
        if odd := [n for n in (*biases, *(n for names in told for n in names)) if n not in pure]:
            raise NoStateError(f"{odd[0]!r}, which an attention is masked by, is computed of other inputs than lengths")
        if len(set(told)) > 1 or len({type(x.primitive) for x in attentions}) > 1:
            raise NoStateError("the attentions have different lengths")
        if bad := [name for name, value in top.outputs if value in computed]:
            raise NoStateError(f"output {bad[0]!r} is computed of lengths alone")
        read = Read(tuple(kept), tuple(sorted(crossing)), biases)
        wanted = (*read.crossing, *biases, *(told[0]))
        first = attentions[0].primitive
        assert isinstance(first, KeepsKeys)
        lengths = host(top, tuple(dict.fromkeys(wanted)))
        unhidden = [x for x in attentions if "bias" not in dict(slots(x))]
        cut_caches = [pasts[name] for x in unhidden for name in fed_past(top, x).values()]
        most = min((c.latest for c in cut_caches if c.latest), default=None)
        return CutTopology(
            device(top, mine, attentions, caches, read, plain=False),
            device(top, mine, attentions, caches, read, plain=True) if biases else None,
            Lengths(lengths),
            {n: c for n in lengths.inputs if (c := pasts.get(n.removeprefix(PRESENT)))},
            caches,
            tuple(dict.fromkeys(pair for x in attentions for pair in self._pairs(x, pasts))),
            read.crossing,
            tuple(biases.values()),
            told[0],
            tuple(n for n in top.inputs if n in growing.names),
            tuple(n for n in top.inputs if n in growing.loose),
            batch,
            tokens,
            {n: s.shape for n, s in fed.items() if s.shape is not None},
            {n: s.dtype for n, s in fed.items() if s.dtype is not None},
            first,
            any(x.primitive.looks_ahead for x in attentions if isinstance(x.primitive, KeepsKeys)),
            most,
        )
