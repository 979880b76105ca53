"""Chains of one number between roundings to 16 bits, as functions of it; a step of prepare_quantization."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.rewriting import apart, read_outside, substitute
from clgraph.selector.post import keeps_its_bits

_WIDE = "fake_quantize_wide"
_STEPS = 65536
_MARGIN, _LARGE = 4 * 2.0**-24, 2.0**60


def join_chain(program: Program, node: Node) -> bool:
    """Let *node*, which multiplies or divides on steps of 16 bits, be a function of one number; say whether it is one.

    ``x * q(x + b)``, as hard-swishes are quantised, reads x alone, as does a division by a constant, so that a kernel
    that makes x applies them, roundings between them included, and they may stand between the convolutions of a
    bottleneck. The results are the same, bit by bit.
    """
    p = node.primitive
    if not isinstance(p, Eltwise) or p.function not in ("mul", "div") or node.fused or len(node.inputs) != 2:
        return False
    if any(v.layout.dtype != DType.F32 for v in (*node.inputs, node.output)):
        return False
    return _gate(program, node) if p.function == "mul" else _divide(program, node)


def shorten_chain(program: Program, node: Node) -> bool:
    """Let *node*, a rounding to 16 bits, and what follows be few operations, where later roundings move no integer.

    A quantiser takes the range of a product with a constant for that of its factor, times the constant, and of a sum
    with one for that of the summand, moved: the integers stay the same, or move by some steps, but for some that reach
    out of the range. That is tried for all 65536 of them. Says whether it did.
    """
    chain, moved = _run(program, node), None
    while chain and (moved := _moved(chain)) is None:
        chain = _rounded(chain[:-1])
    if moved is None:
        return False
    first, last = _activation(node), _activation(chain[-1])
    functions = [Activation("whole_steps", first.alpha, first.beta)]
    functions += [] if moved.bounds is None else [Activation("clip", *moved.bounds)]
    value = node.inputs[0]
    for function in functions:
        value = program.insert(function, [value], sources=chain[:1], before=node).output
    substitute(program, chain, Activation("scaled_sum", last.alpha, moved.steps), [value], chain[-1])
    return True


@frozen
class _Moved:
    """How integers move by *steps*: those out of *bounds*, if there are such, as the bounds do."""

    steps: float
    bounds: tuple[float, float] | None


def _run(program: Program, node: Node) -> list[Node]:
    """Return *node*, a rounding to 16 bits, and what reads each other behind it up to another; nothing without one."""
    chain = [node] if _applies(node, _WIDE) else []
    while chain and len(readers := chain[-1].output.readers) == 1 and not program.is_output(chain[-1].output):
        if not _applies(readers[0], "linear", "divided", _WIDE) or apart([*chain, readers[0]]) is not None:
            break
        chain.append(readers[0])
    return _rounded(chain)


def _rounded(chain: list[Node]) -> list[Node]:
    """Return *chain* up to its last rounding but the first node; nothing where that is the only one."""
    while len(chain) > 1 and not _applies(chain[-1], _WIDE):
        chain = chain[:-1]
    return chain if len(chain) > 1 else []


def _moved(chain: list[Node]) -> _Moved | None:
    """Return how the integers of the first rounding move to be those of the last, ``None`` where not all do alike.

    What is rounded is computed here with 53 bits and in a kernel with 24, to which every operation rounds its two
    parameters, a product and a sum: four times 2^-24 of the largest magnitude in it. No quotient may be as near to a
    half as all since the rounding before come to; numbers stay where floats have all their bits.
    """
    first = _activation(chain[0])
    whole = np.arange(_STEPS) + first.beta
    found, numbers, size, since = whole, first.alpha * whole, first.alpha * np.abs(whole), 1
    for node in chain[1:]:
        p, since = _activation(node), since + 1
        if size.max() > _LARGE or not 1 / _LARGE < abs(p.alpha) < _LARGE:
            return None
        if p.function == _WIDE:
            quotient, near = numbers / p.alpha, since * _MARGIN * size / p.alpha
            if (np.abs(quotient - np.floor(quotient) - 0.5) <= near).any():
                return None
            found = np.clip(np.rint(quotient), p.beta, p.beta + _STEPS - 1)
            numbers = p.alpha * found
            size, since = np.abs(numbers), 1
        elif p.function == "linear":
            numbers, size = p.alpha * numbers + p.beta, abs(p.alpha) * size + abs(p.beta)
        else:
            numbers, size = numbers / p.alpha, size / abs(p.alpha)
    steps, ends = float(found[_STEPS // 2] - whole[_STEPS // 2]), (float(found.min()), float(found.max()))
    if (found == whole + steps).all():
        return _Moved(steps, None)
    bounds = (ends[0] - steps, ends[1] - steps)
    return _Moved(steps, bounds) if (found == np.clip(whole, *bounds) + steps).all() else None


def _activation(node: Node) -> Activation:
    assert isinstance(node.primitive, Activation)
    return node.primitive


def _applies(node: Node, *functions: str) -> bool:
    p = node.primitive
    return (
        isinstance(p, Activation)
        and p.function in functions
        and not node.fused
        and node.inputs[0].layout.dtype == DType.F32
    )


def _gate(program: Program, node: Node) -> bool:
    """Join the product of a number and what 16 bits hold of its sum with a constant."""
    for x, gate in (node.inputs, node.inputs[::-1]):
        rounding = _only(gate, node)
        moved = _only(rounding.inputs[0], rounding) if rounding is not None else None
        if rounding is None or moved is None or moved.inputs[0] is not x:
            continue
        steps, sum_ = rounding.primitive, moved.primitive
        if not isinstance(steps, Activation) or not isinstance(sum_, Activation):
            continue
        if (steps.function, steps.beta, sum_.function, sum_.alpha) != (_WIDE, 0, "linear", 1):
            continue
        nodes = [moved, rounding, node]
        outside = any(read_outside(program, n.output, nodes) is not None for n in nodes[:-1])
        if not outside and apart(nodes) is None:
            substitute(program, nodes, Activation("gated_steps", steps.alpha, sum_.beta), [x], node)
            return True
    return False


def _only(value: Value, reader: Node) -> Node | None:
    """Return what makes *value* by an activation, where *reader* alone reads it."""
    made = value.producer
    applied = made is not None and isinstance(made.primitive, Activation) and not made.fused
    return made if applied and value.readers == (reader,) else None


def _divide(program: Program, node: Node) -> bool:
    """Let a division by a constant be a function of what is divided, where 16 bits hold that."""
    x, by = node.inputs
    if x.producer is None or not _applies(x.producer, _WIDE) or by.constant is None:
        return False
    if by.layout.count != 1 or x.layout.shape != node.output.layout.shape:
        return False
    number = float(np.asarray(by.constant).reshape(-1)[0])
    if not number or not keeps_its_bits(number):
        return False
    substitute(program, [node], Activation("divided", number), [x], node)
    return True
