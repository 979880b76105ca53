from __future__ import annotations

import pytest

from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node
from clgraph.graph.visitor import Visitor
from tests.support.programs import RELU, Net


class _Convolutions(Visitor[str]):
    def visit_convolution(self, node: Node) -> str:
        return f"convolution {node.name}"


class _All(_Convolutions):
    def visit_default(self, node: Node) -> str:
        return node.name


def _net() -> Net:
    net = Net()
    net.add("relu", RELU, net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16))
    return net


def test_the_method_of_a_kind_is_called_else_the_default() -> None:
    assert _All().visit_all(_net().program("relu")) == ["convolution a", "relu"]


def test_a_kind_without_method_and_default_is_an_error_that_names_the_node() -> None:
    with pytest.raises(UnsupportedError, match=r"node 'relu': _Convolutions handles no activation; write visit_act"):
        _Convolutions().visit_all(_net().program("relu"))
