"""Quantised groups as floats on the steps of their integers: the work of prepare_quantization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.flattened_product import spread_product
from clgraph.passes.quantization.byte_functions import look_up, look_up_parts
from clgraph.passes.quantization.byte_means import sum_bytes
from clgraph.passes.quantization.byte_pairs import pair_bytes
from clgraph.passes.quantization.byte_windows import leave_channels_last
from clgraph.passes.quantization.dynamic_quantization import keep_floats, without_integers, without_minimum
from clgraph.passes.quantization.roundings import BYTES, ROUNDINGS, known_numbers
from clgraph.passes.quantization.step_chains import join_chain, shorten_chain
from clgraph.passes.rewriting import apart, bypass, read_outside, substitute

_SHORTS = (DType.U16, DType.I16)
"""What steps of float32 are whole numbers of, without their being bytes."""


def compute_in_floats(program: Program) -> tuple[int, list[str]]:
    """Do what the pass does; return the number of changes, and lines about them."""
    floats = sum(keep_floats(program, node) for node in tuple(program) if node in program)
    floats += sum(without_minimum(program, node) for node in tuple(program) if node in program)
    moved = sum(_bound_before(program, node) for node in tuple(program))
    while any_moved := sum(_move(program, node) for node in tuple(program) if node in program):
        moved += any_moved
    found: list[str] = []
    pairs = 0
    for node in tuple(program):
        if node not in program or not isinstance(node.primitive, Quantize):
            continue
        if without_integers(program, node):
            floats += 1
            continue
        name, reason = node.name, _why_not(program, node)
        if reason is None:
            pairs += 1
            _join(program, node)
        else:
            found.append(f"{name} makes integers: {reason}")
    moved += sum(bypass(program, node) for node in tuple(program) if _rounds_again(node))
    for rule in (look_up, look_up_parts):
        moved += sum(rule(program, n) for n in tuple(program) if n in program and isinstance(n.primitive, Quantize))
    for rearranged in (leave_channels_last, sum_bytes):
        moved += sum(rearranged(program, node) for node in tuple(program) if node in program)
    moved += sum(pair_bytes(program, n) for n in tuple(program) if n in program and isinstance(n.primitive, Quantize))
    moved += sum(_round_before_reshape(program, node) for node in tuple(program) if node in program)
    for shorter in (join_chain, shorten_chain):
        moved += sum(shorter(program, node) for node in tuple(program) if node in program)
    if pairs:
        moved += sum(spread_product(program, node) for node in tuple(program) if node in program)
    lines = [f"{pairs} quantize and dequantize became fake_quantize", *found] if pairs or found else []
    return pairs + moved + floats, lines


def _why_not(program: Program, node: Node) -> str | None:
    """Say why the integers of a Quantize are needed, or return ``None``."""
    made = node.output
    assert isinstance(node.primitive, Quantize)
    if node.primitive.narrow:
        return f"they are rounded quotients of {node.primitive.precision}"
    if not made.readers:
        return "they are an output"
    other = next((n for n in made.readers if not isinstance(n.primitive, Dequantize) or n.fused), None)
    if other is not None:
        return f"{other.name} ({other.primitive.kind}) reads them"
    if (why := read_outside(program, made, made.readers) or apart([node, *made.readers])) is not None:
        return why
    x = node.inputs[0].layout.dtype
    narrow = made.layout.dtype in (*BYTES, *_SHORTS)
    if not narrow or x != DType.F32 or any(n.output.layout.dtype != x for n in made.readers):
        return "they are no 8 or 16 bits between float32"
    if (numbers := known_numbers(node)) is None:
        return "scale and zero point are not one number each, known and finite"
    read = [known_numbers(n) for n in made.readers]
    if any(r is None or r[1] != numbers[1] or numbers[0] not in (r[0], 1.0) for r in read):
        return "they are read with another scale or zero point"
    return None


def _join(program: Program, node: Node) -> None:
    """Put one activation in the place of a Quantize and Dequantizes like it, and one for each of another scale."""
    numbers = known_numbers(node)
    assert numbers is not None
    scale, zero = numbers
    readers = sorted(node.output.readers, key=program.position)
    alike = [n for n in readers if known_numbers(n) == numbers]
    sources = [node, (alike or readers)[0]]
    rounded = _rounded(program, node, scale, zero, sources)
    for reader in readers:
        if reader in alike:
            program.rewire(reader.output, rounded.output)
            program.erase(reader)
        else:
            by = known_numbers(reader)
            assert by is not None
            substitute(program, [reader], Activation("linear", by[0]), [rounded.output], reader)
    program.erase(node)
    if alike:
        rounded.name, rounded.output.name = alike[0].name, alike[0].output.name


def _rounded(program: Program, node: Node, scale: float, zero: int, sources: Sequence[Node]) -> Node:
    """Add what makes floats on the steps of *node*, a Quantize, of its input."""
    dtype = node.output.layout.dtype
    rounding = Activation(ROUNDINGS[dtype.itemsize], scale, float(dtype.bounds[0] - zero))
    return program.insert(rounding, node.inputs[:1], sources=sources, before=node)


def _rounds(primitive: Primitive) -> bool:
    return isinstance(primitive, Activation) and primitive.function in ROUNDINGS.values()


def _rounds_again(node: Node) -> bool:
    """Whether *node* rounds what lies on its steps already."""
    p, value = node.primitive, node.inputs[0] if node.inputs else None
    if not _rounds(p) or node.fused or value is None:
        return False
    while (made := value.producer) is not None and hands_on(made):
        value = made.inputs[0]
    return made is not None and not made.fused and made.primitive == p and apart([made, node]) is None


def _round_before_reshape(program: Program, node: Node) -> bool:
    """Let *node*, a rounding of what is reshaped, round it before, together with all that do the same; say whether."""
    p, made = node.primitive, node.inputs[0].producer if node.inputs else None
    if not _rounds(p) or made is None or made.fused:
        return False
    alike = [n for n in made.output.readers if n.primitive == p and not n.fused]
    if not isinstance(made.primitive, Reshape) or read_outside(program, made.output, alike) is not None:
        return False
    x = made.inputs[0]
    before = [n for n in x.readers if n.primitive == p and not n.fused]
    if apart([made, *alike, *before]) is not None:
        return False
    first = min([made, *before], key=program.position)
    rounded = program.insert(p, [x], sources=[*alike, *before], before=first)
    for other in before:
        program.rewire(other.output, rounded.output)
    for other in alike:
        program.rewire(other.output, made.output)
    program.rewire(x, rounded.output, uses=[(made, 0)])
    for other in (*alike, *before):
        program.erase(other)
    rounded.name, rounded.output.name = node.name, node.output.name
    return True


def _bound_before(program: Program, node: Node) -> bool:
    """Let *node*, which bounds what a Quantize makes, bound the floats in front of that; say whether it did.

    PyTorch writes integers of fewer than 8 bits so. A bound is a step, which is rounded to itself.
    """
    p, made = node.primitive, node.inputs[0].producer if node.inputs else None
    if not isinstance(p, Activation) or p.function != "clip" or node.fused or made is None or made.fused:
        return False
    exact = isinstance(made.primitive, Quantize) and not made.primitive.narrow
    numbers = known_numbers(made) if exact else None
    narrow = made.output.layout.dtype in (*BYTES, *_SHORTS) and made.inputs[0].layout.dtype == DType.F32
    if numbers is None or not narrow or p.alpha > p.beta:
        return False
    if read_outside(program, made.output, [node]) is not None or apart([made, node]) is not None:
        return False
    scale, zero = numbers
    ends = [float((np.float32(end) - np.float32(zero)) * np.float32(scale)) for end in (p.alpha, p.beta)]
    bounded = program.insert(Activation("clip", *ends), made.inputs[:1], sources=[node], before=made)
    substitute(program, [made, node], made.primitive, [bounded.output, *made.inputs[1:]], made)
    return True


def _move(program: Program, node: Node) -> bool:
    """Move Dequantizes, alike and of one scale, in front of *node*, which hands on integers; say whether it did."""
    moves = hands_on(node) or (isinstance(node.primitive, Concat) and not node.fused)
    if not moves or not node.output.readers or not all(map(_from_quantize, node.inputs)):
        return False
    readers = sorted(node.output.readers, key=program.position)
    first, numbers = readers[0], {known_numbers(n) if isinstance(n.primitive, Dequantize) else None for n in readers}
    alike = len(numbers) == 1 and None not in numbers and len({n.output.layout for n in readers}) == 1
    if not alike or any(n.fused for n in readers):
        return False
    if read_outside(program, node.output, readers) is not None or apart([node, *readers]) is not None:
        return False
    floats = {
        x: program.insert(first.primitive, [x, *first.inputs[1:]], sources=readers, before=node).output
        for x in dict.fromkeys(node.inputs)
    }
    for reader in readers[1:]:
        program.rewire(reader.output, first.output)
        program.erase(reader)
    substitute(program, [node, first], node.primitive, [floats[x] for x in node.inputs], node)
    return True


def hands_on(node: Node) -> bool:
    """Whether each result of *node* is one of its elements, the same one if all are scaled by a positive number."""
    p = node.primitive
    picks = isinstance(p, Resize) and p.mode == "nearest" and p.coordinates != "tf_crop_and_resize"
    moves = isinstance(p, Reshape | Transpose | Slice) or (isinstance(p, Pooling) and p.function == "max")
    return not node.fused and len(node.inputs) == 1 and (picks or moves)


def _from_quantize(value: Value) -> bool:
    while (node := value.producer) is not None and hands_on(node):
        value = node.inputs[0]
    return node is not None and isinstance(node.primitive, Quantize)
