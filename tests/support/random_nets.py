"""Random nets of joined, cut and reshaped tensors, for tests of shared buffers."""

from __future__ import annotations

from hypothesis import strategies as st

from clgraph.ops.reshape import Reshape
from clgraph.ops.split import Split
from tests.support.programs import RELU, Net


@st.composite
def joined(draw):
    """Nets with concats, cuts and reshapes of convolutions and activations, nested and with several readers."""
    net = Net()
    size = draw(st.integers(1, 9))
    values = {}
    for i in range(draw(st.integers(2, 5))):
        channels = draw(st.one_of(st.integers(1, 260), st.sampled_from([16, 32, 48, 64])))
        x = net.input(f"x{i}", (draw(st.just(1)), channels, size, size))
        name = net.add(f"p{i}", RELU, x) if draw(st.booleans()) else net.conv(f"p{i}", x, channels, channels)
        values[name] = (1, channels, size, size)
    for i in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["concat", "concat", "split", "reshape", "conv", "relu"]))
        name, shape = draw(st.sampled_from(sorted(values.items())))
        if kind == "concat":
            axis = draw(st.sampled_from([1, 1, 1, 0, 2]))
            fits = [n for n, s in values.items() if s[:axis] + s[axis + 1 :] == shape[:axis] + shape[axis + 1 :]]
            chosen = draw(st.lists(st.sampled_from(sorted(fits)), min_size=1, max_size=5))
            total = sum(values[n][axis] for n in chosen)
            values[net.concat(f"c{i}", *chosen, axis=axis)] = (*shape[:axis], total, *shape[axis + 1 :])
        elif kind == "split" and shape[1] > 1:
            cut = draw(st.one_of(st.integers(1, shape[1] - 1), st.just(min(16, shape[1] - 1))))
            net.add(f"s{i}", Split(1, (cut, shape[1] - cut)), name, outputs=(f"s{i}a", f"s{i}b"))
            values[f"s{i}a"] = (shape[0], cut, *shape[2:])
            values[f"s{i}b"] = (shape[0], shape[1] - cut, *shape[2:])
        elif kind == "reshape":
            net.add(f"r{i}", Reshape((shape[0], shape[1], 1, shape[2] * shape[3])), name)
            values[f"r{i}"] = (shape[0], shape[1], 1, shape[2] * shape[3])
        elif kind == "conv":
            values[net.conv(f"v{i}", name, shape[1], shape[1], kernel=draw(st.sampled_from([1, 3])))] = shape
        else:
            values[net.add(f"a{i}", RELU, name)] = shape
    read = {n for layer in net.layers for n in layer.inputs}
    return net, [n for n in values if n not in read] or [sorted(values)[0]]
