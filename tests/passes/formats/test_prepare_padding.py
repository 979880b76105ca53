from __future__ import annotations

from clgraph.core.layout import Halo
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context
from clgraph.passes.formats.handle_reshape import HandleReshape
from clgraph.passes.formats.prepare_padding import PreparePadding
from clgraph.passes.selection import select
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation, implements
from clgraph.selector.query import Query
from tests.support.programs import RELU, Net, compile_all, kinds, run_until

FUSING = ("prepare_primitive_fusing", "fuse_pre_operations")


def _padded(program) -> dict[str, tuple]:
    return {v.name: v.layout.halo for v in program.values if v.layout.halo}


def _halo(top: int, bottom: int) -> tuple:
    return ((0, 0), (0, 0), (top, bottom), (top, bottom))


def test_the_producer_writes_the_widest_halo_of_its_readers() -> None:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16)
    c, b, d = net.conv("c", h, 16, 16, kernel=4), net.conv("b", h, 16, 16, kernel=3), net.conv("d", h, 16, 16)
    program = run_until(net.program(b, c, d), PreparePadding.name)
    assert program["a"].output.layout.halo == _halo(2, 1)
    assert kinds(program).count("reorder") == 4
    assert program["d"].inputs[0] is program["a"].output


def test_the_reorder_behind_a_graph_input_writes_the_halo() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16, kernel=3)
    program = run_until(net.program("a"), PreparePadding.name)
    assert _padded(program) == {"a/reorder": _halo(1, 1)}
    assert program.inputs[0].layout.is_dense_plain


def test_a_graph_output_is_copied_into_a_halo() -> None:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16)
    net.conv("b", h, 16, 16, kernel=3)
    program = run_until(net.program("b"), HandleReshape.name)
    value = program["a"].output
    program.outputs = [
        *program.outputs,
        ("a", value),
    ]  # in blocks, as it lies: an output that no reorder stands in front of
    PreparePadding().run(program, Context())
    assert not value.layout.halo
    (copy,) = program["b"].inputs[:1]
    assert (copy.layout.halo, copy.producer.inputs) == (_halo(1, 1), (value,))


def test_a_reader_that_takes_no_halo_gets_the_tensor_without_one() -> None:
    def refuse(cls, q):
        return "reads no halo" if any(x.halo for x in q.inputs) else None

    IMPLEMENTATIONS["activation.any"].limits = classmethod(refuse)
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16)
    net.conv("b", h, 16, 16, kernel=3)
    net.conv("c", net.add("relu", RELU, h), 16, 16)
    program = run_until(net.program("b", "c"), PreparePadding.name, disabled=FUSING)
    assert not program["a"].output.layout.halo
    assert [n.inputs[0].layout.halo for n in program if n.name in ("b", "c")] == [_halo(1, 1), ()]


def test_every_implementation_passed_over_for_its_halo_says_so() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16, kernel=3)
    node = net.program("a")["a"]

    def halo(cls: type[Implementation], q: Query) -> dict[int, Halo]:
        return {0: _halo(1, 1)}

    for name in ("convolution.first", "convolution.second"):
        base = IMPLEMENTATIONS["convolution.slow"]
        fast = type(name, (base,), {"halo": classmethod(halo), "cost": classmethod(lambda cls, q: 1e-9)})
        implements(Convolution, name=name, serves=base.serves)(fast)
    choice = select(Context(), node)
    reason = f"needs zeros {_halo(1, 1)} around input 0"
    assert choice.implementation.name == "convolution.slow"
    assert [choice.refusals[f"convolution.{n}"] for n in ("first", "second")] == [reason] * 2


def test_the_parts_of_a_concat_share_its_halo() -> None:
    net = Net()
    x = net.input("x", (1, 16, 12, 12))
    joined = net.concat("joined", net.conv("a", x, 16, 16), net.conv("b", x, 16, 32))
    net.conv("y", joined, 48, 16, kernel=3)
    program = compile_all(net.program("y"))
    assert program["joined"].output.layout.halo == _halo(1, 1)
    assert {n.output.layout.halo for n in program if n.name in ("a", "b")} == {_halo(1, 1)}
    assert "in_place" in str(program["joined"].choice)


def test_without_the_pass_the_program_still_compiles() -> None:
    net = Net()
    net.conv("b", net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16, kernel=3), 16, 16, kernel=3)
    program = compile_all(net.program("b"), disabled=frozenset({PreparePadding.name}))
    assert all("blocked" in str(program[n].choice) for n in "ab")
