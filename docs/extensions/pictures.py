"""Directives that compile the example model in a dry run and show what each pass makes of it."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from dataclasses import dataclass, field

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clgraph.compilation.compiler import Compiler
from clgraph.graph.program import Program
from clgraph.model.memory_report import memory_report
from clgraph.passes.base import Pass
from clgraph.passes.observers import PassObserver
from clgraph.settings import Settings
from extensions.drawing import Row, draw, gone, rows_of
from extensions.example import SHAPES, example
from extensions.text import paragraph


@dataclass(frozen=True)
class Step:
    """What a pass has made of the program: its rows, its text, and what the pass says itself; -1 is before all."""

    number: int
    name: str
    doc: str
    rows: tuple[Row, ...]
    text: str
    note: str


@dataclass
class Recorder(PassObserver):
    """Keeps the program as it is before the first pass and after each."""

    steps: list[Step] = field(default_factory=list)

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Keep what the first pass is given."""
        if not self.steps:
            self.steps.append(Step(-1, "built", "", rows_of(program), str(program), ""))

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Keep what the pass has made."""
        doc, note = inspect.getdoc(type(pass_)) or "", program.notes.get(pass_.name, "")
        self.steps.append(Step(number, pass_.name, doc, rows_of(program), str(program), note))


@functools.cache
def recorded() -> tuple[tuple[Step, ...], str]:
    """Return the steps of a dry run, and the picture of the planned memory."""
    recorder = Recorder()
    # Winograd's weights would be one more subject.
    compiler = Compiler(Settings(device="null", plugins="none", winograd=False), [recorder])
    program = compiler.specialise(example(), SHAPES).program
    return tuple(recorder.steps), memory_report(program).to_svg()


class PassPictures(SphinxDirective):
    """``{pass-pictures}``: the built program, then each pass that changed it, with its picture."""

    def run(self) -> list[nodes.Node]:
        """Return the picture of the built program, and a section for each pass that changed something."""
        steps, _ = recorded()
        pairs = list(itertools.pairwise(steps))
        idle = ", ".join(step.name for before, step in pairs if step.text == before.text)
        return [
            _picture(draw(steps[0].rows), "The program as it is built"),
            paragraph(f"These passes find nothing to do in this model: {idle}."),
            *(self._section(step, before) for before, step in pairs if step.text != before.text),
        ]

    def _section(self, step: Step, before: Step) -> nodes.Node:
        title = f"{step.number:02} {step.name}"
        section = nodes.section(ids=[nodes.make_id(step.name)], names=[title])
        section += nodes.title("", title)
        section += self.parse_text_to_nodes(step.doc)
        if lost := gone(step.rows, before.rows):
            section += paragraph(f"Gone: {', '.join(lost)}.")
        if step.note:
            section += nodes.literal_block(step.note, step.note, language="text")
        if step.rows != before.rows:
            section += _picture(draw(step.rows, before.rows), f"The program after {step.name}")
        return section


class MemoryPicture(SphinxDirective):
    """``{memory-picture}``: where the buffers of the example model lie, and when."""

    def run(self) -> list[nodes.Node]:
        """Return the picture."""
        svg = re.sub(r"<svg ", '<svg width="100%" ', recorded()[1], count=1)
        return [_picture(svg, "The arena of the example model")]


def _picture(svg: str, label: str) -> nodes.Node:
    named = svg.replace("<svg ", f'<svg aria-label="{label}" ', 1)
    return nodes.raw("", f'<div class="picture">{named}</div>', format="html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("pass-pictures", PassPictures)
    app.add_directive("memory-picture", MemoryPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
