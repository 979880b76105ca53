"""Directives that compile the example model in a dry run and show what each pass makes of it."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass, field

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clgraph.cli.passes_command import summary
from clgraph.compiler import Compiler
from clgraph.graph.program import Program
from clgraph.graph.text import print_program
from clgraph.memory_report import memory_report
from clgraph.passes.base import Pass
from clgraph.passes.observers import Watcher
from clgraph.settings import Settings
from extensions.drawing import Row, draw, gone, rows_of
from extensions.example import SHAPES, example
from extensions.text import paragraph


@dataclass(frozen=True)
class Step:
    """What a pass has made of the program; ``changed`` says whether its text is another."""

    number: int
    made_by: Pass | None
    rows: tuple[Row, ...]
    text: str
    note: str


@dataclass
class Recorder(Watcher):
    """Keeps the program as it is before the first pass and after each."""

    steps: list[Step] = field(default_factory=list)

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Keep what the first pass is given."""
        if not self.steps:
            self.steps.append(Step(-1, None, rows_of(program), print_program(program), ""))

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Keep what the pass has made."""
        note = program.notes.get(pass_.name, "")
        self.steps.append(Step(number, pass_, rows_of(program), print_program(program), note))


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
        """Return a section a pass; the passes with nothing to do here share a sentence."""
        steps, _ = recorded()
        found: list[nodes.Node] = [_picture(draw(steps[0].rows), "The program as it is built")]
        quiet = []
        for before, step in itertools.pairwise(steps):
            assert step.made_by is not None
            if step.text == before.text:
                quiet.append(step.made_by.name)
                continue
            found.append(self._section(step, before))
        found.append(nodes.paragraph("", f"The other passes find nothing to do in this model: {', '.join(quiet)}."))
        return found

    def _section(self, step: Step, before: Step) -> nodes.Node:
        assert step.made_by is not None
        name = f"{step.number:02} {step.made_by.name}"
        section = nodes.section(ids=[nodes.make_id(step.made_by.name)], names=[name])
        section += nodes.title("", name)
        section += paragraph(summary(step.made_by))
        if lost := gone(step.rows, before.rows):
            section += nodes.paragraph("", f"Gone: {', '.join(lost)}.")
        if step.note:
            section += nodes.literal_block(step.note, step.note, language="text")
        if step.rows != before.rows:
            section += _picture(draw(step.rows, before.rows), f"The program after {step.made_by.name}")
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
