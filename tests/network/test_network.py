import numpy as np
import pytest
from tests.support.tiny import Scale, ScaleLaunch, ScaleTile, linked, planned

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import InputError, ProgramError
from clgraph.graph.program import Program, Value
from clgraph.network.network import Network

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(3)
# factor * x, + shift: two roundings of values below 64, so at most 2 * 2**-24 * 64 absolute.
BOUND = 2 * 2.0**-24 * 64


def chain(engine, implementations, host=frozenset(), shape=(3, 35)):
    """x -> a -> b -> c, with a constant multiplied in at b."""
    x = Value("x", Layout(DType.F32, shape))
    k = Value("k", Layout(DType.F32, shape), constant=RNG.standard_normal(shape).astype(np.float32))
    a = linked(x, Scale(1.5, 1), "a")
    b = linked(a.output, Scale(-0.5, 2), "b", k)
    c = linked(b.output, Scale(3.0, 2), "c")
    program = Program([x], [("y", c.output), ("b", b.output), ("x again", x), ("k", k)], [a, b, c])
    planned(program, engine.info, implementations, host)
    return Network(program, {engine.info.name: engine}), program


def expected(program, x):
    values = {"x": x}
    for node in program:
        (values[node.output.name],) = node.reference(
            *(v.constant if v.constant is not None else values[v.name] for v in node.inputs)
        )
    return values


@pytest.mark.parametrize("host", [frozenset(), frozenset({"b"}), frozenset({"a", "c"})])
def test_a_program_of_launches_tiles_and_host_nodes_computes_its_references(engine, host):
    network, program = chain(engine, [ScaleLaunch, ScaleTile, ScaleTile], host)
    for _ in range(3):
        x = RNG.standard_normal((3, 35)).astype(np.float32)
        got = network.run({"x": x})
        want = expected(program, x)
        assert list(got) == ["y", "b", "x again", "k"]
        np.testing.assert_allclose(got["y"], want["c"], rtol=0, atol=BOUND)
        np.testing.assert_allclose(got["b"], want["b"], rtol=0, atol=BOUND)
        np.testing.assert_array_equal(got["x again"], x)
        np.testing.assert_array_equal(got["k"], program["b"].inputs[1].constant)
