"""One text in the making: a decoder that is fed tokens and its own cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ModelError, UnsupportedError
from clgraph.generate.folder import Names
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.model.model import Model

CACHES, CARRIED = ("key", "value"), ("conv", "recurrent", "ssm")
"""What layers are fed back, as :class:`Names` calls it: of every token, or of the latest ones and of all together."""

Step = Callable[[Mapping[str, Array]], Array]
"""Runs a decoder on new tokens and returns the logits."""


@frozen
class Feeding:
    """How a decoder is fed.

    Attributes:
        mask, positions: ``None`` where it has no such input.
        types: Of the inputs above: exporters declare int64, or int32.
        kinds: How many positions a token has; those of vision have one in time, height and width, which are one for
            text. ``None`` where the input has no axis for them.
        pairs: Inputs for the cache, with the outputs that are fed to them in the next run.
        carried: Those of them that are no caches, of layers without attention.
    """

    ids: str
    mask: str | None
    positions: str | None
    kinds: int | None
    types: Mapping[str, DType]
    logits: str
    pairs: Mapping[str, str]
    carried: Mapping[str, str]

    def feeds(self, ids: Array, mask: Array, places: Array) -> dict[str, Array]:
        """Return what the decoder is fed for *ids* at *places* ``[texts, tokens]``, and the *mask* of all tokens."""
        if self.kinds is not None:
            places = np.broadcast_to(places, (self.kinds, *places.shape))
        given = {self.ids: ids}
        if self.mask is not None:
            given[self.mask] = mask
        if self.positions is not None:
            given[self.positions] = places
        return {name: array.astype(self.types[name].numpy, copy=False) for name, array in given.items()}


def feeding_of(model: Model, names: Names) -> Feeding:
    """Return how *model* is fed.

    Raises:
        ModelError: The names of a cache and of what becomes of it are not those of one cache of the model.
        UnsupportedError: It has inputs besides tokens, mask, positions and cache, or lacks some, or its tokens or
            logits have other axes.
    """
    signatures = {s.name: s for s in (*model.inputs, *model.outputs)}
    shapes, outputs = {s.name: s.shape or () for s in model.inputs}, {s.name for s in model.outputs}
    found = {kind: _pairs(names, shapes, kind) for kind in (*CACHES, *CARRIED)}
    caches, carried = ({i: o for kind in kinds for i, o in found[kind].items()} for kinds in (CACHES, CARRIED))
    known = {names.input_ids, names.attention_mask, names.position_ids, *caches, *carried}
    missing = {_ends(names, kind)[0].replace("%d", "0") for kind in CACHES if not found[kind]}
    missing |= {names.input_ids} - shapes.keys()
    missing |= {names.logits, *caches.values(), *carried.values()} - outputs
    if missing:
        raise UnsupportedError(
            f"the model has no input or output {min(missing)!r}: it is not a decoder with a cache, or its names "
            f"differ from those in its folder; it has {', '.join(sorted(shapes.keys() | outputs))}"
        )
    if odd := sorted(shapes.keys() - known):
        raise UnsupportedError(f"nothing is known about the decoder's input {odd[0]!r}: export it without")
    _check_axes(signatures[names.input_ids], signatures[names.logits])
    _check_pairs(model, caches)
    fed = {name for name in (names.input_ids, names.attention_mask, names.position_ids) if name in shapes}
    positions = shapes.get(names.position_ids)
    kinds = positions[0] if positions is not None and len(positions) == 3 else None
    if isinstance(kinds, str):
        raise UnsupportedError(f"nothing is known about the {kinds} positions of a token: export it with their number")
    return Feeding(
        names.input_ids,
        names.attention_mask if names.attention_mask in shapes else None,
        names.position_ids if positions is not None else None,
        kinds,
        {name: dtype for name in fed if (dtype := signatures[name].dtype) is not None},
        names.logits,
        caches | carried,
        carried,
    )


def vocabulary_of(model: Model, feeding: Feeding) -> int | None:
    """Return how many tokens there are, ``None`` where the model does not declare it."""
    shapes = {s.name: s.shape for s in model.outputs}
    last = (shapes[feeding.logits] or (None,))[-1]
    return last if isinstance(last, int) else None


def _check_axes(ids: Signature, logits: Signature) -> None:
    """Raise ``UnsupportedError`` where *ids* are not any number of tokens of a text, or *logits* are none of each."""
    for given, axes in ((ids, ("texts", "tokens")), (logits, ("texts", "tokens", "vocabulary"))):
        if given.shape is not None and len(given.shape) != len(axes):
            raise UnsupportedError(f"{given} is not [{', '.join(axes)}], as a decoder has it: export it so")
    texts, tokens = ids.shape or (None, None)
    if isinstance(tokens, int) or (isinstance(texts, int) and texts != 1):
        what = "tokens" if isinstance(tokens, int) else "texts"
        raise UnsupportedError(f"the input {ids} has a fixed number of {what}: export it with an open one")


def _check_pairs(model: Model, caches: Mapping[str, str]) -> None:
    """Raise ``ModelError`` where *caches* are not fed what the *model* makes of them."""
    made = {pair.input: pair.output for pair in model.state}
    if wrong := sorted(past for past, present in caches.items() if made.get(past, present) != present):
        past = wrong[0]
        raise ModelError(
            f"the cache {past!r} becomes {made[past]!r} in the model, and {caches[past]!r} by the names in its folder: "
            "correct these"
        )


def _ends(names: Names, kind: str) -> tuple[str, str]:
    """Return what inputs and outputs of a *kind* are called."""
    return getattr(names, f"past_{kind}_names"), getattr(names, f"present_{kind}_names")


def _pairs(names: Names, inputs: Iterable[str], kind: str) -> dict[str, str]:
    """Return the outputs of a *kind* that are fed back, by the *inputs* that take them, of the layers that have it."""
    (past, present), found = _ends(names, kind), {}
    before, layer, behind = past.partition("%d")
    for name in inputs:
        number = name.removeprefix(before).removesuffix(behind)
        if layer and number.isdecimal() and name == f"{before}{number}{behind}":
            found[name] = present.replace("%d", number)
    return found


class Reader(Protocol):
    """One text that a decoder reads: alone, or beside others."""

    def push(self, tokens: Sequence[int]) -> None:
        """Have *tokens* read next."""

    def logits(self) -> Array:
        """Return the logits ``[vocabulary]`` behind what was pushed, in float32.

        Raises:
            ClgraphError: The model cannot be compiled for the length, or the device fails; the text is as it was.
        """


class Decoding:
    """One text that a decoder has read so far.

    Its cache is a session's, on the device, where the model's caches are recognised as its state; else it is fed back
    as arrays, and every length is compiled.

    Attributes:
        length: How many tokens it has read.
    """

    def __init__(self, model: Model, feeding: Feeding) -> None:
        """Start a text."""
        self._feeding, self.length = feeding, 0
        self._next: Sequence[int] = ()
        self._run = _in_session(model, feeding) if is_kept(model, feeding) else _fed_back(model, feeding)

    def push(self, tokens: Sequence[int]) -> None:
        """Have *tokens* read next."""
        self._next = tokens

    def logits(self) -> Array:
        """Read, and return the logits behind the last token, as :class:`Reader` has it."""
        total = self.length + len(self._next)
        ids, mask, places = np.array([self._next]), np.ones((1, total), np.int64), np.arange(self.length, total)[None]
        logits: Array = self._run(self._feeding.feeds(ids, mask, places))[0, -1].astype(np.float32, copy=False)
        self.length = total
        return logits


def is_kept(model: Model, feeding: Feeding) -> bool:
    """Whether all caches of *model* are recognised as its state."""
    return {pair.input: pair.output for pair in model.state} | dict(feeding.carried) == feeding.pairs


def _in_session(model: Model, feeding: Feeding) -> Step:
    session = model.session(feeding.carried)
    return lambda feeds: session.run(feeds, outputs=[feeding.logits], last=True)[feeding.logits]


def _fed_back(model: Model, feeding: Feeding) -> Step:
    signatures = {s.name: s for s in model.inputs}
    caches = {past: _empty(signatures[past], grows=past not in feeding.carried) for past in feeding.pairs}

    def run(feeds: Mapping[str, Array]) -> Array:
        results = model.run({**feeds, **caches})
        caches.update({past: results[present] for past, present in feeding.pairs.items()})
        return results[feeding.logits]

    return run


def _empty(signature: Signature, *, grows: bool) -> Array:
    """Return what a layer is fed back before the first token: a cache ``[1, heads, 0, size]``, or zeros."""
    shape = signature.shape or ()
    if signature.dtype is None or (grows and len(shape) != 4) or not shape:
        raise UnsupportedError(f"the cache {signature} is not [batch, heads, tokens, size]")
    if grows and isinstance(shape[2], int):
        raise UnsupportedError(f"the cache {signature} has a fixed number of tokens: export it with an open one")
    if isinstance(shape[0], int) and shape[0] != 1:
        raise UnsupportedError(f"the cache {signature} has a fixed number of texts: export it with an open one")
    sizes = [1, *(0 if grows and i == 2 else d for i, d in enumerate(shape) if i)]
    if not all(isinstance(d, int) for d in sizes):
        raise UnsupportedError(f"the cache {signature} has open heads or sizes: export it with them known")
    return np.zeros([d for d in sizes if isinstance(d, int)], signature.dtype.numpy)
