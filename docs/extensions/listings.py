"""Directives that list what clgraph knows: options, ONNX operators, kernels, passes."""

from __future__ import annotations

from collections import defaultdict

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import clgraph.ops  # noqa: F401  # fills the registries
from clgraph.cli.passes_command import summary
from clgraph.graph.importing import IMPORTERS
from clgraph.graph.primitive import PRIMITIVES
from clgraph.passes.pipeline import default_pipeline
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.settings import option_table
from extensions.text import Row, paragraph, table


def options() -> tuple[Row, list[Row]]:
    """Return every option; the variable is not shown, its name follows from the option's."""
    rows = []
    for variable, default, about in option_table():
        name = variable.partition("_")[2].lower()
        # A folder of the machine that builds the pages says nothing.
        rows.append((f"`{name}`", "" if name == "cache_dir" else _shown(default), about))
    return ("option", "default", "what it does"), rows


def operators() -> tuple[Row, list[Row]]:
    """Return the ONNX operators that can be imported, with the schema versions that are understood."""
    versions: dict[tuple[str, str], list[int]] = defaultdict(list)
    for domain, name, version in IMPORTERS:
        versions[domain, name].append(version)
    rows = [
        (f"`{name}`", domain or "ai.onnx", ", ".join(map(str, sorted(found))))
        for (domain, name), found in sorted(versions.items())
    ]
    return ("operator", "domain", "schema versions"), rows


def kernels() -> tuple[Row, list[Row]]:
    """Return the primitives with their implementations, the general one last."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name in IMPLEMENTATIONS:
        kind, _, variant = name.partition(".")
        by_kind[kind].append(variant)
    rows = [
        (f"`{kind}`", summary(PRIMITIVES[kind]), ", ".join(f"`{v}`" for v in sorted(by_kind[kind], key=_general_last)))
        for kind in PRIMITIVES
    ]
    return ("primitive", "what it computes", "implementations"), rows


def passes() -> tuple[Row, list[Row]]:
    """Return the passes in their order."""
    rows = [
        (f"{number:02}", f"`{p.name}`", "required" if p.required else "optional", summary(p))
        for number, p in enumerate(default_pipeline())
    ]
    return ("number", "pass", "", "what it does"), rows


def _shown(default: str) -> str:
    return {"None": "", "frozenset()": "", "()": ""}.get(default, f"`{default}`")


def _general_last(variant: str) -> tuple[bool, str]:
    return variant == "ref", variant


class Listing(SphinxDirective):
    """``{listing} what``: one of the tables of this module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return [table(*TABLES[self.arguments[0]]())]


class Count(SphinxDirective):
    """``{count} text``: a paragraph in which ``{what}`` is the number of rows of that table."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the paragraph."""
        return [paragraph(self.arguments[0].format(**{name: len(rows()[1]) for name, rows in TABLES.items()}))]


TABLES = {"options": options, "operators": operators, "kernels": kernels, "passes": passes}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("listing", Listing)
    app.add_directive("count", Count)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
