"""Primitives: attributes, output layouts, reference result. Independent of devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.core.registry import Registry
from clgraph.errors import UnsupportedError
from clgraph.graph.permute import Axes

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

EVALUATED_ELEMENTS = 4096
"""Results up to this size are computed while shapes are bound, so that shape arithmetic never reaches a device."""

REFERENCE_SECONDS = 4e-6
"""What a reference of one or two calls of NumPy takes for a few numbers."""


@frozen
class Bound:
    """A primitive whose value inputs (a Reshape's shape, a Slice's starts) have become attributes.

    Attributes:
        keep: The input slots that stay edges, in order.
    """

    primitive: Primitive
    keep: tuple[int, ...]


@frozen
class PostOperation:
    """How kernels apply an elementwise primitive: a name of ``post_codes.clh`` in lower case and two parameters."""

    name: str
    a: float = 0.0
    b: float = 0.0


@frozen
class Permuted:
    """An operator rewritten for tensors whose axes are stored in another order, so that transposes can be removed.

    Attributes:
        primitive: The operator with its attributes adapted.
        inputs: The order each input must be held in; ``None`` for its own, one of more axes than the input has for an
            input that broadcasts: it gets axes of size 1 in front first.
        outputs: The order that each result is then held in.
    """

    primitive: Primitive
    inputs: tuple[Axes | None, ...]
    outputs: tuple[Axes, ...]

    @staticmethod
    def along(primitive: Primitive, axes: Axes, count: int) -> Permuted:
        """Return an operator with *count* inputs and one result, all held in the same order."""
        return Permuted(primitive, (axes,) * count, (axes,))


class Primitive:
    """Base class of operator descriptors. Subclasses are frozen dataclasses whose fields are the attributes.

    Its metaclass is Python's own: a start makes a class of every operator twice, and every pass asks what a node is.

    Attributes:
        kind: Name of the operator, the same in files, dumps and options.
        elementwise: Whether output element i depends on input elements i (after broadcast) alone, so that the
            primitive can become a post-operation of its producer.
        shapes_only: Whether the results depend on the shapes of the inputs, not on their elements.
        data_dependent: Whether the shapes of the results depend on the elements of the inputs.
        has_reference: Whether ``reference`` computes it; only an operator of a user may be without.
        exact_inputs: Slots of parameters that stay float32 when the operator is to read and write float16.
        keeps_types: Whether ``reference`` is about element types itself, or moves elements as they are.
        holds_sizes: Whether attributes of the bound primitive may hold sizes of its tensors, or places in them. Where
            they do not, what a pass has made for some sizes is right for others.
        sooner_apart: Whether passes make it of operators that are computed sooner apart than by its general kernel: it
            is made where another kernel serves it, and given up for shapes that none does.
        keeps_keys: Whether it takes past keys and values and gives present ones.
        reference_checks: Whether ``reference`` of the bound primitive raises for all sizes, none of them 0, that
            ``infer`` refuses of tensors whose element types and ranks it takes.
        computes_unbound: Whether ``reference`` computes and checks the same on all inputs before ``bind``.
        slow_reference: Whether ``reference`` takes many array operations, however few the elements: where a device can
            compute it, the host does not for the sake of shapes that change.
        warns: Whether NumPy may warn of what ``reference`` computes: of overflow, say.
    """

    kind: ClassVar[str]
    elementwise: ClassVar[bool] = False
    shapes_only: ClassVar[bool] = False
    data_dependent: ClassVar[bool] = False
    has_reference: ClassVar[bool] = True
    exact_inputs: ClassVar[frozenset[int]] = frozenset()
    keeps_keys: ClassVar[bool] = False
    keeps_types: ClassVar[bool] = False
    holds_sizes: ClassVar[bool] = True
    sooner_apart: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = False
    warns: ClassVar[bool] = True
    computes_unbound: ClassVar[bool] = False
    slow_reference: ClassVar[bool] = False

    @property
    def updates(self) -> frozenset[int]:
        """Slots of inputs whose memory a run is given, of any size, and that may be written to.

        They are inputs of the program, and a size of theirs is declared as 1. Their element type stays as it is.
        """
        return frozenset()

    @property
    def picks(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (slot of the data, slot of the indices into it, axis); negative indices count from the end."""
        return ()

    @abstractmethod
    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        """Return the output layouts (plain unless the primitive is about formats).

        Raises:
            ShapeError: The inputs do not fit; the caller adds the node's name.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what layouts its results have")

    @abstractmethod
    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the outputs with NumPy in the precision of the inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no reference")

    def computed(self, *inputs: Array) -> tuple[Array, ...]:
        """Return what ``reference`` makes of *inputs*, bfloat16 as float32 in it, and its results rounded once.

        NumPy's bfloat16 is rounded at every step. What is no arithmetic (``keeps_types``) gets arrays as they are.
        """
        if self.keeps_types or not any(_is_bfloat16(a) for a in inputs):
            return self.reference(*inputs)
        results = self.reference(*(a.astype(np.float32) if _is_bfloat16(a) else a for a in inputs))
        wanted = self.infer([Layout.of(a) for a in inputs])
        return tuple(r.astype(w.dtype.numpy, copy=False) for r, w in zip(results, wanted, strict=True))

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        """Turn inputs that must be known into attributes, and negative axes into positive ones.

        Args:
            inputs: Layouts of all inputs.
            values: The values that are known now, ``None`` for the others.

        Raises:
            UnsupportedError: A value that must be known is not.
        """
        return Bound(self, tuple(range(len(inputs))))

    def at_any_size(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound | None:
        """Return what computes it on tensors like *inputs*, but of any sizes, none of them 0; ``None``: nothing does.

        Its reference makes of them what it makes when bound to them, and raises for what ``infer`` refuses. Arguments
        as for ``bind``; values that are not the same in each run are ``None``.
        """
        if self.computes_unbound:
            return Bound(self, tuple(range(len(inputs))))
        if not self.reference_checks or self.takes_sizes() or any(values[i] is None for i in self._values_of(inputs)):
            return None
        return self.bind(inputs, values)

    def _values_of(self, inputs: Sequence[Layout]) -> Sequence[int]:
        return [i for i in self.value_slots() if i < len(inputs)]

    def takes_sizes(self) -> bool:
        """Whether the attributes that ``bind`` computes depend on the sizes of inputs, as pads of ``SAME_UPPER`` do."""
        return self.holds_sizes

    def value_slots(self) -> tuple[int, ...]:
        """Return the inputs whose values must be known when the shapes are bound; ``reads`` names them where it is."""
        return tuple(range(1, 1 + len(getattr(self, "reads", ()))))

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        """Return the outputs when they are known and small (at most ``EVALUATED_ELEMENTS``), else ``None``."""
        known = [v for v in values if v is not None]
        if len(known) < len(values) or not self.has_reference:
            return None
        if any(out.count > EVALUATED_ELEMENTS for out in self.infer(inputs)):
            return None
        return self.computed(*known)

    def as_post(self, slot: int) -> PostOperation | None:
        """Return how kernels apply the primitive to a running value that is its input *slot*; ``None``: they do not."""
        return None

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        """Return how the bound primitive computes the same with its first input held in the order *axes*.

        ``None``, the default, when it cannot: what it does depends on the place of an axis, or nobody has said.

        Args:
            inputs: Layouts of all inputs, in their own order; the longest rank counts where they broadcast.
        """
        return None

    def resized(self, shape: Shape, other: Shape) -> Primitive | None:
        """Return the bound primitive for a first input of shape *other*, given that this one is bound for *shape*.

        ``None``, the default, where its attributes do not tell.
        """
        return None

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        """Return the arithmetic operations of one run; one an output element unless a subclass knows better."""
        return float(sum(out.count for out in outputs))

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        """Return what ``reference`` takes beside its arithmetic: two calls of NumPy unless a subclass knows better."""
        return REFERENCE_SECONDS

    def demands(self) -> frozenset[str]:
        """Return requirements that an implementation must declare in ``Serves.meets`` to be considered; mostly none."""
        return frozenset()

    def print_below(self, indent: str) -> Sequence[str]:
        """Return the lines that a topology prints below the primitive, each behind *indent*; mostly none."""
        return ()

    def __str__(self) -> str:
        """Print as ``kind(attribute=value, ...)``, leaving out attributes at their default."""
        shown = [f"{f.name}={_spell(v)}" for f in _fields(self) if (v := getattr(self, f.name)) != f.default]
        return f"{self.kind}({', '.join(shown)})" if shown else self.kind


class DataDependent(Primitive):
    """Base of primitives whose results have a shape that only their inputs' elements tell, such as ONNX's NonZero.

    They are computed between the stages of a model (:mod:`clgraph.model.stages`), or while shapes are bound where
    everything is known. Their inputs come as they are, without ``bind``.

    Attributes:
        foldable: Whether they may be computed while shapes are bound.
    """

    __slots__ = ()

    data_dependent: ClassVar[bool] = True
    keeps_types: ClassVar[bool] = True
    foldable: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        """Raise ``UnsupportedError``: layouts do not tell."""
        raise UnsupportedError(
            f"the shape of the result of {self.kind} depends on its inputs' elements: compile the topology, "
            "which cuts it into stages, instead of building it"
        )

    def outline(self, ranks: Sequence[int | None]) -> tuple[DType, tuple[int | None, ...]] | None:
        """Return type and shape of the only result, with ``None`` for sizes that elements decide.

        Args:
            ranks: Of the inputs, as far as they are known; where they tell too little there is no outline.
        """
        return None

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        """Return the outputs, of any size, when the inputs are known and shapes have a place for what they make."""
        if not self.foldable or any(v is None for v in values):
            return None
        return self.reference(*(v for v in values if v is not None))


class OfHostValues(DataDependent):
    """Base of operators on host values: strings, sequences, optionals, maps (:mod:`clgraph.graph.host_types`).

    They run in the interpreter, because layouts and compiled programs describe tensors of numbers only.

    Attributes:
        sequences, maps: The slots of inputs that are sequences or maps.
        takes_any: Whether inputs may be of any kind; else all further ones are tensors, of strings or numbers.
    """

    __slots__ = ()

    foldable: ClassVar[bool] = False
    sequences: ClassVar[frozenset[int]] = frozenset()
    maps: ClassVar[frozenset[int]] = frozenset()
    takes_any: ClassVar[bool] = False

    def result_types(self) -> Sequence[str | None]:
        """Return the types of the results as ONNX spells them, where the attributes tell; fewer where they do not."""
        return ()

    def kind_at(self, slot: int) -> str:
        """Return the kind of value that input *slot* takes, spelled as by :func:`~clgraph.graph.host_types.kind_of`."""
        return "a sequence" if slot in self.sequences else "a map" if slot in self.maps else "a tensor"


def _is_bfloat16(array: Array) -> bool:
    return array.dtype.kind == "V" and array.dtype.name == "bfloat16"


def _fields(primitive: Primitive) -> tuple[Any, ...]:
    return fields(primitive)  # type: ignore[arg-type]  # every subclass is a dataclass


def _spell(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join(map(_spell, value)) if all(isinstance(v, int) and v >= 0 for v in value) else str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


PRIMITIVES: Registry[str, type[Primitive]] = Registry("primitive", package="clgraph.ops")

P = TypeVar("P", bound=type[Primitive])


def primitive(cls: P) -> P:
    """Class decorator: make the descriptor known under its ``kind``."""
    PRIMITIVES.register(cls.kind, cls)
    return cls


def primitive_of(kind: str) -> type[Primitive]:
    """Return the primitive called *kind*.

    Raises:
        UnsupportedError: There is none, here or in a plugin that is loaded.
    """
    found = PRIMITIVES.get(kind)
    if found is None:
        raise UnsupportedError(f"no operator is called {kind!r}: it is a plugin's that is not installed or not loaded")
    return found
