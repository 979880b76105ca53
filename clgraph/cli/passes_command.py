"""``clgraph passes``."""

from __future__ import annotations

import inspect

import click

from clgraph.cli.output import json_option, say, say_json, table
from clgraph.cli.sections import SectionedCommand
from clgraph.core.nearest import meant
from clgraph.engines.opening import load_extensions, options_of
from clgraph.errors import OptionError
from clgraph.graph.primitive import PRIMITIVES
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.targets.target import TARGETS


@click.command(cls=SectionedCommand, name="passes")
@click.option("--check", metavar="NAME", help="Show how each pass handles this kind of operator.")
@click.option(
    "--module", "modules", multiple=True, metavar="FILE.py", help="Python file with custom operators to import first."
)
@json_option
def command(check: str | None, modules: tuple[str, ...], as_json: bool) -> None:
    """List the passes in order, and the targets of installed packages.

    The number is that of the files written by --dump-graphs. A required pass cannot be disabled. With --check, each
    pass describes how it handles a kind of operator, which is useful when adding one.

    \b
    Examples:
      clgraph passes
      clgraph passes --check softmax
      clgraph compile model.onnx --stop-after decompose
    """
    load_extensions(options_of(config={"modules": modules or None}))
    if check is not None:
        _check(check, as_json=as_json)
        return
    if as_json:
        own = [
            {"number": i, "name": p.name, "required": p.required, "does": summary(p)}
            for i, p in enumerate(default_pipeline())
        ]
        by_targets = [
            {"target": t.name, "phase": p.phase.value, "name": p.run.name, "does": summary(p.run)}
            for t in TARGETS.values()
            for p in t.passes
        ]
        say_json({"passes": own, "targets": by_targets})
        return
    table(
        ("number", "pass", "", "what it does"),
        [
            (f"{i:02}", p.name, "required" if p.required else "optional", summary(p))
            for i, p in enumerate(default_pipeline())
        ],
    )
    added = [(t.name, p.phase.value, p.run.name, summary(p.run)) for t in TARGETS.values() for p in t.passes]
    if added:
        say()
        table(("target", "phase", "pass", "what it does"), added)


def _check(kind: str, *, as_json: bool) -> None:
    if kind not in PRIMITIVES:
        near = meant(kind, PRIMITIVES) or f"; there are {', '.join(PRIMITIVES)}"
        raise OptionError(f"no operator is called {kind!r}{near}")
    if as_json:
        told = {p.name: p.describe(kind) for p in default_pipeline()}
        told |= {p.run.name: p.run.describe(kind) for t in TARGETS.values() for p in t.passes}
        say_json({"kind": kind, "does": summary(PRIMITIVES[kind]), "passes": told})
        return
    home = inspect.getmodule(PRIMITIVES[kind])
    say(f"{kind}: {summary(PRIMITIVES[kind])} ({home.__name__ if home else 'unknown module'})")
    say()
    rows = [(f"{i:02}", p.name, p.describe(kind)) for i, p in enumerate(default_pipeline())]
    rows += [("", f"{t.name}: {p.run.name}", p.run.describe(kind)) for t in TARGETS.values() for p in t.passes]
    table(("number", "pass", f"how it treats {kind}"), rows)


def summary(what: object) -> str:
    """Return the first sentence of the documentation of a class or of an object's class."""
    of = what if isinstance(what, type) else type(what)
    return (inspect.getdoc(of) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "")
