from __future__ import annotations

import pytest

import clgraph
from clgraph.core.notebook import MOST, html_table
from clgraph.ops.activation import Activation

NASTY = "<script>alert(1)</script>"


def test_cells_are_text_and_long_tables_are_cut() -> None:
    text = html_table(NASTY, ("a", NASTY), [(NASTY, i) for i in range(MOST + 3)])
    assert "<script>" not in text
    assert text.count("<tr>") == MOST + 1
    assert "and 3 more" in text


@pytest.mark.parametrize("what", ["model", "program", "topology", "explanation", "devices"])
def test_values_have_a_short_text_and_a_table_without_markup_of_the_model(what: str) -> None:
    topology = clgraph.Topology()
    topology.output("y", topology.add(NASTY, Activation("relu"), topology.input("x", (1, 8))))
    model = clgraph.compile(topology, device="null")
    values = {"model": model, "program": model.program, "topology": topology, "explanation": model.explain()}
    value = values.get(what) or clgraph.devices()
    assert len(repr(value)) < 300
    shown = value._repr_html_()
    assert "<script>" not in shown
    assert (what in ("model", "devices")) or "&lt;script&gt;" in shown
