"""Images in the place of a model's inputs: what is done to them stands in front of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from clgraph.core.dtype import DType
from clgraph.core.nearest import meant
from clgraph.errors import OptionError
from clgraph.families.schema import ROWS
from clgraph.graph.layer import Layer
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.ops.preprocess import FED, Preprocess
from clgraph.selector.general import INTEGERS, REALS

Images = Mapping[str, Preprocess]
"""What is done to images, by the inputs that they become."""


def by_input(given: object) -> dict[str, Preprocess]:
    """Return what ``preprocess=`` was given, by the name of the input; the only one's is under the name ``""``.

    Raises:
        OptionError: It is something else.
    """
    if given is None:
        return {}
    images = {"": given} if isinstance(given, Preprocess) else given
    if not isinstance(images, Mapping) or not all(isinstance(p, Preprocess) for p in images.values()):
        raise OptionError(f"preprocess is in Python a clgraph.Preprocess, or one by an input's name, not {given!r:.80}")
    return {str(name): p for name, p in images.items()}


def preprocessed(topology: Topology, images: Images) -> Topology:
    """Return *topology* with images for inputs, which keep their names.

    Raises:
        OptionError: There is no such input, or it is none that such images become.
    """
    images = {name or _only(topology): p for name, p in images.items()}
    if unknown := sorted(set(images) - set(topology.fed)):
        near = meant(unknown[0], topology.fed)
        names = ", ".join(map(repr, topology.fed))
        raise OptionError(f"preprocess: no input is called {unknown[0]!r}{near}; the inputs are {names}")
    inputs, layers, renamed, taken = dict[str, Signature](), list[Layer](), dict[str, str](), set(topology.names)
    for name, signature in topology.inputs.items():
        if name not in images:
            inputs[name] = signature
            continue
        fitted = _fitted(images[name], signature)
        fed = _fed(fitted, signature)
        if clash := [other.name for other in fed[1:] if other.name in taken]:
            raise OptionError(
                f"preprocess: the model has a value called {clash[0]!r}, the name of an input of the preprocessing"
            )
        inputs |= {one.name: one for one in fed}
        made = next(new for i in count() if (new := f"{name}/preprocess{i or ''}") not in taken)
        taken |= {made, *(one.name for one in fed)}
        layers.append(Layer(made, fitted, tuple(one.name for one in fed), (made,), (made,)))
        renamed[name] = made
    layers += [
        replace(layer, inputs=tuple(renamed.get(name, name) for name in layer.inputs))
        if not renamed.keys().isdisjoint(layer.inputs)
        else layer
        for layer in topology.layers
    ]
    outputs = [(name, renamed.get(value, value)) for name, value in topology.outputs]
    return replace(topology, inputs=inputs, layers=layers, outputs=outputs)


def _only(topology: Topology) -> str:
    if len(topology.fed) != 1:
        names = ", ".join(map(repr, topology.fed)) or "none"
        raise OptionError(
            f"preprocess: the inputs are {names}: say which, in Python as {{NAME: clgraph.Preprocess(...)}}"
        )
    return next(iter(topology.fed))


def _fitted(p: Preprocess, signature: Signature) -> Preprocess:
    """Return *p* with the size and the type that an input declares."""
    what, shape = f"preprocess: the input {signature}", signature.shape
    if signature.dtype not in REALS | INTEGERS:
        raise OptionError(f"{what} holds no numbers that images become")
    dims: dict[str, Dimension] = dict.fromkeys(p.layout)
    if shape is not None:
        if len(shape) != len(p.layout):
            raise OptionError(f"{what} has {len(shape)} axes, not those of layout={p.layout!r}")
        dims = dict(zip(p.layout, shape, strict=True))
    if isinstance(dims["C"], int) and dims["C"] != p.depth:
        found = f"{dims['C']} channels in layout={p.layout!r}, {p.channels} has {p.depth}"
        raise OptionError(f"{what} has {found}: give channels or layout as the model has them")
    if isinstance(dims.get("N"), int) and dims["N"] != 1 and not p.batch:
        raise OptionError(f"{what} takes batches of {dims['N']}: give batch=True, and so many images at once")
    height, width = dims["H"], dims["W"]
    size = p.size
    if isinstance(height, int) and isinstance(width, int):
        if size not in (None, (height, width)):
            raise OptionError(f"{what} has {height} rows and {width} columns, not size={size!r}")
        size = (height, width)
    elif isinstance(size, tuple):
        if any(isinstance(d, int) and d != s for d, s in zip((height, width), size, strict=True)):
            raise OptionError(f"{what} does not have size={size!r}")
    elif isinstance(height, int) or isinstance(width, int):
        raise OptionError(f"{what} has one open side: give the size, rows and columns")
    return replace(p, size=size, dtype=signature.dtype or DType.F32)


def _fed(p: Preprocess, signature: Signature) -> list[Signature]:
    """Return the inputs in the place of one: an image, where NV12 is in two planes the chroma, and the size."""
    name, shape = signature.name, signature.shape
    batch: tuple[Dimension, ...] = (shape[p.layout.index("N")] if shape is not None else None,) if p.batch else ()
    colours = p.colours().shape[1] - 1
    sides: tuple[Dimension, ...] = (f"{name}{ROWS}", f"{name}.columns")
    pixels = () if p.image.startswith(("GRAY", "NV12")) else (colours,)
    fed = [Signature(name, DType.U8, (*batch, *sides, *pixels))]
    if p.image == "NV12_PLANES":
        fed.append(Signature(f"{name}.chroma", DType.U8, (*batch, f"{name}{ROWS}/2", f"{name}.columns/2", 2)))
    if p.size == FED:
        fed.append(Signature(f"{name}.size", DType.I64, (2,)))
    return fed
