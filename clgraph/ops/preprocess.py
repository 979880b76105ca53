"""What is done to an image of bytes before a model reads it: colours, size, mean and scale, layout, type."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import OptionError, ShapeError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.image_planes import ImagePlanes
from clgraph.ops.image_taps import RESIZES, RULES, ResizedAxis, packed, taps
from clgraph.ops.nv12_to_rgb import RANGES, WEIGHTS, Nv12ToRgb
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose

IMAGES = {"RGB": "RGB", "BGR": "BGR", "RGBA": "RGB-", "BGRA": "BGR-", "GRAY": "L", "NV12": "RGB", "NV12_PLANES": "RGB"}
"""What images may be, with the colours that their pixels have in turn: ``L`` is grey, ``-`` left out."""
CHANNELS = ("RGB", "BGR", "GRAY")
FITS = ("stretch", "letterbox", "crop")
ALIGNS = ("center", "corner")
LAYOUTS = ("NCHW", "NHWC", "CHW", "HWC")
FED = "fed"

_LUMA = {"R": 0.299, "G": 0.587, "B": 0.114, "L": 1.0}
_CHOICES = {
    "image": tuple(IMAGES),
    "channels": CHANNELS,
    "resize": RESIZES,
    "rule": RULES,
    "fit": FITS,
    "align": ALIGNS,
    "layout": LAYOUTS,
    "matrix": tuple(WEIGHTS),
    "range": RANGES,
}


@primitive
@frozen
class Preprocess(Composite):
    """How an image of bytes becomes the input of a model: computed on the device, as a part of the graph.

    An image is uint8 ``[rows, columns, colours]``, ``[rows, columns]`` where it is grey, ``[3 rows / 2, columns]`` in
    NV12, as OpenCV has it; with *batch* there are any number of one size in front. docs/preprocessing.md has examples.

    Attributes:
        image: What is fed: ``RGB``, ``BGR``, ``RGBA``, ``BGRA`` (alpha counts nothing), ``GRAY``, ``NV12``, or
            ``NV12_PLANES``, whose chroma ``[rows / 2, columns / 2, 2]`` is an input of its own, ``NAME.chroma``.
        channels: What the model reads: ``RGB``, ``BGR`` or ``GRAY``.
        size: Rows and columns of what the model reads. By default those that the model declares, else those of the
            image; ``"fed"``: two whole numbers, int64, that are fed with every image as ``NAME.size``.
        resize: ``nearest``, ``linear``, ``cubic`` or ``area``.
        rule: Whose coordinates: ``pillow`` averages over all of what becomes smaller (``antialias=True`` elsewhere),
            ``opencv`` takes two or four neighbours (``antialias=False``), but for ``area``.
        fit: ``stretch`` makes it the size; ``letterbox`` fits all of it into that, with padding beside it; ``crop``
            covers that, and cuts off what is beside it.
        shorter: For ``crop``: the shorter side is made so long before, as 256 for crops of 224; by default as long as
            covers the size.
        align: Whether letterboxes have the image in their ``center`` or in the upper left ``corner``.
        padding: What is beside it, from 0 to 255.
        mean, scale: The model reads (value - mean) / scale, of values from 0 to 255; a number, or one a channel.
        layout: Of what the model reads: ``NCHW``, ``NHWC``, ``CHW`` or ``HWC``.
        batch: Whether images come as ``[count, ...]``; else each is fed alone.
        matrix, range: For NV12: ``BT.601`` or ``BT.709``; whether luma is ``limited`` to 16 to 235, or ``full``.
        dtype: Of what the model reads, which ``clgraph.compile`` knows. Integers are rounded, ties to even.

    Raises:
        OptionError: An attribute is not one of these.
    """

    image: str = "RGB"
    channels: str = "RGB"
    size: tuple[int, int] | str | None = None
    resize: str = "linear"
    rule: str = "pillow"
    fit: str = "stretch"
    shorter: int | None = None
    align: str = "center"
    padding: float = 0.0
    mean: tuple[float, ...] | list[float] | float = (0.0,)
    scale: tuple[float, ...] | list[float] | float = (1.0,)
    layout: str = "NCHW"
    batch: bool = False
    matrix: str = "BT.601"
    range: str = "limited"
    dtype: DType = DType.F32

    kind: ClassVar[str] = "preprocess"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise OptionError(f"preprocess: {name}={getattr(self, name)!r} is not one of {', '.join(choices)}")
        for name in ("mean", "scale"):
            object.__setattr__(self, name, self._numbers(name))
        if 0 in np.ravel(self.scale):
            raise OptionError("preprocess: scale divides: it cannot be 0")
        if self.size is not None and self.size != FED:
            object.__setattr__(self, "size", _pair(self.size))
        if self.shorter is not None and (self.fit != "crop" or not _is_size(self.shorter)):
            raise OptionError(f"preprocess: shorter={self.shorter!r} must be pixels, and goes with fit crop alone")
        if not isinstance(self.padding, int | float) or not 0 <= self.padding <= 255:
            raise OptionError(f"preprocess: padding={self.padding!r} is not a value from 0 to 255")
        if not isinstance(self.batch, bool):
            raise OptionError(f"preprocess: batch={self.batch!r} is neither True nor False")
        if self.batch and "N" not in self.layout:
            raise OptionError(f"preprocess: a batch does not fit layout={self.layout!r}, which has no N")
        object.__setattr__(self, "padding", float(self.padding))

    @property
    def depth(self) -> int:
        """Channels of what the model reads."""
        return 1 if self.channels == "GRAY" else 3

    def value_slots(self) -> tuple[int, ...]:
        return (self._images,) if self.size == FED else ()

    def compose(self, c: Composition) -> Sequence[str]:
        x = self._pixels(c)
        _, height, width, _ = c.layout(x).shape
        rows, columns = self._axes(height, width, self._target(c, height, width))
        reduces = rows.size >= rows.resized and columns.size >= columns.resized
        found = packed(*(taps(axis, self.resize, self.rule, reduces) for axis in (rows, columns)))
        planes = ImagePlanes((rows.shape, columns.shape), self.padding)
        y = c.add(planes, x, c.constant(found), c.constant(self.colours()))
        return (self._laid_out(c, y),)

    def colours(self) -> Array:
        """Return what each channel that is read is of the colours of the image, and a number: F32 ``[C][K + 1]``."""
        given = IMAGES[self.image]
        luma = [_LUMA.get(colour, 0.0) for colour in given]
        wanted = [luma] if self.channels == "GRAY" else [_share(colour, given) for colour in self.channels]
        mean, scale = (np.broadcast_to(np.array(v), self.depth) for v in (self.mean, self.scale))
        shares: Array = (np.column_stack([np.array(wanted), -mean]) / scale[:, None]).astype(np.float32)
        return shares

    @property
    def _images(self) -> int:
        return 2 if self.image == "NV12_PLANES" else 1

    def _pixels(self, c: Composition) -> str:
        """Return the images as ``[N][H][W][K]``."""
        given = c.inputs[: self._images]
        rank = (2 if self.image in ("GRAY", "NV12", "NV12_PLANES") else 3) + self.batch
        x = c.layout(given[0])
        if x.dtype != DType.U8:
            raise ShapeError(f"an image is uint8, not {x.dtype}")
        if x.rank != rank:
            raise ShapeError(f"the image has the shape {list(x.shape)}; {self.wanted()}")
        if rank - self.batch == 3 and x.shape[-1] != len(IMAGES[self.image]):
            raise ShapeError(f"the image has {x.shape[-1]} colours, {self.image} has {len(IMAGES[self.image])}")
        if 0 in x.shape[self.batch :]:
            raise ShapeError(f"the image has the shape {list(x.shape)}, and no pixel")
        if not self.batch:
            given = tuple(c.add(Reshape((1, *c.layout(name).shape)), name) for name in given)
        if self.image == "GRAY":
            return c.add(Reshape((*c.layout(given[0]).shape, 1)), given[0])
        if self.image.startswith("NV12"):
            return c.add(Nv12ToRgb(self.matrix, self.range), *given)
        return given[0]

    def wanted(self) -> str:
        """Say what shape images are to have."""
        axes = ["rows", "columns"]
        if self.image == "NV12":
            axes[0] = "3 rows / 2"
        if not self.image.startswith(("GRAY", "NV12")):
            axes.append(str(len(IMAGES[self.image])))
        return f"{self.image} has {'[' + ', '.join(['count'] * self.batch + axes) + ']'}"

    def _target(self, c: Composition, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of what the model reads."""
        if self.size is None:
            return height, width
        if self.size != FED:
            return _pair(self.size)
        found = known_ints(c.values, self._images, "size")
        if len(found) != 2 or min(found) < 1:
            raise ShapeError(f"the size {list(found)} that is fed must be rows and columns, each 1 or more")
        return found[0], found[1]

    def _axes(self, height: int, width: int, target: tuple[int, int]) -> tuple[ResizedAxis, ResizedAxis]:
        """Return what becomes of rows and of columns."""
        h, w = target
        if self.fit == "stretch":
            return ResizedAxis(height, h, 0, h), ResizedAxis(width, w, 0, w)
        if self.fit == "letterbox":
            # As Ultralytics' LetterBox has it: rounded, the odd pixel below and on the right.
            scale = min(h / height, w / width)
            resized = [max(1, round(side * scale)) for side in (height, width)]
        elif self.shorter is None:
            scale = max(h / height, w / width)
            resized = [max(n, round(side * scale)) for side, n in ((height, h), (width, w))]
        else:
            # As torchvision's Resize has it: the longer side is cut to a whole number.
            resized = [self.shorter * side // min(height, width) for side in (height, width)]
        centred = self.fit == "crop" or self.align == "center"
        starts = [_start(n, side) if centred else 0 for n, side in zip(resized, (h, w), strict=True)]
        return ResizedAxis(height, resized[0], starts[0], h), ResizedAxis(width, resized[1], starts[1], w)

    def _laid_out(self, c: Composition, y: str) -> str:
        if self.dtype in (DType.F16, DType.BF16, DType.F64):
            y = c.add(Reorder(self.dtype), y)
        elif self.dtype != DType.F32:
            low, high = self.dtype.bounds
            y = c.add(Activation("clip", float(low), float(high)), c.add(Activation("round"), y))
            y = c.add(Reorder(self.dtype), y)
        if self.layout.endswith("HWC"):
            y = c.add(Transpose((0, 2, 3, 1)), y)
        return y if "N" in self.layout else c.add(Reshape(c.layout(y).shape[1:]), y)

    def _numbers(self, name: str) -> tuple[float, ...]:
        given: Any = getattr(self, name)
        try:
            found = tuple(float(v) for v in (given if np.ndim(given) else (given,)))
        except (TypeError, ValueError) as error:
            raise OptionError(f"preprocess: {name}={given!r} is not a number, and none a channel") from error
        if len(found) not in (1, self.depth) or not all(map(isfinite, found)):
            raise OptionError(f"preprocess: {name}={given!r}: want a number, or one for each of {self.channels}")
        return found


def image_inputs(topology: Topology) -> dict[str, Preprocess]:
    """Return what is done to the inputs of *topology* that are images."""
    layers = ((x.inputs[0], x.primitive) for x in topology.layers if isinstance(x.primitive, Preprocess))
    return {name: done for name, done in layers if isinstance(done, Preprocess) and name in topology.inputs}


def lone_images(topology: Topology) -> list[str]:
    """Return the inputs of *topology* that are images without a batch: their first size is that of rows."""
    return [name for name, done in image_inputs(topology).items() if not done.batch]


def _start(resized: int, side: int) -> int:
    """Return where the result begins: torchvision's rule for what is cut, Ultralytics' for what is filled up."""
    return round((resized - side) / 2) if resized >= side else -((side - resized) // 2)


def _share(colour: str, given: str) -> list[float]:
    return [float(there in (colour, "L")) for there in given]


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def _pair(size: Any) -> tuple[int, int]:
    try:
        rows, columns = size
    except (TypeError, ValueError) as error:
        raise OptionError(f"preprocess: size={size!r}: want (rows, columns), or 'fed'") from error
    if not (_is_size(rows) and _is_size(columns)):
        raise OptionError(f"preprocess: size={size!r}: rows and columns are whole numbers above 0")
    return rows, columns
