"""One way to compute a primitive on a class of devices, and what it declares about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Generic, TypeVar, final

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo
from clgraph.core.registry import Registry
from clgraph.graph.primitive import Primitive
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query, Traits

P = TypeVar("P", bound=Primitive)
Impl = TypeVar("Impl", bound="type[Implementation[Any]]")


@frozen(kw_only=True)
class Serves:
    """What an implementation declares to serve. What is not listed is refused: silence never means yes.

    Attributes:
        dtypes: Element types of all tensors; ``mixed`` allows them to differ from one another.
        kinds: Device kinds it is written for (right on others too, if listed).
        formats: Whether non-plain formats are served; which ones, ``limits`` says.
        fuses: Kinds of primitives it can apply to its result; ``prefuses``, to its first input; ``None``: all there
            are.
        operands: How many operands of fused operations it can read; ``None``: any number.
        features: Device features it needs.
        either: Features of which it needs one, where there are any.
        halos: Whether it writes the halo that its output's layout asks for.
        meets: Which demands of primitives (``Primitive.demands``) it meets; ``None``: all there are.
    """

    dtypes: frozenset[DType]
    mixed: bool = False
    kinds: frozenset[str] = frozenset({"cpu", "gpu"})
    formats: bool = False
    fuses: frozenset[str] | None = frozenset()
    prefuses: frozenset[str] | None = frozenset()
    operands: int | None = 4
    features: frozenset[str] = frozenset()
    either: frozenset[str] = frozenset()
    halos: bool = False
    meets: frozenset[str] | None = frozenset()

    def refusal(self, q: Query[Any]) -> str | None:
        """Say why *q* is not served, or return ``None``."""
        return self.traits_refusal(q.traits) or self.layout_refusal(q)

    def traits_refusal(self, traits: Traits) -> str | None:
        """Say why no problem with these *traits* is served, or return ``None``."""
        device, dtypes = traits.device, traits.dtypes
        if device.kind not in self.kinds:
            return f"is written for {_names(self.kinds)} devices, not for a {device.kind}"
        if not self.features <= device.features:
            return f"needs {_names(self.features - device.features)}"
        if self.either and not self.either & device.features:
            return f"needs one of {_names(self.either)}"
        if self.meets is not None and (unmet := traits.demands - self.meets):
            return f"does not know {_names(unmet)}"
        if not dtypes <= self.dtypes:
            return f"serves {_names(map(str, self.dtypes))}, not {_names(map(str, dtypes - self.dtypes))}"
        if not self.mixed and len(dtypes) > 1:
            return "requires one element type for all tensors"
        if self.fuses is not None and (foreign := traits.behind - self.fuses):
            return f"cannot apply {_names(foreign)} to its result"
        if self.prefuses is not None and (foreign := traits.in_front - self.prefuses):
            return f"cannot apply {_names(foreign)} to its input"
        if self.operands is not None and traits.operands > self.operands:
            return f"reads at most {self.operands} operands of fused operations, not {traits.operands}"
        return None

    def layout_refusal(self, q: Query[Any]) -> str | None:
        """Say why *q* is not served in its formats and with its results' halos, or return ``None``."""
        if not self.formats and (odd := [x for x in (*q.inputs, *q.outputs) if not x.format.is_plain]):
            return f"serves plain formats, not {odd[0].format}"
        if not self.halos and any(out.halo for out in q.outputs):
            return "writes no halo"
        return None


@frozen
class Formats:
    """A proposal: the format of each input (``None``: leave it, e.g. a constant) and of each output."""

    inputs: tuple[Format | None, ...]
    outputs: tuple[Format, ...]


class Implementation(ABC, Generic[P]):
    """One way to run one primitive. A class, never an instance; no state."""

    primitive: ClassVar[type[Primitive]]
    name: ClassVar[str]
    serves: ClassVar[Serves]
    general: ClassVar[bool]
    tags: ClassVar[frozenset[str]] = frozenset()
    in_place: ClassVar[bool] = False
    """Whether it runs nothing, because the results lie in the memory of the inputs."""
    skips_empty: ClassVar[bool] = False
    """Whether it serves tensors without elements beside others, as general ones do."""

    @classmethod
    @final
    def refusal(cls, q: Query[P]) -> str | None:
        """Say why *q* cannot be served, or return ``None`` when it can. Only general ones see tensors of no element."""
        return cls.serves.refusal(q) or cls.further_refusal(q)

    @classmethod
    @final
    def sizes_refusal(cls, q: Query[P]) -> str | None:
        """Say why *q* cannot be served, which differs from one that is served in sizes alone, or return ``None``."""
        return cls.serves.layout_refusal(q) or cls.further_refusal(q)

    @classmethod
    @final
    def further_refusal(cls, q: Query[P]) -> str | None:
        """Say why *q* cannot be served beyond what :class:`Serves` refuses, or return ``None``."""
        if not cls.general and not cls.skips_empty:
            for x in (*q.inputs, *q.outputs):
                if 0 in x.shape:
                    return "serves no tensors without elements"
        return cls.limits(q)

    @classmethod
    @final
    def is_denied(cls, denied: frozenset[str]) -> bool:
        """Whether *denied*, names and tags of implementations, has its name or one of its tags."""
        return cls.name in denied or not cls.tags.isdisjoint(denied)

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        """Refuse what :class:`Serves` cannot express: shapes, attributes, formats. Names no other implementation."""
        return None

    @classmethod
    def formats(cls, q: Query[P]) -> tuple[Formats, ...]:
        """Return the memory formats it would like for *q* (laid_out on plain layouts), best first; plain by default."""
        plain = tuple(Format.plain(x.rank) for x in q.inputs)
        return (Formats(plain, tuple(Format.plain(x.rank) for x in q.outputs)),)

    @classmethod
    def weights(cls, q: Query[P]) -> Mapping[int, Format | Primitive]:
        """Return what it asks for in place of constant inputs, by slot; the plan may rely on it.

        Either another format, or what a primitive makes of the constant; then :meth:`transformed` names the primitive
        that the node becomes, of which nothing more is asked.
        """
        return {}

    @classmethod
    def transformed(cls, q: Query[P]) -> Primitive:
        """Return the primitive that computes the same from inputs that a primitive of :meth:`weights` has made."""
        return q.primitive

    @classmethod
    def halo(cls, q: Query[P]) -> Mapping[int, Halo]:
        """Return the zeros it reads around inputs, by slot."""
        return {}

    @classmethod
    def overwrites(cls, q: Query[P]) -> frozenset[int]:
        """Return the inputs whose memory the first output may take over when nothing else reads them."""
        return frozenset()

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        """Estimate seconds on ``q.device`` by its cost model, before the implementation's own scale."""
        return roofline(q, efficiency=0.02)

    @classmethod
    @final
    def estimate(cls, q: Query[P]) -> float:
        """Return the seconds that *q* should take on the whole device.

        The number of workers that the user asks for changes no choice, and with it no bit of a result.
        """
        device = q.device.whole
        return cls.predicted(q if device is q.device else q.on(device))

    @classmethod
    @final
    def predicted(cls, q: Query[P]) -> float:
        """Return the seconds that *q* should take with the device's workers: its cost, scaled by the cost model."""
        seconds, costs = cls.cost(q), q.device.costs
        scale, begin = costs.scales.get(cls.name), costs.step_seconds
        return seconds if scale is None else begin + max(0.0, seconds - begin) * scale

    @classmethod
    @abstractmethod
    def plan(cls, q: Query[P]) -> Plan:
        """Return the steps for *q*, whose layouts are final and whose weights have the formats asked for."""


@cache
def overrides(implementation: type[Implementation[Any]], name: str) -> bool:
    """Whether *implementation* answers *name* (``formats``, ``halo``, ``weights`` …) itself, not by the default."""
    own, default = getattr(implementation, name), getattr(Implementation, name)
    return bool(own.__func__ is not default.__func__)


@lru_cache(maxsize=1024)
def refused(
    implementations: tuple[type[Implementation[Any]], ...], traits: Traits
) -> Mapping[type[Implementation[Any]], str]:
    """Return those of *implementations* that serve no problem with these *traits*, with the reason of each.

    A model has hundreds of problems and a dozen of such sets.
    """
    reasons = ((c, c.serves.traits_refusal(traits)) for c in implementations)
    return {c: reason for c, reason in reasons if reason is not None}


def roofline(q: Query[Any], efficiency: float, bandwidth: float = 0.5) -> float:
    """Return a launch plus the larger of arithmetic at *efficiency* of peak and traffic at *bandwidth* of peak."""
    work: float = q.primitive.flops(q.own, q.outputs) / (q.device.flops * efficiency)
    traffic: float = sum(x.nbytes for x in (*q.inputs, *q.outputs)) / (q.device.bytes_per_second * bandwidth)
    return q.device.launch_seconds + max(work, traffic)


IMPLEMENTATIONS: Registry[str, type[Implementation[Any]]] = Registry(
    "implementation",
    group=lambda name, entry: entry.primitive.kind if entry else name.rpartition(".")[0],
    part=lambda entry, device_kind: device_kind in entry.serves.kinds,
    package="clgraph.implementations",
)

WINOGRAD = "winograd"
"""The tag of convolutions by fewer products (Winograd's, Strassen's), with other rounding: the option denies them."""
SOME_MAPS = "some_maps"
"""The tag of what transforms weights for maps of some sizes: not taken where maps are of any size."""
DIGITS = "digits"
"""The tag of products that read floats as fixed-point numbers: the option ``quantised_products`` denies them."""
ORDERED_F32 = "ordered_f32"
"""The tag of matrix products that add up in float, in the order of k."""


def implements(
    primitive: type[Primitive], *, name: str, serves: Serves, general: bool = False, tags: Iterable[str] = ()
) -> Callable[[Impl], Impl]:
    """Class decorator: register an implementation of *primitive* under its dotted name.

    Args:
        general: It serves every attribute and shape of the primitive for plain formats: the net below the others.
        tags: What others may ask for it by, without naming it.
    """

    def record(cls: Impl) -> Impl:
        cls.primitive, cls.name, cls.serves, cls.general = primitive, name, serves, general
        cls.tags = frozenset(tags)
        IMPLEMENTATIONS.register(name, cls)
        return cls

    return record


def _names(items: Iterable[str]) -> str:
    return ", ".join(sorted(items))
