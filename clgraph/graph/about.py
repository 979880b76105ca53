"""What a model file says about itself, beside the graph."""

from __future__ import annotations

from clgraph.core.frozen import frozen


@frozen
class About:
    """A model's origin, as its file tells; empty where it does not.

    Attributes:
        producer: Name of the program that wrote it, ``producer_version`` that program's version.
        domain: Whose model it is, in reverse domain notation.
        version: Of the model; ``None`` where it has none.
        graph: Name of the graph.
        doc, graph_doc: Descriptions of the model and of the graph.
        ir_version: Of the file's format.
        opsets: Versions of the operator sets by domain, ``""`` for ONNX's own.
        listed: Names of the outputs in the file's order, where it lists one several times; else none.
    """

    producer: str = ""
    producer_version: str = ""
    domain: str = ""
    version: int | None = None
    graph: str = ""
    doc: str = ""
    graph_doc: str = ""
    ir_version: int = 0
    opsets: tuple[tuple[str, int], ...] = ()
    listed: tuple[str, ...] = ()


NOWHERE = About()
"""Of what comes from no file."""
