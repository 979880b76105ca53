"""The kernel texts that a device may be given, found by planning models for its profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.network.steps import steps_of
from clgraph.passes.base import Context, PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.selection import choice_of, is_in_place
from clgraph.selector.choose import candidates
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch
from clgraph.selector.query import DeviceInfo
from clgraph.selector.sources import kernel_text
from clgraph.settings import PRODUCT_PRECISIONS


@dataclass(frozen=True)
class Text:
    """One kernel as the product compiles it.

    Attributes:
        implementation: The first one met that launches it; ``chosen`` says whether any model has it launched.
        group: The sizes of a group; what it says counts only where the text requires it.
        problem: The first problem it was met at.
    """

    implementation: str
    source: str
    entry: str
    jit: Jit
    group: tuple[int, ...]
    problem: str
    chosen: bool

    @property
    def text(self) -> str:
        """What the compiler is given."""
        return f"{self.jit}{kernel_text(self.source)}"

    @property
    def items(self) -> int:
        """Work-items of a group, at least 1."""
        product = 1
        for size in self.group:
            product *= size
        return product

    @property
    def requires_group(self) -> bool:
        """Whether the kernel requires groups of certain sizes."""
        return "reqd_work_group_size" in self.text

    @property
    def variant(self) -> str:
        """The macros in which kernels of one file differ, as ``T=half RANK=4 ...``."""
        shown = [(name, value.removeprefix("PRODUCT_")) for name, value in self.jit.macros if "(" not in name]
        return " ".join(f"{name}={value}" for name, value in shown)

    @property
    def name(self) -> str:
        """File without folder and suffix."""
        return PurePosixPath(self.source).stem


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


def texts_of(program: Program, device: DeviceInfo) -> Iterator[Text]:
    """Yield the kernels of *program*, then those of every other implementation that would serve its problems."""
    for node in program:
        if is_in_place(node):
            continue
        choice = choice_of(node)
        for step in steps_of(node):
            if isinstance(step, Launch):
                yield _text(choice.name, step, str(choice.query), chosen=True)
        for other in candidates(choice.query):
            if other is choice.implementation or other.refusal(choice.query):
                continue
            for step in other.plan(choice.query).steps:
                if isinstance(step, Launch):
                    yield _text(other.name, step, str(choice.query), chosen=False)


def _text(implementation: str, step: Launch, problem: str, *, chosen: bool) -> Text:
    return Text(implementation, step.source, step.entry, step.jit, step.group or (), problem, chosen)


def distinct(found: Iterable[Text]) -> list[Text]:
    """Return each kernel once, sorted by name and variant; chosen where any of its like is."""
    kept: dict[tuple[str, Jit, tuple[int, ...]], Text] = {}
    for text in found:
        key = (text.source, text.jit, text.group if text.requires_group else ())
        if key not in kept or (text.chosen and not kept[key].chosen):
            kept[key] = text
    return sorted(kept.values(), key=lambda t: (t.name, t.variant))
