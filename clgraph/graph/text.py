"""The canonical text of programs and topologies: what pass tests compare and what dumps hold."""

from __future__ import annotations

from typing import Any

from clgraph.core.layout import Layout
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.program import Fused, Node, Program, Value
from clgraph.graph.topology import Topology


def print_program(program: Program) -> str:
    """Return the program, one line an input, constant, node and output, in execution order."""
    lines = [
        f"program {program.stage.name.lower()}" + (f" x{program.batch_slices}" if program.batch_slices > 1 else "")
    ]
    lines += [f"  input {_value(v)}" for v in program.inputs]
    lines += [f"  const {_value(v)}" for v in program.constants]
    lines += [f"  {print_node(node)}" for node in program]
    lines += [f"  output {name}" + (f" = {v.name}" if v.name != name else "") for name, v in program.outputs]
    return "\n".join(lines)


def print_topology(topology: Topology, indent: str = "") -> str:
    """Return a topology, one line an input, constant, layer and output; the bodies of a layer below it."""
    lines = [f"{indent}topology"] if not indent else []
    lines += [f"{indent}  input {signature}" for signature in topology.inputs.values()]
    lines += [f"{indent}  const {name} {Layout.of(array)}" for name, array in topology.constants.items()]
    for layer in topology.layers:
        made = f"{', '.join(layer.outputs)} = {layer.primitive}({', '.join(layer.inputs)})"
        lines.append(f"{indent}  {made}" + (f' "{layer.annotation}"' if layer.annotation is not None else ""))
        if isinstance(layer.primitive, ControlFlow):
            for role, body in layer.primitive.bodies().items():
                lines += [f"{indent}    {role}:", print_topology(body, f"{indent}    ")]
    lines += [f"{indent}  output {name}" + (f" = {v}" if v != name else "") for name, v in topology.outputs]
    return "\n".join(lines)


def print_node(node: Node) -> str:
    """Return the line of one node: results, primitive, inputs, fused operations, and what is decided so far."""
    results = ", ".join(map(_value, node.outputs))
    text = f"{results} = {node.primitive}({', '.join(v.name for v in node.inputs[: node.arity])})"
    text += "".join(_fused(step, node) for step in node.fused)
    if node.annotation is not None:
        text += f' "{node.annotation}"'
    if node.placement is not None:
        text += f" @{node.placement}"
    return text + (f"  # {node.choice}" if node.choice is not None else "")


def program_json(program: Program) -> dict[str, Any]:
    """Return the program as plain data for a ``.json`` dump."""
    return {
        "stage": program.stage.name.lower(),
        "parts": program.batch_slices,
        "inputs": [_value_json(v) for v in program.inputs],
        "constants": [_value_json(v) for v in program.constants],
        "nodes": [_node_json(node) for node in program],
        "outputs": [{"name": name, "value": v.name} for name, v in program.outputs],
        "arenas": {
            name: {"nbytes": a.nbytes, "lower_bound": a.lower_bound, "unshared": a.unshared}
            for name, a in program.arenas.items()
        },
        "notes": program.notes,
    }


def _value(value: Value) -> str:
    place = ""
    if value.buffer is not None and value.buffer.offset is not None:
        place = f" @{value.buffer.offset + value.offset}"
    return f"{value.name} {value.layout}{place}"


def _fused(step: Fused, node: Node) -> str:
    operands = [node.inputs[i].name for i in step.operands]
    names = [*operands[: step.slot], "_", *operands[step.slot :]] if operands else []
    arrow = " + " if step.where == "post" else " < "
    return f"{arrow}{step.primitive}" + (f"({', '.join(names)})" if names else "")


def _value_json(value: Value) -> dict[str, Any]:
    layout = value.layout
    data: dict[str, Any] = {"name": value.name, "dtype": str(layout.dtype), "shape": list(layout.shape)}
    data |= {"format": str(layout.format), "halo": [list(h) for h in layout.halos], "nbytes": layout.nbytes}
    if value.buffer is not None:
        data |= {"buffer": value.buffer.name, "offset": value.offset, "arena_offset": value.buffer.offset}
    return data


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "primitive": str(node.primitive),
        "kind": node.primitive.kind,
        "inputs": [v.name for v in node.inputs],
        "outputs": [_value_json(v) for v in node.outputs],
        "fused": [_fused(step, node).strip() for step in node.fused],
        "origin": list(node.origin),
        "annotation": node.annotation or node.partitioned_by,
        "placement": node.placement,
        "implementation": None if node.choice is None else str(node.choice),
    }
