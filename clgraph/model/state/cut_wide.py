"""Cuts a topology whose layers read caches as tensors of all tokens: each joins its past and new rows for itself.

Such caches are of latent vectors, which keys and values are computed of (DeepSeek's), or of keys and values that
attentions mix in ways of their own. Layers see all places of a cache; a softmax hides those behind the newest token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.errors import ClgraphError
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Primitive
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.axes import batch_axes, open_pasts, token_axes
from clgraph.model.state.casts import uncast
from clgraph.model.state.cut_topologies import host
from clgraph.model.state.cut_topology import LENGTHS, STATE, CutTopology
from clgraph.model.state.doubles import merged
from clgraph.model.state.examples import Examples, joins
from clgraph.model.state.growing import growing_inputs, of_lengths
from clgraph.model.state.hidden import MOVES, softmaxes_over_places
from clgraph.model.state.keeping import NoStateError
from clgraph.model.state.lengths import Lengths
from clgraph.model.state.near import with_near_shapes, with_one_batch
from clgraph.model.state.pairs import Cache, CacheLayout, StatePair
from clgraph.model.state.presents import PRESENT
from clgraph.model.state.tokens import probed_places
from clgraph.model.state.wide import SHOWN, SIZES, Wide
from clgraph.ops.cache_join import CacheJoin
from clgraph.ops.fill import Fill
from clgraph.ops.where import Where

_PARTS = frozenset({*MOVES, "slice"})
"""Kinds whose elements are those of what they read."""


def cut_wide(topology: Topology) -> CutTopology:
    """Return *topology* cut for caches that layers read as tensors.

    Raises:
        NoStateError: There are none, or what the model makes depends on more than the tokens in them.
    """
    top = merged(with_one_batch(uncast(topology)))
    examples = Examples(top)
    names = {x.name for x in top.layers if joins(top, x)}
    if not names:
        raise NoStateError("no input is joined with something as an output")
    top = with_near_shapes(top, examples.all_shapes, names)
    return _WideCut(top, examples, names, _caches(top, names)).parts()


def _caches(top: Topology, names: set[str]) -> CacheLayout:
    results, found, at = {value: name for name, value in top.outputs}, [], 0
    dtype: DType | None = None
    for layer in top.layers:
        if layer.name not in names:
            continue
        name = layer.inputs[0]
        signature, shape = top.inputs[name], top.inputs[name].shape or ()
        if len(shape) != 4 or isinstance(shape[2], int) or not all(isinstance(shape[i], int) for i in (1, 3)):
            raise NoStateError(f"input {name!r} is not a cache [batch, heads, N, D]")
        readers = [x.name for x in top.layers if name in x.inputs and x is not layer and not x.primitive.shapes_only]
        dtype = dtype or signature.dtype
        if readers or dtype is None or dtype != signature.dtype:
            raise NoStateError(f"input {name!r} is read by {readers or 'layers of other element types'} as well")
        heads, depth = int(shape[1] or 0), int(shape[3] or 0)
        found.append(Cache(name, results[layer.outputs[0]], heads, depth, at))
        at += heads * depth
    assert dtype is not None
    return CacheLayout(tuple(found), dtype)


@dataclass
class _WideCut:
    topology: Topology
    examples: Examples
    names: set[str]
    caches: CacheLayout

    def parts(self) -> CutTopology:
        self.topology = top = self._foretold()
        pasts = {c.input: c for c in self.caches.caches}
        attends = next(x for x in top.layers if x.name in self.names)
        behind = self._behind()
        aside = {x.name: self._aside(x, behind) for x in top.layers}
        needed = {value for name, value in top.outputs} - {x.outputs[0] for x in top.layers if x.name in self.names}
        for layer in reversed(top.layers):
            if layer.name in self.names:
                needed.add(layer.inputs[1])
            elif needed & set(layer.outputs):
                needed |= set(layer.inputs) - aside[layer.name]
        read = set().union(*aside.values())
        growing = growing_inputs(top, self.caches, needed, read)
        computed, pure = of_lengths(top, growing.names, self.caches, self.names)
        computed -= self._filled(computed)
        fed = {n: s for n, s in top.inputs.items() if n not in pasts and not n.startswith(PRESENT)}
        kept = {name: s for name, s in fed.items() if name not in growing.names}
        if odd := open_pasts(top, kept, self.caches):
            raise NoStateError(f"input {odd[0]!r} is as long as the pasts, and is no cache")
        batch = batch_axes(top, kept, self.caches)
        tokens = token_axes(top, kept, batch, attends.inputs[1:])
        mine = [x for x in top.layers if not set(x.outputs) <= computed]
        if odd := [x.name for x in mine if x.primitive.data_dependent and not pure.issuperset(x.inputs)]:
            raise NoStateError(f"the shape of what {odd[0]!r} makes depends on data")
        if bad := [name for name, value in top.outputs if value in computed]:
            raise NoStateError(f"output {bad[0]!r} is computed of lengths alone")
        self._check_sizes(mine, behind)
        sizes, values = set[str](), set[str]()
        for x in mine:
            for slot, name in enumerate(x.inputs):
                if name in computed and x.name not in self.names:
                    (sizes if slot in x.primitive.value_slots() else values).add(name)
        axes = {name: self._place_axes(name) for name in sorted(values)}
        wide = Wide(axes, self._sizes(sizes, growing.names), ())
        lengths = host(top, tuple(axes))
        read_by_host = (*lengths.inputs, *wide.sizes.topology.inputs)
        joined = {
            c.input: next(x for x in top.layers if x.name in self.names and x.inputs[0] == c.input)
            for c in self.caches.caches
        }
        made = CutTopology(
            self._device(mine, tuple(kept), tuple(axes), sizes),
            None,
            Lengths(lengths),
            {n: c for n in read_by_host if (c := pasts.get(n.removeprefix(PRESENT)))},
            self.caches,
            tuple(
                StatePair(c.input, c.output, grows=True, reader=f"concat {joined[c.input].name!r}")
                for c in self.caches.caches
            ),
            tuple(axes),
            (),
            (),
            tuple(n for n in top.inputs if n in growing.names),
            tuple(n for n in top.inputs if n in growing.loose),
            batch,
            tokens,
            {n: s.shape for n, s in fed.items() if s.shape is not None},
            {n: s.dtype for n, s in fed.items() if s.dtype is not None},
            None,
            looks_ahead=True,
            wide=wide,
        )
        return self._hiding(made)

    def _filled(self, computed: set[str]) -> set[str]:
        """Return the values that are one number all over: the device has them, of as many places as the caches."""
        layers, filled = self.topology.layers, dict[str, set[str]]()
        for x in layers:
            slots = x.primitive.value_slots()
            moved = {name for i, name in enumerate(x.inputs) if i not in slots}
            if isinstance(x.primitive, Fill) or (x.primitive.kind in _PARTS and moved <= filled.keys()):
                filled[x.outputs[0]] = moved
        read = {n for x in layers if not computed.issuperset(x.outputs) for n in x.inputs} & computed
        for name in reversed(filled):
            read |= filled[name] if name in read else set()
        return read & filled.keys()

    def _foretold(self) -> Topology:
        """Return the topology with the shapes of what is joined asked for of inputs, which the host has."""
        top = self.topology
        inputs, names, shared = dict(top.inputs), dict[str, str](), dict[object, str]()
        for layer in top.layers:
            if layer.name in self.names:
                past = layer.inputs[0]
                shape = top.inputs[past].shape or ()
                name = shared.setdefault((shape[1], shape[3]), f"{PRESENT}{past}")
                inputs[name] = Signature(name, top.inputs[past].dtype, (shape[0], shape[1], None, shape[3]))
                names[layer.outputs[0]] = name
        layers = [
            replace(x, inputs=tuple(names.get(n, n) for n in x.inputs)) if x.primitive.shapes_only else x
            for x in top.layers
        ]
        read = {n for x in layers for n in x.inputs}
        inputs = {n: s for n, s in inputs.items() if n in top.inputs or n in read}
        return replace(top, inputs=inputs, layers=layers)

    def _behind(self) -> set[str]:
        """Return the values that are computed of elements of caches."""
        found = set[str]()
        for layer in self.topology.layers:
            if layer.name in self.names or (not layer.primitive.shapes_only and found & set(layer.inputs)):
                found |= set(layer.outputs)
        return found

    def _aside(self, layer: Layer, behind: set[str]) -> set[str]:
        """Return what *layer* reads beside values that are computed of caches, where it makes an element a token."""
        if not (layer.primitive.elementwise or layer.primitive.kind == "where") or not behind & set(layer.inputs):
            return set()
        return {n for n in layer.inputs if n not in behind} if self._place_axes(layer.outputs[0]) else set()

    def _place_axes(self, name: str) -> tuple[int, ...]:
        """Return the axes of a value that have a place for every token.

        Raises ``NoStateError`` where one has a place for every past token, or another number that grows with these.
        """
        first = next(x for x in self.topology.layers if x.name in self.names)
        total, past, new = (self.examples.all_shapes(n) for n in (first.outputs[0], first.inputs[0], first.inputs[1]))
        shapes = self.examples.all_shapes(name)
        if not total or not shapes or len({len(s) for s in shapes}) > 1:
            raise NoStateError(f"the sizes of {name!r} are not known")
        sizes = {kind: tuple(s[2] for s in two) for kind, two in (("all", total), ("past", past), ("new", new))}
        pairs = list(zip(*shapes, strict=True))
        texts = tuple(s[0] for s in total)
        if odd := [p for p in pairs if p[0] != p[1] and p not in (sizes["all"], sizes["new"], texts)]:
            raise NoStateError(f"{name!r} has sizes {odd[0]}, which are neither the tokens' nor new ones'")
        return tuple(i for i, p in enumerate(pairs) if p == sizes["all"] and p[0] != p[1])

    def _check_sizes(self, layers: Sequence[Layer], behind: set[str]) -> None:
        """Raise ``NoStateError`` where numbers of places, which are more than tokens, are read for more than sizes."""
        told, known, wide = set[str](), {*self.topology.constants, *self.examples.settled}, set(behind)
        for x in layers:
            slots = x.primitive.value_slots()
            if not x.primitive.shapes_only and (wide | told) & set(x.inputs):
                wide |= set(x.outputs)
            places, same = wide & set(x.inputs), known.issuperset(x.inputs)
            if known.issuperset(x.outputs) or isinstance(x.primitive, Fill) or (same and (not places or _moves(x))):
                known |= set(x.outputs)  # of any size, the same elements
                continue
            of_places = places and (x.primitive.shapes_only or same)
            if of_places or (told & set(x.inputs) and (told | known).issuperset(x.inputs)):
                told |= set(x.outputs)
            elif odd := [n for slot, n in enumerate(x.inputs) if n in told and slot not in slots]:
                raise NoStateError(f"{x.name!r} computes with {odd[0]!r}, the number of tokens in a cache")

    def _sizes(self, names: set[str], growing: frozenset[str]) -> Lengths:
        """Return what computes the values that decide sizes; raises ``NoStateError`` where elements decide them."""
        found = Lengths(host(self.topology, tuple(sorted(names))))
        if odd := sorted(growing & found.read):
            raise NoStateError(f"sizes are computed of the elements of input {odd[0]!r}")
        return found

    def _device(self, layers: Sequence[Layer], kept: Sequence[str], values: Sequence[str], sizes: set[str]) -> Topology:
        top = self.topology
        made, pasts = Topology(op_types=top.op_types, label="state"), {c.input: c for c in self.caches.caches}
        for name in kept:
            s = top.inputs[name]
            made.input(name, s.shape, s.host_type or s.dtype)
        for name in (*values, *(f"{SIZES}{name}" for name in sorted(sizes))):
            made.input(name, None, None)
        made.input(LENGTHS, (None,), np.int32)
        made.input(STATE, (1,), self.caches.dtype)
        made.input(SHOWN, (None,), np.bool_)
        for name, array in top.constants.items():
            made.constant(name, array)
        for x in layers:
            primitive: Primitive = x.primitive
            slots = x.primitive.value_slots()
            inputs = tuple(f"{SIZES}{n}" if i in slots and n in sizes else n for i, n in enumerate(x.inputs))
            if x.name in self.names:
                primitive, inputs = CacheJoin(pasts[x.inputs[0]].at), (x.inputs[1], LENGTHS, STATE, SHOWN)
            made.add(x.name, primitive, *inputs, outputs=x.outputs, origin=x.origin, annotation=x.annotation)
        presents = {c.output for c in self.caches.caches}
        for name, value in top.outputs:
            if name not in presents:
                made.output(name, value)
        return made

    def _hiding(self, parts: CutTopology) -> CutTopology:
        """Return *parts* with the places behind the newest token hidden; raises ``NoStateError`` where they are not."""
        try:
            program, places = probed_places(parts)
        except NoStateError:
            raise
        except ClgraphError as error:
            raise NoStateError(f"the layers do not fit caches of more places than tokens: {error}") from error
        found = {x.layer: x for x in softmaxes_over_places(program, places)}
        device, wide = parts.device, parts.wide
        assert wide is not None
        made = replace(device, layers=[], constants=dict(device.constants))
        for layer in device.layers:
            if (over := found.pop(layer.name, None)) is not None:
                number, scores = f"{layer.name}/hidden", f"{layer.name}/shown"
                made.constants[number] = np.array(-np.inf, over.dtype.numpy)
                made.layers.append(Layer(scores, Where(), (SHOWN, layer.inputs[0], number), (scores,), layer.origin))
                layer = replace(layer, inputs=(scores, *layer.inputs[1:]))  # of those that hold tokens
            made.layers.append(layer)
        if found:
            raise NoStateError(f"attention {next(iter(found))!r} does not run over caches")
        masks = tuple(x.masks & wide.axes.keys() for x in softmaxes_over_places(program, places))
        return replace(parts, device=made, wide=replace(wide, masks=masks))


def _moves(layer: Layer) -> bool:
    """Whether elements of *layer* are computed of one of each input, or moved."""
    return layer.primitive.elementwise or layer.primitive.kind in (*_PARTS, "where")
