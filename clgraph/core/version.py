"""The version of clgraph, without what ``clgraph`` itself offers."""

__version__ = "0.1.0"
