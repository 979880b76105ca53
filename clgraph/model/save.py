"""Writes a model into one file: its topology, and the programs compiled so far."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clgraph.graph.program import Program
from clgraph.graph.serial import Json, text_of
from clgraph.graph.topology import Topology
from clgraph.model.specialisations import Key, Specialisation
from clgraph.saved.circumstances import circumstances
from clgraph.saved.container import Blobs
from clgraph.saved.plans import libraries_of
from clgraph.saved.programs import encode_program
from clgraph.saved.topologies import encode_topology
from clgraph.selector.choose import Choice
from clgraph.selector.library import Library, compose
from clgraph.selector.query import DeviceInfo


def save_model(
    topology: Topology,
    made: Mapping[Key, Specialisation],
    path: str | os.PathLike[str],
    *,
    kept_for: str | None = None,
    staged: bool = False,
) -> None:
    """Write *topology* and what was *made* of it to *path*, at once or not at all.

    One that is run in stages says so in the file.

    Args:
        kept_for: What an entry of the model cache answers. Such a file has no layers and constants of the topology:
            only what is made of it can be run.

    Raises:
        ModelError: The file cannot be written.
        UnsupportedError: A primitive of a plugin holds something that cannot be written.
    """
    blobs = Blobs()
    libraries: dict[str, Library] = {}
    programs = []
    for key, s in made.items():
        libraries |= _libraries(s.program, s.devices)
        program = encode_program(s.program, blobs.add, steps=True)
        programs.append(
            {
                "shapes": [list(shape) for shape in key.shapes],
                "values": [[name, v.dtype, list(v.shape), v.data.hex()] for name, v in key.values],
                "circumstances": circumstances(s.devices, s.options),
                "arenas": program["arenas"],
                "program": text_of(program),
                "passes": [[p.number, p.name, p.changes, p.seconds] for p in s.passes],
            }
        )
    header: dict[str, Json] = {
        "topology": encode_topology(topology if kept_for is None else _signatures(topology), blobs.add),
        "programs": programs,
        "staged": staged,
        "libraries": {name: [x.name, x.text, list(x.functions), x.instances] for name, x in libraries.items()},
    }
    if kept_for is not None:
        header["kept_for"] = kept_for
    blobs.write(Path(path), header, in_cache=kept_for is not None)


def _signatures(t: Topology) -> Topology:
    return Topology(t.inputs, {}, [], t.outputs, t.declared, t.metadata, t.op_types)


def library_key(name: str, simd: int) -> str:
    """Return what a library for devices with *simd* floats in a vector is called in the file."""
    return f"{name} {simd}"


def _libraries(program: Program, devices: Mapping[str, DeviceInfo]) -> dict[str, Library]:
    found: dict[str, Library] = {}
    for node in program:
        if isinstance(node.choice, Choice):
            simd = devices[node.placement or ""].simd
            for name in libraries_of(node.choice):
                found.setdefault(library_key(name, simd), compose(name, simd))
    return found
