"""How a decoder is fed: the names of its inputs, and of the outputs that come back to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
        single: Whether it takes one token at a time.
        mask_of_new: Whether the mask is of the new tokens, not of all.
    """

    ids: str
    mask: str | None
    positions: str | None
    kinds: int | None
    types: Mapping[str, DType]
    logits: str
    pairs: Mapping[str, str]
    carried: Mapping[str, str]
    single: bool
    mask_of_new: bool

    @property
    def caches(self) -> bool:
        """Whether attentions have caches."""
        return len(self.pairs) > len(self.carried)

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
    known = {names.input_ids, names.attention_mask, names.position_ids, *caches}
    carried |= {p.input: p.output for p in model.state if not p.grows and p.input not in known | carried.keys()}
    known |= carried.keys()
    lacking = [kind for kind in CACHES if not found[kind]] if caches or not carried else []
    missing = {_ends(names, kind)[0].replace("%d", "0") for kind in lacking}
    missing |= {names.input_ids} - shapes.keys()
    missing |= {names.logits, *caches.values(), *carried.values()} - outputs
    if missing:
        raise UnsupportedError(
            f"the model has no input or output {min(missing)!r}: it is not a decoder with a cache, or its names "
            f"differ from those in its folder; it has {', '.join(sorted(shapes.keys() | outputs))}"
        )
    if odd := sorted(shapes.keys() - known):
        raise UnsupportedError(f"nothing is known about the decoder's input {odd[0]!r}: export it without")
    single = (shapes[names.input_ids] or (0, 0))[-1] == 1
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
        single,
        not caches and shapes.get(names.attention_mask, ())[-1:] == shapes[names.input_ids][-1:] != (None,),
    )


def vocabulary_of(model: Model, feeding: Feeding) -> int | None:
    """Return how many tokens there are, ``None`` where the model does not declare it."""
    shapes = {s.name: s.shape for s in model.outputs}
    last = (shapes[feeding.logits] or (None,))[-1]
    return last if isinstance(last, int) else None


def _check_axes(ids: Signature, logits: Signature) -> None:
    """Raise ``UnsupportedError`` where *ids* are not one or any number of tokens, or *logits* are none of each."""
    for given, axes in ((ids, ("texts", "tokens")), (logits, ("texts", "tokens", "vocabulary"))):
        if given.shape is not None and len(given.shape) != len(axes):
            raise UnsupportedError(f"{given} is not [{', '.join(axes)}], as a decoder has it: export it so")
    texts, tokens = ids.shape or (None, None)
    fixed = isinstance(tokens, int) and tokens != 1
    if fixed or (isinstance(texts, int) and texts != 1):
        what = "tokens" if fixed else "texts"
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
