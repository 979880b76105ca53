"""The kernel texts that a device may be given, found by planning models for its profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.network.node_steps import steps_of
from clgraph.passes.base import Context
from clgraph.passes.chosen import choice_of
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.selector.choose import Choice, candidates
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch
from clgraph.selector.query import DeviceInfo
from clgraph.selector.sources import kernel_text
from clgraph.settings import PRODUCT_PRECISIONS


@dataclass(frozen=True)
class Text:
    """One kernel as the product compiles it.

    Attributes:
        name: Its file's, without folder and suffix.
        jit: The macros in front of it, in which kernels of one file differ.
        text: What the compiler is given.
        group: The sizes of a group; what it says counts only where the text requires it.
        implementation: The first one met that launches it, at ``problem``.
        chosen: Whether any model has it launched.
    """

    name: str
    jit: Jit
    text: str
    group: tuple[int, ...] = ()
    implementation: str = ""
    problem: str = ""
    chosen: bool = True

    @staticmethod
    def of(step: Launch, choice: Choice, implementation: str) -> Text:
        """Return the kernel of a step that *implementation* plans for the problem of *choice*."""
        text, chosen = f"{step.jit}{kernel_text(step.source)}", implementation == choice.name
        return Text(step.entry, step.jit, text, step.group or (), implementation, str(choice.query), chosen)

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return prod(self.group)

    @property
    def requires_group(self) -> bool:
        """Whether the kernel requires groups of certain sizes."""
        return "reqd_work_group_size" in self.text

    @property
    def variant(self) -> str:
        """The macros that are no functions, as ``T=half RANK=4 ...``."""
        shown = [(name, value.removeprefix("PRODUCT_")) for name, value in self.jit.macros if "(" not in name]
        return " ".join(f"{name}={value}" for name, value in shown)


def planned(topology: Topology, shapes: Mapping[str, tuple[int, ...]], device: DeviceInfo, precision: str) -> Program:
    """Return *topology* planned for *device* as ``clgraph.compile`` plans it for a device that there is.

    Raises:
        ClgraphError: The model does not run on such a device.
    """
    if precision in PRODUCT_PRECISIONS:
        device = replace(device, features=device.features | {precision})
    program = topology.build(shapes)
    context = Context({"null": device}, precision=precision, op_types=topology.op_types)
    PassManager(default_pipeline()).run(program, context)
    return program


def texts_of(program: Program, *, chosen: bool = False) -> Iterator[Text]:
    """Yield the kernels of *program*, then those of other implementations that would serve its problems.

    Args:
        chosen: No others.
    """
    for node in program:
        if node.in_place:
            continue
        choice = choice_of(node)
        yield from (Text.of(step, choice, choice.name) for step in steps_of(node) if isinstance(step, Launch))
        for other in [] if chosen else candidates(choice.query):
            if other is not choice.implementation and not other.refusal(choice.query):
                steps = other.plan(choice.query).steps
                yield from (Text.of(step, choice, other.name) for step in steps if isinstance(step, Launch))


def distinct(found: Iterable[Text]) -> list[Text]:
    """Return each kernel once, sorted by name and variant; chosen where any of its like is."""
    kept: dict[tuple[str, tuple[int, ...]], Text] = {}
    for text in found:
        key = (text.text, text.group if text.requires_group else ())
        if key not in kept or (text.chosen and not kept[key].chosen):
            kept[key] = text
    return sorted(kept.values(), key=lambda t: (t.name, t.variant))
